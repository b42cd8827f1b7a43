import asyncio
import signal

import httpx2
import pytest

from tests.fakes.fake_engine import PATIENCE_S, eventually
from tests.fakes.signals import send
from tests.story.house import House, alive, chat, frames, house

CHAT = "/v1/chat/completions"


@pytest.mark.real
async def test_a_killed_daemon(real: House) -> None:
    """ENG-7: kill -9 in mid-stream cuts the stream without a clean end; the engine is adopted and serves."""
    real.add("slow", endless=True)
    await real.start()
    body = chat("slow", stream=True, max_tokens=100_000)
    async with real.client() as client, client.stream("POST", CHAT, json=body) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        pid = await real.pid("slow")
        await real.end(signal.SIGKILL)
        with pytest.raises(httpx2.TransportError):
            await frames(lines)
    assert alive(pid)
    await real.start()
    answer = await real.chat("slow", max_tokens=2)
    assert answer.status_code == 200, answer.text + real.words()
    assert await real.pid("slow") == pid
    assert len(real.said("engine_starting")) == 1


@pytest.mark.real
async def test_an_end_that_keeps_its_engines(real: House) -> None:
    """ENG-7, REL-5: SIGTERM lets engines run; suspensions and switched routes survive it, as the pid does."""
    for name in ("fast", "other"):
        real.add(name)
    real.routes["chat"] = {"profiles": {"a": "fast", "b": "other"}, "active": "a"}
    await real.start()
    assert (await real.chat("fast")).status_code == 200
    pid = await real.pid("fast")
    await real.told("suspend", "other")
    await real.told("routes", "set", "chat", "b")
    assert (await real.end(), alive(pid)) == (0, True)
    assert not (real.state / "daemon.json").exists()
    await real.start()
    await real.is_state("fast", "ready")
    assert await real.pid("fast") == pid
    refused = await real.chat("chat")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "suspended")
    assert "retry-after" not in refused.headers
    await real.told("resume", "other")
    assert (await real.chat("chat")).headers["x-hostler-served-by"] == "other"


async def test_an_end_that_stops_its_engines(fake: House) -> None:
    """REL-5: with `on_exit: stop` SIGTERM ends streams with an error frame after `shutdown`, then engines."""
    fake.node = {"on_exit": "stop", "shutdown": "0s"}
    fake.fakes("fast", "endless", "gap=0.02")
    await fake.start()
    async with fake.client() as client, client.stream("POST", CHAT, json=chat("fast", stream=True)) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        pid = await fake.pid("fast")
        ending = asyncio.create_task(fake.end())
        found = await frames(lines)
        assert "shuts down" in found[-1]
        assert "[DONE]" not in found
        assert await ending == 0
    assert not alive(pid)
    assert len(fake.said("daemon_stopped")) == 1


@pytest.mark.parametrize("on_exit", ["keep", "stop"])
async def test_an_end_while_an_engine_loads(fake: House, on_exit: str) -> None:
    """REL-5: SIGTERM in a load answers who waits at once; the engine is kept to be adopted, or is gone."""
    ready, pids = fake.root / "ready", fake.root / "pids"
    fake.node = {"on_exit": on_exit, "shutdown": "20s"}
    fake.fakes("fast", f"load-until={ready}", f"pids={pids}")
    await fake.start()
    asking = asyncio.create_task(fake.chat("fast"))
    await eventually(pids.exists, "the engine runs")
    pid = int(pids.read_text())
    assert await fake.end() == 0
    answer = await asking
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    assert alive(pid) == (on_exit == "keep")
    ready.touch()
    await fake.start()
    assert (await fake.chat("fast")).status_code == 200
    assert len(pids.read_text().split()) == (1 if on_exit == "keep" else 2)


async def test_a_second_daemon(fake: House) -> None:
    """CONF-5: a second daemon of the box is refused and names the first; one that orchestrates not may."""
    fake.fakes("fast")
    await fake.start()
    assert fake.daemon is not None
    async with house(fake.root / "second") as other:
        other.fakes("fast")
        other.write()
        second = await other.run("serve", HOSTLER_BOX_RESERVATION_PATH=str(fake.hold))
        assert second.code == 75
        assert f"pid {fake.daemon.pid}" in second.err
        assert str(fake.state) in second.err
        other.host["orchestration"] = False
        other.write()
        other.daemon = await other.spawn("serve", HOSTLER_BOX_RESERVATION_PATH=str(fake.hold))
        await eventually(other.listens, "it listens beside the first")
        refused = await other.chat("fast")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "orchestration_disabled")
    assert (await fake.chat("fast")).status_code == 200


async def test_a_port_in_use(fake: House) -> None:
    """CONF-5: a port that somebody has is exit 69 with what to do, and the lock is free again after it."""
    fake.fakes("fast")
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    fake.port, port = taken.sockets[0].getsockname()[1], fake.port
    fake.write()
    refused = await fake.run("serve")
    assert refused.code == 69
    assert f"127.0.0.1:{fake.port}" in refused.err
    assert "node.listen" in refused.err
    assert "Traceback" not in refused.err
    taken.close()
    fake.port = port
    await fake.start()


async def test_configs_that_are_not_served(fake: House) -> None:
    """CONF-1: `serve` refuses a broken config with 78, and names every fault by file, line and column."""
    fake.fakes("fast")
    missing = await fake.run("serve")
    assert missing.code == 78
    assert "there is no such file" in missing.err
    fake.write()
    broken = fake.config.read_text().replace('"memory": "64 MiB"', '"memory": 64').replace('"port"', '"prot"')
    fake.config.write_text(broken)
    refused = await fake.run("serve")
    line = next(i for i, text in enumerate(broken.splitlines(), 1) if '"memory": 64' in text)
    assert refused.code == 78
    assert f"{fake.config}:{line}:" in refused.err
    assert "prot" in refused.err
    assert "Traceback" not in refused.err


async def test_what_must_not_be_served_in_clear(fake: House) -> None:
    """API-4: without keys nothing listens beyond loopback, and TLS that was asked for is not left out."""
    fake.node = {"listen": "0.0.0.0:0"}
    fake.write()
    refused = await fake.run("serve")
    assert refused.code == 78
    assert "there are no keys" in refused.err
    pem = fake.root / "key.pem"
    pem.write_text("x")
    pem.chmod(0o600)
    fake.node = {"tls": {"cert": str(pem), "key": f"${{file:{pem}}}"}}
    fake.write()
    refused = await fake.run("serve")
    assert refused.code == 78
    assert "node.tls" in refused.err


async def test_a_new_daemon_beside_the_old(fake: House) -> None:
    """ENG-7: an ending daemon listens no more and finishes its stream, while a new one serves the engine."""
    go, pids = fake.root / "go", fake.root / "pids"
    fake.node = {"shutdown": "60s"}
    fake.fakes("fast", f"hold={go}", f"pids={pids}")
    await fake.start()
    async with fake.client() as client, client.stream("POST", CHAT, json=chat("fast", stream=True)) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        old = fake.daemon
        assert old is not None
        send(old, signal.SIGTERM)
        await eventually(lambda: not fake.listens(), "the old one listens no more")
        await fake.start()
        await fake.is_state("fast", "ready")
        assert (await fake.chat("fast")).status_code == 200
        assert old.returncode is None
        go.touch()
        assert (await frames(lines))[-1] == "[DONE]"
    async with asyncio.timeout(PATIENCE_S):
        assert await old.wait() == 0
    assert (await fake.chat("fast")).status_code == 200
    assert (fake.state / "daemon.json").exists()
    assert len(pids.read_text().split()) == 1
