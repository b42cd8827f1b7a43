"""The shapes of what control endpoints take and give, for the API, its description and the CLI.

Decides which keys a body, a query or an answer has; within v1 keys are added, never changed (API-1).
Values are ready for the wire, as in `services.picture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from hostler.domain.gate_words import Check
from hostler.domain.values import ServingClass
from hostler.services.catalog_views import EntryView
from hostler.services.picture import EngineStatus, HoldStatus, HostStatus, RequestStatus, RouteStatus
from hostler.wire.jobs import JobView
from hostler.wire.schedule import FenceView, LeaseView, ResourceView

PAGE: Final = 500
LONGEST_PAGE: Final = 1000
LOG_LINES: Final = 100
MOST_LOG_LINES: Final = 10_000
DRAIN_S: Final = 60.0
"""A drain's default deadline (GW-8)."""
LONGEST_WAIT_S: Final = 24 * 3600.0
"""A start ends by itself long before: this bounds what a caller may ask for."""

LONGEST_HISTORY: Final = 10_000
"""Events in one answer of the history: at 1 KiB each 10 MiB, as much as one of its files."""
LONGEST_HISTORY_S: Final = 10 * 366 * 86_400.0

Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineList:
    """The engines of this host."""

    at: str
    engines: tuple[EngineStatus, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteList:
    """The routes of this gateway."""

    at: str
    routes: tuple[RouteStatus, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestList:
    """The requests under way, oldest first."""

    at: str
    requests: tuple[RequestStatus, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogList:
    """The catalog in force. `trouble` says why it is not what lies in `directory`, else empty (CAT-7)."""

    at: str
    directory: str | None
    trouble: str
    entries: tuple[EntryView, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneEngine:
    """One engine at one instant."""

    at: str
    engine: EngineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldNow:
    """The hold at one instant."""

    at: str
    hold: HoldStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Log lines, oldest first, control characters escaped (ENG-12)."""

    engine: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """How much of a log, and whether to go on with it."""

    lines: Annotated[int, Meta(ge=0, le=MOST_LOG_LINES)] = LOG_LINES
    follow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogQuery:
    """How much of a log another host wants."""

    lines: Annotated[int, Meta(ge=0, le=MOST_LOG_LINES)] = LOG_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsQuery:
    """Whose ports: refused where it is not this daemon's host."""

    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuery:
    """As which class it would be started."""

    override: ServingClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The gate's checks in their order (GATE-2)."""

    at: str
    engine: str
    state: str
    allowed: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBody:
    """`override` names the serving class that the caller takes upon itself (CAT-5).

    `wait_s`: how long this call waits until the engine is ready; the start goes on without it.
    """

    override: ServingClass | None = None
    wait_s: Wait = LONGEST_WAIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBody:
    """`timeout_s`: how long requests may finish (GW-8); `now`: not at all."""

    timeout_s: Wait = DRAIN_S
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainBody:
    """`timeout_s`: how long requests may finish before they end with an error frame (GW-8)."""

    timeout_s: Wait = DRAIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileBody:
    """The profile that becomes the active one."""

    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadBody:
    """`dry_run`: tell what a reload would do, and do nothing."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """The differences between the config in force and the file, and what follows for what runs or is leased.

    `how` of a change: added, removed, changed, later (an engine's next start takes it up), or kept (only a
    restart of the daemon does).
    """

    file: str
    done: bool
    changes: tuple[ReloadedChange, ...]
    follows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadedChange:
    """One difference: `what` names it, `keys` are the keys of it that differ."""

    how: str
    what: str
    keys: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """`ended`: requests that were ended with an error frame at the deadline."""

    at: str
    engine: EngineStatus
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRoute:
    """One route at one instant."""

    at: str
    route: RouteStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The request that was told to end."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireBody:
    """`provider`: an engine's id, or a route's name or alias."""

    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """`warmed` is the engine that was started; None: there was nothing to start."""

    ok: bool
    warmed: str | None
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """Which part of a list."""

    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=LONGEST_PAGE)] = PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """`since` is a cursor, `wait` seconds to wait for the next event, `type` names separated by commas."""

    since: str | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 0.0
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """Where to begin when no `Last-Event-ID` says it, and which types."""

    since: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One event of the log (FEED-3)."""

    cursor: str
    seq: int
    time: str
    type: str
    actor: str
    subject: Mapping[str, str]
    message: str
    facts: Mapping[str, object]
    priority: str | None
    once: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The snapshot: `cursor` is where later events begin (FEED-1). With `since`: `events` and `more`.

    `elsewhere`: the error of a node that does not own the schedule; resources, leases and jobs are its
    owner's to tell.
    """

    cursor: str
    time: str | None = None
    elsewhere: Mapping[str, object] | None = None
    hosts: tuple[HostStatus, ...] = ()
    hold: HoldStatus | None = None
    engines: tuple[EngineStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()
    resources: tuple[ResourceView, ...] = ()
    leases: tuple[LeaseView, ...] = ()
    jobs: tuple[JobView, ...] = ()
    fence: FenceView | None = None
    events: tuple[Happened, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """Of which lease, which job, of the last how many seconds; the newest `limit` of them."""

    lease: str | None = None
    job: str | None = None
    since_s: Annotated[float, Meta(ge=0, le=LONGEST_HISTORY_S)] | None = None
    limit: Annotated[int, Meta(ge=1, le=LONGEST_HISTORY)] = LONGEST_HISTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened, oldest first (HIST-2); each as `Happened`."""

    at: str
    events: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A refusal (API-1). `facts` are the code's own; `retry_after` in seconds, None where it is no use."""

    message: str
    type: str
    param: str | None
    code: str
    hint: str
    facts: Mapping[str, object]
    retry_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """The one form of errors."""

    error: Error


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatError:
    """A refusal as clients of `/llm/acquire` know it."""

    ok: Literal[False]
    error: str
    owner: str | None = None
    expires_at: str | None = None
    message: str | None = None
