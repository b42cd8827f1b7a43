import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from hostler.domain.errors import Draining
from hostler.domain.fleet import EngineTarget, Plain, Strategy, UpstreamTarget
from hostler.domain.values import EngineId
from tests.fakes.raw_upstream import Wire, until
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import PLAIN_CHAT, SSE, Heard, Target, chat_body, request
from tests.interfaces.room_fleet import engine

TARGETS = (UpstreamTarget(upstream="cloud"), EngineTarget(engine=EngineId("fast")))
CHAT = a_route("chat", {"p": Plain(targets=TARGETS)}, strategy=Strategy(kind="first_ready"))


class Moody:
    """A target that answers, dies and stumbles as its dice say."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    async def says(self, wire: Wire, _: Heard) -> None:
        mood = self.dice.random()
        if mood < 0.1:
            wire.close()
        elif mood < 0.2:
            wire.reset()
        elif mood < 0.3:
            await wire.send(b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}")
        elif mood < 0.5:
            await wire.send(PLAIN_CHAT)
        else:
            await self.streams(wire, dies=mood < 0.6)

    async def streams(self, wire: Wire, *, dies: bool) -> None:
        await wire.send(SSE)
        for _ in range(self.dice.randrange(6)):
            await wire.send(b"9\r\ndata: 1\n\n\r\n")
            await turns(self.dice.randrange(20))
        if dies:
            wire.close()
        else:
            await wire.send(b"0\r\n\r\n")


async def turns(count: int) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def one(it: Front, dice: random.Random) -> None:
    """A client that reads, leaves in any way at any moment, or is cut."""
    client = await it.server.connect()
    body = chat_body("chat", stream=dice.random() < 0.7)
    data = request("POST", "/v1/chat/completions", body, connection="close")
    broken = dice.random() < 0.2
    client.send(data[: dice.randrange(len(data))] if broken else data)
    await turns(dice.randrange(60))
    whim = dice.random()
    if whim < 0.3:
        client.writer.transport.abort()
    elif whim < 0.5:
        client.close()
    elif whim < 0.7 and it.rows:
        dice.choice(it.rows).cut(Draining(engine="fast", why="it stops"))
    elif not broken:
        await client.rest()
    client.writer.transport.abort()


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_left_of_a_storm(seed: int) -> None:
    """GW-9: whatever clients and targets do to each other, no row, busy slot or shut upstream stays."""
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    policy = dice.choice(["cancel", "drain"])
    fast = replace(engine("fast", 8101), on_disconnect="drain" if policy == "drain" else "cancel")
    targets = {name: Target(says=Moody(dice).says) for name in ("cloud", "fast")}
    async with front(a_fleet(CHAT, engines=(fast,)), targets) as it:
        it.up("fast")
        for _ in range(5):
            await asyncio.gather(*(one(it, dice) for _ in range(20)), return_exceptions=True)
        await until(lambda: not it.rows)
        assert it.lanes.get("fast").requests == set()
        await it.clock.advance(70)
        assert not it.backoff.is_off("cloud")
        ends = Counter(it.outcomes)
        assert ends["client_gone"] > 0
        assert ends["internal"] == 0
