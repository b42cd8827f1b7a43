import asyncio
import os
import signal
import subprocess

import httpx2
import pytest

from hostler.domain.engine import Launch
from tests.fakes.fake_engine import eventually, fake_launch
from tests.story.house import House, alive, chat, frames

CHAT = "/v1/chat/completions"


@pytest.mark.real
async def test_ten_at_once(real: House) -> None:
    """ENG-3: ten requests at once for a cold real engine start one process, and each is answered by it."""
    real.add("fast")
    await real.start()
    answers = await asyncio.gather(*(real.chat("fast") for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["choices"][0]["message"]["content"].strip() for answer in answers} == {"I am fast."}
    assert len(real.said("engine_starting")) == 1


async def test_fifty_at_once_and_a_start_by_hand(fake: House) -> None:
    """BG-06, ENG-3: fifty requests and a start by hand at once make one process, and all are answered."""
    pids = fake.root / "pids"
    fake.fakes("fast", f"pids={pids}", "load=0.3")
    await fake.start()
    asking = asyncio.gather(*(fake.chat("fast") for _ in range(50)))
    assert (await fake.run("start", "fast")).code == 0
    assert {answer.status_code for answer in await asking} == {200}
    assert len(pids.read_text().split()) == 1


def stranger(launch: Launch) -> subprocess.Popen[bytes]:
    """A process that is not Hostler's, on an engine's port."""
    argv = [part.replace("{port}", str(launch.port)) for part in launch.argv]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.real
async def test_a_wrong_process_on_the_port(real: House) -> None:
    """ENG-4: a stranger on an engine's port, of the same name even, is never routed to and never killed."""
    port = real.add("fast")
    with stranger(fake_launch(real.root, name="fast", port=port)) as other:
        try:
            await real.start()
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as outside:

                async def up() -> bool:
                    try:
                        return (await outside.get("/health")).status_code == 200
                    except httpx2.TransportError:
                        return False

                await eventually(up, "the stranger answers")
                refused = await real.chat("fast")
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "port_conflict")
                assert str(other.pid) in refused.json()["error"]["message"]
                assert (await real.run("start", "fast")).code == 71
                assert (await real.run("stop", "fast", "--now")).code == 0
                assert (await real.end(), other.poll()) == (0, None)
                heard = (await outside.get("/fake/requests")).json()
                assert [one for one in heard if one["method"] == "POST"] == []
        finally:
            other.kill()


@pytest.mark.real
async def test_a_stop_while_a_stream_is_open(real: House) -> None:
    """ENG-6, GW-8: `stop --timeout` ends a real engine that streams; the stream ends with an error frame."""
    real.add("slow", endless=True)
    await real.start()
    async with real.client() as client, client.stream("POST", CHAT, json=endless("slow")) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        pid = await real.pid("slow")
        stopping = asyncio.create_task(real.run("stop", "slow", "--timeout", "1s"))
        found = await frames(lines)
        assert "draining" in found[-1]
        assert "[DONE]" not in found
        assert (await stopping).code == 0
        assert not alive(pid)
        assert (await real.row("slow"))["state"] == "stopped"


def endless(model: str) -> dict[str, object]:
    """A stream without an end of its own."""
    return chat(model, stream=True, max_tokens=100_000)


async def test_an_engine_that_clings(fake: House) -> None:
    """ENG-6: an engine that does not end while a client reads its stream is stopped all the same."""
    fake.fakes("slow", "endless", "gap=0.02", "clings")
    await fake.start()
    async with fake.client() as client, client.stream("POST", CHAT, json=endless("slow")) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        assert (await fake.run("stop", "slow", "--now")).code == 0
        assert "draining" in (await frames(lines))[-1]


@pytest.mark.real
@pytest.mark.slow
async def test_an_engine_that_is_frozen(real: House) -> None:
    """ENG-8: a real engine that is stopped by SIGSTOP is found by three probes, ended and started anew."""
    real.add("fast", resident=True)
    await real.start()
    await real.is_state("fast", "ready")
    pid = await real.pid("fast")
    os.kill(pid, signal.SIGSTOP)

    async def anew() -> bool:
        row = await real.row("fast")
        return row["state"] == "ready" and row["pid"] != pid

    await eventually(anew, "the engine runs anew", patience_s=90)
    assert not alive(pid)
    assert (await real.chat("fast")).status_code == 200


