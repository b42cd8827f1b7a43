"""Windows on the whole program: real daemons, real processes, the real command line."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.fakes import pinned
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import kill
from tests.story.house import House, chat, frames
from tests.story.lease_house import events, lease_is
from tests.story.window_house import deadmen, hold, modes, opened, standing, windows


async def test_standard_to_heavy_and_back(fake: House) -> None:
    """MODE-2, WIN-1, WIN-5, WIN-10: another engine has the box under a deadman, then all is as before."""
    modes(fake)
    await fake.start()
    await standing(fake)
    assert "the fleet is in standard" in await fake.told("mode")
    plan = await fake.told("mode", "plan", "heavy")
    assert "suspend work" in plan
    assert "start giant" in plan
    assert (await fake.row("work"))["state"] == "ready"

    window = await opened(fake, "--cap", "5m")
    part = window["window"]
    assert isinstance(part, dict)
    record = hold(fake)
    assert record is not None
    assert record["lease"] == window["id"]
    assert record["stop_accepting_at"] == part["stop_accepting_at"]
    assert await deadmen(fake) == [(window["id"], True)]
    assert record["expires_at"] == part["hold_until"]["local"]
    assert [(await fake.row(it))["state"] for it in ("work", "spare", "giant")] == [
        "stopped",
        "stopped",
        "ready",
    ]
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "giant"
    assert "the fleet is in heavy" in await fake.told("mode")
    assert "heavy by" in await fake.told("window", "status")

    closed = json.loads(await fake.told("window", "close", "--json"))["lease"]
    assert (closed["state"], closed["why"]) == ("released", "it was released: closed")
    assert hold(fake) is None
    assert await deadmen(fake) == []
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"
    assert (await fake.row("giant"))["state"] == "stopped"
    report = json.loads(await fake.told("window", "report", "--json"))
    assert {(row["engine"], row["up"], row["verified"]) for row in report["engines"]} == {
        ("work", True, True),
        ("spare", True, True),
    }
    assert report["wrong"] == []
    assert "work on local: up, verified" in await fake.told("window", "report")
    assert "the fleet is in standard" in await fake.told("mode")


async def test_without_its_class_a_window_is_refused(fake: House) -> None:
    """CAT-5, WIN-8: exit 77, and the standing engines go on."""
    modes(fake)
    await fake.start()
    await standing(fake)
    done = await fake.run("window", "open", "heavy", "--cap", "5m")
    assert done.code == 77, done.err
    assert "windowed" in done.err
    assert (await fake.row("work"))["state"] == "ready"


@pytest.mark.slow
async def test_at_the_cap_a_turn_in_flight_ends_with_an_error_frame(fake: House) -> None:
    """WIN-2, GW-8: no new turns from the soft deadline on; those under way go on until the cap."""
    modes(fake, "endless", "gap=0.02", drain_before="8s")
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "24s")
    body = chat("chat", stream=True, max_tokens=1_000_000)
    async with fake.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as stream:
        assert stream.status_code == 200
        lines = stream.aiter_lines()
        await anext(lines)

        async def closing() -> bool:
            return (await fake.chat("giant", max_tokens=1)).status_code == 503

        await eventually(closing, "new turns are refused")
        refused = await fake.chat("giant", max_tokens=1)
        assert refused.json()["error"]["code"] == "window_closing", refused.text
        assert int(refused.headers["retry-after"]) > 0
        assert "T" in refused.json()["error"]["message"]
        rest = await frames(lines)
    assert rest[-1] != "[DONE]"
    assert json.loads(rest[-1])["error"]["code"] == "draining", rest[-1]
    over = await lease_is(fake, str(window["id"]), "expired")
    assert over["why"] == "its time was up: cap"
    assert not await events(fake, "lease_stuck")
    await standing(fake)
    assert [row["type"] for row in await events(fake, "window_closing")] == ["window_closing"]


@pytest.mark.slow
async def test_a_second_strike_aborts(fake: House) -> None:
    """WIN-6: an engine that comes up against the window is stopped once; the second time the window ends."""
    modes(fake)
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "5m")
    # Its own holder may start what it holds: nothing else refuses that, but the guard sees it.
    done = await fake.run("start", "spare", "--lease", str(window["id"]))
    assert done.code in (0, 69), "it came up, or was stopped while it did"

    async def struck() -> bool:
        (row,) = await windows(fake)
        part = row["window"]
        return isinstance(part, dict) and len(part["strikes"]) == 1

    await eventually(struck, f"strike one\n{fake.words()}")
    await fake.is_state("spare", "stopped")
    await fake.run("start", "spare", "--lease", str(window["id"]))
    over = await lease_is(fake, str(window["id"]), "cancelled", "stuck")
    assert "aborted: spare came up" in str(over["why"])
    await standing(fake)


async def test_a_stranger_is_named_and_never_touched(fake: House) -> None:
    """WIN-6: who listens on the port of an evicted engine is a strike, and goes on."""
    modes(fake)
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "5m")
    port = fake.engines["spare"]["port"]
    program = (
        f"import socket, sys; s = socket.create_server(('127.0.0.1', {port}));"
        " print(1, flush=True); sys.stdin.read()"
    )
    stranger = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert stranger.stdout is not None
        await stranger.stdout.readline()

        async def struck() -> bool:
            (row,) = await windows(fake)
            return str(stranger.pid) in str(row["window"])

        await eventually(struck, f"it is named\n{fake.words()}")
        assert stranger.returncode is None
        (row,) = await windows(fake)
        assert (row["id"], row["state"]) == (window["id"], "active")
    finally:
        kill(stranger)
        await stranger.wait()
    await fake.told("window", "close")


async def test_memory_that_is_missing_opens_nothing(fake: House) -> None:
    """WIN-3: the gate reads what is there after the evictions; the sum is told, all is restored."""
    memory = fake.root / "memory"
    memory.mkdir()
    (memory / "host").write_text("total: 100 GiB\navailable: 50 GiB\n")
    fake.host["memory"] = {"reader": f"files:{memory}", "reserve": "64 MiB"}
    modes(fake, gates={"available": {"local": "84 GiB"}})
    await fake.start()
    await standing(fake)
    done = await fake.run("window", "open", "heavy", "--override", "windowed", "--cap", "5m")
    assert done.code == 74, (done.out, done.err)
    assert "it asks for 84.0 GiB available; 50.0 are" in done.err
    await standing(fake)
    assert hold(fake) is None


@pytest.mark.slow
async def test_memory_that_a_dead_engine_pins_opens_nothing(fake: House) -> None:
    """MEM-4, WIN-3: what an evicted engine does not give back is told by its name, and no window opens."""
    memory, gate = fake.root / "memory", fake.root / "gate"
    memory.mkdir()
    (memory / "host").write_text("total: 124 GiB\navailable: 118 GiB\n")
    fake.host["memory"] = {"reader": f"files:{memory}", "reserve": "64 MiB"}
    modes(fake)
    fake.fakes("work", f"load-until={gate}", resident=True, order=2, start_timeout="30s", stop_timeout="2s")
    await fake.start()
    await fake.is_state("work", "starting")
    (memory / "host").write_text("total: 124 GiB\navailable: 48 GiB\n")
    gate.touch()
    await standing(fake)
    done = await fake.run("window", "open", "heavy", "--override", "windowed", "--cap", "5m")
    assert done.code in (73, 74), (done.out, done.err)
    assert "work" in done.err
    assert "70.0 GiB" in done.err
    assert (await fake.row("giant"))["state"] == "stopped"
    # What pinned it has ended: the engine comes back, and takes as much as before.
    gate.unlink()
    (memory / "host").write_text("total: 124 GiB\navailable: 118 GiB\n")
    closing = asyncio.create_task(fake.told("window", "close"))
    await fake.is_state("work", "starting")
    (memory / "host").write_text("total: 124 GiB\navailable: 48 GiB\n")
    gate.touch()
    await closing
    await standing(fake)
    assert hold(fake) is None


@pytest.mark.slow
async def test_memory_that_a_process_keeps_after_its_engine_opens_nothing(fake: House) -> None:
    """MEM-4, WIN-3: 1.5 GiB of this machine stay with another process when their engine has gone."""
    modes(fake)
    fake.host["memory"] = {"reserve": "64 MiB", "max_residue": "768 MiB"}
    keeper = await pinner(fake)
    row = fake.engines["work"]
    assert isinstance(row["argv"], list)
    take = [sys.executable, str(pinned.__file__), "take", str(fake.root / "pins"), "1536"]
    row.update(argv=[*take, *row["argv"]], memory="1536 MiB", start_timeout="30s")
    try:
        await fake.start()
        await standing(fake)
        done = await fake.run("window", "open", "heavy", "--override", "windowed", "--cap", "5m")
        assert done.code in (73, 74), (done.out, done.err)
        assert "work is gone, but" in done.err, done.err
        await standing(fake)
        assert hold(fake) is None
        assert (await fake.row("giant"))["state"] == "stopped"
    finally:
        kill(keeper)
        await keeper.wait()


async def pinner(it: House) -> asyncio.subprocess.Process:
    """The process that keeps what an engine had, ready."""
    command = (sys.executable, str(pinned.__file__), "keep", str(it.root / "pins"))
    keeper = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert keeper.stdout is not None
    await keeper.stdout.readline()
    return keeper


@pytest.mark.slow
async def test_a_verification_that_fails_keeps_the_hold(fake: House) -> None:
    """WIN-4: a command that does not end with 0 leaves the window stuck and the box held, until it does."""
    mark = fake.root / "database-is-whole"
    verify = [{"on": "local", "exec": ["test", "-e", str(mark)], "timeout": "5s"}]
    modes(fake, verify=verify)
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "5m")
    done = await fake.run("window", "close")
    assert done.code == 73, (done.out, done.err)
    record = hold(fake)
    assert record is not None
    assert record["lease"] == window["id"]
    assert "not verified: local: test ended with 1" in await fake.told("window", "report")
    mark.touch()
    await fake.told("window", "close")
    assert hold(fake) is None


async def test_a_command_runs_inside_a_window(fake: House) -> None:
    """WIN-10: its exit code is ours, and the window is closed behind it."""
    modes(fake)
    await fake.start()
    await standing(fake)
    done = await fake.run(
        "window", "run", "heavy", "--cap", "5m", "--override", "windowed", "--", "sh", "-c", "exit 3"
    )
    assert done.code == 3, done.err
    (over,) = await windows(fake, ended=True)
    assert over["state"] == "released"
    await standing(fake)
    assert "over" in await fake.told("deadman", "status")
    assert "NOT" not in await fake.told("deadman", "status")
    again = await fake.run("window", "close")
    assert (again.code, "No window is open." in again.err) == (66, True)


@pytest.mark.slow
async def test_a_config_that_forgets_the_mode_keeps_the_window(fake: House) -> None:
    """F26, WIN-4: what is verified was noted when it opened: a mode that is gone keeps nothing open."""
    mark = fake.root / "database-is-whole"
    mark.touch()
    modes(fake, verify=[{"on": "local", "exec": ["test", "-e", str(mark)], "timeout": "5s"}])
    await fake.start()
    await standing(fake)
    await opened(fake, "--cap", "5m")
    kept = fake.top.pop("modes")
    fake.write()
    await fake.told("reload")
    closed = json.loads(await fake.told("window", "close", "--json"))["lease"]
    assert (closed["state"], closed["drift"]) == ("released", [])
    assert hold(fake) is None
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"
    fake.top["modes"] = kept


@pytest.mark.slow
async def test_an_engine_that_was_down_before_keeps_nothing_open(fake: House) -> None:
    """WIN-4: it is told with the close, and what went down before the window is not its fault."""
    modes(fake)
    flag = fake.root / "comes-up"
    fake.fakes("work", f"load-until={flag}", resident=True, order=2, start_timeout="1s", stop_timeout="2s")
    await fake.start()
    await fake.is_state("work", "failed")
    await fake.is_state("spare", "ready")
    await opened(fake, "--cap", "5m")
    told = await fake.told("window", "close")
    assert "work on local: down, not verified: it is" in told
    assert "it was not up when the window opened" in told
    assert (await fake.row("spare"))["state"] == "ready"


@pytest.mark.slow
async def test_a_tool_evicts_and_restores_by_itself(fake: House) -> None:
    """MODE-4: the script gets the cap and the hold's path; Hostler holds, points routes and verifies."""
    log = fake.root / "tool.log"
    script = fake.root / "tool.sh"
    script.write_text(
        f'#!/bin/sh\necho "$1 cap=$HOSTLER_CAP_SECONDS hold=$HOSTLER_BOX_RESERVATION_PATH" >> {log}\n'
    )
    script.chmod(0o700)
    command = {verb: {"exec": [str(script), verb], "timeout": "10s"} for verb in ("open", "close", "status")}
    modes(fake, hosts={"local": ["work", "spare"]}, routes={}, tool=command)
    await fake.start()
    await standing(fake)
    await opened(fake, "--cap", "5m")
    assert hold(fake) is not None
    await fake.told("window", "close")
    assert log.read_text().splitlines() == [
        f"status cap= hold={fake.hold}",
        f"open cap=300 hold={fake.hold}",
        f"close cap=300 hold={fake.hold}",
    ]


