"""`hostler status`: everything at a glance.

Decides the order and the words in which a person sees the picture; the facts are the daemon's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.client import Client
from hostler.domain.values import format_duration, format_size, shorten
from hostler.interfaces.cli import engines, routes
from hostler.interfaces.cli.daemon import answer, connected, cursor_now, next_cursor
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import clock_until, hold_line, on_terminal, say, say_json
from hostler.interfaces.cli.tables import say_table
from hostler.services.picture import HostStatus, Picture

PATH: Final = "/v1/hostler/status"
EVERY_S: Final = 5.0
"""A picture is at most this old while watched: memory changes without an event."""
_HOME: Final = "\x1b[H\x1b[2J"


def status(
    *,
    watch: Annotated[
        bool,
        Parameter(
            name=["--watch", "-w"], negative="", show_default=False, help="Show it again whenever it changes."
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Show what runs, what is held, and how the daemon is."""
    with connected() as client:
        for raw in _pictures(client, watch=watch):
            if json:
                say_json(raw)
                continue
            if watch and on_terminal(sys.stdout):
                sys.stdout.write(_HOME)
            show(answer(raw, Picture))
    return 0


def _pictures(client: Client, *, watch: bool) -> Iterator[object]:
    """One picture; while watched one after each event, and at least one in five seconds."""
    # The cursor comes first: what happens while the picture is drawn wakes us then.
    cursor = cursor_now(client) if watch else None
    yield client.get(PATH)
    while watch:
        if cursor is None:
            # Without an event log nothing wakes us: look again after a while (REL-1).
            time.sleep(EVERY_S)
            cursor = cursor_now(client)
        else:
            cursor = next_cursor(client, cursor, EVERY_S)
        yield client.get(PATH)


def show(picture: Picture) -> None:
    """The picture for people."""
    say(_headline(picture))
    say(f"hold     {hold_line(picture.hold, picture.at)}")
    for line in _memory(picture.host):
        say(line)
    for warning in _warnings(picture):
        say(f"warning: {shorten(warning, 200)}")
    say()
    engines.table(picture.engines, picture.at)
    say()
    say_table(routes.COLUMNS, routes.rows(picture.routes), empty="There are no routes.", spare=routes.SPARE)
    say()
    count = picture.in_flight
    say(f"{count} request{'' if count == 1 else 's'} under way.")


def _headline(picture: Picture) -> str:
    it = picture.daemon
    state = "" if picture.health.status == "ok" else f", {picture.health.status.upper()}"
    return (
        f"{shorten(picture.host.name)}: hostler {shorten(it.version)}, pid {it.pid},"
        f" up {format_duration(it.uptime_s)}, {', '.join(map(shorten, it.listen))}{state}"
    )


def _memory(host: HostStatus) -> Iterator[str]:
    if host.memory_error is not None:
        yield f"memory   {shorten(host.memory_error, 200)}"
    for name, pool in host.memory.items():
        yield (
            f"memory   {shorten(name)}: {format_size(pool.used)} of {format_size(pool.total)} used,"
            f" {format_size(pool.available)} available, reserve {format_size(pool.reserve)},"
            f" floor {format_size(pool.floor)}"
        )


def _warnings(picture: Picture) -> Iterator[str]:
    yield from picture.daemon.warnings
    health, host = picture.health, picture.host
    if health.status != "ok":
        lag = health.keeper_lag_s or 0.0
        yield f"the daemon is {health.status}: loop late by {health.loop_lag_s} s, keeper by {lag} s"
    if host.orchestration_off is not None:
        yield f"nothing is started or stopped here: {host.orchestration_off}"
    if picture.hold.overlong:
        end = clock_until(picture.hold.until, picture.at)
        yield f"the hold goes on {end}, more than 8 h from now, and was not forced"
    if picture.daemon.events_dropped:
        yield f"{picture.daemon.events_dropped} events were lost to a full queue"
    if picture.daemon.keys_open:
        yield "no keys are set: whoever reaches the listener may use and see what runs, not change it"
