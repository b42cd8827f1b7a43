"""`hostler history`: what happened, read through the rotation of the history files (HIST-2).

Decides the words for people. Through the daemon; with --offline from the files themselves, never the
database. `parts` comes from `bootstrap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.interfaces.cli.daemon import answer, to_head
from hostler.interfaces.cli.events import Line, line
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import say, say_json
from hostler.services.schedule_offline import OfflineSchedule

PATH: Final = "/v1/hostler/history"
ANSWER_S: Final = 120.0
"""Ten files of 10 MiB are read."""

Parts = Annotated[OfflineSchedule, Parameter(parse=False)]


def history(
    *,
    job: Annotated[str | None, Parameter(help="Of this job only.")] = None,
    lease: Annotated[str | None, Parameter(help="Of this lease only.")] = None,
    since: Annotated[
        Duration | None, Parameter(show_default=False, help="Not older than that, such as 7d.")
    ] = None,
    offline: Annotated[
        bool, Parameter(negative="", show_default=False, help="Read the files; needs no daemon.")
    ] = False,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Show what happened, oldest first: of a lease, a job, the last days."""
    if offline:
        found: Sequence[Mapping[str, object]] = parts.history(lease=lease, job=job, since_s=since)
        raw: object = {"events": [dict(event) for event in found]}
    else:
        with to_head() as client:
            raw = client.get(PATH, {"lease": lease, "job": job, "since_s": since}, timeout_s=ANSWER_S)
    if json:
        say_json(raw)
        return 0
    events = answer(answer(raw, dict[str, object]).get("events"), list[Line])
    for event in events:
        say(line(event))
    if not events:
        say("Nothing is known of it.")
    return 0
