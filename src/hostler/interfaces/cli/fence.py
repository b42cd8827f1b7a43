"""`hostler fence up|down|status`: nothing expires and nothing is promoted while it is up (LEASE-28).

Decides the words for people. `up --wait` returns when what ran under the fence has ended.
"""

from __future__ import annotations

from time import sleep
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.client import Client
from hostler.domain.values import shorten
from hostler.interfaces.cli.daemon import SLACK_S, answer, to_head
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import clock_until, say, say_json, when
from hostler.wire.schedule import LONGEST_WAIT_S, FenceNow, FenceView

PATH: Final = "/v1/hostler/fence"
DEFAULT_S: Final = 1800.0
LOOK_S: Final = 1.0
_LONGEST: Final = LONGEST_WAIT_S + SLACK_S

app = App(
    name="fence",
    help="Hold the schedule still: nothing expires, nothing is promoted.",
    help_epilogue="Example: hostler fence status",
)


@app.command(help_epilogue="Example: hostler fence up --reason deploy --for 30m --wait")
def up(
    *,
    reason: Annotated[str, Parameter(help="What for; shown to everybody who waits.")],
    time: Annotated[Duration, Parameter(name="--for", help="How long, at most 2h.")] = DEFAULT_S,
    wait: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Return when what runs under it has ended."),
    ] = False,
    json: AsJson = False,
) -> int:
    """Put a fence up: what runs finishes, renewals and reports go on, new claims wait. Operators only."""
    body: dict[str, object] = {"up": True, "reason": reason, "for_s": time}
    with to_head() as client:
        raw = client.post(PATH, {**body, "wait_s": LONGEST_WAIT_S if wait else 0.0}, timeout_s=_LONGEST)
        if wait:
            raw = _settled(client, raw)
    _tell(raw, as_json=json)
    return 0


@app.command(help_epilogue="Example: hostler fence down")
def down(*, json: AsJson = False) -> int:
    """Take the fence down: what is overdue expires first, then the next in line are promoted."""
    with to_head() as client:
        raw = client.post(PATH, {"up": False})
    _tell(raw, as_json=json)
    return 0


@app.command(help_epilogue="Example: hostler fence status --json")
def status(*, json: AsJson = False) -> int:
    """Show whether a fence is up, whose, until when, and what still runs under it."""
    with to_head() as client:
        raw = client.get(PATH)
    _tell(raw, as_json=json)
    return 0


def _settled(client: Client, raw: object) -> object:
    """The fence once nothing runs under it: asks, and changes nothing."""
    while (fence := answer(raw, FenceNow).fence).up and fence.running:
        sleep(LOOK_S)
        raw = client.get(PATH)
    return raw


def _tell(raw: object, *, as_json: bool) -> None:
    if as_json:
        say_json(raw)
        return
    found = answer(raw, FenceNow)
    for text in lines(found.fence, found.at):
        say(text)


def lines(fence: FenceView, now: str) -> list[str]:
    """The fence for people."""
    if fence.unreadable is not None:
        what = shorten(fence.unreadable, 120)
        return [f"a fence counts as up: its record {what}; `hostler fence down` ends it"]
    if not fence.up:
        return ["no fence is up"]
    since = f", since {when(fence.since, now)}" if fence.since is not None else ""
    told = [f"fence up by {shorten(fence.by)} {clock_until(fence.until, now)}".rstrip() + since]
    if fence.reason:
        told.append(f"for {shorten(fence.reason, 120)}")
    if fence.running:
        told.append(f"still running: {', '.join(map(shorten, fence.running))}")
    return told
