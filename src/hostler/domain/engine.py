"""The life of an engine. Everything that decides an engine's state is in this file (ENG-1).

Decides which event moves an engine from which state to which. Does not decide whether it may start
(`gate`), whom it displaces (`eviction`), or how it is started (the drivers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from hostler.domain.errors import IllegalTransition
from hostler.domain.fleet import Compose, Container, frozen
from hostler.domain.values import EngineId


class State(StrEnum):
    """Where an engine is. Each member says who moves it on, and what a crash of the daemon leaves."""

    STOPPED = "stopped"
    """Nothing runs. A start moves it on, or the watchdog gives it up. A crash leaves it so."""
    STARTING = "starting"
    """Spawned, not ready. Its start task moves it on. A crash leaves a process: adopted as UNKNOWN."""
    READY = "ready"
    """Serves as itself. Watch, drain or stop move it on. A crash leaves it running: adopted as UNKNOWN."""
    DRAINING = "draining"
    """Takes no new requests; those under way finish. Its drain moves it on. A crash makes it UNKNOWN."""
    STOPPING = "stopping"
    """Signalled. Its stop task moves it on. A crash leaves it half stopped: adopted as UNKNOWN."""
    FAILED = "failed"
    """A start, stop or probe failed. A request after 30 s, residency after 120 s or `clear` move it on."""
    UNKNOWN = "unknown"
    """Recorded by an earlier daemon, not yet looked at. The first probe moves it on."""

    @property
    def up(self) -> bool:
        """Whether a process of it may exist, and so memory and a port may be taken."""
        return self in (State.STARTING, State.READY, State.DRAINING, State.STOPPING, State.UNKNOWN)

    @property
    def serves(self) -> bool:
        """Whether a new request may be sent to it."""
        return self is State.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvent:
    """Something that happened to an engine at an aware UTC time."""

    engine: EngineId
    at: datetime


class StartBegun(EngineEvent):
    """The gate said yes and the spawn is next."""


class BecameReady(EngineEvent):
    """Alive, its port its own, healthy, and itself (ENG-4)."""


class DrainBegun(EngineEvent):
    """No new requests from here on (GW-8)."""


class DrainEnded(EngineEvent):
    """The drain was called off, or its bound passed: it takes requests again (EVICT-2)."""


class StopBegun(EngineEvent):
    """The first signal is next."""


class Stopped(EngineEvent):
    """Seen to be gone: no member left, port free (ENG-6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(EngineEvent):
    """A start, a stop or three probes failed, or it crashed; `why` is one sentence."""

    why: str = ""


class Found(EngineEvent):
    """An earlier daemon's record names a process that still runs (ENG-7)."""


class Cleared(EngineEvent):
    """A person, a request after 30 s or residency after 120 s lets it be tried again."""


EVENTS: Final[tuple[type[EngineEvent], ...]] = (
    StartBegun,
    BecameReady,
    DrainBegun,
    DrainEnded,
    StopBegun,
    Stopped,
    Failed,
    Found,
    Cleared,
)

INITIAL: Final = State.STOPPED

TRANSITIONS: Final[Mapping[State, Mapping[type[EngineEvent], State]]] = {
    State.STOPPED: {StartBegun: State.STARTING, Found: State.UNKNOWN, Failed: State.FAILED},
    State.STARTING: {BecameReady: State.READY, StopBegun: State.STOPPING, Failed: State.FAILED},
    State.READY: {DrainBegun: State.DRAINING, StopBegun: State.STOPPING, Failed: State.FAILED},
    State.DRAINING: {DrainEnded: State.READY, StopBegun: State.STOPPING, Failed: State.FAILED},
    State.STOPPING: {Stopped: State.STOPPED, Failed: State.FAILED},
    State.FAILED: {Cleared: State.STOPPED, StopBegun: State.STOPPING, Found: State.UNKNOWN},
    State.UNKNOWN: {
        BecameReady: State.READY,
        StopBegun: State.STOPPING,
        Stopped: State.STOPPED,
        Failed: State.FAILED,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """An engine's state and since when; `why` is the last failure's sentence."""

    engine: EngineId
    state: State = INITIAL
    since: datetime | None = None
    why: str = ""


def apply(current: EngineState, event: EngineEvent) -> EngineState:
    """The engine after `event`. The only function that changes an engine's state.

    Raises IllegalTransition for a pair that `TRANSITIONS` does not have.
    """
    try:
        state = TRANSITIONS[current.state][type(event)]
    except KeyError:
        raise IllegalTransition(noun="engine", state=current.state, event=type(event).__name__) from None
    why = event.why if isinstance(event, Failed) else ""
    return replace(current, state=state, since=event.at, why=why)


# ---------------------------------------------------------------- what drivers take and give


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a driver needs to run one engine: resolved, no placeholders left.

    `directory` is the engine's own directory (`<state>/engines/<id>`), `url` the base URL that serves.
    `argv` is a process's, or what stands after a container's image; `container`, `compose` and `unit` with
    `scope` are those drivers' own.
    """

    engine: EngineId
    driver: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    cwd: str
    address: str
    port: int
    url: str
    health: str = "/health"
    model: str
    directory: str
    log_size: int = 10 << 20
    log_files: int = 10
    container: Container | None = None
    compose: Compose | None = None
    unit: str | None = None
    scope: Literal["user", "system"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where, and as what, something that runs was started to answer: all that a look at it needs (ENG-7).

    `container` and `compose` say which container it is, for the drivers that have one.
    """

    address: str
    port: int
    url: str
    health: str
    model: str
    argv: tuple[str, ...] = ()
    container: Container | None = None
    compose: Compose | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The durable identity of what was started (ENG-6): pid and start time, never a name or a port.

    `start_ticks` are clock ticks since boot, field 22 of /proc/<pid>/stat. `identity` is the container's id
    with its start, or the unit's invocation, where the driver knows its engine by that; `pid` is then its
    main process, 0 when this host can see none, and there is no supervisor (0). `served` is how it was
    started; None where nobody wrote that down: an earlier version, or who else started it.
    """

    engine: EngineId
    driver: str
    pid: int
    start_ticks: int
    supervisor_pid: int
    supervisor_ticks: int
    boot_id: str
    port: int
    started_at: datetime
    identity: str = ""
    served: Served | None = None


def served_of(launch: Launch) -> Served:
    """What is to be remembered of `launch` while what it started runs."""
    return Served(
        address=launch.address,
        port=launch.port,
        url=launch.url,
        health=launch.health,
        model=launch.model,
        argv=launch.argv,
        container=launch.container,
        compose=launch.compose,
    )


def as_started(launch: Launch, run: Run) -> Launch:
    """`launch` as `run` was started, whatever the config says by now: it runs on so until it is stopped.

    Where only the port was written down the rest is as in the config.
    """
    if run.served is None:
        own = f":{launch.port}"
        url = f"{launch.url.removesuffix(own)}:{run.port}" if launch.url.endswith(own) else launch.url
        return replace(launch, driver=run.driver, port=run.port, url=url)
    return replace(
        launch,
        driver=run.driver,
        address=run.served.address,
        port=run.served.port,
        url=run.served.url,
        health=run.served.health,
        model=run.served.model,
        argv=run.served.argv,
        container=run.served.container,
        compose=run.served.compose,
    )


PortOwner = Literal["ours", "stranger", "nobody", "unknown"]
Health = Literal["ok", "loading", "no_route", "failed", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one look at an engine saw (ENG-4). `detail` says on what URL, and the last answer."""

    alive: bool
    port_owner: PortOwner
    stranger: str = ""
    health: Health
    http_status: int | None = None
    model_ids: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """What a stop did. `gone` and `port_free` are seen, not assumed (ENG-6)."""

    gone: bool
    port_free: bool
    signals: tuple[str, ...] = ()
    seconds: float = 0.0
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReport:
    """How an engine ended: exit status or signal, and what is known of the cause.

    `instead` says it of one that is no process: `lost a member: …`.
    """

    status: int | None
    signal: int | None
    hint: str = ""
    instead: str = ""

    def __str__(self) -> str:
        """`exited with status 1`, `was killed by signal 9 (out of memory)`."""
        if self.instead:
            return self.instead
        if self.signal is not None:
            text = f"was killed by signal {self.signal}"
        elif self.status is not None:
            text = f"exited with status {self.status}"
        else:
            text = "ended, how is not known"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A restore in words that need no driver (ENG-2): argv to start, URL to probe, id expected."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    probe_url: str
    model: str
    stop_argv: tuple[str, ...] = ()


class Readiness(StrEnum):
    """What a probe means for a caller (ENG-4)."""

    READY = "ready"
    LOADING = "loading"
    STRANGER = "stranger"
    WRONG_MODEL = "wrong_model"
    DEAD = "dead"
    UNREACHABLE = "unreachable"


def judge(probe: Probe, *, health: str, model: str) -> Readiness:
    """What `probe` means: ready only when alive, the port its own, healthy, and itself (ENG-4).

    `health` is the engine's setting (`/path`, `tcp`, `none`); a health path that answers 404 means no
    such route: the model list decides then. Without a model list (`tcp`, `none`) the port decides.
    """
    if probe.port_owner == "stranger":
        return Readiness.STRANGER
    if not probe.alive:
        return Readiness.DEAD
    if probe.port_owner == "nobody":
        return Readiness.LOADING
    if health in ("tcp", "none"):
        return Readiness.READY if probe.health == "ok" else Readiness.UNREACHABLE
    if probe.health == "loading":
        return Readiness.LOADING
    if probe.health in ("failed", "unreachable"):
        return Readiness.UNREACHABLE
    if model in probe.model_ids:
        return Readiness.READY
    return Readiness.WRONG_MODEL if probe.model_ids else Readiness.LOADING
