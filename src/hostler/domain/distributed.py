"""Distributed engines: what the states of its members make of the whole, and who of them is lost (ENG-11).

Decides from what was seen of the members alone. Looks at nothing, and starts and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hostler.domain.engine import State
from hostler.domain.fleet import Engine, Fleet
from hostler.domain.values import EngineId, HostName
from hostler.domain.window_plan import budget_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A member as it was seen last. `state` None: the node of its host does not answer."""

    member: EngineId
    host: HostName
    state: State | None

    def __str__(self) -> str:
        """`glm-worker on crow is failed`, or that its node does not answer."""
        if self.state is None:
            return f"the node of {self.host}, which {self.member} is on, does not answer"
        return f"{self.member} on {self.host} is {self.state}"


def whole(states: Iterable[State | None]) -> State:
    """The state of an engine whose members are in these states; None is one that cannot be asked about.

    Ready only if every member is. One that failed, or that is gone or away while another is not, makes the
    whole failed. Nothing is said of a whole of which nothing is known to be up and something is not known.
    """
    seen = frozenset(states)
    if len(seen) == 1:
        (only,) = seen
        return State.UNKNOWN if only is None else only
    if None in seen and seen <= {None, State.STOPPED, State.UNKNOWN}:
        return State.UNKNOWN
    if None in seen or State.FAILED in seen:
        return State.FAILED
    for passing in (State.STOPPING, State.STARTING, State.UNKNOWN):
        if passing in seen:
            return passing
    return State.FAILED if State.STOPPED in seen else State.DRAINING


def lost(sights: Sequence[Sight]) -> tuple[Sight, ...]:
    """The members that are known to be gone, of a whole that is not.

    One whose node does not answer is none of these: it may be back in a moment, and is looked at again.
    """
    states = [it.state for it in sights if it.state is not None]
    if not states or whole(states) is not State.FAILED:
        return ()
    return tuple(it for it in sights if it.state in (State.FAILED, State.STOPPED))


def anything_up(sights: Sequence[Sight]) -> bool:
    """Whether a member may run, as far as that is known."""
    return any(it.state is not None and it.state.up for it in sights)


def told(sights: Iterable[Sight]) -> str:
    """The members in one sentence."""
    return "; ".join(map(str, sights))


def members_of(fleet: Fleet, engine: Engine) -> tuple[Engine, ...]:
    """The members of a distributed engine, in the order in which they start."""
    return tuple(fleet.engines[it] for it in engine.members)


def whole_budget_s(fleet: Fleet, engine: Engine) -> float:
    """Seconds that the start of a distributed engine may take: its members start one after the other."""
    return sum(map(budget_s, members_of(fleet, engine)))
