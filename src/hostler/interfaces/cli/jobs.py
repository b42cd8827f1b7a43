"""`hostler job …`: report how a piece of work goes, or see how it does (JOB-1).

Decides what the words of a report mean, and the words for people. An update that cannot be sent is spooled
and sent with the next one (JOB-6).
"""

from __future__ import annotations

import os
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from hostler.client.job import JOBS
from hostler.domain.errors import InvalidRequest
from hostler.interfaces.cli import job_text, plots
from hostler.interfaces.cli.daemon import answer, at, pages, person, to_head
from hostler.interfaces.cli.failure import complain, usage
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.own_jobs import Update, finish_job, meant_job, report, start_job
from hostler.interfaces.cli.run.lines import metrics_of, progress_of
from hostler.interfaces.cli.tables import say_table
from hostler.wire.jobs import JobList, OneJob, ReceiptBody
from hostler.wire.values import to_json

EVERY_S: Final = 300.0

JobName = Annotated[str | None, Parameter(name="--job", help="Its id; else $HOSTLER_JOB, or your only one.")]

app = App(
    name="job",
    help="Report how a piece of work goes, or see how it does.",
    help_epilogue="Example: hostler job list",
)


@app.command(help_epilogue='Example: hostler job start "q8 sweep" --lease pair --every 5m')
def start(
    title: Annotated[str, Parameter(help="What it is, in a few words.")],
    /,
    *,
    lease: Annotated[
        str | None,
        Parameter(
            help="The lease of yours that it runs under; each report extends it by its resource's default."
        ),
    ] = None,
    resource: Annotated[str | None, Parameter(help="Or the resource: whatever lease you have on it.")] = None,
    every: Annotated[Duration, Parameter(help="How often you will report, at most 1h.")] = EVERY_S,
    release: Annotated[
        bool, Parameter(negative="", show_default=False, help="Ending it releases the lease.")
    ] = False,
    holder: Annotated[str, Parameter(help="Whose it is; else your user name.", show_default=False)] = "",
    json: AsJson = False,
) -> int:
    """Start a job and print its id: the others of this group take it, or find it by themselves."""
    if lease is not None and resource is not None:
        return usage("Give --lease or --resource, not both.", "", as_json=json)
    with to_head() as client:
        one = start_job(
            client,
            title,
            lease=lease,
            resource=resource,
            every_s=every,
            release=release,
            holder=holder or person(os.environ),
        )
    if json:
        say_json(to_json(one))
    else:
        say(one.job.id)
    return 0


@app.command(help_epilogue='Example: hostler job note "3 of 8 sizes done"')
def note(
    text: Annotated[str, Parameter(help="A sentence for whoever looks.")],
    /,
    *,
    job: JobName = None,
    json: AsJson = False,
) -> int:
    """Say how it goes."""
    return _report(job, Update(note=text), as_json=json)


@app.command(help_epilogue="Example: hostler job progress 3/10 sizes")
def progress(
    *how: Annotated[str, Parameter(name="how", help="N/TOTAL, or a share such as 0.3 or 30%; then a label.")],
    job: JobName = None,
    json: AsJson = False,
) -> int:
    """Say how far it is."""
    found = progress_of(" ".join(how))
    if found is None:
        raise InvalidRequest(
            what=f"{' '.join(how)!r} is no progress.",
            expected="Give 3/10, 0.3 or 30%, and a label if you like.",
        )
    return _report(job, Update(progress=found), as_json=json)


@app.command(help_epilogue="Example: hostler job metric tok_s=41 loss=0.3")
def metric(
    *values: Annotated[str, Parameter(name="name=number", help="One or many, at most 100.")],
    job: JobName = None,
    json: AsJson = False,
) -> int:
    """Report measured values."""
    found = metrics_of(values)
    if found is None:
        raise InvalidRequest(
            what=f"{' '.join(values)!r} are no metrics.",
            expected="Give name=number, each name once, at most 100; NaN and infinities are none.",
        )
    return _report(job, Update(metrics=dict(found)), as_json=json)


