"""`hostler schedule`: what there is now, or what happened since a cursor; its bookings, its backups.

Decides what is asked of which node; the words are in `schedule_text`. Order, cursors and what is told are
the feed's (FEED-1). `parts` of `restore` comes from `bootstrap`: it works with the daemon stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.client import Client
from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import Schedule
from hostler.interfaces.cli import engines, routes, schedule_text
from hostler.interfaces.cli.daemon import SCHEDULE, answer, sent_value, to_head
from hostler.interfaces.cli.events import Line, line
from hostler.interfaces.cli.failure import advice, usage
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import hold_line, say, say_json
from hostler.interfaces.cli.progress import while_read
from hostler.interfaces.cli.tables import say_table
from hostler.services.schedule_offline import OfflineSchedule
from hostler.wire.told import refusal_from

EVENTS: Final = "/gateway/events"
BACKUP: Final = "/v1/hostler/schedule/backup"
RECOVER: Final = "/v1/hostler/schedule/recover"
CARE_S: Final = 300.0
"""A store is copied, or every node is asked for its receipts."""

Parts = Annotated[OfflineSchedule, Parameter(parse=False)]

app = App(
    name="schedule",
    help="Show who has what, who waits and why, or what happened.",
    help_epilogue="Example: hostler schedule --follow --json",
)


@app.default
def schedule(
    *,
    since: Annotated[
        str | None, Parameter(help="A cursor, as `hostler schedule` prints it: show every later event.")
    ] = None,
    follow: Annotated[
        bool,
        Parameter(
            name=["--follow", "-f"], negative="", show_default=False, help="Print events as they come."
        ),
    ] = False,
    ics: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Print bookings and leases as a calendar (iCalendar)."
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Show the schedule with its cursor; with --since or --follow what happened."""
    if ics and (json or follow or since is not None):
        return usage("--ics is a form of its own: leave --json, --follow and --since.", "", as_json=json)
    with to_head() as client:
        if ics:
            return _calendar(answer(client.get(SCHEDULE), Schedule))
        if follow:
            for event in while_read(_followed(client, since)):
                _tell(event, as_json=json)
            return 0
        raw = client.get(SCHEDULE) if since is None else _since(client, since)
        if json:
            say_json(raw)
        elif since is None:
            _show(answer(raw, Schedule))
        else:
            found = answer(raw, Schedule)
            for happened in answer(answer(raw, dict[str, object]).get("events"), list[Line]):
                say(line(happened))
            say(f"cursor: {shorten(found.cursor)}")
    return 0


def _since(client: Client, cursor: str) -> Mapping[str, object]:
    """Every event after `cursor`, all pages in one answer."""
    events: list[object] = []
    while True:
        raw = answer(client.get(SCHEDULE, {"since": cursor}), dict[str, object])
        page = answer(raw, Schedule)
        events += answer(raw.get("events"), list[object])
        if not page.more:
            return {**raw, "events": events}
        cursor = page.cursor


def _followed(client: Client, cursor: str | None) -> Iterator[object]:
    """Later events as they come. Raises the refusal that ends the stream."""
    for sent in client.events(EVENTS, after=cursor):
        if not sent.data:
            continue
        raw = sent_value(sent)
        if sent.type in ("reset", "error"):
            told = answer(raw, dict[str, object])
            raise refusal_from({**told, "facts": told})
        yield raw


def _tell(raw: object, *, as_json: bool) -> None:
    if as_json:
        say_json(raw)
    else:
        say(line(answer(raw, Line)))


def _show(it: Schedule) -> None:
    now = it.time or ""
    if it.hold is not None:
        say(f"hold     {hold_line(it.hold, now)}")
    say(f"cursor   {shorten(it.cursor)}")
    if it.elsewhere is not None:
        refusal = refusal_from(it.elsewhere)
        say(f"leases   not known here: {shorten(f'{refusal} {advice(refusal)}', 400)}")
    say()
    if it.resources or it.leases or it.jobs:
        say_table(
            schedule_text.COLUMNS,
            schedule_text.resource_rows(it.resources, now),
            empty="Nothing can be leased here.",
            spare=schedule_text.SPARE,
        )
        for text in schedule_text.panels(it):
            say(text)
        say()
    engines.table(it.engines, now)
    say()
    say_table(routes.COLUMNS, routes.rows(it.routes), empty="There are no routes.", spare=routes.SPARE)


def _calendar(it: Schedule) -> int:
    from hostler.interfaces.cli.ics import calendar

    if it.elsewhere is not None:
        raise refusal_from(it.elsewhere)  # An empty calendar would say that nothing is booked.
    sys.stdout.write(calendar(it.leases, it.time or ""))
    sys.stdout.flush()
    return 0


@app.command(help_epilogue="Example: hostler schedule backup schedule-backup.db")
def backup(
    file: Annotated[str, Parameter(help="A new file, on the machine of the daemon.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Copy the schedule's store to a file, whole and consistent, while the daemon runs."""
    with to_head() as client:
        raw = client.post(BACKUP, {"file": str(Path(file).absolute())}, timeout_s=CARE_S)
    _say_care(raw, "The schedule is backed up", as_json=json)
    return 0


@app.command(help_epilogue="Example: hostler schedule recover")
def recover(*, json: AsJson = False) -> int:
    """Go on after the store went back: a new epoch, the nodes' receipts become stuck leases."""
    with to_head() as client:
        raw = client.post(RECOVER, {}, timeout_s=CARE_S)
    _say_care(raw, "The schedule goes on", as_json=json)
    return 0


@app.command(help_epilogue="Example: hostler schedule restore schedule-backup.db")
def restore(
    file: Annotated[str, Parameter(help="What `hostler schedule backup` wrote.")],
    /,
    *,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Put a backup in the place of the schedule's store, the daemon stopped: 75 while it runs."""
    raw = parts.restore(file)
    _say_care(dict(raw), "The backup is in place; `hostler serve` goes on with it", as_json=json)
    return 0


def _say_care(raw: object, done: str, *, as_json: bool) -> None:
    if as_json:
        say_json(raw)
        return
    facts = answer(raw, dict[str, object])
    named = (("file", "file"), ("epoch", "epoch"), ("kept_as", "what was there is kept as"))
    told = [f"{words} {shorten(str(facts[name]), 400)}" for name, words in named if facts.get(name)]
    rest = f": {', '.join(told)}" if told else ""
    say(f"{done}{rest}.")
    for lease in answer(facts.get("stuck") or [], list[str]):
        say(f"stuck: `hostler release {shorten(lease)}` puts it back.")
