"""One node, joined: which adapter fulfils which need of which service. Plain calls, no container.

Decides nothing else. Everything here is built inside the running loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import cast

from hostler import __version__
from hostler.adapters.clock import SystemClock
from hostler.adapters.drivers.distributed import DistributedDriver
from hostler.adapters.drivers.ports import LocalPorts
from hostler.adapters.history import HistoryFiles
from hostler.adapters.hold_changes import HoldChanges
from hostler.adapters.hold_file import HoldFile, boot_id, user_ids
from hostler.adapters.hold_sight import FirstSight
from hostler.adapters.hold_write import HoldWriter
from hostler.adapters.host import pools
from hostler.adapters.host.links import SystemLinks
from hostler.adapters.ids import SystemIds
from hostler.adapters.metrics import PrometheusMeters
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.programs import ProgramFiles
from hostler.adapters.ready import tell_ready
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.adapters.store.sqlite import SqliteStore
from hostler.bootstrap.catalog import take_catalog
from hostler.bootstrap.control import Services, control_of
from hostler.bootstrap.engines import EngineConnections, drivers_of, lanes_of
from hostler.bootstrap.ground import Ground, World
from hostler.bootstrap.nodes import Nodes, nodes_of
from hostler.bootstrap.place import announcing, is_control, machine_names, retracting
from hostler.bootstrap.ports import taken_ports
from hostler.bootstrap.reloading import Swapped, reload_of
from hostler.bootstrap.speech import LoggedEvents
from hostler.bootstrap.sync import Syncing, sync_of
from hostler.bootstrap.watching import watch_of
from hostler.daemon import Daemon
from hostler.domain.fleet import DriverKind, Secret, frozen
from hostler.domain.values import EngineId
from hostler.gateway.app import Gateway
from hostler.gateway.asgi import AsgiApp, adapted
from hostler.gateway.ask import Means as AskMeans
from hostler.gateway.backoff import Backoff
from hostler.gateway.choose import Chooser
from hostler.gateway.models import Models
from hostler.gateway.places import Places
from hostler.gateway.server import make_server
from hostler.gateway.upstream import Upstream
from hostler.interfaces.api.app import create_app
from hostler.services import routes
from hostler.services.browser_guard import guard_for
from hostler.services.cleaning import Cleaner
from hostler.services.control import Control
from hostler.services.distributed import Distributed
from hostler.services.engines import Engines
from hostler.services.event_queue import EventQueue
from hostler.services.gate import Gate
from hostler.services.guard import Guard
from hostler.services.history import History
from hostler.services.holds import Holds
from hostler.services.lanes import Lanes
from hostler.services.measure import Measure
from hostler.services.observe import Observer
from hostler.services.present import Present
from hostler.services.requests import Requests
from hostler.services.revivals import Revivals
from hostler.services.routes import Routes
from hostler.services.starting import Starting
from hostler.services.status import DaemonFacts, Status, Vitals
from hostler.services.stopping import Stopping
from hostler.services.suspensions import Suspensions
from hostler.services.watch import Watch


def build(ground: Ground) -> Daemon:
    """The daemon of this node, ready to run."""
    take_catalog(ground.fleet, ground.paths.state_dir)
    world = _world(ground)
    guard = Guard()
    holds, writer, hold = _holds(ground, world)
    parts, engines = _engines(ground, world, holds, guard)
    requests = Requests(clock=world.clock, ids=world.ids)
    table = Routes(
        files=world.files,
        clock=world.clock,
        events=world.events,
        current=routes.load(ground.fleet, world.files),
        guard=guard,
    )
    nodes = nodes_of(ground, world, engines, parts, table, holds, writer)
    syncing = sync_of(ground, world, engines.lanes, table)
    status = _status(ground, world, engines, table, requests, holds, parts)
    history = _history(ground, world)
    observer = Observer(meters=world.meters, clock=world.clock, events=world.events)
    watch = watch_of(ground, world, engines, holds, nodes)
    swapped = Swapped(
        engines=engines,
        routes=table,
        browsers=guard_for(ground.fleet, machine_names()),
        hold=hold,
        guard=guard,
        errands=watch.errands,
    )
    reload = reload_of(ground, world, swapped)
    made = Services(
        engines=engines,
        routes=table,
        requests=requests,
        holds=holds,
        status=status,
        history=history,
        head=nodes.head,
        observer=observer,
        browsers=swapped.browsers,
        reload=reload,
        door=nodes.door,
        nodes=nodes.listed,
        far=nodes.far,
        sync=syncing.api,
    )
    return _daemon(ground, world, made, watch, nodes, syncing)


def _daemon(
    ground: Ground, world: World, made: Services, watch: Watch, nodes: Nodes, syncing: Syncing
) -> Daemon:
    """The daemon around its services, its gateway in front."""
    control = control_of(ground, world, made)
    gateway = _gateway(ground, world, control, made.observer)
    return Daemon(
        engines=made.engines,
        watch=watch,
        reload=made.reload,
        keeper=made.head.keeper if made.head is not None else None,
        history=made.history,
        queue=world.queue,
        events=world.events,
        feed=control.feed,
        requests=made.requests,
        store=world.store,
        server=make_server(gateway, is_control=is_control, tls=ground.fleet.node.tls),
        sockets=ground.sockets,
        lock=ground.lock,
        clock=world.clock,
        vitals=world.vitals,
        announce=announcing(world.files, ground.paths, ground.listen, ground.fleet.node.tls),
        ready=lambda: tell_ready(ground.env),
        retract=retracting(ground.paths),
        restore=nodes.node.deadman.begin,
        close=world.upstream.close,
        beside=frozen({**nodes.loops, **syncing.loops}),
        hang_up=_hanging_up(nodes, syncing),
        bug=ground.speech.bug,
        version=__version__,
        listen=ground.listen,
        on_exit=ground.fleet.node.on_exit,
        shutdown_s=ground.fleet.node.shutdown_s,
    )


def _hanging_up(nodes: Nodes, syncing: Syncing) -> Callable[[], Coroutine[object, object, None]]:
    """Ends the connections to the nodes of other hosts, and to paired ones."""

    async def hang_up() -> None:
        await syncing.hang_up()
        if nodes.hang_up is not None:
            await nodes.hang_up()

    return hang_up


def _history(ground: Ground, world: World) -> History:
    return History(
        queue=world.queue,
        store=world.store,
        log=HistoryFiles(folder=ground.paths.history),
        clock=world.clock,
        events=world.events,
        ids=world.ids,
    )


def _world(ground: Ground) -> World:
    clock, ids, config = SystemClock(), SystemIds(), Present(fleet=ground.fleet)

    def key(name: EngineId) -> Secret | None:
        engine = config.fleet.engines.get(name)
        return None if engine is None else engine.key

    store = SqliteStore(ground.paths.schedule_db, ids, clean=Cleaner(redact=ground.speech.redact).event)
    queue = EventQueue(store=store, clock=clock, ids=ids, redact=ground.speech.redact)
    meters = PrometheusMeters()
    return World(
        config=config,
        clock=clock,
        ids=ids,
        files=DirectoryStateFiles(root=ground.paths.state_dir),
        store=store,
        queue=queue,
        events=LoggedEvents(queue=queue, meters=meters),
        meters=meters,
        memory=pools.reader(ground.fleet.host.reader),
        drivers=drivers_of(ground.env, key),
        models=ModelsDir(root=ground.paths.models_dir),
        upstream=Upstream(),
        places=Places(),
        vitals=Vitals(warnings=ground.warnings),
    )


def _holds(ground: Ground, world: World) -> tuple[Holds, HoldWriter, HoldFile]:
    path, state = str(ground.paths.hold_path), str(ground.paths.state_dir)
    reader = HoldFile(
        path=path,
        sight=FirstSight(state),
        essentials=frozenset(str(engine) for engine in ground.fleet.essentials()),
        writers=user_ids(ground.fleet.node.hold_writers),
        boot=boot_id(),
    )
    holds = Holds(
        host=ground.fleet.here,
        reader=reader,
        changes=HoldChanges(path, state),
        clock=world.clock,
        events=world.events,
    )
    return holds, HoldWriter(reader=reader, mode=ground.fleet.node.hold_mode), reader


def _lanes(ground: Ground, world: World) -> Lanes:
    """The engines of this host; ports of others are given to none of them."""
    return Lanes(
        config=world.config,
        clock=world.clock,
        events=world.events,
        by_id=lanes_of(
            ground.fleet,
            world.files,
            world.models,
            world.clock.elapsed(),
            lambda: taken_ports(ground.fleet, Path(ground.config_file)),
        ),
    )


def _parts(ground: Ground, world: World, guard: Guard) -> Distributed:
    """What acts on the members of distributed engines; the nodes are given to it once there are any."""
    return Distributed(
        lanes=_lanes(ground, world),
        files=world.files,
        ids=world.ids,
        clock=world.clock,
        events=world.events,
        guard=guard,
        over=asyncio.Event(),
    )


def _engines(ground: Ground, world: World, holds: Holds, guard: Guard) -> tuple[Distributed, Engines]:
    parts = _parts(ground, world, guard)
    lanes, whole = parts.lanes, DistributedDriver(parts=parts, drivers=world.drivers)
    drivers = frozen({**world.drivers, DriverKind.DISTRIBUTED: whole})
    gate = Gate(
        lanes=lanes,
        holds=holds,
        memory=world.memory,
        ports=LocalPorts(),
        models=world.models,
        programs=ProgramFiles(environment=ground.env),
        links=SystemLinks(),
        clock=world.clock,
        events=world.events,
        disabled=ground.disabled,
        members=parts,
        guard=guard,
    )
    stopping = Stopping(
        lanes=lanes,
        drivers=drivers,
        memory=world.memory,
        connections=EngineConnections(upstream=world.upstream, places=world.places),
        clock=world.clock,
        events=world.events,
    )
    measure = Measure(
        lanes=lanes,
        memory=world.memory,
        drivers=drivers,
        files=world.files,
        clock=world.clock,
        events=world.events,
    )
    starting = Starting(
        lanes=lanes,
        gate=gate,
        stopping=stopping,
        measure=measure,
        drivers=drivers,
        models=world.models,
        clock=world.clock,
        events=world.events,
        over=parts.over,
    )
    return parts, Engines(
        lanes=lanes,
        gate=gate,
        starting=starting,
        stopping=stopping,
        suspensions=Suspensions(files=world.files, clock=world.clock, events=world.events),
        revivals=Revivals(files=world.files, drivers=drivers, clock=world.clock, events=world.events),
        measure=measure,
        drivers=drivers,
        clock=world.clock,
    )


def _status(
    ground: Ground,
    world: World,
    engines: Engines,
    table: Routes,
    requests: Requests,
    holds: Holds,
    parts: Distributed,
) -> Status:
    facts = DaemonFacts(
        pid=ground.speech.pid,
        version=__version__,
        started=world.clock.now(),
        listen=ground.listen,
        state_dir=str(ground.paths.state_dir),
        config_file=ground.config_file,
        keys_open=ground.keyring.open,
    )
    return Status(
        facts=facts,
        lanes=engines.lanes,
        gate=engines.gate,
        starting=engines.starting,
        requests=requests,
        routes=table,
        holds=holds,
        memory=world.memory,
        clock=world.clock,
        queue=world.queue,
        vitals=world.vitals,
        sights=parts.seen,
    )


def _gateway(ground: Ground, world: World, control: Control, observer: Observer) -> Gateway:
    backoff = Backoff(clock=world.clock, ids=world.ids)
    chooser = Chooser(
        engines=control.engines,
        places=world.places,
        backoff=backoff,
        clock=world.clock,
        away=control.nodes.away,
    )
    means = AskMeans(
        engines=control.engines,
        upstream=world.upstream,
        backoff=backoff,
        clock=world.clock,
        bug=ground.speech.bug,
        redact=ground.speech.redact,
    )
    return Gateway(
        routes=control.routes,
        requests=control.requests,
        keyring=ground.keyring,
        guard=control.browsers,
        chooser=chooser,
        models=Models(lanes=control.engines.lanes, created=int(world.clock.now().timestamp())),
        means=means,
        control=adapted(cast("AsgiApp", create_app(control))),
        ended=observer.ended,
    )
