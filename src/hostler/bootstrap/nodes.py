"""The nodes of a fleet, joined: this host's own, and on the head those of the others (NODE-1, NODE-4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from hostler import __version__
from hostler.adapters.hold_write import HoldWriter
from hostler.adapters.nodes.remote import RemoteNode
from hostler.adapters.receipts import DirectoryRecords
from hostler.adapters.store.memory import MemoryStore
from hostler.bootstrap.ground import Ground, World
from hostler.bootstrap.node import node_of
from hostler.bootstrap.scheduling import Means, Scheduling, scheduling
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.services.contact import Contacts
from hostler.services.definitions import Definitions
from hostler.services.distributed import Distributed
from hostler.services.engines import Engines
from hostler.services.following import Following
from hostler.services.holds import Holds
from hostler.services.lost_holds import LostHolds
from hostler.services.neighbours import Neighbours
from hostler.services.node import LocalNode
from hostler.services.node_door import NodeDoor
from hostler.services.nodes_api import NodesApi
from hostler.services.own_restore import Mind, OwnRestore
from hostler.services.routes import Routes
from hostler.services.schedule_needs import Node
from hostler.services.status import Vitals

Loop = Callable[[], Coroutine[object, object, None]]


FOLLOWING: Final = "following distributed engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What a daemon has of the nodes. `head` None: another host owns the schedule (R2)."""

    node: LocalNode
    door: NodeDoor
    listed: NodesApi
    far: Mapping[str, RemoteNode]
    head: Scheduling | None
    loops: Mapping[str, Loop]
    hang_up: Loop | None


def nodes_of(
    ground: Ground,
    world: World,
    engines: Engines,
    parts: Distributed,
    table: Routes,
    holds: Holds,
    writer: HoldWriter,
) -> Nodes:
    """This host's node with its door; on the head the schedule over the nodes of all hosts."""
    node = _node(ground, world, engines, table, holds, writer)
    neighbours = _neighbours(ground, world)
    parts.nodes.update({str(ground.fleet.here): node, **neighbours})
    follow = Following(engines=engines, parts=parts, clock=world.clock, bug=ground.speech.bug)
    own = _own(ground, world, node)
    definitions = Definitions(config=world.config, receipts=node.receipts, file=ground.config_file)
    door = NodeDoor(node=node, own=own, definitions=definitions, clock=world.clock, version=__version__)
    if ground.fleet.here not in ground.fleet.head:
        listed = Neighbours(config=world.config, own=own, answer=door.answer, clock=world.clock)
        loops: Mapping[str, Loop] = frozen({"watching for the head": own.run, FOLLOWING: follow.run})
        return Nodes(
            node=node,
            door=door,
            listed=listed,
            far=neighbours,
            head=None,
            loops=loops,
            hang_up=_hanging_up(neighbours.values()),
        )
    contacts = _contacts(ground, world, door)
    head = _head(ground, world, node, contacts)
    contacts.hooks.append(head.returning.take_up)
    asking: Mapping[str, Loop] = {"asking the nodes": contacts.run} if contacts.far else {}
    return Nodes(
        node=node,
        door=door,
        listed=contacts,
        far=neighbours,
        head=head,
        loops=frozen({**asking, FOLLOWING: follow.run}),
        hang_up=_hanging_up((contacts, *neighbours.values())),
    )


def _neighbours(ground: Ground, world: World) -> Mapping[str, RemoteNode]:
    """The nodes of other hosts as those of a distributed engine's members: not as their head (NODE-4)."""
    return {
        str(host): RemoteNode(
            host=host, config=world.config, file=ground.config_file, clock=world.clock, head=False
        )
        for host in ground.fleet.hosts
        if host != ground.fleet.here
    }


class Line(Protocol):
    """Connections to another host."""

    async def close(self) -> None:
        """End them."""
        ...


def _hanging_up(lines: Collection[Line]) -> Loop:
    async def hang_up() -> None:
        for line in lines:
            await line.close()

    return hang_up


def _node(
    ground: Ground, world: World, engines: Engines, table: Routes, holds: Holds, writer: HoldWriter
) -> LocalNode:
    """This host as a node of the schedule, with what it knew before this start."""
    node, told = node_of(
        engines=engines,
        routes=table,
        holds=holds,
        hold_writer=writer,
        files=world.files,
        events=world.events,
        state_dir=ground.paths.state_dir,
        env=ground.env,
    )
    world.vitals.warnings = (*world.vitals.warnings, *told)
    return node


def _own(ground: Ground, world: World, node: LocalNode) -> OwnRestore:
    return OwnRestore(
        node=node,
        config=world.config,
        records=DirectoryRecords(root=ground.paths.state_dir, directory="restores"),
        scratch=lambda: MemoryStore(world.ids),
        clock=world.clock,
        events=world.events,
        warn=_about_nodes(world.vitals),
        bug=ground.speech.bug,
        mind=Mind(began=world.clock.elapsed()),
    )


def _contacts(ground: Ground, world: World, door: NodeDoor) -> Contacts:
    fleet = ground.fleet
    return Contacts(
        config=world.config,
        far=frozen(
            {
                host: RemoteNode(host=host, config=world.config, file=ground.config_file, clock=world.clock)
                for host in fleet.hosts
                if host != fleet.here
            }
        ),
        own=door.answer,
        clock=world.clock,
        events=world.events,
        warn=_about_nodes(world.vitals),
        bug=ground.speech.bug,
    )


def _head(ground: Ground, world: World, node: LocalNode, contacts: Contacts) -> Scheduling:
    """The schedule, where this host owns it (R2)."""
    here = ground.fleet.here
    nodes: dict[str, Node] = {
        str(host): node if host == here else contacts.node(host) for host in ground.fleet.hosts
    }
    return scheduling(
        Means(
            config=world.config,
            store=world.store,
            nodes=frozen(nodes),
            clock=world.clock,
            ids=world.ids,
            events=world.events,
            redact=ground.speech.redact,
            bug=ground.speech.bug,
            note_process=_noting(str(here), node, contacts),
            warn=_telling(world.vitals),
            here=frozenset({str(here)}),
            wrong=LostHolds(said=contacts.said).wrong,
        )
    )


def _noting(
    here: str, node: LocalNode, contacts: Contacts
) -> Callable[[str | None, str, int, int], Coroutine[object, object, None]]:
    """Tells the node of the host where a process runs that it works under a lease (JOB-5)."""

    async def note(host: str | None, lease: str, pid: int, start_ticks: int) -> None:
        if host is None or host == here:
            await node.register(lease, pid, start_ticks)
        elif host in contacts.far:
            await contacts.far[host].register(lease, pid, start_ticks)
        else:
            known = ", ".join((here, *contacts.far))
            raise InvalidRequest(
                what=f"There is no host {shorten(host)!r}.", expected=f"Known are: {known}.", where="host"
            )

    return note


def _telling(vitals: Vitals) -> Callable[[tuple[str, ...]], None]:
    """Where the keeper leaves what people should know of leases."""

    def warn(told: tuple[str, ...]) -> None:
        vitals.leases = told

    return warn


def _about_nodes(vitals: Vitals) -> Callable[[tuple[str, ...]], None]:
    """Where it is left what people should know of other nodes, or of the head."""

    def warn(told: tuple[str, ...]) -> None:
        vitals.nodes = told

    return warn
