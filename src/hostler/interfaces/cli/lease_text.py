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
        "slot": ", the end of its slot",
        "cap": ", its cap",
    }
)
_SETTLED: Final = frozenset({"undone", "left", "drifted"})
_OWED: Final = frozenset({"begun", "done"})
"""Of a step that changed something: what is behind it, and what a release still looks at."""
_SAID: Final = frozenset({"active", "scheduled"})
"""Of these states the row itself says why."""
_OVER: Final = _SETTLED | {"done", "skipped"}
"""States of steps with which nothing is under way."""
_NAME: Final = 20
"""The longest name of a resource in a row that is too short for its words."""
TEXT: Final = 200
"""The longest sentence of others in a line."""
COLUMNS: Final = ("LEASE", "RESOURCE", "STATE", "ENDS")
SPARE: Final = ("ENDS",)
"""What a narrow terminal does without: never the id."""


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
        return f"making {name} ready (lease {it.id}): {_step(it)}"
    if it.state == "releasing":
        return f"putting back {name} (lease {it.id}): {_owed(it)}"
    if it.state == "stuck":
        return f"{name} is stuck (lease {it.id}): {stuck(it)}"
    return f"lease {it.id} on {name} is {it.state}{_because(it, now)}"


def ending(it: LeaseView, now: str) -> str:
    """`ends in 42 min (21:15)`, `without an end`, and what bounds it."""
    if it.expires_at is None:
        return "without an end"
    limit = _LIMITS.get(it.limited_by, "")
    return f"ends {when(it.expires_at, now)}{limit}"


def beating(it: LeaseView) -> str | None:
    """What a beat of its job makes of a shorter time that was asked for (LEASE-20); None: nothing."""
    if it.beat_s is None or it.ttl_s is None or it.beat_s <= it.ttl_s:
        return None
    longer, asked = format_duration(it.beat_s), format_duration(it.ttl_s)
    most = f", at most {format_duration(it.hard_in_s)} from now" if it.hard_in_s is not None else ""
    return (
        f"each sign of life of its job has it for {longer} from then on, the default of"
        f" {shorten(it.resource)}, not for {asked}{most}"
    )


def _until(it: LeaseView, now: str) -> str:
    return f"ends {when(it.end_at, now)}" if it.end_at is not None else "open-ended"


def waits_for(it: LeaseView, now: str) -> str:
    """Who has it, until when, when it may start, and what else is missing (LEASE-23)."""
    return "; ".join(_waits(it, now)) or "it waits"


def _waits(it: LeaseView, now: str) -> Iterator[str]:
    yield from _stands_in_the_way(it, now)
    if it.earliest_at is not None and it.earliest_at != it.held_until:
        yield f"earliest start {when(it.earliest_at, now)}"


def _stands_in_the_way(it: LeaseView, now: str) -> Iterator[str]:
    # Its place stands beside this, and mostly the head's own words name who has it: each fact once.
    why = it.why.removeprefix(f"place {it.place}").removeprefix(": ")
    if it.held_by is not None and shorten(it.held_by) not in why:
        yield f"{shorten(it.held_by)} has it {clock_until(it.held_until, now) or 'without an end'}"
    if why:
        yield shorten(with_local_times(why, parse_moment(now)), TEXT)


def stuck(it: LeaseView) -> str:
    """Where a lease is stuck, in one sentence: step, wanted, seen, and how much is put back (LEASE-14)."""
    if it.stuck is None:
        said = shorten(it.why, TEXT) or "a step was not seen to hold"
    else:
        said = f"{failing(it)}: wanted {shorten(it.stuck.wanted, TEXT)}, seen {shorten(it.stuck.seen, TEXT)}"
    return "; ".join(filter(None, (said, put_back(it))))


