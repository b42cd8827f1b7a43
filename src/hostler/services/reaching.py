"""Which rows this node reaches: looked at now and then, and told to who wrote them (SYNC-4).

Decides which rows are looked at. A look is a connection and no more: it starts, wakes and asks nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.domain.errors import Refusal
from hostler.domain.registry import Registry, Row
from hostler.services.needs import Clock
from hostler.services.row_book import RowBook
from hostler.services.sync_needs import Reacher

EVERY_S: Final = 15.0
AT_ONCE: Final = 32
"""Connections that are tried at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaching:
    """The looks of one node. `bug` logs an exception of ours."""

    book: RowBook
    reacher: Reacher
    clock: Clock
    bug: Callable[[BaseException], str]

    async def run(self) -> None:
        """Look at every row that counts, every 15 s until cancelled."""
        failed = ""
        while True:
            try:
                await self.look()
                failed = ""
            except Refusal as refusal:
                # The disk is full: what was seen is seen again at the next look, and that is told once.
                if str(refusal) != failed:
                    self.bug(refusal)
                failed = str(refusal)
            await self.clock.sleep(EVERY_S)

    async def look(self) -> None:
        """One look at all of them; what is as it was changes nothing. Refuses `store_full`."""
        rows = self.rows()
        found: list[str] = []
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            found += await asyncio.gather(*(self.reacher.look(row.url) for row in some))

        def how(known: Registry) -> Registry:
            for row, why in zip(rows, found, strict=True):
                kept = known.rows.get(row.key)
                if kept is not None and kept.url == row.url:
                    known = known.seen(row.key, known.node, reachable=not why)
            return known

        await self.book.change(how)

    def rows(self) -> Sequence[Row]:
        """Those that are worth a look: this node's own and what peers offer, none that is retired."""
        own = [row for row in self.book.registry.told() if not row.retired]
        return [*own, *self.book.resolved()]
