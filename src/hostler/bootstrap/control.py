"""The control API of a node, joined from its services; without the schedule here, its refusal (R2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.bootstrap.ground import Ground, World
from hostler.bootstrap.ports import port_watch
from hostler.bootstrap.scheduling import Scheduling
from hostler.services.browser_guard import BrowserGuard
from hostler.services.control import Control
from hostler.services.elsewhere import Elsewhere
from hostler.services.engines import Engines
from hostler.services.far_hosts import FarHost
from hostler.services.feed import Feed
from hostler.services.history import History
from hostler.services.holds import Holds
from hostler.services.node_door import NodeDoor
from hostler.services.nodes_api import NodesApi
from hostler.services.observe import Observer
from hostler.services.reload import Reload
from hostler.services.requests import Requests
from hostler.services.routes import Routes
from hostler.services.status import Status
from hostler.services.sync_needs import SyncApi


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that the control API is joined from. `head` None: another host owns the schedule."""

    engines: Engines
    routes: Routes
    requests: Requests
    holds: Holds
    status: Status
    history: History
    head: Scheduling | None
    observer: Observer
    browsers: BrowserGuard
    reload: Reload
    door: NodeDoor
    nodes: NodesApi
    far: Mapping[str, FarHost]
    sync: SyncApi


def control_of(ground: Ground, world: World, made: Services) -> Control:
    """What the control API is made of; without the schedule here, its refusal."""
    head = made.head
    elsewhere = Elsewhere(
        head=ground.fleet.head,
        here=ground.fleet.here,
        urls=lambda: {str(it.name): it.url for it in world.config.fleet.hosts.values() if it.url},
    )
    return Control(
        config=world.config,
        engines=made.engines,
        routes=made.routes,
        requests=made.requests,
        holds=made.holds,
        feed=Feed(
            queue=world.queue,
            draw=made.status.picture,
            clock=world.clock,
            schedule=head.snapshot.draw if head is not None else elsewhere.draw,
        ),
        keyring=ground.keyring,
        status=made.status,
        clock=world.clock,
        metrics=lambda: made.observer.render(made.status.picture()),
        schedule=head.schedule if head is not None else elsewhere,
        windows=head.windows if head is not None else elsewhere,
        modes=head.modes if head is not None else elsewhere,
        jobs=head.jobs if head is not None else elsewhere,
        history=made.history,
        ports=port_watch(Path(ground.config_file), made.engines.lanes, ground.listen),
        care=head.care(world.store) if head is not None else elsewhere,
        browsers=made.browsers,
        reload=made.reload,
        node=made.door,
        nodes=made.nodes,
        far=made.far,
        sync=made.sync,
    )
