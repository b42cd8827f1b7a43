"""A head of one host with modes, and an operator at it, for tests of windows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from hostler.domain.fleet import Fleet
from hostler.services.keys import Principal
from hostler.wire.schedule import LeaseView
from hostler.wire.windows import AbortBody, CloseBody, OpenBody
from tests.fakes.clock import settle
from tests.fakes.modes import HEAVY, crow_node, mode, moded
from tests.fakes.node import FakeNode
from tests.fakes.schedule_world import BY, OPERATOR, Head, hash_of, head

PLAIN = mode("plain", resource=None)


class Room:
    """A head with one node, and an operator at it."""

    def __init__(self, it: Head, node: FakeNode) -> None:
        self.head, self.node, self.before = it, node, node.picture()

    async def open(
        self,
        name: str = "heavy",
        *,
        who: Principal = OPERATOR,
        request: str = "open-1",
        override: str | None = "windowed",
        **more: object,
    ) -> LeaseView:
        body = OpenBody(mode=name, holder="anna", secret_hash=hash_of("anna"), override=override)
        body = replace(body, **more)  # type: ignore[arg-type]  # a test names the fields that matter to it
        found = (await self.head.parts.windows.open(body, request, who, BY)).lease
        await settle()
        return await self.head.look(found)

    async def close(self, window: LeaseView) -> LeaseView:
        await self.head.parts.windows.close(window.id, CloseBody(secret="anna"), OPERATOR, BY)
        await settle()
        return await self.head.look(window)

    async def abort(self, window: LeaseView, why: str = "enough") -> LeaseView:
        await self.head.parts.windows.abort(window.id, AbortBody(secret="anna", why=why), OPERATOR, BY)
        await settle()
        return await self.head.look(window)

    def untouched(self) -> None:
        """Nothing was done, and nothing is different."""
        assert (self.node.log, self.node.picture()) == ([], self.before)


@asynccontextmanager
async def room(made: Fleet | None = None) -> AsyncIterator[Room]:
    """A head of crow, whose node is faked."""
    node = crow_node()
    async with head(made=made or moded(HEAVY, PLAIN), nodes={"crow": node}) as it:
        yield Room(it, node)
