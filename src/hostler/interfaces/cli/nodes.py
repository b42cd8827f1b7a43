"""`hostler nodes`: which hosts answer, with which clock, hold and leases, and what they do when cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli.daemon import answer, to_head
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import (
    clock_since,
    clock_until,
    parse_moment,
    say,
    say_json,
    with_local_times,
)
from hostler.interfaces.cli.tables import say_table
from hostler.wire.nodes import KeptView, NodeList, NodeView

PATH: Final = "/v1/hostler/nodes"
COLUMNS: Final = ("HOST", "STATE", "API", "VERSION", "CLOCK", "HOLD", "LEASES", "WHY")
SPARE: Final = ("VERSION", "API")
"""What a narrow terminal does without, the first one first."""
SKEW_S: Final = 1.0
"""A clock that is less off is said to be right: the answer was on its way, too."""


def nodes(*, json: AsJson = False) -> int:
    """List the nodes of the fleet, as the head knows them; of another node, what that one knows."""
    with to_head() as client:
        raw = client.get(PATH)
    if json:
        say_json(raw)
        return 0
    shown = answer(raw, NodeList)
    say_table(COLUMNS, rows(shown.nodes, shown.at), empty="There are no nodes.", spare=SPARE)
    for node in shown.nodes:
        for lease in node.leases:
            say(f"{shorten(node.host)}: {_kept(lease, shown.at)}")
        for text in node.left:
            say(f"{shorten(node.host)}: {shorten(text, 300)}")
    return 0


def rows(found: Sequence[NodeView], now: str) -> list[tuple[str, ...]]:
    """One row per node under `COLUMNS`."""
    return [
        (
            f"{it.host}{' (head)' if it.head else ''}{' (here)' if it.here else ''}",
            _state(it, now),
            "-" if it.api is None else str(it.api),
            it.version or "-",
            _clock(it),
            "-"
            if it.hold is None
            else f"{it.hold} {clock_until(it.hold_until, now) or 'until it is removed'}",
            str(len(it.leases)),
            with_local_times(it.why, parse_moment(now)) or "-",
        )
        for it in found
    ]


def _state(node: NodeView, now: str) -> str:
    if node.up is None:
        return "unknown"
    if node.up:
        return "up"
    return f"away {clock_since(node.since, now)}".rstrip()


def _clock(node: NodeView) -> str:
    if node.skew_s is None:
        return "-"
    if abs(node.skew_s) < SKEW_S:
        return "right"
    return f"{format_duration(abs(node.skew_s))} {'ahead' if node.skew_s > 0 else 'behind'}"


def _kept(lease: KeptView, now: str) -> str:
    who = f"{shorten(lease.lease)} ({shorten(lease.resource)}, {shorten(lease.holder)})"
    return f"{who} {with_local_times(shorten(lease.then, 300), parse_moment(now))}"
