"""The external driver, and how an answer over HTTP is read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.drivers import http_look
from hostler.adapters.drivers.activity import slots_activity
from hostler.adapters.drivers.external import ExternalDriver
from hostler.domain.engine import Launch, Readiness, judge
from hostler.domain.errors import NotLaunchable
from hostler.domain.fleet import Secret
from tests.adapters.driver_conformance import ProcessRig, process_rig, start_ready
from tests.fakes.fake_engine import fake_launch, free_port

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
QUICK_S = 0.3


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[ProcessRig]:
    """What runs the engine that is external to the driver under test."""
    async with process_rig(tmp_path, real=False) as rig:
        yield rig


@pytest.fixture
async def served() -> AsyncIterator[Callable[[bytes], Awaitable[str]]]:
    """Serves one fixed answer to every connection; gives its URL."""
    servers: list[asyncio.Server] = []

    async def serve(answer: bytes) -> str:
        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if answer.endswith(b"(open)"):
                await reader.read()
            writer.close()

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield serve
    for server in servers:
        server.close()


def external(launch: Launch) -> Launch:
    """The same engine as something that only its URL is known of."""
    return replace(launch, driver="external", argv=())


async def test_it_is_known_by_its_model_alone(elsewhere: ProcessRig) -> None:
    """ENG-4: an external engine's port has no known owner: answering as the expected model makes it ready."""
    launch = elsewhere.launch()
    await start_ready(elsewhere.driver, launch)
    probe = await ExternalDriver().probe(external(launch), None)
    assert (probe.alive, probe.port_owner) == (True, "unknown")
    assert judge(probe, health=launch.health, model=launch.model) is Readiness.READY
    assert judge(probe, health=launch.health, model="other") is Readiness.WRONG_MODEL


async def test_one_that_does_not_answer_is_dead() -> None:
    """ENG-4: an external engine that does not answer is not alive, and the detail names its URL."""
    launch = external(fake_launch(Path("/nowhere"), port=free_port()))
    probe = await ExternalDriver().probe(launch, None)
    assert (probe.alive, probe.health) == (False, "unreachable")
    assert f"GET {launch.url}/health" in probe.detail


async def test_it_is_never_started_or_stopped(elsewhere: ProcessRig) -> None:
    """ENG-2: calls that would start, stop or restore an external engine are refused; it stays as it is."""
    launch = elsewhere.launch()
    run = await start_ready(elsewhere.driver, launch)
    driver, known = ExternalDriver(), external(launch)
    with pytest.raises(NotLaunchable):
        await driver.start(known)
    with pytest.raises(NotLaunchable):
        await driver.stop(known, run, timeout_s=0)
    with pytest.raises(NotLaunchable):
        await driver.wait_exit(known, run)
    with pytest.raises(NotLaunchable):
        driver.restore(known)
    assert await driver.adopt(known) is None
    assert (driver.tail(known, 10), driver.rss(run)) == ([], None)
    assert [line async for line in driver.follow(known)] == []
    assert (await driver.probe(known, None)).health == "ok"


async def test_its_key_is_sent(elsewhere: ProcessRig) -> None:
    """SEC-1: the key of an external engine goes with its probes, and is not in what they tell."""
    launch = elsewhere.launch()
    await start_ready(elsewhere.driver, launch)
    driver = ExternalDriver(key={launch.engine: Secret("sk-test")}.get)
    probe = await driver.probe(external(launch), None)
    _, body = await http_look.get(f"{launch.url}/fake/requests", {})
    assert b"Bearer sk-test" in body
    assert "sk-test" not in repr(probe) + repr(driver)


@pytest.mark.parametrize(
    ("answer", "health", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200),
        (b"HTTP/1.1 503 Loading\r\nContent-Length: 0\r\n\r\n", "loading", 503),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "no_route", 404),
        (b"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n", "failed", 500),
        (b"HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n", "failed", 401),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", "ok", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", 200),
        (b"", "unreachable", None),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * (2 << 20), "unreachable", None),
    ],
)
async def test_answers_are_read(
    served: Callable[[bytes], Awaitable[str]], answer: bytes, health: str, status: int | None
) -> None:
    """ENG-4: 200 is ok, 503 loading, 404 no such route; silence, nonsense and floods are unreachable."""
    url = await served(answer)
    seen = await http_look.look(url, "/health", {}, timeout_s=5)
    assert (seen.health, seen.status) == (health, status)


async def test_silence_is_bounded(served: Callable[[bytes], Awaitable[str]]) -> None:
    """ENG-8: an endpoint that accepts and then says nothing is unreachable when the bound is over."""
    url = await served(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n(open)")
    seen = await http_look.look(url, "/health", {}, timeout_s=QUICK_S)
    assert seen.health == "unreachable"
    assert seen.detail == f"GET {url}/health: no answer within 0.3 s"


async def test_tcp_and_none(served: Callable[[bytes], Awaitable[str]]) -> None:
    """ENG-4: `tcp` asks for a connection only, `none` for nothing; neither reads a model list."""
    url = await served(b"")
    assert (await http_look.look(url, "tcp", {})).health == "ok"
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert (await http_look.look(nowhere, "tcp", {})).health == "unreachable"
    assert (await http_look.look(nowhere, "none", {})).health == "ok"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"data": 3}', b'{"data": [1, {"id": 2}, {}]}', b"\xff", b"[" * 100_000]
)
def test_a_list_that_is_none_has_no_models(body: bytes) -> None:
    """ENG-4: an answer that is no model list names no model, and is no error; of slots neither."""
    assert http_look.model_ids(body) == ()
    assert slots_activity(body) in (None, 0.0)


async def test_a_hostile_id_is_shown_escaped(served: Callable[[bytes], Awaitable[str]]) -> None:
    """SEC-3: control characters in what an engine says are escaped in the probe's detail."""
    body = b'{"data": [{"id": "\\u001b[2J"}]}'
    url = await served(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    seen = await http_look.look(url, "/health", {})
    assert seen.ids == ("\x1b[2J",)
    assert "\x1b" not in seen.detail
