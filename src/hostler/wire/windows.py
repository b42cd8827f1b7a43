"""What the calls of modes and windows take and give (MODE-2, WIN-10).

Decides which keys there are; within v1 keys are added, never changed. A window itself is told as the lease
that it is, its own part in `LeaseView.window`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.wire.schedule import Hash, Proof, Reason, Seconds, StepView, Text, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBody:
    """Open a window; the Idempotency-Key header is the request's id (LEASE-9).

    `cap_s` None: the mode's default. `override` is the mode's serving class, which has to be named unless it
    is resident (CAT-5). `force`: a cap over 8 h, and quiet hours.
    """

    mode: Text
    holder: Text = ""
    secret_hash: Hash
    reason: Reason = ""
    cap_s: Seconds | None = None
    override: Text | None = None
    force: bool = False
    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseBody(Proof):
    """Close a window: everything is put back and verified."""

    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortBody(Proof):
    """Abort a window, open or opening, for the reason `why`; what works under it gets SIGTERM first."""

    why: Reason = ""
    wait_s: Wait = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery:
    """Of which cap the window would be; without one, of the mode's default."""

    cap_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsQuery:
    """Which windows: those that are over too, newest first."""

    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeView:
    """A mode, and how the fleet differs from it now: engines that are down, engines up beside it, routes."""

    name: str
    standing: bool
    hosts: Mapping[str, tuple[str, ...]]
    routes: Mapping[str, str]
    resource: str | None
    serving_class: str
    cap_s: float
    cap_max_s: float
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesNow:
    """Every mode. `present` is the one that the fleet is in, None when it is in none; `nearest` the nearest.

    `window` is the lease of the window that is open, None when none is. `strays`: what is up outside the
    standing mode and cannot have come by itself, a sentence each, with the command that ends it. `silent`:
    hosts that do not answer: what is told as down there may be up.
    """

    at: str
    present: str | None
    nearest: str | None
    window: str | None
    modes: tuple[ModeView, ...]
    strays: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSum:
    """A host in a mode: its memory as a sum, what comes back afterwards, how long that may take.

    `hold_after_s`: how long the hold outlives the cap (WIN-5).
    """

    host: str
    need: int
    text: str
    back: tuple[str, ...]
    restore_s: float
    hold_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePlan:
    """What opening a window would do, and that nothing was done."""

    at: str
    mode: str
    resource: str
    covers: tuple[str, ...]
    cap_s: float
    drain_before_s: float
    hosts: tuple[HostSum, ...]
    steps: tuple[StepView, ...]
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackView:
    """One engine in the report of a restore; `why` says what keeps it from counting as verified."""

    engine: str
    host: str
    up: bool
    verified: bool
    why: str
    memory: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """How a window ended, and what came back (WIN-4). `wrong`: what keeps the restore from being verified."""

    at: str
    lease: str
    mode: str
    state: str
    cause: str
    opened_at: str | None
    ended_at: str | None
    strikes: tuple[str, ...]
    engines: tuple[BackView, ...]
    wrong: tuple[str, ...]
    steps: tuple[StepView, ...]
