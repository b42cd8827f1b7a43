"""What nodes say to each other: operations, what is held, the fence, what a node remembers (NODE-1, NODE-7).

Decides the keys of the node API and its number; what a value becomes is `hostler.wire.node_forms`' decision.
Machines exchange durations, never instants (LEASE-21): `*_in_s` is counted from the moment of the call or
answer. A command, a path or a webhook's URL never travels: its definition is named, with a digest (CONF-6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from hostler.domain.deadman import DeadmanReport
from hostler.domain.errors import NodeOutdated
from hostler.domain.values import LONGEST_S
from hostler.domain.window import Back, WindowStrike

NODE_API: Final = 1
"""The number of the node API that this version speaks. One more or less is understood (NODE-7)."""
MAX_TEXT: Final = 1000
LONGEST_LOOK_S: Final = 20.0
"""A node answers at least so often that an operation is under way still."""

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Left = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]
"""Seconds from now on, negative when they are over; what every clock can add."""
Api = Annotated[int, Meta(ge=1)]
Do = Literal["preflight", "observe", "perform", "verify"]


def spoken(here: str, ours: int, there: str, theirs: int) -> int:
    """The number that both speak: the older one. Refuses `node_outdated`, naming whom to upgrade."""
    if abs(ours - theirs) > 1:
        older = here if ours < theirs else there
        raise NodeOutdated(upgrade=older, here=here, ours=ours, there=there, theirs=theirs)
    return min(ours, theirs)


# ---------------------------------------------------------------- what is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationBody:
    """One step or undo. `step` is its JSON form; a command or webhook has `definition` and `digest` alone."""

    id: Text
    lease: Text
    epoch: Text
    generation: int
    covers: tuple[Text, ...]
    step: Mapping[str, object]
    deadline_s: Annotated[float, Meta(gt=0, le=LONGEST_S)]
    found: Mapping[str, object] | None = None
    holder: Text = ""
    reason: Text = ""
    expires_in_s: Left | None = None
    stop_accepting_in_s: Left | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCall:
    """Ask about an operation, or have it done. `wait_s`: answer when it has ended, or after so long."""

    api: Api
    do: Do
    operation: OperationBody
    wait_s: Annotated[float, Meta(ge=0, le=LONGEST_LOOK_S)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A thing that a lease holds on the host: `engine fast-4b`, `route chat`, `hold crow`."""

    thing: Text
    lease: Text
    resource: Text
    holder: Text
    key: Text
    until_in_s: Left | None = None
    hard_in_s: Left | None = None
    mode: Text = ""
    stop_accepting_in_s: Left | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCall:
    """Everything that leases hold on the host, as the head knows it."""

    api: Api
    held: tuple[HeldRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRow:
    """The deployment fence that is up."""

    since_s: Left
    until_in_s: Left
    by: Text
    reason: Text
    unreadable: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceCall:
    """The deployment fence, None when it is down."""

    api: Api
    fence: FenceRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmCall:
    """Have an engine of the host ready, through its own gate; `by` is who asked for it elsewhere."""

    api: Api
    engine: Text
    by: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCall:
    """A process group of the host that works under a lease from now on."""

    api: Api
    lease: Text
    pid: Annotated[int, Meta(gt=1)]
    start_ticks: Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCall:
    """End the processes that were registered under a lease on the host."""

    api: Api
    lease: Text


# ---------------------------------------------------------------- what is answered


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAnswer:
    """`done` False: it is under way, ask again. `found` of an observe, `seen` of a verify that failed."""

    api: int
    done: bool = True
    found: Mapping[str, object] | None = None
    seen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptAnswer:
    """What became of an operation: `unknown`, `begun`, `done` or `refused` with its `error`."""

    api: int
    id: str
    state: str
    error: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """It was taken. `left`: what could not be done, a sentence each."""

    api: int
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """A step that the node did for a lease, what it found, and whether it is put back."""

    n: int
    step: Mapping[str, object]
    found: Mapping[str, object]
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedView:
    """A lease as a node knows it by its receipts."""

    lease: str
    resource: str
    holder: str
    key: str
    epoch: str
    generation: int
    covers: tuple[str, ...]
    entries: tuple[EntryView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredView:
    """A lease that the node put back by itself while it was cut off (NODE-4)."""

    lease: str
    epoch: str
    generation: int
    ago_s: float
    drift: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """What a node knows of the schedule: its highest fence number, its leases, what it put back itself.

    `rebooted` are leases that it was told of before its machine's last restart (F20), `reports` restores by
    its deadmen, `restoring` windows that they put back now, `strikes` what came up against a window (WIN-6).
    """

    api: int
    epoch: str | None
    generation: int | None
    leases: tuple[RememberedView, ...]
    restored: tuple[RestoredView, ...] = ()
    rebooted: tuple[str, ...] = ()
    reports: tuple[DeadmanReport, ...] = ()
    restoring: tuple[str, ...] = ()
    strikes: tuple[WindowStrike, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmAnswer:
    """It is ready. `started`: it was not before."""

    api: int
    started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """What the node wrote down of a window's restore (WIN-4)."""

    api: int
    engines: tuple[Back, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptView:
    """What a node does for a lease, and what it will do by itself when it stays cut off (NODE-4)."""

    lease: str
    resource: str
    holder: str
    things: tuple[str, ...]
    hard_in_s: float | None
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """A node as it is: `at` is its wall clock, `boot` this run of its machine, `hold` who holds the host.

    `heard_s`: seconds since its head asked for anything before this, None when it never did. `left`: what
    leases that are over left there, a sentence each, with the command that ends it.
    """

    api: int
    host: str
    version: str
    at: str
    boot: str
    hold: str | None
    hold_until: str | None
    leases: tuple[KeptView, ...]
    heard_s: float | None
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """The last lines of an engine's log, oldest first, control characters escaped."""

    lines: tuple[str, ...]


# ---------------------------------------------------------------- for people


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node as whoever is asked knows it. `up` None: this daemon does not ask that one.

    `skew_s`: its wall clock less the asked daemon's. `since`: since when it is as it is, and `why`. `left`:
    what leases that are over left there, a sentence each.
    """

    host: str
    url: str | None
    head: bool
    here: bool
    up: bool | None
    since: str | None
    why: str = ""
    api: int | None = None
    version: str = ""
    skew_s: float | None = None
    hold: str | None = None
    hold_until: str | None = None
    leases: tuple[KeptView, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """Every node of the fleet, in the config's order."""

    at: str
    nodes: tuple[NodeView, ...]
