"""What a node is built on, and the adapters that more than one of its services needs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hostler.adapters.clock import SystemClock
from hostler.adapters.config.paths import Paths
from hostler.adapters.config.source import FileSource
from hostler.adapters.daemon_lock import DaemonLocks
from hostler.adapters.ids import SystemIds
from hostler.adapters.metrics import PrometheusMeters
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.adapters.store.sqlite import SqliteStore
from hostler.bootstrap.speech import Speech
from hostler.domain.fleet import Fleet
from hostler.gateway.places import Places
from hostler.gateway.upstream import Upstream
from hostler.services.event_queue import EventQueue
from hostler.services.keys import Keyring
from hostler.services.needs import Driver, Events, MemoryReader
from hostler.services.present import Present
from hostler.services.status import Vitals


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a node is built on: found, opened and locked before the loop runs.

    `disabled` is why nothing may be started or stopped here, None when it may (GATE-4). `source` reads the
    config again, `keys` makes the keyring of one (CONF-3).
    """

    fleet: Fleet
    paths: Paths
    env: Mapping[str, str]
    config_file: str
    source: FileSource
    keyring: Keyring
    keys: Callable[[Fleet], Keyring]
    sockets: Sequence[socket.socket]
    listen: tuple[str, ...]
    lock: DaemonLocks | None
    disabled: str | None
    speech: Speech
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The adapters that more than one service needs."""

    config: Present
    clock: SystemClock
    ids: SystemIds
    files: DirectoryStateFiles
    store: SqliteStore
    queue: EventQueue
    events: Events
    meters: PrometheusMeters
    memory: MemoryReader
    drivers: Mapping[str, Driver]
    models: ModelsDir
    upstream: Upstream
    places: Places
    vitals: Vitals
