"""The config as frozen values: what there is, and how it relates.

Built once by `hostler.adapters.config` (CONF-2), which checks every relation; from here on a `Fleet`
is right by construction. Decides nothing about what runs now.

Durations are seconds (`*_s`), sizes are bytes, names match `hostler.domain.values.NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeVar

from hostler.domain.catalog import NO_CATALOG, Catalog
from hostler.domain.curation import Curation
from hostler.domain.mode import Mode
from hostler.domain.request_class import DEFAULT_CLASSES, RequestClass
from hostler.domain.resource import Resource
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass

_K = TypeVar("_K")
_V = TypeVar("_V")


def frozen(items: Mapping[_K, _V]) -> Mapping[_K, _V]:
    """A read-only copy of `items`."""
    return MappingProxyType(dict(items))


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that must never be printed: its repr is `****` (SEC-1)."""

    value: str

    def __repr__(self) -> str:
        return "****"

    def __str__(self) -> str:
        return "****"


class Task(StrEnum):
    """What an engine does; decides what a real probe of it is (LEASE-13)."""

    CHAT = "chat"
    EMBED = "embed"
    RERANK = "rerank"
    ASR = "asr"
    TTS = "tts"
    IMAGE = "image"


class DriverKind(StrEnum):
    """How an engine is started (ENG-2)."""

    PROCESS = "process"
    CONTAINER = "container"
    COMPOSE = "compose"
    SYSTEMD = "systemd"
    EXTERNAL = "external"
    DISTRIBUTED = "distributed"


PLACEHOLDERS = ("file", "model", "address", "port")
"""What `{…}` in an engine's argv and args stands for; `{{` and `}}` are braces."""

