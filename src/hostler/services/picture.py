"""The values of the whole picture: which facts of this host a person or a program is shown.

Ready for the wire: times are RFC 3339 text (TIME-1), sizes bytes, durations seconds in `*_s`. Within v1
fields are added, never changed (API-1). How they are found is `services.status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """One memory pool (MEM-1)."""

    total: int
    available: int
    used: int
    reserve: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """This machine. `memory_error` says why its memory could not be read."""

    name: str
    memory: Mapping[str, PoolStatus]
    memory_error: str | None
    orchestration: bool
    orchestration_off: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStatus:
    """The hold as the gate sees it. `record` is the whole JSON object as found (HOLD-4)."""

    held: bool
    state: str
    path: str
    owner: str | None
    reason: str
    until: str | None
    seconds_left: int | None
    allow: tuple[str, ...]
    unreadable: str | None
    overlong: bool
    record: Mapping[str, object] | None
    refused: int
    refusals: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a stopped engine would be refused now (GATE-2).

    `owner` and `until` are those of a hold or lease; where no waiting helps, `why` says what is wrong.
    """

    code: str
    owner: str
    until: str | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress:
    """How far a start is (ENG-5); `text` is GW-6's line."""

    elapsed_s: int
    budget_s: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMemory:
    """What an engine claims and what it really took, in bytes per pool (MEM-5)."""

    claim: Mapping[str, int]
    peak: Mapping[str, int]
    steady: Mapping[str, int]
    residue: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AffordanceView:
    """What a panel shows of a start: a button, or the sentence in its place (CAT-6)."""

    start: bool
    badge: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A member of a distributed engine, as this daemon saw it last; `unreachable` where it could not be."""

    id: str
    host: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """One engine of this host.

    `config`: `current`; `changed`, which its next start takes up; or `removed`, known until it has ended.
    `entry` is the catalog's, as ID#VARIANT; `proven` says whether that variant is, None without one (CAT-7).
    `members` are those of a distributed engine, in the order of their start; `of` is the one that it is of,
    and `of_host` the host that starts and shows that one.
    """

    id: str
    host: str
    driver: str
    state: str
    since: str | None
    why: str
    blocked: Blocked | None
    suspended_by: tuple[str, ...]
    model: str
    task: str
    url: str
    port: int
    pid: int | None
    in_flight: int
    waiting: int
    idle_s: int | None
    starting: StartProgress | None
    memory: EngineMemory
    group: str | None
    serving_class: str
    resident: bool
    essential: bool
    enabled: bool
    load_s: float | None
    config: str = "current"
    entry: str | None = None
    uncurated: bool = False
    proven: bool | None = None
    affordance: AffordanceView | None = None
    members: tuple[MemberStatus, ...] = ()
    of: str | None = None
    of_host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """Where a profile leads. `state` is None for an upstream: nobody looks at it."""

    kind: str
    name: str
    role: str | None
    model: str | None
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStatus:
    """One route with its profiles; `active` None is a route without an active profile (GW-1)."""

    name: str
    description: str
    aliases: tuple[str, ...]
    active: str | None
    strategy: str
    fallback: str | None
    request_class: str
    profiles: Mapping[str, tuple[TargetStatus, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """One request under way (GW-9)."""

    id: str
    key: str
    client: str
    ip: str
    route: str
    engine: str | None
    path: str
    phase: str
    seconds: float
    first_byte_s: float | None
    bytes_in: int
    bytes_out: int
    degraded: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The daemon itself."""

    pid: int
    version: str
    started: str
    uptime_s: int
    listen: tuple[str, ...]
    state_dir: str
    config_file: str | None
    hold_path: str
    keys_open: bool
    events_dropped: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the daemon's work goes on (REL-7). `status` is `ok` or `stuck`."""

    status: str
    version: str
    loop_lag_s: float
    keeper_lag_s: float | None
    log_lag_s: float
    waiters: int
    oldest_waiter_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything at one instant: nothing awaits while it is drawn, so its parts fit each other (FEED-1).

    `in_flight` counts the requests under way; `requests` shows them to who may read logs (API-4).
    """

    at: str
    health: Health
    host: HostStatus
    hold: HoldStatus
    engines: tuple[EngineStatus, ...]
    routes: tuple[RouteStatus, ...]
    in_flight: int
    requests: tuple[RequestStatus, ...]
    daemon: DaemonStatus
