import asyncio
from dataclasses import replace

from hostler.domain.fleet import EngineTarget, Fleet, Plain, Secret, Upstream, UpstreamTarget, frozen
from hostler.domain.route import build
from hostler.domain.values import EngineId
from hostler.gateway.upstream_wire import HIGH_WATER
from tests.fakes.listening import Client
from tests.fakes.raw_upstream import Wire, until
from tests.gateway.front import URLS, a_fleet, a_route, front
from tests.gateway.test_app import a_key, ring
from tests.gateway.wire import JSON, SSE, Heard, Target, chat_body, request, unchunked

PATH = "/v1/chat/completions"
CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("fast")),))})
PIECE = b"data: " + b"x" * 65_000 + b"\n\n"
PIECES = 300


async def much(wire: Wire, _: Heard) -> None:
    """A stream of 20 MB, as fast as it is taken."""
    await wire.send(SSE)
    for _n in range(PIECES):
        await wire.send(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
    await wire.send(b"0\r\n\r\n")


async def test_a_client_that_does_not_read() -> None:
    """GW-13: while a client does not read, its engine is not read either; then it gets all, in order."""
    async with front(a_fleet(CHAT), {"fast": Target(says=much)}) as it, asyncio.timeout(20):
        it.up("fast")
        client = await it.stream()
        await until(lambda: any(pool.active for pool in it.gateway.means.upstream.pools.values()))
        (link,) = next(pool.active for pool in it.gateway.means.upstream.pools.values() if pool.active)
        await until(lambda: link.transport is not None and not link.transport.is_reading())
        (connection,) = it.server.connections
        held = connection.transport.get_write_buffer_size()
        assert 0 < held < 2 * HIGH_WATER
        _, _, rest = (await client.rest()).partition(b"\r\n\r\n")
        assert unchunked(rest) == (PIECE * PIECES, True)
        assert it.outcomes == ["ok"]


async def says(client: Client, *, key: str, text: str) -> int:
    """One chat on a connection that is kept; its status."""
    client.send(request("POST", PATH, chat_body("chat", text), authorization=f"Bearer {key}"))
    async with asyncio.timeout(5):
        status, _ = await client.answer()
    return status


async def test_the_same_again() -> None:
    """GW-11: requests in a row in the same words but for their text reach the engine each with its own."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}, ring=ring(a_key("bots", "infer"))) as it:
        it.up("fast")
        client = await it.server.connect()
        texts = ["a", "bcd", "", "é", "f" * 3000]
        assert [await says(client, key="bots", text=text) for text in texts] == [200] * 5
        assert [heard.body for heard in target.heard] == [chat_body("fast", text) for text in texts]
        assert [heard.all("content-length") for heard in target.heard] == [
            [b"%d" % len(heard.body)] for heard in target.heard
        ]


async def test_the_same_answer_again() -> None:
    """GW-11: answers in a row with the same head but for the length reach the caller each as it came."""
    bodies = [b"{}", b'{"a": 1}', b"", b"{" + b" " * 3000 + b"}"]
    left = iter(bodies)

    async def answers(wire: Wire, _: Heard) -> None:
        body = next(left)
        await wire.send(JSON + b"X-A: b\r\nContent-Length: %d\r\nX-C: d\r\n\r\n%b" % (len(body), body))

    async with front(a_fleet(CHAT), {"fast": Target(says=answers)}) as it, asyncio.timeout(5):
        it.up("fast")
        client = await it.server.connect()
        for body in bodies:
            client.send(request("POST", PATH, chat_body("chat")))
            head = await client.head()
            assert await client.reader.readexactly(len(body)) == body
            assert b"X-A: b\r\nContent-Length: %d\r\nX-C: d\r\n" % len(body) in head
        assert it.outcomes == ["ok"] * 4
        assert [row.first_byte is None for _, _, row in it.ends] == [not body for body in bodies]


async def test_a_key_that_ends_between_two_requests() -> None:
    """API-4: a key is looked up for each request, also of a client that says the same again and again."""
    async with front(
        a_fleet(CHAT), {"fast": Target()}, ring=ring(a_key("bots", "infer"), a_key("ada", "infer"))
    ) as it:
        it.up("fast")
        client = await it.server.connect()
        assert [await says(client, key="bots", text="x") for _ in range(3)] == [200] * 3
        assert await says(client, key="ada", text="x") == 200
        assert [row.requester.key for _, _, row in it.ends] == ["bots", "bots", "bots", "ada"]
        assert [await says(client, key="bots", text="x") for _ in range(3)] == [200] * 3
        it.gateway.keyring.become(ring(replace(a_key("bots", "infer"), name="crawlers")))
        assert await says(client, key="bots", text="x") == 200
        assert it.ends[-1][2].requester.key == "crawlers"
        it.gateway.keyring.become(ring(a_key("ada", "infer")))
        assert await says(client, key="bots", text="x") == 401
        assert await says(client, key="ada", text="x") == 200


async def test_a_target_that_changes() -> None:
    """GW-11, CONF-3: who says the same again is sent where the target is now, with its key of now."""

    def fleet(target: str, key: str) -> Fleet:
        cloud = Upstream(name="cloud", url=URLS[target], key=Secret(key))
        route = a_route("chat", {"p": Plain(targets=(UpstreamTarget(upstream="cloud"),))})
        return a_fleet(route, upstreams=frozen({"cloud": cloud}))

    one, two = Target(), Target()
    async with front(fleet("cloud", "sk-1"), {"cloud": one, "spare": two}) as it:
        client = await it.server.connect()
        for place, key in (("cloud", "sk-1"), ("cloud", "sk-2"), ("spare", "sk-2"), ("cloud", "sk-2")):
            it.gateway.routes.current.table = build(fleet(place, key), {})
            assert [await says(client, key="mine", text="x") for _ in range(2)] == [200, 200]
        sent = [[heard.all("authorization")[0][-4:] for heard in target.heard] for target in (one, two)]
        assert sent == [[b"sk-1"] * 2 + [b"sk-2"] * 4, [b"sk-2"] * 2]
