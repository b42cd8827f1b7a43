"""The exchange of rows with paired nodes, joined (SYNC-1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from hostler.adapters.host.interfaces import SystemInterfaces
from hostler.adapters.nodes.peer import RemotePeers
from hostler.bootstrap.ground import Ground, World
from hostler.domain.fleet import frozen
from hostler.gateway.reach import RowReacher
from hostler.services import row_book
from hostler.services.lanes import Lanes
from hostler.services.peering import Peering
from hostler.services.publishing import Publishing
from hostler.services.reaching import Reaching
from hostler.services.routes import Routes
from hostler.services.row_book import RowBook
from hostler.services.status import Vitals
from hostler.services.sync import Sync

Loop = Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncing:
    """What a daemon has of it: the calls, the loops, and the end of its connections."""

    api: Sync
    loops: Mapping[str, Loop]
    hang_up: Loop


def sync_of(ground: Ground, world: World, lanes: Lanes, routes: Routes) -> Syncing:
    """The rows of this node, as they were kept; no loop does anything where nobody is paired."""
    interfaces, reacher = SystemInterfaces(), RowReacher(places=world.places)
    far = RemotePeers(config=world.config)
    book = RowBook(
        config=world.config,
        files=world.files,
        interfaces=interfaces,
        kept=row_book.load(str(ground.fleet.here), world.files),
        share=routes.share,
    )
    routes.begin(book.resolved())
    peering = Peering(book=book, far=far.at, clock=world.clock, events=world.events, bug=ground.speech.bug)
    publishing = Publishing(
        book=book, lanes=lanes, far=far.at, reacher=reacher, clock=world.clock, events=world.events
    )
    reaching = Reaching(book=book, reacher=reacher, clock=world.clock, bug=ground.speech.bug)
    api = Sync(
        book=book,
        peering=peering,
        publishing=publishing,
        routes=routes,
        clock=world.clock,
        warn=_about_rows(world.vitals),
        bug=ground.speech.bug,
    )
    loops = {"following the rows": api.run, "telling peers": peering.run, "looking at rows": reaching.run}
    return Syncing(api=api, loops=frozen(loops), hang_up=far.close)


def _about_rows(vitals: Vitals) -> Callable[[tuple[str, ...]], None]:
    """Where it is left what people should know of rows."""

    def warn(told: tuple[str, ...]) -> None:
        vitals.rows = told

    return warn