HOST_POOL = "host"
"""The main memory pool of a host: its RAM, or the one unified pool (MEM-1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One memory pool of a host. `total` None is read from the machine (MEM-1)."""

    name: str = HOST_POOL
    total: int | None = None
    reserve: int | None = None
    floor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Engines of one host that exclude each other (EVICT-1)."""

    name: str
    host: HostName
    evicts: tuple[str, ...] = ()
    idle_revert: EngineId | None = None
    idle_s: float = 1200.0
    min_resident_s: float = 60.0
    yield_after_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A cable between two hosts (CAT-8 topology)."""

    peer: HostName
    interface: str
    address: str
    peer_address: str
    speed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine. `reader` is `files:DIR` on a test bed, else None."""

    name: HostName
    url: str | None = None
    key: Secret | None = None
    tls_pin: str | None = None
    allow_plain_http: bool = False
    orchestration: bool = True
    address: str = "127.0.0.1"
    pools: tuple[Pool, ...] = (Pool(),)
    on_floor: tuple[EngineId, ...] = ()
    max_residue: int = 2 << 30
    reader: str | None = None
    port_range: tuple[int, int] = (8100, 8199)
    links: tuple[Link, ...] = ()
    groups: Mapping[str, Group] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container engine's own keys."""

    name: str
    image: str | None = None
    network: str = "host"
    devices: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """A compose engine's own keys."""

    file: str
    project: str
    service: str
    command: tuple[str, ...] = ("docker", "compose")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One servable model process. `port` None is `auto`; `need` empty is unknown (MEM-2).

    `entry` of a member is that of the distributed engine that it is `of`. `serving_class` is the merge of all
    that speaks of it (CAT-3), `curation` what its entry means for it.
    """

    id: EngineId
    host: HostName
    driver: DriverKind = DriverKind.PROCESS
    argv: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    cwd: str | None = None
    model: str = ""
    task: Task = Task.CHAT
    address: str | None = None
    port: int | None = None
    health: str = "/health"
    need: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    group: str | None = None
    essential: bool = False
    resident: bool = False
    order: int = 100
    pinned: bool = False
    ttl_s: float = 0.0
    start_timeout_s: float | None = None
    stop_timeout_s: float = 10.0
    max_concurrent: int | None = None
    queue: int | None = None
    note: Literal["merge", "first", "last"] = "merge"
    on_disconnect: Literal["cancel", "drain"] = "cancel"
    websockets: Literal["count", "ignore"] = "count"
    entry: str | None = None
    curation: Curation | None = None
    context: int | None = None
    serving_class: ServingClass = ServingClass.RESIDENT
    enabled: bool = True
    hidden: bool = False
    ui: bool = False
    local_only: bool = False
    url: str | None = None
    key: Secret | None = None
    container: Container | None = None
    compose: Compose | None = None
    unit: str | None = None
    scope: Literal["user", "system"] = "user"
    members: tuple[EngineId, ...] = ()
    of: EngineId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A target that is not on our boxes."""

    name: str
    url: str
    key: Secret | None = None
    host: str = "external"
    local_only: bool = False
    on: tuple[HostName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A node with a config of its own (SYNC-1). `key` is the pair's: either side presents it to the other."""

    name: HostName
    url: str
    key: Secret
    tls_pin: str | None = None
    allow_plain_http: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTarget:
    """A target that is an engine of the fleet."""

    engine: EngineId


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTarget:
    """A target that is an upstream; `model` is the name there, None keeps the caller's."""

    upstream: str
    model: str | None = None


Target = EngineTarget | UpstreamTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A profile of one or several ordered targets."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalating:
    """A profile of a fast and a large engine (GW-4)."""

    fast: EngineId
    large: EngineId


Profile = Plain | Escalating


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How one of several targets is picked (GW-1). `spill` is the bound of `{spill: N}`."""

    kind: Literal["pin", "first_ready", "least_loaded", "spill"] = "pin"
    spill: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """When a request goes to the large engine (GW-4)."""

    token: str | None = None
    when_tools: bool = False
    intent: tuple[str, ...] = ()
    lookback: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A model name that clients ask for. `active` None: a route without an active profile (GW-1)."""

    name: RouteName
    description: str = ""
    aliases: tuple[str, ...] = ()
    profiles: Mapping[str, Profile]
    active: str | None = None
    strategy: Strategy = Strategy()
    fallback: str | None = None
    request_class: str = "chat"
    escalate: Escalation | None = None
    patches: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: frozen({}))
    on: tuple[HostName, ...] = ()
    max_body: int | None = None
    silence_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Bounds and texts of the inference gateway."""

    max_body: int = 32 << 20
    silence_s: float = 600.0
    capture: bool = False
    capture_max: int = 256 << 20
    degrade_note: str = (
        "The larger model is unavailable ({cause}); answer within your means and say so if it matters."
    )
    cors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate and key files of the listener."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This daemon's own settings, `hosts.<name>.node` already merged in."""

    listen: tuple[str, ...] = ("127.0.0.1:7070",)
    tls: Tls | None = None
    state_dir: str | None = None
    models_dir: str | None = None
    hold_path: str | None = None
    hold_mode: int = 0o600
    hold_writers: tuple[str, ...] = ()
    on_exit: Literal["keep", "stop"] = "keep"
    shutdown_s: float = 30.0
    log_level: str = "info"
    log_size: int = 10 << 20
    log_files: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key from the config: only its SHA-256 is kept (SEC-1)."""

    name: str
    digest: bytes
    scopes: frozenset[str]
    routes: frozenset[str] | None = None
    request_class: str | None = None
    per_minute: int | None = None
    concurrent: int | None = None
    expires: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The whole config, checked. `here` is the host that this daemon runs on.

    `later` keeps the validated documents of parts that are not built yet (reservations, ports,
    notices), by their top-level key.
    """

    here: HostName
    name: str = "hostler"
    timezone: str | None = None
    head: tuple[HostName, ...]
    store: str = "sqlite"
    node: Node
    hosts: Mapping[HostName, Host]
    engines: Mapping[EngineId, Engine]
    upstreams: Mapping[str, Upstream] = field(default_factory=lambda: frozen({}))
    routes: Mapping[RouteName, Route] = field(default_factory=lambda: frozen({}))
    classes: Mapping[str, RequestClass] = field(default_factory=lambda: DEFAULT_CLASSES)
    gateway: Gateway = Gateway()
    keys: tuple[Key, ...] = ()
    resources: Mapping[str, Resource] = field(default_factory=lambda: frozen({}))
    catalog: Catalog = NO_CATALOG
    uncurated: Literal["allow", "refuse"] = "allow"
    modes: Mapping[str, Mode] = field(default_factory=lambda: frozen({}))
    peers: Mapping[HostName, Peer] = field(default_factory=lambda: frozen({}))
    ended_kept_s: float = 90 * 86_400.0
    later: Mapping[str, object] = field(default_factory=lambda: frozen({}))

    @property
    def host(self) -> Host:
        """The host that this daemon runs on."""
        return self.hosts[self.here]

    def local_engines(self) -> tuple[Engine, ...]:
        """The engines of this host, in the config's order."""
        return tuple(engine for engine in self.engines.values() if engine.host == self.here)

    def group_of(self, engine: Engine) -> Group | None:
        """The group of `engine` on its own host, or None (EVICT-1)."""
        if engine.group is None:
            return None
        return self.hosts[engine.host].groups.get(engine.group)

    def essentials(self) -> frozenset[EngineId]:
        """Engines of this host that may start under every hold (HOLD-5)."""
        return frozenset(engine.id for engine in self.local_engines() if engine.essential)
