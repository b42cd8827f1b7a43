"""A distributed engine over both hosts: its worker on crow, its master, which answers, on raven (ENG-11)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from demo import real_engine
from tests.story.house import Json
from tests.testbed.bed import Bed, bed
from tests.testbed.box import Box
from tests.testbed.cable import HOSTS, NoNamespaces, needed
from tests.testbed.telling import code
from tests.testbed.window_bed import modes, opened, standing

pytestmark = pytest.mark.slow
LONG_S = 90.0
WINDOWED = {"override": "windowed"}


def wide(it: Bed, *more: str) -> None:
    """The distributed engine `wide`: a worker that loads until a file is there, and a master with `more`."""
    it.engine("worker", "crow", 8103, "--fake", f"load-until={it.root / 'loaded'}", stop_timeout="2s")
    it.engine("master", "raven", 8103, *more, stop_timeout="2s")
    it.part("engines")["wide"] = {"driver": "distributed", "members": ["worker", "master"]}


async def started(box: Box, engine: str = "wide", body: Json | None = None) -> tuple[int, str]:
    """The answer to a start: its status, and the code and sentence of a refusal."""
    async with box.client() as client:
        got = await client.post(f"/v1/hostler/engines/{engine}/start", json=body or WINDOWED)
    return got.status_code, "" if got.status_code < 300 else str(got.json()["error"]["message"])


async def members(box: Box) -> list[tuple[str, str, str]]:
    """The members of `wide` as its own host sees them."""
    found = (await box.row("wide"))["members"]
    assert isinstance(found, list)
    return [(it["id"], it["host"], it["state"]) for it in found]


async def at(box: Box, kind: str, engine: str) -> str:
    """When that last happened to the engine."""
    found = [(it["subject"], str(it["time"])) for it in await box.events(kind)]
    return [time for subject, time in found if isinstance(subject, dict) and subject["engine"] == engine][-1]


async def kill_worker(crow: Box) -> None:
    """The worker dies."""
    pid = (await crow.row("worker"))["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


async def up(both: Bed) -> None:
    """Both hosts serve, and `wide` is ready."""
    (both.root / "loaded").touch()
    await both.ready()
    assert await started(both.raven) == (200, "")


async def test_it_starts_in_order_and_stops_in_reverse(both: Bed) -> None:
    """ENG-11: the master starts when the worker is ready, either gateway leads to it, it stops in reverse."""
    wide(both)
    await both.ready()
    crow, raven = both.crow, both.raven
    assert await started(raven, body={**WINDOWED, "wait_s": 1.0}) == (202, "")
    await crow.is_state("worker", "starting")
    assert (await raven.row("master"))["state"] == "stopped"
    assert (await raven.row("wide"))["state"] == "starting"
    (both.root / "loaded").touch()
    await raven.is_state("wide", "ready")
    assert await members(raven) == [("worker", "crow", "ready"), ("master", "raven", "ready")]
    assert await at(crow, "engine_ready", "worker") <= await at(raven, "engine_starting", "master")
    assert "worker on crow ready, master on raven ready" in await raven.told("engines")
    assert [await it.said("wide") for it in (crow, raven)] == ["I am master."] * 2
    await raven.told("stop", "wide")
    assert (await raven.row("wide"))["state"] == "stopped"
    assert [(await raven.row("master"))["state"], (await crow.row("worker"))["state"]] == ["stopped"] * 2
    assert await at(raven, "engine_stopped", "master") <= await at(crow, "engine_stopping", "worker")


async def test_a_member_does_not_start_alone(both: Bed) -> None:
    """ENG-11, GATE-1: a start of a member, or a request for it, is refused on its host, naming the whole."""
    wide(both)
    (both.root / "loaded").touch()
    await both.ready()
    why = "it is a member of wide and does not start alone"
    for box, member in ((both.crow, "worker"), (both.raven, "master")):
        status, told = await started(box, member)
        assert (status, why in told) == (409, True)
        refused = await both.crow.chat(member)
        assert code(refused) == (503, "not_launchable")
        assert why in refused.json()["error"]["message"]
        assert (await box.row(member))["state"] == "stopped"
    refused = await both.crow.chat("wide")
    assert code(refused) == (409, "serving_class_refused")
    assert await members(both.raven) == [("worker", "crow", "stopped"), ("master", "raven", "stopped")]


async def test_the_gates_of_all_members_are_asked_first(both: Bed) -> None:
    """ENG-11, GATE-1: where the gate of a later member refuses, the earlier one is not started at all."""
    wide(both)
    (both.root / "loaded").touch()
    await both.ready()
    crow, raven = both.crow, both.raven
    await raven.told("box", "hold", "--owner", "bench", "--reason", "a run", "--allow", "wide")
    assert await started(raven) == (200, "")
    await raven.told("stop", "wide")
    await raven.told("box", "release", "--owner", "bench")
    before = await at(crow, "engine_starting", "worker")
    await raven.told("suspend", "master")
    status, told = await started(raven)
    assert (status, "master" in told) == (409, True)
    assert "members" in await raven.told("why", "wide", "--override", "windowed")
    await raven.told("resume", "master")
    await crow.told("box", "hold", "--owner", "bench", "--reason", "a run")
    status, told = await started(raven)
    assert (status, "crow is held by bench" in told) == (409, True)
    assert await at(crow, "engine_starting", "worker") == before
    assert (await raven.row("wide"))["state"] == "stopped"


async def test_a_second_that_fails_takes_the_first_down(both: Bed) -> None:
    """ENG-11: when the master does not come up the worker is stopped again, and the whole has failed."""
    wide(both, "--fake", "crash=3")
    (both.root / "loaded").touch()
    await both.ready()
    status, told = await started(both.raven)
    assert (status, "exited with status 3" in told) == (502, True)
    assert await members(both.raven) == [("worker", "crow", "stopped"), ("master", "raven", "failed")]
    row = await both.raven.row("wide")
    assert row["state"] == "failed"
    assert str(row["why"]).startswith("its member master on raven: it exited with status 3")
    assert (await both.crow.row("worker"))["state"] == "stopped"
    assert await at(both.crow, "engine_ready", "worker") <= await at(both.crow, "engine_stopping", "worker")


async def test_a_killed_worker_fails_the_whole(both: Bed) -> None:
    """ENG-11, ENG-8: a worker that dies makes the whole failed; the master is stopped, nothing restarts."""
    wide(both)
    await up(both)
    await kill_worker(both.crow)
    await both.raven.is_state("wide", "failed")
    assert "lost a member: worker on crow is failed" in str((await both.raven.row("wide"))["why"])
    await both.raven.is_state("master", "stopped")
    assert await members(both.raven) == [("worker", "crow", "failed"), ("master", "raven", "stopped")]
    assert "was killed by signal 9" in str((await both.crow.row("worker"))["why"])
    refused = await both.crow.chat("wide")
    assert code(refused) == (409, "serving_class_refused")
    await both.raven.told("clear", "wide")
    assert await started(both.raven) == (200, "")


async def test_a_cut_cable_fails_the_whole(both: Bed) -> None:
    """ENG-11, NODE-3: a node that does not answer makes the whole failed; once it is back the worker ends."""
    wide(both)
    await up(both)
    both.cable.cut()
    await both.raven.is_state("wide", "failed", patience_s=LONG_S)
    assert ("worker", "crow", "unreachable") in await members(both.raven)
    await both.raven.is_state("master", "stopped")
    assert (await both.crow.row("worker"))["state"] == "ready"
    both.cable.heal()
    await both.crow.is_state("worker", "stopped", patience_s=LONG_S)
    await both.raven.is_state("wide", "failed")


async def test_a_daemon_that_comes_back_finds_the_whole(both: Bed) -> None:
    """ENG-7, ENG-11: members outlive the daemons; a daemon that is killed finds the whole as it was."""
    wide(both)
    await up(both)
    await both.raven.end(signal.SIGKILL)
    await both.raven.start()
    await both.raven.is_state("wide", "ready", patience_s=LONG_S)
    assert await both.crow.said("wide") == "I am master."
    await both.crow.end(signal.SIGKILL)
    await both.crow.start()
    await both.crow.is_state("worker", "ready")
    assert await both.raven.said("wide") == "I am master."
    await both.raven.told("stop", "wide")
    await both.crow.is_state("worker", "stopped")


async def test_a_half_started_one_is_not_left(both: Bed) -> None:
    """ENG-11, ENG-7: a daemon that was killed in the middle of a start ends the worker that it started."""
    wide(both)
    await both.ready()
    assert await started(both.raven, body={**WINDOWED, "wait_s": 1.0}) == (202, "")
    await both.crow.is_state("worker", "starting")
    await both.raven.end(signal.SIGKILL)
    (both.root / "loaded").touch()
    await both.crow.is_state("worker", "ready")
    await both.raven.start()
    await both.crow.is_state("worker", "stopped", patience_s=LONG_S)
    assert (await both.raven.row("wide"))["state"] in ("failed", "stopped")


@pytest.mark.real
async def test_the_real_pair(tmp_path: Path) -> None:
    """ENG-11: a real llama-server computes on the RPC worker of the other host; without it all has failed."""
    program = real_engine.find()
    if program is None:
        pytest.skip("there is no wheel of the real llama-server")
    rpc = str(Path(program.prefix[0]).with_name("ggml-rpc-server"))
    try:
        async with bed(tmp_path, real=True) as both:
            worker, port = {"host": "crow", "address": HOSTS["crow"], "memory": "64 MiB"}, 50052
            both.part("engines")["worker"] = {
                **worker,
                "argv": [rpc, "-H", "{address}", "-p", "{port}"],
                "env": dict(program.env),
                "port": port,
                "health": "tcp",
                "stop_timeout": "2s",
            }
            both.engine("master", "raven", 8103, "--rpc", f"{HOSTS['crow']}:{port}", "-ngl", "99")
            both.part("engines")["wide"] = {"driver": "distributed", "members": ["worker", "master"]}
            await both.ready()
            crow, raven = both.crow, both.raven
            assert await started(raven) == (200, "")
            assert [await it.said("wide") for it in (crow, raven)] == ["I am master."] * 2
            log = await crow.told("logs", "worker")
            assert "Accepted client connection" in log, log
            await kill_worker(crow)
            await raven.is_state("wide", "failed")
            assert "worker on crow is failed" in str((await raven.row("wide"))["why"])
            await raven.is_state("master", "stopped", "failed")
    except NoNamespaces as error:
        needed(error)


async def test_a_window_starts_the_whole_by_its_members(both: Bed) -> None:
    """ENG-11, MODE-1: a window's steps start and end the members; the whole follows, and has not failed."""
    modes(both)
    both.part("engines").pop("giant")
    both.part("engines").pop("worker")
    (both.root / "loaded").touch()
    wide(both)
    heavy = both.part("modes")["heavy"]
    assert isinstance(heavy, dict)
    heavy["hosts"] = {"crow": ["wide"], "raven": ["wide"]}
    both.part("routes")["big"] = {"profiles": {"local": "raven-work", "heavy": "wide"}, "active": "local"}
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    await opened(both, "--cap", "5m")
    await raven.is_state("wide", "ready")
    assert [await it.said("big") for it in (crow, raven)] == ["I am master."] * 2
    status, told = await started(raven, "master")
    assert (status, told) == (200, "")
    refused = await raven.run("stop", "wide")
    assert "lease" in refused.err
    await crow.told("window", "close")
    await standing(both)
    await raven.is_state("wide", "stopped")
    assert [(await it.row(name))["state"] for it, name in ((crow, "worker"), (raven, "master"))] == [
        "stopped"
    ] * 2
    assert await both.raven.events("engine_failed") == []