def failing(it: LeaseView) -> str:
    """The step that a lease is stuck at, and its host where the step does not name it; empty without one."""
    if it.stuck is None:
        return ""
    step = shorten(it.stuck.step, TEXT)
    host = next((shorten(each.host) for each in it.steps if each.n == it.stuck.n), "")
    return f"{step} on {host}" if host and host not in step.split() else step


def put_back(it: LeaseView) -> str:
    """`12 of 16 steps are put back`, of those that changed anything; empty where none did."""
    back = sum(each.state in _SETTLED for each in it.steps)
    owed = sum(each.state in _OWED for each in it.steps)
    return f"{back} of {back + owed} steps are put back" if back + owed else ""


def stuck_lines(it: LeaseView) -> Iterator[str]:
    """A stuck lease, a line each: the step that failed, wanted, seen, what is owed, and the next command."""
    if it.stuck is not None:
        yield f"failed {failing(it)}"
        yield f"wanted {shorten(it.stuck.wanted, TEXT)}"
        yield f"seen   {shorten(it.stuck.seen, TEXT)}"
    elif it.why:
        yield f"why    {shorten(it.why, TEXT)}"
    if put_back(it):
        left = [shorten(each.text) for each in it.steps if each.state in _OWED]
        rest = f"; not yet: {shorten(', '.join(left), TEXT)}" if left else ""
        yield f"back   {put_back(it)}{rest}"
    yield f"next   {next_command(it)}"


def going_back(it: LeaseView, now: str) -> str:
    """Where a lease stands that was given back: a step that is under way ends first (LEASE-16)."""
    if it.state != "activating":
        return standing(it, now)
    return f"calling off {shorten(it.title or it.resource)} (lease {it.id}) after {_step(it)}"


def brief(it: LeaseView, now: str) -> str:
    """Where a lease stands that somebody waits for, the news first: for a row that is too short for more."""
    name = shorten(it.title or it.resource, _NAME)
    if it.state == "queued":
        return f"place {it.place or '?'} for {name}: {waits_for(it, now)}"
    if it.state == "activating":
        return f"{name}: {_step(it)}"
    if it.state == "releasing":
        return f"{name}: {_owed(it).replace(' steps are back', ' back', 1)}"
    return standing(it, now)


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
    if it.kind == "window" and it.state in ("active", "stuck"):
        return f"hostler window close {it.id}"
    if it.kind == "window" and it.state in ("activating", "releasing"):
        return f"hostler window status {it.id}"
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
    return [(it.id, it.resource, it.state, _ends(it, now)) for it in leases]


def notes(it: LeaseView, now: str) -> Iterator[str]:
    """What the row of a lease does not say: why it stands there; then what its holder would do next."""
    note = shorten(_note(it, now), TEXT)
    if note:
        yield f"{shorten(it.resource)}: {note}"
    yield f"next: {next_command(it)}"


def _ends(it: LeaseView, now: str) -> str:
    if it.state in ("queued", "scheduled"):
        start = it.start_at or it.earliest_at
        return "-" if start is None else f"starts {when(start, now)}"
    if it.state in ("offered", "activating"):
        return "-"
    return when(it.expires_at, now) if it.expires_at is not None else "without an end"


def _note(it: LeaseView, now: str) -> str:
    if it.state == "stuck":
        return stuck(it)
    if it.state == "queued":
        return "; ".join([f"place {it.place or '?'}", *_stands_in_the_way(it, now)])
    if it.state == "offered":
        return f"your turn, kept for {format_duration(it.offer_expires_in_s or 0)}"
    if it.state in _SAID:
        return with_local_times(it.notice, parse_moment(now))
    return with_local_times(it.notice or it.why, parse_moment(now))


def plan(it: LeaseView) -> Iterator[str]:
    """The steps of a plan, a line each."""
    for step in it.steps:
        note = f" ({shorten(step.note)})" if step.note else ""
        state = "" if step.state == "planned" else f" {step.state}"
        yield f"{step.n:>3}  {shorten(step.host)}  {shorten(step.text, TEXT)}{state}{note}"
