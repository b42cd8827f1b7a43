"""What this node publishes: only what its config has, with a host, and reached by who inherits it (SYNC-4).

Decides what becomes a row, and that a row is retired once the config has it no more. A key never becomes part
of one (SYNC-1), and an address names no host (SYNC-3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.addresses import meanings, place_of
from hostler.domain.errors import InvalidRequest, NotFound, Refusal, RowUnreached
from hostler.domain.events import Event
from hostler.domain.fleet import DriverKind, Engine, Fleet, Upstream, frozen
from hostler.domain.registry import Registry, Row, checked, is_ours, should_sync, unreached
from hostler.domain.route import nearest
from hostler.domain.values import EngineId, Requester, shorten
from hostler.services.lanes import Lanes
from hostler.services.needs import Clock, Events
from hostler.services.row_book import RowBook
from hostler.services.sync_needs import FarPeer, Reacher
from hostler.wire.sync import SYNC_API, ProbeCall, PublishBody, SeenView

ALLOWED_TEXT: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """Publishes and retires the rows of one node."""

    book: RowBook
    lanes: Lanes
    far: Callable[[str], FarPeer]
    reacher: Reacher
    clock: Clock
    events: Events

    @property
    def fleet(self) -> Fleet:
        """The config now."""
        return self.book.config.fleet

    async def publish(self, body: PublishBody, by: Requester) -> tuple[Row, Sequence[SeenView]]:
        """Tell the peers of an engine or an upstream.

        Refuses `not_found`, `invalid_request`, `row_unreached`, `store_full`.
        """
        row = self._asked(body, by)
        verdict = should_sync(row)
        if not verdict.travels:
            raise _no(f"{row.id} does not travel: {verdict.why}.", "let it listen where other nodes reach it")
        seen, owners = await self._seen(row.url)
        row = checked(row, owners=owners)
        self._is_there(row, owners)
        row = replace(row, reach=frozen({it.node: it.up for it in seen if it.up is not None}))
        missing = unreached(row, [it.node for it in seen])
        if missing:
            first = next(f"{it.node} does not reach {row.url}: {it.why}" for it in seen if it.node in missing)
            told = tuple(f"{it.node}: {'reached' if it.up else it.why}" for it in seen)
            raise RowUnreached(row=row.id, first=first, nodes=missing, seen=told)
        return await self._write(row, "row_published", by), seen

    async def retire(self, id_: str, by: Requester) -> Row:
        """Tell the peers that a row is over. Refuses `not_found`, `invalid_request` where it is another's."""
        known = self.book.registry
        own = known.rows.get((known.node, id_))
        row = own or known.row(id_, self.book.homes())
        if row is None:
            ids = sorted({it.id for it in known.rows.values()})
            raise NotFound(what="row", name=shorten(id_), nearest=nearest(id_, ids))
        return await self._write(replace(row, retired=True), "row_retired", by)

    async def follow(self) -> None:
        """Retire what the config has no more, or keeps to itself by now. Refuses `store_full`."""
        for row in self.book.registry.told():
            subject = self.subject(row.id)
            if not row.retired and (subject is None or subject.local_only is True):
                await self._write(replace(row, retired=True), "row_retired", Requester(client="config"))

    async def probe(self, url: str) -> tuple[bool, str, bool]:
        """Whether this node reaches a URL, why not, and whether it is its own. Refuses `invalid_request`."""
        verdict = should_sync(Row(id="probed", url=url))
        if not verdict.travels:
            raise _no(f"No such URL is looked at for others: {verdict.why}.", "a URL that others can ask")
        why = await self.reacher.look(url)
        return not why, why, self._is_ours(url)

    # ------------------------------------------------------------ what can be published

    def subject(self, id_: str) -> Row | None:
        """The engine or upstream of that id as a row, without a host where the config names none."""
        engine = self.fleet.engines.get(EngineId(id_))
        if engine is not None:
            return self._of_engine(engine)
        upstream = self.fleet.upstreams.get(id_)
        return None if upstream is None else self._of_upstream(upstream)

    def _of_engine(self, engine: Engine) -> Row | None:
        """Another host's engine is none of ours to publish; one that is only used may be anywhere."""
        lane = self.lanes.by_id.get(engine.id)
        if engine.host != self.fleet.here or lane is None or lane.removed:
            return None
        return Row(
            id=engine.id,
            url=lane.launch.url,
            host="" if engine.driver is DriverKind.EXTERNAL else str(engine.host),
            models=(engine.model or str(engine.id),),
            local_only=engine.local_only,
        )

    def _of_upstream(self, upstream: Upstream) -> Row | None:
        if upstream.on and self.fleet.here not in upstream.on:
            return None
        return Row(id=upstream.name, url=upstream.url, host=upstream.host, local_only=upstream.local_only)

    def _asked(self, body: PublishBody, by: Requester) -> Row:
        subject = self.subject(body.id)
        if subject is None:
            known = [*(it.id for it in self.fleet.local_engines()), *self.fleet.upstreams]
            raise NotFound(
                what="engine or upstream of this host", name=shorten(body.id), nearest=nearest(body.id, known)
            )
        keyed = self.fleet.engines.get(EngineId(body.id)) or self.fleet.upstreams.get(body.id)
        if keyed is not None and keyed.key is not None:
            raise _no(
                f"{body.id} is asked with a key, and keys do not travel.",
                "name it under `upstreams` in the config of each node that has its key",
            )
        if body.allow and not body.because.strip():
            raise _no("Nobody says why these nodes need not reach it.", "--because WHY", "because")
        self._known([*body.allow], "allow")
        who = shorten(f"{by.client} (key {by.key}): {body.because.strip()}", ALLOWED_TEXT)
        return replace(
            subject,
            url=subject.url if body.url is None else body.url,
            host=subject.host if body.host is None else body.host,
            models=subject.models if body.models is None else body.models,
            allowed=frozen(dict.fromkeys(body.allow, who)),
        )

    def _known(self, nodes: Sequence[str], where: str) -> None:
        known = [self.fleet.here, *self.fleet.peers]
        for node in nodes:
            if node not in known:
                raise _no(f"{shorten(node)} is no paired node.", nearest(node, known), where)

    def _is_there(self, row: Row, owners: Sequence[str]) -> None:
        """Refuses `invalid_request` for a host that does not have the address, as far as anybody can tell."""
        place = place_of(row.url)
        numeric = place is not None and bool(meanings(place.host))
        if owners and row.host not in owners:
            having = " and ".join(owners)
            what = f"{row.id} says it is on {row.host}, and {having} has the address of {row.url}."
            raise _no(what, f"--host {owners[0]}", "host")
        if not owners and numeric and row.host in (self.fleet.here, *self.fleet.peers):
            raise _no(
                f"{row.id} says it is on {row.host}, and {row.url} is on none of its interfaces.",
                "name the host that has the address, or say `external`",
                "host",
            )

    # ------------------------------------------------------------ who reaches it

    async def _seen(self, url: str) -> tuple[Sequence[SeenView], tuple[str, ...]]:
        """What this node and each peer say of a URL, and who has its address."""
        asked = asyncio.gather(*(self._asked_of(it, url) for it in self.fleet.peers))
        here, found = await asyncio.gather(self.reacher.look(url), asked)
        own = SeenView(node=str(self.fleet.here), up=not here, why=here)
        owners = [str(self.fleet.here)] if self._is_ours(url) else []
        owners += [it.node for it, owns in found if owns]
        return [own, *(it for it, _ in found)], tuple(owners)

    async def _asked_of(self, peer: str, url: str) -> tuple[SeenView, bool]:
        call = ProbeCall(api=SYNC_API, node=str(self.fleet.here), url=url)
        try:
            answer = await self.far(peer).probe(call)
        except Refusal as refusal:
            return SeenView(node=peer, up=None, why=str(refusal)), False
        return SeenView(node=peer, up=answer.up, why=answer.why), answer.owns

    def _is_ours(self, url: str) -> bool:
        return is_ours(url, self.book.interfaces.addresses())

    async def _write(self, row: Row, kind: str, by: Requester) -> Row:
        owns, homes = self._is_ours(row.url), self.book.homes()

        def how(known: Registry) -> Registry:
            after = known.write(row, owns=owns, homes=homes)
            for node, reachable in row.reach.items():
                after = after.seen((known.node, row.id), node, reachable=reachable)
            return after

        changed = await self.book.change(how)
        known = self.book.registry
        said = known.rows.get((known.node, row.id)) or known.row(row.id, homes) or row
        if changed:
            subject: Mapping[str, str] = {"row": row.id}
            message = f"{row.id} at {row.url}, on {row.host or 'no host'}"
            self.events.emit(
                Event(
                    type=kind, at=self.clock.now(), actor=by.tag(), subject=frozen(subject), message=message
                )
            )
        return said


def _no(what: str, expected: str, where: str = "id") -> InvalidRequest:
    return InvalidRequest(what=what, expected=expected, where=where)
