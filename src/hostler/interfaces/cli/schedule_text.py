"""The schedule as people see it: who has what, who waits and why, what is stuck, how the jobs go.

Decides order and words; the facts are the head's. All foreign text is escaped and cut (BG-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hostler.domain.values import format_duration, shorten
from hostler.interfaces.api.shapes import Schedule
from hostler.interfaces.cli import job_text, lease_text
from hostler.interfaces.cli.fence import lines as fence_lines
from hostler.interfaces.cli.output import clock_until, when
from hostler.wire.schedule import LeaseView, ResourceView

COLUMNS: Final = ("RESOURCE", "STATE", "HOLDER", "LEASE", "ENDS", "WAITING", "TITLE")
SPARE: Final = ("TITLE", "WAITING", "LEASE")


def resource_line(it: ResourceView, now: str) -> str:
    """`free`, or who has it, until when, and how many wait."""
    waiting = f", {len(it.waiting)} waiting" if it.waiting else ""
    if it.holder is None:
        return f"{shorten(it.state)}{waiting}"
    end = clock_until(it.until, now) or ("without an end" if it.state == "active" else "")
    return f"{shorten(it.state)}, {f'{shorten(it.holder)} has it {end}'.rstrip()}{waiting}"


def resource_rows(resources: Sequence[ResourceView], now: str) -> list[tuple[str, ...]]:
    """One row per resource under `COLUMNS`."""
    return [
        (
            it.name,
            it.state,
            it.holder or "-",
            it.lease or "-",
            _ends(it, now),
            f"{len(it.waiting)}" if it.waiting else "-",
            it.title,
        )
        for it in resources
    ]


def _ends(it: ResourceView, now: str) -> str:
    if it.lease is None:
        return "-"
    if it.until is not None:
        return when(it.until, now)
    # What is not active yet, or no more, has an end that nobody knows.
    return "without an end" if it.state == "active" else "-"


def panels(it: Schedule) -> Iterator[str]:
    """What follows the table of resources, a line each: fence, stuck, queue, bookings, warnings, jobs."""
    now = it.time or ""
    if it.fence is not None and it.fence.up:
        yield from fence_lines(it.fence, now)
    for lease in it.leases:
        if lease.state == "stuck":
            yield from stuck_panel(lease)
    yield from _section(
        "WRONG", [f"{lease.id}: {shorten(each, 300)}" for lease in it.leases for each in lease.wrong]
    )
    yield from _section("queue", [_waiting(lease, now) for lease in _queue(it.leases)])
    booked = sorted((lease for lease in it.leases if lease.state == "scheduled"), key=_start)
    yield from _section("bookings", [_booked(lease, now) for lease in booked])
    moving = [lease for lease in it.leases if lease.state in ("offered", "activating", "releasing")]
    yield from _section("under way", [lease_text.standing(lease, now) for lease in moving])
    changed = [f"{shorten(one.name)}: {shorten(one.changed, 200)}" for one in it.resources if one.changed]
    yield from _section("warnings", changed)
    yield from _section("jobs", [job_text.line(job) for job in it.jobs])


def _start(it: LeaseView) -> str:
    return it.start_at or ""


def stuck_panel(it: LeaseView) -> Iterator[str]:
    """A stuck lease: step, wanted, seen, and the next command (LEASE-14)."""
    yield f"STUCK    {shorten(it.resource)}, lease {it.id} of {shorten(it.holder)}"
    for text in lease_text.stuck_lines(it):
        yield f"  {text}"


def _queue(leases: Sequence[LeaseView]) -> list[LeaseView]:
    waiting = [it for it in leases if it.state == "queued"]
    return sorted(waiting, key=lambda it: (it.resource, it.place or 0, it.number))


def _waiting(it: LeaseView, now: str) -> str:
    kept = f", kept {format_duration(it.place_expires_in_s)}" if it.place_expires_in_s is not None else ""
    return (
        f"{shorten(it.resource)} {it.place or '?'}. {shorten(it.holder)} ({it.id}{kept}):"
        f" {lease_text.waits_for(it, now)}"
    )


def _booked(it: LeaseView, now: str) -> str:
    end = f", ends {when(it.end_at, now)}" if it.end_at is not None else ""
    reason = f": {shorten(it.reason)}" if it.reason else ""
    return f"{shorten(it.resource)} {when(it.start_at, now)}{end}, {shorten(it.holder)} ({it.id}){reason}"


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(lines):
        yield f"{title if number == 0 else '':<9} {text}"
