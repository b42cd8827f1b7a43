"""Rows and peers as they are seen from here: the service `SyncApi` (SYNC-1 to SYNC-6).

Decides the words for people, and nothing of rows: what is exchanged is `services.peering`'s decision, what is
published `services.publishing`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hostler.domain.errors import NotFound, Refusal
from hostler.domain.events import Event
from hostler.domain.registry import Row, should_sync
from hostler.domain.route import nearest
from hostler.domain.values import Priority, Requester, rfc3339, shorten
from hostler.services.needs import Clock
from hostler.services.peering import TICK_S, Line, Peering, same_node
from hostler.services.publishing import Publishing
from hostler.services.routes import Routes
from hostler.services.row_book import RowBook
from hostler.wire.nodes import spoken
from hostler.wire.sync import (
    SYNC_API,
    ExchangeAnswer,
    ExchangeCall,
    ExplainView,
    PeerView,
    ProbeAnswer,
    ProbeCall,
    PublishBody,
    Published,
    RowView,
    SyncView,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """The sync calls of one node. `warn` takes what a person should know, `bug` logs an exception of ours."""

    book: RowBook
    peering: Peering
    publishing: Publishing
    routes: Routes
    clock: Clock
    warn: Callable[[tuple[str, ...]], None]
    bug: Callable[[BaseException], str]

    async def run(self) -> None:
        """Follow the config, until cancelled: whom it pairs with, and what it still has of our rows."""
        fleet, known, lefts, failed = None, None, None, ""
        self._tell_odd()
        while True:
            if self.book.config.fleet is not fleet:
                fleet = self.book.config.fleet
                try:
                    await self.book.look_again()
                    await self.publishing.follow()
                    failed = ""
                except Refusal as refusal:
                    fleet = None
                    if str(refusal) != failed:
                        self.bug(refusal)
                    failed = str(refusal)
            left = tuple(self.peering.line(name).left for name in fleet.peers) if fleet is not None else ()
            if known is not self.book.registry or left != lefts:
                known, lefts = self.book.registry, left
                self.warn(self.notes())
            await self.clock.sleep(TICK_S)

    # ------------------------------------------------------------ for nodes

    async def exchange(self, call: ExchangeCall, peer: str) -> ExchangeAnswer:
        """See `SyncApi.exchange`."""
        return await self.peering.answer(call, peer)

    async def probe(self, call: ProbeCall, peer: str) -> ProbeAnswer:
        """See `SyncApi.probe`."""
        here = str(self.book.config.fleet.here)
        number = spoken(here, SYNC_API, peer, call.api)
        same_node(call.node, peer)
        up, why, owns = await self.publishing.probe(call.url)
        return ProbeAnswer(api=number, node=here, up=up, why=why, owns=owns)

    # ------------------------------------------------------------ for people

    async def publish(self, body: PublishBody, by: Requester) -> Published:
        """See `SyncApi.publish`."""
        row, seen = await self.publishing.publish(body, by)
        return Published(
            at=rfc3339(self.clock.now()), row=self.view(row, self.book.homes()), seen=tuple(seen)
        )

    async def retire(self, id_: str, by: Requester) -> RowView:
        """See `SyncApi.retire`."""
        return self.view(await self.publishing.retire(id_, by), self.book.homes())

    async def now(self) -> SyncView:
        """See `SyncApi.now`."""
        known, homes = self.book.registry, self.book.homes()
        rows = sorted(known.rows.values(), key=lambda row: (row.id, row.author))
        return SyncView(
            at=rfc3339(self.clock.now()),
            node=known.node,
            clock=known.clock,
            peers=tuple(self._peer(name) for name in self.book.config.fleet.peers),
            rows=tuple(self.view(row, homes) for row in rows),
            notes=self.notes(),
        )

    async def explain(self, id_: str) -> ExplainView:
        """See `SyncApi.explain`."""
        known, homes = self.book.registry, self.book.homes()
        claims, subject = known.claims(id_, homes), self.publishing.subject(id_)
        if not claims and subject is None:
            ids = sorted({row.id for row in known.rows.values()})
            raise NotFound(what="row", name=shorten(id_), nearest=nearest(id_, ids))
        row = next(iter(claims), subject)
        verdict = should_sync(row) if row is not None else None
        published = "" if claims else f"; it is not published: `hostler sync publish {id_}`"
        return ExplainView(
            at=rfc3339(self.clock.now()),
            id=id_,
            travels=verdict is not None and verdict.travels,
            why=f"{verdict.why if verdict is not None else ''}"
            f"{published if verdict is not None and verdict.travels else ''}",
            claims=tuple(self.view(row, homes) for row in claims),
        )

    def _tell_odd(self) -> None:
        """What of the file of rows was not as it should be, once: `notes` say it as long as this runs."""
        for text in self._odd():
            self.peering.events.emit(
                Event(
                    type="rows_odd",
                    at=self.clock.now(),
                    message=text,
                    priority=Priority.NORMAL,
                    once=f"rows_odd {text}",
                )
            )

    def _odd(self) -> tuple[str, ...]:
        kept = self.book.kept
        return (kept.trouble, *kept.notes) if kept.trouble else kept.notes

    def notes(self) -> tuple[str, ...]:
        """What a person should look at."""
        kept, told = self.book.kept, [*self._odd()]
        for name in self.book.config.fleet.peers:
            told += [f"a row of {name} is left: {text}" for text in self.peering.line(name).left]
        told += self._contested()
        for row in kept.registry.told():
            now = self.publishing.subject(row.id)
            if not row.retired and now is not None and now.url != row.url and row.host == kept.registry.node:
                told.append(f"{row.id} is told at {row.url}, and the config has it at {now.url}")
        return tuple(told)

    def _contested(self) -> Sequence[str]:
        """Ids that several nodes claim, each with a right to."""
        known, homes = self.book.registry, self.book.homes()
        told = []
        for id_, claims in known.every_claim(homes).items():
            alive = [row for row in claims if not row.retired and not known.doubt(row, homes)]
            if len(alive) > 1:
                authors = ", ".join(row.author for row in alive)
                told.append(f"the row {shorten(id_)} is claimed by {authors}: the first of them counts")
        return told

    def _peer(self, name: str) -> PeerView:
        line: Line = self.peering.line(name)
        return PeerView(
            name=name,
            url=self.book.config.fleet.peers[name].url,  # type: ignore[index]  # a name is a host's name
            up=line.up,
            since=None if line.since is None else rfc3339(line.since),
            why=line.why,
            waiting=self.peering.waiting(name),
        )

    def view(self, row: Row, homes: Mapping[str, str]) -> RowView:
        """A row for people."""
        state, why = self._state(row, homes)
        return RowView(
            id=row.id,
            url=row.url,
            host=row.host,
            author=row.author,
            models=row.models,
            version=row.version,
            retired=row.retired,
            state=state,
            why=why,
            reach=row.reach,
            allowed=row.allowed,
        )

    def _state(self, row: Row, homes: Mapping[str, str]) -> tuple[str, str]:
        """How a row stands here, and why."""
        known, fleet = self.book.registry, self.book.config.fleet
        doubt = known.doubt(row, homes)
        if row.retired:
            return "retired", f"{row.author} retired it"
        if doubt:
            return "doubted", doubt
        if row.author == known.node:
            verdict = should_sync(row)
            return "ours", "" if verdict.travels else verdict.why
        if not row.host:
            return "doubted", "it names no host"
        if row.author not in fleet.peers:
            return "unpaired", f"{row.author} is not under sync.peers"
        shared = self.routes.table.shared.get(row.id)
        if shared is None or shared.author != row.author:
            why = "this config has that name itself" if shared is None else f"{shared.author}'s counts"
            return "shadowed", why
        if not shared.reached:
            return "unreached", "it was not reached from here when it was looked at last"
        return "offered", ""
