"""How a lease is told to people: one sentence on where it stands, the rows of `mine`, the next command.

Decides words only; the facts are the head's. All foreign text is escaped and cut (BG-22).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hostler.domain.fleet import frozen
from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli.output import clock_until, parse_moment, when, with_local_times
from hostler.wire.schedule import LeaseView, StepView

_LIMITS: Final[Mapping[str, str]] = frozen(
    {
        "max": ", the longest that it may",
        "booking": ", when a booking begins",
        "cap": ", its cap",
    }
)
_OVER: Final = frozenset({"done", "skipped", "undone", "left", "drifted"})
"""States of steps with which nothing is under way."""
TEXT: Final = 200
"""The longest sentence of others in a line."""
COLUMNS: Final = ("LEASE", "RESOURCE", "STATE", "ENDS", "WHY", "NEXT")
SPARE: Final = ("WHY", "ENDS")
"""What a narrow terminal does without: never the id and the next command."""


def standing(it: LeaseView, now: str) -> str:
    """Where a lease stands, in one sentence without its end."""
    name = shorten(it.title or it.resource)
    if it.state == "active":
        return f"{name} is active: lease {it.id}, generation {it.generation}, {ending(it, now)}"
    if it.state == "scheduled":
        return f"{name} is booked (lease {it.id}): it starts {when(it.start_at, now)}, {_until(it, now)}"
    if it.state == "queued":
        return f"place {it.place or '?'} for {name} (lease {it.id}): {waits_for(it, now)}"
    if it.state == "offered":
        left = format_duration(it.offer_expires_in_s or 0)
        return f"{name} is kept for lease {it.id} for {left}: `hostler claim {it.id}` takes it"
    if it.state == "activating":
        return f"{name} is being made ready for lease {it.id}: {_step(it)}"
    if it.state == "releasing":
        return f"{name} is being put back (lease {it.id}): {_owed(it)}"
    if it.state == "stuck":
        return f"{name} is stuck (lease {it.id}): {stuck(it)}"
    return f"lease {it.id} on {name} is {it.state}{_because(it, now)}"


def ending(it: LeaseView, now: str) -> str:
    """`ends in 42 min (21:15)`, `without an end`, and what bounds it."""
    if it.expires_at is None:
        return "without an end"
    limit = _LIMITS.get(it.limited_by, "")
    return f"ends {when(it.expires_at, now)}{limit}"


def _until(it: LeaseView, now: str) -> str:
    return f"ends {when(it.end_at, now)}" if it.end_at is not None else "open-ended"


def waits_for(it: LeaseView, now: str) -> str:
    """Who has it, until when, when it may start, and what else is missing (LEASE-23)."""
    return "; ".join(_waits(it, now)) or "it waits"


def _waits(it: LeaseView, now: str) -> Iterator[str]:
    if it.held_by is not None:
        yield f"{shorten(it.held_by)} has it {clock_until(it.held_until, now) or 'without an end'}"
    if it.earliest_at is not None:
        yield f"earliest start {when(it.earliest_at, now)}"
    if it.why:
        yield shorten(with_local_times(it.why, parse_moment(now)), TEXT)


def stuck(it: LeaseView) -> str:
    """Step, wanted, seen of a stuck lease (LEASE-14)."""
    if it.stuck is None:
        return shorten(it.why, TEXT) or "a step was not seen to hold"
    at = it.stuck
    return f"step {at.n} {shorten(at.step)}, wanted {shorten(at.wanted)}, seen {shorten(at.seen)}"


def going_back(it: LeaseView, now: str) -> str:
    """Where a lease stands that was given back: a step that is under way ends first (LEASE-16)."""
    if it.state != "activating":
        return standing(it, now)
    return f"{shorten(it.title or it.resource)} is called off (lease {it.id}) after {_step(it)}"


def _step(it: LeaseView) -> str:
    """The step that is under way, of several hosts on which, and how many there are."""
    for number, step in enumerate(it.steps, 1):
        if step.state not in _OVER:
            return f"step {number} of {len(it.steps)}, {_placed(it, step)}"
    return f"{len(it.steps)} steps done" if it.steps else "no step is left"


def _owed(it: LeaseView) -> str:
    """What is still to be undone, the next one of each host first; last first, as it is done."""
    begun = [step for step in it.steps if step.state not in ("planned", "skipped")]
    owed = [step for step in begun if step.state not in _OVER or step.state == "done"]
    if not owed:
        return "all is back, and looked at once more" if begun else "no step is left"
    nexts = {step.host: step for step in owed}
    last_first = sorted(nexts.values(), key=lambda step: -step.n)
    undone = "; ".join(f"undo {_placed(it, step)}" for step in last_first)
    return f"{len(begun) - len(owed)} of {len(begun)} steps are back; {undone}"


def _placed(it: LeaseView, step: StepView) -> str:
    """A step in its words, with its host where the lease has several."""
    several = len({each.host for each in it.steps}) > 1
    return f"{shorten(step.host)}: {shorten(step.text)}" if several else shorten(step.text)


def _because(it: LeaseView, now: str) -> str:
    return f": {shorten(with_local_times(it.why, parse_moment(now)), TEXT)}" if it.why else ""


def drift(it: LeaseView) -> Iterator[str]:
    """What was left as somebody had changed it, a line each (LEASE-11)."""
    for text in it.drift:
        yield f"drifted: {shorten(text, TEXT)}"


def next_command(it: LeaseView) -> str:
    """What its holder would do next."""
    commands = {
        "active": f"hostler renew {it.id} --for 1h",
        "offered": f"hostler claim {it.id}",
        "queued": f"hostler cancel {it.id}",
        "scheduled": f"hostler cancel {it.id}",
        "stuck": f"hostler release {it.id}",
    }
    return commands.get(it.state, f"hostler history --lease {it.id}")


def rows(leases: Iterable[LeaseView], now: str) -> list[tuple[str, ...]]:
    """One row per lease under `COLUMNS`."""
    return [(it.id, it.resource, it.state, _ends(it, now), _note(it, now), next_command(it)) for it in leases]


def _ends(it: LeaseView, now: str) -> str:
    if it.state in ("queued", "scheduled"):
        return when(it.start_at or it.earliest_at, now)
    return when(it.expires_at, now) if it.expires_at is not None else "without an end"


def _note(it: LeaseView, now: str) -> str:
    if it.state == "stuck":
        return stuck(it)
    if it.state == "queued":
        return f"place {it.place or '?'}; {waits_for(it, now)}"
    return with_local_times(it.notice or it.why, parse_moment(now))


def plan(it: LeaseView) -> Iterator[str]:
    """The steps of a plan, a line each."""
    for step in it.steps:
        note = f" ({shorten(step.note)})" if step.note else ""
        state = "" if step.state == "planned" else f" {step.state}"
        yield f"{step.n:>3}  {shorten(step.host)}  {shorten(step.text, TEXT)}{state}{note}"
