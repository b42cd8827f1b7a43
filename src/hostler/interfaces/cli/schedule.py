"""`hostler schedule`: what there is now, or what happened since a cursor.

Decides the words for people; order, cursors and what is told are the feed's (FEED-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from hostler.client import Client
from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import Happened, Schedule
from hostler.interfaces.cli import engines, routes
from hostler.interfaces.cli.daemon import SCHEDULE, answer, connected
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import hold_line, parse_moment, say, say_json, with_local_times
from hostler.interfaces.cli.progress import while_read
from hostler.interfaces.cli.tables import say_table
from hostler.wire.told import refusal_from

EVENTS: Final = "/gateway/events"


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
    json: AsJson = False,
) -> int:
    """Show the schedule with its cursor; with --since or --follow what happened."""
    with connected() as client:
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
        for happened in found.events:
            say(_line(happened))
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
        raw: object = msgspec.json.decode(sent.data)
        if sent.type in ("reset", "error"):
            told = answer(raw, dict[str, object])
            raise refusal_from({**told, "facts": told})
        yield raw


def _tell(raw: object, *, as_json: bool) -> None:
    if as_json:
        say_json(raw)
    else:
        say(_line(answer(raw, Happened)))


def _line(it: Happened) -> str:
    """One event on one line, at the terminal's local time (TIME-1)."""
    at = parse_moment(it.time)
    local = at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    subject = " ".join(f"{name}={value}" for name, value in it.subject.items())
    by = "" if it.actor == "daemon" else f"  by {it.actor}"
    message = f"  {with_local_times(it.message, at)}" if it.message else ""
    return f"{local}  {shorten(f'{it.type}  {subject}{message}{by}', 400)}"


def _show(it: Schedule) -> None:
    now = it.time or ""
    if it.hold is not None:
        say(f"hold     {hold_line(it.hold, now)}")
    say(f"cursor   {shorten(it.cursor)}")
    say()
    engines.table(it.engines, now)
    say()
    say_table(routes.COLUMNS, routes.rows(it.routes), empty="There are no routes.", spare=routes.SPARE)