@pytest.mark.real
async def test_a_million_tokens(real: House) -> None:
    """MEM-2: a 1M context that does not fit is refused with the sum, and nothing was stopped or started."""
    pools = real.root / "pools"
    pools.mkdir()
    (pools / "host").write_text("total: 2 GiB\navailable: 700 MiB\n")
    real.host = {"memory": {"reader": f"files:{pools}", "reserve": "256 MiB"}}
    million = ("-c", "1048576", "--override-kv", "llama.context_length=int:2097152", "-fit", "off")
    real.add("fast", group="main")
    real.add("long", *million, memory="600 MiB", group="main", context=1048576)
    real.add("never", *million, memory="3 GiB")
    real.host["groups"] = {"main": {}}
    await real.start()
    assert (await real.chat("fast")).status_code == 200
    pid = await real.pid("fast")
    refused = await real.chat("long")
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (503, "memory_now")
    assert refused.headers["x-should-retry"] == "false"
    assert "needs 0.6 GiB + 0.2 reserve; available 0.7" in error["message"]
    assert (await real.pid("fast"), alive(pid)) == (pid, True)
    never = await real.chat("never")
    assert (never.json()["error"]["code"], never.headers.get("retry-after")) == ("memory_never", None)
    why = await real.run("why", "long")
    assert "memory" in why.out


async def test_a_swap_waits_for_the_answer(fake: House) -> None:
    """BG-07, EVICT-2: a request for a sibling lets the running answer finish, then is served by its own."""
    go = fake.root / "go"
    fake.host = {"groups": {"main": {"min_resident": "0s"}}}
    fake.fakes("a", f"hold={go}", group="main")
    fake.fakes("b", group="main")
    await fake.start()
    async with fake.client() as client, client.stream("POST", CHAT, json=chat("a", stream=True)) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        asking = asyncio.create_task(fake.chat("b"))

        async def waits() -> bool:
            return [row["phase"] for row in await fake.rows()] == ["streaming", "loading"]

        await eventually(waits, "b waits for a")
        go.touch()
        assert (await frames(lines))[-1] == "[DONE]"
        assert (await asking).status_code == 200
    assert (await fake.row("a"))["state"] == "stopped"


async def test_a_client_that_leaves_while_it_loads(fake: House) -> None:
    """BG-03, GW-9: giving up during a load is `client_gone`, never a success, and the load goes on."""
    ready, pids = fake.root / "ready", fake.root / "pids"
    fake.fakes("fast", f"load-until={ready}", f"pids={pids}")
    await fake.start()
    leaving = asyncio.create_task(fake.chat("fast"))
    await fake.is_state("fast", "starting")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await eventually(lambda: bool(fake.said("request_ended")), "the end is in the log")
    assert [line["after"] for line in fake.said("request_ended")] == ["client_gone"]
    second = asyncio.create_task(fake.chat("fast"))
    ready.touch()
    assert (await second).status_code == 200
    async with fake.client(authorization=f"Bearer {fake.key}") as client:
        metrics = (await client.get("/metrics")).text
    assert 'outcome="client_gone"' in metrics
    assert len(pids.read_text().split()) == 1


@pytest.mark.parametrize("policy", ["cancel", "drain"])
async def test_an_engine_that_dies_of_a_hang_up(fake: House, policy: str) -> None:
    """BG-04, GW-9: `drain` spares an engine that dies of hang-ups; with `cancel` it is started once anew."""
    go, pids = fake.root / "go", fake.root / "pids"
    fake.fakes("frail", f"hold={go}", "fragile", f"pids={pids}", on_disconnect=policy)
    await fake.start()
    async with fake.client() as client, client.stream("POST", CHAT, json=chat("frail", stream=True)) as kept:
        lines = kept.aiter_lines()
        await anext(lines)
        async with (
            fake.client() as other,
            other.stream("POST", CHAT, json=chat("frail", stream=True)) as left,
        ):
            await anext(left.aiter_lines())
        if policy == "drain":

            async def drained() -> bool:
                return "drained" in [row["phase"] for row in await fake.rows()]

            await eventually(drained, "the row says drained")
            go.touch()
        found = await frames(lines)
        assert (found[-1] == "[DONE]") == (policy == "drain")
        if policy == "cancel":
            assert "upstream_died" in found[-1]
            go.touch()

    async def serves() -> bool:
        return (await fake.chat("frail")).status_code == 200

    await eventually(serves, "it serves again")
    assert len(pids.read_text().split()) == (1 if policy == "drain" else 2)


@pytest.mark.slow
async def test_an_unload_and_a_request_meet(fake: House) -> None:
    """BG-05, ENG-10: a request at the moment of an idle unload is served, its sibling too, and none hangs."""
    pids = fake.root / "pids"
    fake.host = {"groups": {"main": {"min_resident": "0s"}}}
    fake.fakes("m", f"pids={pids}", group="main", ttl="1s")
    fake.fakes("n", group="main", ttl="1s")
    await fake.start()
    for times in (1, 2, 3):
        assert (await fake.chat("m")).status_code == 200

        def unloads(wanted: int = times) -> bool:
            return sum("idle" in str(line["text"]) for line in fake.said("engine_stopping")) >= wanted

        await eventually(unloads, "the idle unload begins")
        answers = await asyncio.gather(fake.chat("m"), fake.chat("n"), fake.chat("m"))
        assert [answer.status_code for answer in answers] == [200] * 3
    assert len(pids.read_text().split()) <= len(fake.said("engine_starting"))