@pytest.mark.slow
async def test_a_daemon_that_dies_in_an_open_window_ends_nothing(fake: House) -> None:
    """WIN-1: its successor finds the window open and the mode's engine serving, and closes it."""
    modes(fake)
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "5m")
    await fake.end(9)
    await fake.start()
    await fake.is_state("giant", "ready")
    (row,) = await windows(fake)
    assert (row["id"], row["state"]) == (window["id"], "active")
    await fake.told("window", "close")
    await standing(fake)


@pytest.mark.real
@pytest.mark.slow
async def test_a_real_engine_makes_way_for_another(real: House) -> None:
    """MODE-2, WIN-4: a llama-server is evicted for another one, and back as itself afterwards."""
    real.add("work", resident=True, order=2, start_timeout="60s", stop_timeout="10s")
    real.add("giant", serving_class="windowed", start_timeout="60s", stop_timeout="10s")
    real.routes["chat"] = {"profiles": {"local": "work", "heavy": "giant"}, "active": "local"}
    real.top["modes"] = {
        "standard": {"standing": True, "hosts": {"local": ["work"]}},
        "heavy": {
            "serving_class": "windowed",
            "hosts": {"local": ["giant"]},
            "routes": {"chat": "heavy"},
            "drain_before": "1s",
        },
    }
    await real.start()
    await real.is_state("work", "ready")
    await opened(real, "--cap", "5m")
    assert (await real.chat("chat", max_tokens=4)).headers["x-hostler-served-by"] == "giant"
    await real.told("window", "close")
    assert (await real.chat("chat", max_tokens=4)).headers["x-hostler-served-by"] == "work"
    assert "work on local: up, verified" in await real.told("window", "report")