@app.command(help_epilogue="Example: hostler job receipt result table.csv --path out/table.csv")
def receipt(
    kind: Annotated[str, Parameter(help="What sort of thing, such as result.")],
    name: Annotated[str, Parameter(help="What it is called.")],
    /,
    *,
    path: Annotated[str | None, Parameter(help="Where it lies.")] = None,
    url: Annotated[str | None, Parameter(help="Or where it can be fetched.")] = None,
    sha256: Annotated[str | None, Parameter(help="Its SHA-256, in hex.")] = None,
    exit_code: Annotated[int | None, Parameter(help="The exit code of what made it.")] = None,
    job: JobName = None,
    json: AsJson = False,
) -> int:
    """Report something that was made, and how it can be told to be the same."""
    made = ReceiptBody(kind=kind, name=name, path=path, url=url, sha256=sha256, exit_code=exit_code)
    return _report(job, Update(receipts=(made,)), as_json=json)


@app.command(help_epilogue="Example: hostler job heartbeat")
def heartbeat(*, job: JobName = None, json: AsJson = False) -> int:
    """Say that it still goes on."""
    return _report(job, Update(), as_json=json)


@app.command(help_epilogue='Example: hostler job finish --ok --note "all sizes done"')
def finish(
    *,
    ok: Annotated[bool, Parameter(negative="", show_default=False, help="It went well.")] = False,
    failed: Annotated[bool, Parameter(negative="", show_default=False, help="It did not.")] = False,
    cancelled: Annotated[bool, Parameter(negative="", show_default=False, help="It was called off.")] = False,
    note: Annotated[str | None, Parameter(help="A last sentence.")] = None,
    release: Annotated[
        bool, Parameter(negative="", show_default=False, help="Release its lease as well.")
    ] = False,
    because: Annotated[
        str, Parameter(show_default=False, help="Why you end another's job. Operators only.")
    ] = "",
    job: JobName = None,
    json: AsJson = False,
) -> int:
    """End a job, for ever."""
    said: list[Literal["finished", "failed", "cancelled"]] = []
    said += ["finished"] if ok else []
    said += ["failed"] if failed else []
    said += ["cancelled"] if cancelled else []
    if len(said) != 1:
        return usage("Give one of --ok, --failed and --cancelled.", "", as_json=json)
    with to_head() as client:
        one = finish_job(client, job, said[0], note=note, release=release, because=because)
    if one is None:
        return _spooled(as_json=json)
    if json:
        say_json(to_json(one))
    else:
        say(f"{one.job.id} is {one.job.state}.")
    return 0


@app.command(help_epilogue="Example: hostler job show")
def show(
    job: Annotated[str | None, Parameter(help="Its id; else $HOSTLER_JOB, or your only one.")] = None,
    /,
    *,
    json: AsJson = False,
) -> int:
    """Show all about a job: its progress as a bar, its metrics as small plots, its receipts and notes."""
    with to_head() as client:
        raw = client.get(at(JOBS, meant_job(client, job)))
    if json:
        say_json(raw)
    else:
        for text in job_text.whole(answer(raw, OneJob), blocks=plots.fancy()):
            say(text)
    return 0


@app.command(name="list", help_epilogue="Example: hostler job list --all")
def list_jobs(
    *,
    lease: Annotated[str | None, Parameter(help="Of this lease only.")] = None,
    ended: Annotated[
        bool, Parameter(name="--all", negative="", show_default=False, help="Those that are over, too.")
    ] = False,
    json: AsJson = False,
) -> int:
    """List jobs with what their holders last said."""
    with to_head() as client:
        raw = pages(client, JOBS, "jobs", {"lease": lease, "ended": ended})
    if json:
        say_json(raw)
    else:
        found = answer(raw, JobList)
        rows = job_text.rows(found.jobs, found.at)
        say_table(
            job_text.COLUMNS,
            rows,
            empty="There are no jobs." if ended else "No job is open; --all lists those that are over.",
            spare=job_text.SPARE,
        )
    return 0


def _report(job: str | None, update: Update, *, as_json: bool) -> int:
    with to_head() as client:
        one = report(client, job, update)
    if one is None:
        return _spooled(as_json=as_json)
    if as_json:
        say_json(to_json(one))
    else:
        say(job_text.line(one.job))
    return 0


def _spooled(*, as_json: bool) -> int:
    """It was told and is kept: the next report that reaches the head sends it (JOB-6)."""
    if as_json:
        say_json({"spooled": True})
    else:
        complain("note: the head is away; it is kept and sent with the next report.")
    return 0
