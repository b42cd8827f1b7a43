"""The exchange with paired nodes: what is new is told until it was heard, and then nothing is said (SYNC-5).

Decides when which peer is spoken to and what is sent. A node tells its own rows and nobody else's; a peer has
them, or is told again until it does. Which rows count is `domain.registry`'s decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hostler.domain.errors import InvalidRequest, NodeOutdated, NodeUnreachable, Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.registry import JUMP, Registry, Row, should_sync
from hostler.domain.values import shorten
from hostler.services.lanes import heard
from hostler.services.needs import Clock, Events
from hostler.services.row_book import RowBook
from hostler.services.sync_needs import FarPeer
from hostler.wire.nodes import spoken
from hostler.wire.sync import SYNC_API, ExchangeAnswer, ExchangeCall, Told, row_to, sound_from

TICK_S: Final = 1.0
"""How soon a change is told."""
AGAIN_S: Final = 5.0
"""A peer that did not hear it is told again after so long."""
EVERY_S: Final = 300.0
"""How often a peer is asked that has nothing to be told: it may have lost what it had."""


@dataclass(eq=False, slots=True, kw_only=True)
class Line:
    """What is known of one peer: the digests of what it told and of what it has, and how it answered.

    `retry` is before when it is not spoken to again, `due` when it is although there is nothing new.
    """

    heard: str = ""
    has: str = ""
    up: bool | None = None
    since: datetime | None = None
    why: str = "nothing was said to it yet"
    retry: float = 0.0
    due: float = 0.0
    left: tuple[str, ...] = ()
    ours: tuple[Registry, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peering:
    """The exchange of one node. `far` is the peer of a name, `bug` logs an exception of ours."""

    book: RowBook
    far: Callable[[str], FarPeer]
    clock: Clock
    events: Events
    bug: Callable[[BaseException], str]
    lines: dict[str, Line] = field(default_factory=dict)

    @property
    def here(self) -> str:
        """This node's name."""
        return self.book.registry.node

    def line(self, peer: str) -> Line:
        """What is known of that peer."""
        return self.lines.setdefault(peer, Line())

    def waiting(self, peer: str) -> bool:
        """Whether it lacks something that this node says."""
        line = self.line(peer)
        return line.has != self._digest(peer, line)

    # ------------------------------------------------------------ speaking

    async def run(self) -> None:
        """Tell what is new, to each peer by itself, until cancelled; one that hangs delays no other."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for peer in self.book.config.fleet.peers:
                    running = tasks.get(peer)
                    if (running is None or running.done()) and self.is_due(peer):
                        tasks[peer] = asyncio.create_task(self.speak(peer))
                        tasks[peer].add_done_callback(heard)
                await self.clock.sleep(TICK_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def is_due(self, peer: str) -> bool:
        """Whether it is to be spoken to now: something is new, or it was not asked for long."""
        line, now = self.line(peer), self.clock.elapsed()
        return now >= line.retry and (now >= line.due or self.waiting(peer))

    async def speak(self, peer: str) -> None:
        """One exchange with a peer; that it failed is kept and told."""
        line = self.line(peer)
        try:
            await self._exchange(peer, line)
        except (NodeUnreachable, NodeOutdated) as refusal:
            self._failed(peer, line, refusal.why if isinstance(refusal, NodeUnreachable) else str(refusal))
        except Refusal as refusal:
            self._failed(peer, line, str(refusal))
        except Exception as error:  # noqa: BLE001 - one exchange's bug must not end the others
            self._failed(peer, line, f"error {self.bug(error)}")
        else:
            line.due = self.clock.elapsed() + EVERY_S
            self._answers(peer, line)

    async def _exchange(self, peer: str, line: Line) -> None:
        """Say what it may lack; said whole when it does."""
        for _ in range(2):
            told = self.told(peer)
            digest = told.digest
            call = ExchangeCall(
                api=SYNC_API,
                node=self.here,
                digest=digest,
                have=line.heard,
                told=None if line.has == digest else told,
            )
            answer = await self.far(peer).exchange(call)
            await self._heard(peer, answer)
            line.has = "" if answer.need else digest
            if not answer.need:
                return

    async def _heard(self, peer: str, answer: ExchangeAnswer) -> None:
        """Take what it answered; a row of ours that it knows a later one of is said again."""
        if answer.told is not None:
            await self.take(peer, answer.told, answer.digest)
        if answer.older:
            own = [id_ for id_ in answer.older if (self.here, id_) in self.book.registry.rows]
            await self.book.change(lambda known: known.seen_clock(answer.clock).again(own))

    def _answers(self, peer: str, line: Line) -> None:
        if line.up is False:
            self._tell("peer_back", peer, f"{peer} exchanges rows again.")
        if not line.up:
            line.since = self.clock.now()
        line.up, line.why, line.retry = True, "", 0.0

    def _failed(self, peer: str, line: Line, why: str) -> None:
        if line.up is not False:
            line.since = self.clock.now()
            self._tell("peer_lost", peer, f"{peer} exchanges no rows: {why}.")
        line.up, line.why, line.retry = False, why, self.clock.elapsed() + AGAIN_S

    # ------------------------------------------------------------ being spoken to

    async def answer(self, call: ExchangeCall, peer: str) -> ExchangeAnswer:
        """What a peer tells, taken, and what is new here for it. Refuses `invalid_request`, `store_full`."""
        number = spoken(self.here, SYNC_API, peer, call.api)
        same_node(call.node, peer)
        line, older, left = self.line(peer), tuple[str, ...](), tuple[str, ...]()
        if call.told is not None:
            older, left = await self.take(peer, call.told, call.digest)
        ours = self.told(peer)
        digest = ours.digest
        if call.have == digest:
            line.has = digest
        self._answers(peer, line)
        return ExchangeAnswer(
            api=number,
            node=self.here,
            digest=digest,
            need=line.heard != call.digest,
            told=None if call.have == digest else ours,
            clock=self.book.registry.clock,
            older=older,
            left=left,
        )

    async def take(self, peer: str, told: Told, digest: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take up what a peer tells; the rows of which it said later things before, and what was left."""
        rows, left = list[Row](), list[str]()
        for raw in told.rows:
            try:
                rows.append(sound_from(raw))
            except ValueError as error:
                left.append(str(error))
        before = self.book.registry
        older, news = before.older(peer, rows), list[Row]()

        def how(known: Registry) -> Registry:
            after, new = known.take(peer, rows)
            news[:] = new
            for id_, reachable in told.reach.items():
                after = after.seen((known.node, id_), peer, reachable=reachable)
            return after

        await self.book.change(how)
        left += [text for row in rows if (text := self._left(peer, row, before))]
        line = self.line(peer)
        line.heard, line.left = digest, tuple(left)
        if news:
            ids = ", ".join(shorten(row.id) for row in news)
            self._tell("rows_heard", peer, f"{peer} tells of {ids}.")
        return older, line.left

    def _left(self, peer: str, row: Row, before: Registry) -> str:
        """Why a row of a peer is not kept, empty when it is. `before`: what was known when it came."""
        verdict = should_sync(row)
        if row.author != peer:
            return f"{row.id}: {peer} speaks for itself, and the row is {row.author}'s"
        if not verdict.travels:
            return f"{row.id}: {verdict.why}"
        if before.far_off(row):
            return (
                f"{row.id}: its version {row.version} is none that changes lead to: the clock here is at"
                f" {before.clock}, and {JUMP} beyond it is the most"
            )
        return "" if row.key in self.book.registry.rows else f"{row.id}: there is no room for more rows"

    # ------------------------------------------------------------ what is said

    def told(self, peer: str) -> Told:
        """Everything that this node has to tell a peer."""
        known = self.book.registry
        theirs = [row for row in known.rows.values() if row.author == peer and self.here in row.reach]
        return Told(
            rows=tuple(row_to(row) for row in known.told()),
            reach=frozen({row.id: row.reach[self.here] for row in sorted(theirs, key=lambda it: it.id)}),
        )

    def _digest(self, peer: str, line: Line) -> str:
        known = self.book.registry
        if line.ours is None or line.ours[0] is not known:
            line.ours = known, self.told(peer).digest
        return line.ours[1]

    def _tell(self, kind: str, peer: str, message: str) -> None:
        self.events.emit(
            Event(type=kind, at=self.clock.now(), subject=frozen({"peer": peer}), message=message)
        )


def same_node(told: str, peer: str) -> None:
    """Refuses `invalid_request` for a call of another node than the one whose key it has."""
    if told != peer:
        raise InvalidRequest(
            what=f"The key is that of {peer}, and the call says that it is from {shorten(told)}.",
            expected=f"under sync.peers, {shorten(told)} is named as its own config names its host",
            where="node",
        )
