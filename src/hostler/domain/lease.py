"""The life of a lease. Everything that decides a lease's state is in this file (LEASE-6).

Decides by one pure function, `decide`. Who asks, when, and what the effects do is for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from hostler.domain.events import Event
from hostler.domain.moment import Moment
from hostler.domain.step import FenceNumber, Step

LeaseId = NewType("LeaseId", str)


class State(StrEnum):
    """Where a lease is: who moves it on, and what a crash leaves."""

    SCHEDULED = "scheduled"
    """Booked ahead; holds nothing. The keeper offers it at its start. A crash changes nothing."""
    QUEUED = "queued"
    """Waiting for the resource; holds nothing. The keeper offers it in its turn. A crash changes nothing."""
    OFFERED = "offered"
    """The resource is kept for it; its client claims it, or the offer lapses. A crash changes nothing."""
    ACTIVATING = "activating"
    """Holds the resource; the runner does the steps. A crash leaves it stuck."""
    ACTIVE = "active"
    """The holder may use the resource. A crash changes nothing."""
    RELEASING = "releasing"
    """Holds the resource; the runner undoes what was done. A crash leaves it stuck."""
    STUCK = "stuck"
    """Holds the resource until a release succeeds, whatever time passes."""
    RELEASED = "released"
    """Over: put back and verified."""
    EXPIRED = "expired"
    """Over: its time was up; put back and verified."""
    FAILED = "failed"
    """Over: its activation failed; put back and verified."""
    CANCELLED = "cancelled"
    """Over: called off."""
    LAPSED = "lapsed"
    """Over: a place, an offer or a slot that nobody took."""

    @property
    def holds(self) -> bool:
        """Whether it has a claim on its resources (LEASE-7)."""
        return self in (State.OFFERED, State.ACTIVATING, State.ACTIVE, State.RELEASING, State.STUCK)

    @property
    def waits(self) -> bool:
        """Whether it has a place: in the queue, or in the calendar."""
        return self in (State.SCHEDULED, State.QUEUED)

    @property
    def ended(self) -> bool:
        """Whether it is over, for ever."""
        return self in (State.RELEASED, State.EXPIRED, State.FAILED, State.CANCELLED, State.LAPSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A booking: wall-clock times, aware, in UTC (LEASE-26)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The step at which a lease is stuck: its number in the journal, what was wanted and what is seen."""

    n: int
    step: str
    wanted: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One party's claim on a resource. Durations in seconds, deadlines as moments.

    With a `mode` it is a window: its plan is the mode's, `hard` its cap, counted from the grant (WIN-2). At
    `soft`, `drain_before_s` before that, no new requests are taken, and `closing` says that this was told.
    `strikes` are the engines that came up against it, one sentence each (WIN-6).

    `covers`: the resource and all that it contains. `holder` is a label, `key` the name of the key that
    asked. `secret` is the SHA-256 (hex) of the client's secret, `digest` that of the request's body.
    `number` is its order among all leases. `ttl_s` None: without an end. `detached_s`: how long the place is
    kept without a client that waits (`--queue`); None: a client waits and renews. `place` and `offer` lapse
    then; `hard` is the end that no renewal moves, `limited_by` what it is (`max`, `booking`, `cap` of a
    window, or empty). `warned` are the offsets told for the present `expires`. `ending` is how it ends once
    put back, `cause` why it waits, is stuck, or ended. `working`: a process was registered under it, which
    ends before it is given back (JOB-5). `seq` is the last event that changed it.
    """

    id: LeaseId
    resource: str
    covers: tuple[str, ...]
    holder: str
    key: str
    reason: str = ""
    secret: str
    request_id: str
    digest: str
    state: State = State.QUEUED
    created: Moment
    number: int = 0
    priority: int = 0
    ttl_s: float | None
    detached_s: float | None = None
    fence: FenceNumber | None = None
    slot: Slot | None = None
    place: Moment | None = None
    offer: Moment | None = None
    activated: Moment | None = None
    expires: Moment | None = None
    hard: Moment | None = None
    limited_by: str = ""
    warned: tuple[float, ...] = ()
    reminded: Moment | None = None
    ending: State | None = None
    cause: str = ""
    drift: tuple[str, ...] = ()
    failing: Failing | None = None
    cancelled: bool = False
    working: bool = False
    ended: Moment | None = None
    plan: tuple[Step, ...] = ()
    seq: int = 0
    mode: str = ""
    drain_before_s: float = 0.0
    soft: Moment | None = None
    closing: bool = False
    strikes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEvent:
    """Something that happens to a lease. `actor` is who did it, as events name them."""

    actor: str = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited(LeaseEvent):
    """It is first in line, and a passing condition keeps it there (LEASE-24); no `why`: nothing does now.

    `covers`: what it waits for is more, or less, since the config changed (LEASE-5).
    """

    why: str
    covers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered(LeaseEvent):
    """The resource is kept for it until `until`."""

    until: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(LeaseEvent):
    """It has the resource: its fence number, the plan that is captured now (LEASE-5)."""

    fence: FenceNumber
    plan: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated(LeaseEvent):
    """Every step was seen to hold. The time counts from now (LEASE-17); `hard` bounds it (None: nothing)."""

    hard: Moment | None
    limited_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(LeaseEvent):
    """Its place is kept until `place`, or it expires at `expires`; only what is given is changed."""

    place: Moment | None = None
    expires: Moment | None = None
    hard: Moment | None = None
    limited_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(LeaseEvent):
    """Its holder is told that it expires in `offset` seconds (LEASE-19)."""

    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminded(LeaseEvent):
    """The daily reminder of a lease without an end (LEASE-18)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted(LeaseEvent):
    """A fence came down: `seconds` under it count toward no TTL, place or offer (LEASE-28)."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingBegun(LeaseEvent):
    """A window's soft deadline: its engines take no new requests from now on (WIN-2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck(LeaseEvent):
    """An engine came up against the window; `note` says which, and who asked where that is known (WIN-6)."""

    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked(LeaseEvent):
    """An activation is called off: it finishes its step and undoes (LEASE-16)."""

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoBegun(LeaseEvent):
    """What was done is put back; then it ends as `ending`. A stuck one keeps the ending that it had."""

    ending: State
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(LeaseEvent):
    """Everything is put back and verified; `drift` is what was left as somebody had made it (LEASE-11)."""

    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFailed(LeaseEvent):
    """An undo was not seen to hold (LEASE-14)."""

    failing: Failing
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(LeaseEvent):
    """The daemon restarted in the middle of a step: nothing is replayed by itself (LEASE-14)."""

    why: str = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(LeaseEvent):
    """An operator frees it; `unverified` names each step that was not undone (LEASE-14)."""

    because: str
    unverified: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(LeaseEvent):
    """A place, an offer or a slot ends without a grant, as CANCELLED, LAPSED or FAILED."""

    ending: State
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedBack(LeaseEvent):
    """An offer is taken back: a passing condition came between (LEASE-24). It is first in line again."""

    why: str


class Effect(StrEnum):
    """What somebody has to do after a decision; each may be lost, the keeper finds it again."""

    ACTIVATE = "activate"
    """The runner does the steps."""
    RESTORE = "restore"
    """The runner undoes them."""
    PROMOTE = "promote"
    """The resource is free: the next in line gets its offer."""
    WAKE = "wake"
    """Its client may be waiting for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a lease: itself, the events to record with it, what is to be done then."""

    lease: Lease
    events: tuple[Event, ...] = ()
    effects: frozenset[Effect] = frozenset()
