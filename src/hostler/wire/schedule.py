"""What the schedule's calls take and give: leases, resources, the fence, the store (API-1).

Decides which keys there are; within v1 keys are added, never changed. The same values for the API, the
Python client and the command line. Times are RFC 3339 text, durations seconds in `*_s`; `*_in_s` is counted
from the answer's `at` on. Secrets are made by the client: it sends their SHA-256 when it asks, and the secret
itself to prove that it is the holder (LEASE-9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from hostler.domain import job_update
from hostler.domain.values import LONGEST_S

LONGEST_WAIT_S: Final = 60.0
"""One call waits so long at most; a client that waits longer asks again."""
MAX_TITLE: Final = job_update.MAX_TITLE

Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
Seconds = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]
"""What every clock can add. What is too long or too short for its use is refused where that is known."""
Text = Annotated[str, Meta(max_length=MAX_TITLE)]
Reason = Annotated[str, Meta(max_length=500)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
"""The length besides: a pattern's `$` lets a line's end follow."""
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""A number that every program can hold (R97)."""


# ---------------------------------------------------------------- leases: what is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveBody:
    """Ask for a resource; the Idempotency-Key header is the request's id (LEASE-9).

    `ttl_s` None: the resource's default. `now` refuses instead of queueing. `detached_s` keeps the place so
    long without renewals. `start` books a slot (RFC 3339). `dry_run`: only the plan, nothing
    is asked for.
    """

    resource: Text
    holder: Text = ""
    secret_hash: Hash
    reason: Reason = ""
    ttl_s: Seconds | None = None
    indefinite: bool = False
    now: bool = False
    detached_s: Seconds | None = None
    start: str | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    wait_s: Wait = 0.0
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Who may change a lease: its holder by its secret; anybody else as an operator with `because` (LEASE-9).

    `epoch` and `generation` are the fence number of a granted lease; a wrong one is refused (LEASE-8).
    """

    secret: Text | None = None
    epoch: Text | None = None
    generation: Count | None = None
    because: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewBody(Proof):
    """Keep a place, take up an offer, or extend an active lease (LEASE-17, LEASE-24).

    `wait_s`: answer when the lease's state changes, or after so long. `claim` False leaves an offer open.
    """

    ttl_s: Seconds | None = None
    wait_s: Wait = 0.0
    claim: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseBody(Proof):
    """Give it back. `abandon` frees a stuck lease without its undo (operator, with `because`: LEASE-14)."""

    abandon: bool = False
    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelBody(Proof):
    """Call it off, whatever its state (LEASE-16)."""

    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBody(Proof):
    """Take up an offer (LEASE-24)."""

    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBody(Proof):
    """Register the process group that works under a lease, so that the node can end it (JOB-5).

    `host`: where it runs; None: on the host of the daemon that is asked.
    """

    pid: Annotated[int, Meta(gt=1)]
    start_ticks: Annotated[int, Meta(ge=0)]
    host: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesQuery:
    """Which leases: `holder`'s, a resource's, the ended ones too; pages by `cursor`."""

    resource: str | None = None
    holder: str | None = None
    ended: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500
    cursor: str | None = None


# ---------------------------------------------------------------- leases: what is told


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """A step of a lease's plan, and how far it is. `state` `planned` before it was begun."""

    n: int
    host: str
    text: str
    state: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckView:
    """Where a lease is stuck (LEASE-14)."""

    n: int
    step: str
    wanted: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPart:
    """What a lease of kind `window` has besides (MODE-3). `closing`: it takes no new requests any more.

    `cap_at` is its hard end, `hold_until` until when the hold record of each host is to stand; where windows
    are asked for, of those hosts alone whose record is seen to be the window's own. `wrong`: what
    is seen now that should be otherwise, a sentence each: engines that are down, holds that are not its own.
    """

    mode: str
    hosts: tuple[str, ...]
    cap_at: str | None
    stop_accepting_at: str | None
    closing: bool
    strikes: tuple[str, ...]
    hold_until: Mapping[str, str]
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """A lease as it is told. `place` counts from 1 among those that wait for the resource.

    `why` is one sentence: what it waits for, why it ended. `notice` is what its holder should know now
    (LEASE-19). `limited_by`: what bounds `expires_at` (`max`, `cap`, `booking` of another's, `slot` of its
    own). `earliest_at`: when it may start. `wrong`: what is seen now of an active lease that should be
    otherwise, a sentence each: a hold that is not its own (HOLD-11); a window's are in `window`. `beat_s`:
    for how long from then on a beat of its holder's job has it, whatever was asked for at first (LEASE-20);
    None: a beat extends nothing.
    """

    id: str
    resource: str
    title: str
    covers: tuple[str, ...]
    holder: str
    key: str
    reason: str
    state: str
    number: int
    priority: int
    created_at: str
    epoch: str | None
    generation: int | None
    ttl_s: float | None
    indefinite: bool
    place: int | None
    place_expires_in_s: int | None
    offer_expires_in_s: int | None
    earliest_at: str | None
    held_by: str | None
    held_until: str | None
    start_at: str | None
    end_at: str | None
    activated_at: str | None
    expires_at: str | None
    expires_in_s: int | None
    hard_at: str | None
    hard_in_s: int | None
    limited_by: str
    why: str
    notice: str
    ended_at: str | None
    ending: str | None
    drift: tuple[str, ...]
    stuck: StuckView | None
    steps: tuple[StepView, ...]
    jobs: tuple[str, ...]
    seq: int
    kind: str = "lease"
    window: WindowPart | None = None
    wrong: tuple[str, ...] = ()
    beat_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLease:
    """One lease at one instant. `granted_s` is what a renewal gave, None where it was none."""

    at: str
    lease: LeaseView
    granted_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseList:
    """Leases, oldest first."""

    at: str
    leases: tuple[LeaseView, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceView:
    """Something that can be leased, and who has it."""

    name: str
    title: str
    hosts: tuple[str, ...]
    covers: tuple[str, ...]
    ttl_s: float
    max_s: float
    indefinite: bool
    actions: tuple[str, ...]
    lease: str | None
    holder: str | None
    until: str | None
    state: str
    waiting: tuple[str, ...]
    bookings: tuple[str, ...]
    changed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceList:
    """Everything that can be leased."""

    at: str
    resources: tuple[ResourceView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyResource:
    """Why a resource is or is not to be had now (LEASE-23): each condition with whether it is met.

    `booked_at`: when the next booking begins, at which a lease that is taken now ends (LEASE-26).
    """

    at: str
    resource: ResourceView
    conditions: tuple[Condition, ...]
    earliest_at: str | None
    booked_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a grant."""

    name: str
    met: bool
    text: str


# ---------------------------------------------------------------- fence


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBody:
    """Put a fence up (`for_s` at most 2 h), or take it down (LEASE-28). `wait_s`: until all has ended."""

    up: bool
    reason: Reason = ""
    for_s: Seconds = 1800.0
    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceView:
    """The fence. `running` are the activations and releases that still run under it."""

    up: bool
    by: str = ""
    reason: str = ""
    since: str | None = None
    until: str | None = None
    until_in_s: int | None = None
    unreadable: str | None = None
    running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceNow:
    """The fence at one instant."""

    at: str
    fence: FenceView


# ---------------------------------------------------------------- the store


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupBody:
    """Where to: a new file, by its whole path, on the daemon's machine."""

    file: Annotated[str, Meta(max_length=4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cared:
    """What was done: the backup's file, the new epoch, where an unreadable store is kept, what is stuck."""

    at: str
    file: str | None = None
    epoch: str | None = None
    kept_as: str | None = None
    stuck: tuple[str, ...] = ()
