"""What the control API is made of: the services that its endpoints call.

Decides nothing: it is the one value that `interfaces.api.create_app` takes, built by the bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hostler.services.browser_guard import BrowserGuard
from hostler.services.engines import Engines
from hostler.services.far_hosts import FarHost
from hostler.services.feed import Feed
from hostler.services.holds import Holds
from hostler.services.keys import Keyring
from hostler.services.needs import Clock
from hostler.services.nodes_api import NodeApi, NodesApi
from hostler.services.ports_live import PortWatch
from hostler.services.present import Present
from hostler.services.reload import Reload
from hostler.services.requests import Requests
from hostler.services.routes import Routes
from hostler.services.schedule_api import (
    CareApi,
    HistoryApi,
    JobsApi,
    ModesApi,
    ScheduleApi,
    WindowsApi,
)
from hostler.services.status import Status
from hostler.services.sync_needs import SyncApi


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The services of one daemon. `metrics` renders the text of METRIC-1; `far` are other hosts, by name."""

    config: Present
    engines: Engines
    routes: Routes
    requests: Requests
    holds: Holds
    feed: Feed
    keyring: Keyring
    browsers: BrowserGuard
    status: Status
    clock: Clock
    metrics: Callable[[], bytes]
    schedule: ScheduleApi
    windows: WindowsApi
    modes: ModesApi
    jobs: JobsApi
    history: HistoryApi
    care: CareApi
    node: NodeApi
    nodes: NodesApi
    far: Mapping[str, FarHost]
    sync: SyncApi
    reload: Reload
    ports: PortWatch
