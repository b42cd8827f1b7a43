"""The deadman as the process that it is: what it restores, and that one restore runs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.host import pools, process_table
from hostler.deadman import asking, kernel, written
from hostler.domain.engine import Readiness
from hostler.domain.errors import DeadmanFailed
from hostler.services.deadman_needs import Check
from tests.adapters.driver_conformance import probe_until
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import send
from tests.fakes.window import FAR_S, WINDOW, Window, window


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Window]:
    """A window with the fake engine."""
    async with window(tmp_path) as found:
        yield found


# ---------------------------------------------------------------- what it does


async def test_at_the_cap_it_restores(it: Window) -> None:
    """WIN-1, WIN-4: at the cap the mode's engine ends, the standing one serves, then the hold goes."""
    heavy = await it.run(it.heavy)
    it.write_hold(WINDOW)
    await it.arm(it.orders(cap_s=0.5))
    report = await it.restored()
    assert (report["verified"], report["cause"]) == (True, "cap"), it.words_of_it()
    assert not process_table.alive(heavy.pid, heavy.start_ticks)
    assert await it.up(it.small) is not None
    assert not it.hold.exists()
    assert it.did() == ["begun", "ended heavy", "started small", "verified small", "unheld", "over"]


async def test_what_it_started_is_adopted_by_the_driver(it: Window) -> None:
    """ENG-2, ENG-7: an engine that the deadman started is the driver's own run, and ends by its stop."""
    await it.arm(it.orders(cap_s=0.1))
    await it.restored()
    run = await it.up(it.small)
    assert run is not None
    stopped = await it.rig.driver.stop(it.small, run, timeout_s=5)
    assert stopped.gone


@pytest.mark.real
async def test_it_restores_the_real_engine(tmp_path: Path) -> None:
    """WIN-4: with the real llama-server the restored engine gave one real token before it was verified."""
    async with window(tmp_path, real=True) as it:
        heavy = await it.run(it.heavy)
        await it.arm(it.orders(cap_s=0.5))
        report = await it.restored()
        assert report["verified"] is True, it.words_of_it()
        assert not process_table.alive(heavy.pid, heavy.start_ticks)
        assert await it.up(it.small) is not None


async def test_standing_engines_come_back_one_at_a_time_in_order(it: Window) -> None:
    """MODE-2, WIN-4: the second standing engine is started only when the first was seen to serve."""
    second = it.rig.launch("second")
    await it.arm(it.orders(cap_s=0.1, start=(it.words(second), it.words(it.small))))
    await it.restored()
    assert it.did()[2:6] == ["started second", "verified second", "started small", "verified small"]


async def test_an_engine_that_serves_already_is_left_running(it: Window) -> None:
    """WIN-7: what is up as itself is not started a second time."""
    run = await it.run(it.small)
    await it.arm(it.orders(cap_s=0.1))
    await it.restored()
    assert it.did()[2:4] == ["was_up small", "verified small"]
    assert await it.up(it.small) == run


async def test_one_that_does_not_come_back_keeps_no_other_down(it: Window) -> None:
    """WIN-11, WIN-4: it is told, the others serve, and the hold stays with what was not verified."""
    broken = replace(it.rig.launch("broken"), argv=("false",))
    it.rig.keep(broken)
    it.write_hold(WINDOW)
    await it.arm(it.orders(cap_s=0.1, start=(it.words(broken, budget_s=0.5), it.words(it.small))))
    report = await it.restored()
    assert report["verified"] is False
    assert [str(why).split(":")[0] for why in it.failing()] == ["broken does not come back"]
    assert await it.up(it.small) is not None
    assert it.hold.exists()
    assert it.did().count("start_failed broken") == 3


async def test_an_engine_that_serves_another_model_is_not_verified(it: Window) -> None:
    """WIN-4, ENG-4: an answer of 200 by another model than the expected one is not it."""
    wrong = it.rig.wrong_model()
    await probe_until(it.rig.driver, wrong, await it.rig.driver.start(wrong), Readiness.WRONG_MODEL)
    it.deadmen.write(it.orders(start=(it.words(wrong),)))
    assert asking.look(written.load(it.place).start[0]) == "it serves wrong"


async def test_nothing_is_started_on_hope(it: Window) -> None:
    """EVICT-3, WIN-4: an engine that needs more memory than there is is told with the sum, not started."""
    await it.arm(it.orders(cap_s=0.1, start=(it.words(it.small, need=1 << 60),)))
    await it.restored()
    assert f"it needs {1 << 30}.0 GiB" in it.failing()[0]
    assert await it.up(it.small) is None


@pytest.mark.parametrize(("available", "need", "fits"), [("1 TiB", 1 << 40, True), ("1 MiB", 2 << 20, False)])
async def test_memory_that_is_read_from_files_is_what_counts(
    it: Window, tmp_path: Path, available: str, need: int, *, fits: bool
) -> None:
    """MEM-1, WIN-4: on the test bed its figures say whether an engine fits, whatever the machine has."""
    (tmp_path / "host").write_text(f"total: 2 TiB\navailable: {available}\n")
    it.deadmen = replace(it.deadmen, meminfo=pools.available_file(f"files:{tmp_path}"))
    await it.arm(it.orders(cap_s=0.1, start=(it.words(it.small, need=need),)))
    assert (await it.restored())["verified"] is fits, it.words_of_it()
    assert (await it.up(it.small) is not None) is fits


async def test_a_verify_command_that_fails_keeps_the_hold(it: Window) -> None:
    """WIN-4: the hold is not lifted while a verify command of the mode does not exit with 0."""
    it.write_hold(WINDOW)
    check = Check(argv=("sh", "-c", "echo torn page; exit 3"), timeout_s=5)
    await it.arm(it.orders(cap_s=0.1, verify=(check,)))
    await it.restored()
    assert it.failing() == ["a verify command failed: sh: exit status 3: torn page"]
    assert it.hold.exists()


async def test_a_verify_command_runs_after_the_engines(it: Window) -> None:
    """WIN-4: verify commands run once every engine is back, in a group that ends with their time."""
    checks = (Check(argv=("true",), timeout_s=5), Check(argv=("sleep", "600"), timeout_s=0.2))
    await it.arm(it.orders(cap_s=0.1, verify=checks))
    await it.restored()
    assert it.did()[3:5] == ["verified small", "checked"]
    assert it.failing() == ["a verify command failed: sleep did not end within 0.2 s"]


async def test_it_waits_for_the_hold_of_somebody_else(it: Window) -> None:
    """GATE-1, WIN-5: the one other starter starts nothing under another's live hold, and leaves that hold."""
    it.write_hold(None, owner="bench")
    await it.arm(it.orders(cap_s=0.1))
    await eventually(lambda: "waiting small" in it.did(), "it waits")
    assert await it.up(it.small) is None
    it.write_hold(None, owner="bench", seconds=-1)
    await it.restored()
    assert it.did()[-3:] == ["verified small", "not_held", "over"]
    assert it.hold.exists()


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"expires_at": "soon"}', '{"expires_at": "2030-01-01T00:00:00"}']
)
async def test_a_hold_that_cannot_be_read_counts(it: Window, content: str) -> None:
    """HOLD-4: the deadman fails closed, as the gate does."""
    it.hold.write_text(content)
    await it.arm(it.orders(cap_s=0.1))
    await eventually(lambda: "waiting small" in it.did(), "it waits")
    it.hold.unlink()
    assert (await it.restored())["verified"] is True


# ---------------------------------------------------------------- who


async def test_one_restore_runs_while_the_daemon_is_at_it(it: Window) -> None:
    """WIN-7: while the daemon has the lock and gives signs of life, the deadman waits at its cap."""
    pid, ticks = await it.arm(it.orders(cap_s=0.1, grace_s=FAR_S), "closing", claim=True)
    await it.said("the daemon restores just now")
    assert process_table.alive(pid, ticks)
    assert it.did() == []
    it.daemon.note(it.place, "over")
    it.release()
    await it.said("nothing is left to do")
    assert it.did() == []


async def test_while_it_restores_the_daemon_does_not(it: Window) -> None:
    """WIN-7: what the deadman restores, the daemon cannot claim."""
    it.write_hold(None)
    await it.arm(it.orders(cap_s=0.1))
    await eventually(lambda: "waiting small" in it.did(), "it is at it")
    assert it.deadmen.claim(WINDOW) is None
    assert it.state.restoring


async def test_a_restore_that_hangs_is_taken_over_at_the_cap(it: Window) -> None:
    """WIN-1, WIN-7: a daemon that keeps the lock and gives no sign of life does not keep the cap off."""
    await it.arm(it.orders(cap_s=0.1, grace_s=0.3), "closing", claim=True)
    assert (await it.restored())["verified"] is True
    assert "is taken over" in it.words_of_it()
    it.release()


async def test_a_second_deadman_of_a_window_is_refused(it: Window) -> None:
    """WIN-7, WIN-1: one deadman lives for each window, and the one that does is the first."""
    pid, _ = await it.arm(it.orders())
    with pytest.raises(DeadmanFailed, match="another deadman of this window runs already"):
        await it.deadmen.start(WINDOW)
    assert it.state.pid == pid


async def test_what_was_verified_is_not_restored_again(it: Window) -> None:
    """WIN-7: a deadman that finds a verified report does nothing but say so."""
    await it.arm(it.orders(cap_s=0.1))
    await it.restored()
    await it.gone()
    await it.deadmen.start(WINDOW, at_once=True)
    await eventually(lambda: it.did()[-1] == "already_restored", "it says so")
    assert it.did().count("started small") == 1


async def test_another_goes_on_where_a_killed_one_was(it: Window) -> None:
    """WIN-11: a deadman that is killed in the middle of its restore is followed by one that finishes it."""
    await it.run(it.heavy)
    it.write_hold(None)
    pid, ticks = await it.arm(it.orders(cap_s=0.1))
    await eventually(lambda: "waiting small" in it.did(), "it is in the middle")
    process_table.send(pid, ticks, signal.SIGKILL)
    await it.gone()
    it.hold.unlink()
    await it.deadmen.start(WINDOW)
    assert (await it.restored())["verified"] is True
    assert it.did()[-5:] == ["was_down heavy", "started small", "verified small", "not_held", "over"]


async def test_disarmed_it_is_gone(it: Window) -> None:
    """WIN-1: a disarm ends it by its own pid, and takes away what may hold keys and what would run."""
    pid, ticks = await it.arm(it.orders())
    assert await it.deadmen.end(WINDOW) is None
    assert not process_table.alive(pid, ticks)
    assert not (it.place / written.RESTORE).exists()
    assert not (it.place / written.PROGRAM).exists()
    assert it.state.over


async def test_it_is_found_without_its_own_words(it: Window) -> None:
    """WIN-1, ENG-6: without deadman.json it is known by its lock on the window's directory."""
    pid, _ = await it.arm(it.orders())
    (it.place / written.DEADMAN).unlink()
    assert (it.state.alive, it.state.pid) == (True, pid)


async def test_a_restore_that_cannot_be_read_arms_nothing(it: Window) -> None:
    """WIN-1: a deadman that would not know what to do is refused, not started."""
    it.deadmen.write(it.orders())
    (it.place / written.RESTORE).write_text("{}")
    with pytest.raises(DeadmanFailed, match=r"restore\.json lacks 'v'"):
        await it.deadmen.start(WINDOW)


async def test_it_answers_to_no_command_that_has_gone(it: Window) -> None:
    """WIN-1: a deadman whose starter is killed before it told lives on, and restores."""
    it.deadmen.write(it.orders(cap_s=0.5))
    starter = await asyncio.create_subprocess_exec(
        it.deadmen.python, "-I", "-S", str(it.place / written.PROGRAM), str(it.place),
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await eventually((it.place / written.DEADMAN).exists, "it says who it is")
    send(starter, signal.SIGKILL)
    await starter.wait()
    assert (await it.restored())["verified"] is True


async def test_after_a_reboot_no_deadman_is_at_it(it: Window) -> None:
    """WIN-11: a restore that a reboot cut off keeps the next daemon from nothing: its deadman is gone."""
    it.write_hold(None)
    pid, ticks = await it.arm(it.orders(cap_s=0.1))
    await eventually(lambda: it.state.restoring, "it is in the middle")
    process_table.send(pid, ticks, signal.SIGKILL)
    await it.gone()
    path = it.place / written.RESTORE
    path.write_text(path.read_text().replace(kernel.boot_id(), "8c1c"))
    assert not it.state.restoring
    assert not it.state.this_boot
    assert not it.state.waits
    with pytest.raises(DeadmanFailed, match="before the machine's last start"):
        await it.deadmen.start(WINDOW)
    assert it.deadmen.claim(WINDOW) is not None


async def test_only_the_last_reports_stay(it: Window) -> None:
    """WIN-4: of windows that are over the last twenty keep their reports, and no other window is touched."""
    it.deadmen.write(replace(it.orders(), window="lease_open"))
    for number in range(25):
        over = it.root / "windows" / f"lease_old{number:02d}"
        over.mkdir()
        os.utime(over, (number, number))
    await it.arm(it.orders())
    assert await it.deadmen.end(WINDOW) is None
    left = sorted(path.name for path in (it.root / "windows").iterdir())
    assert left == [WINDOW, *(f"lease_old{number:02d}" for number in range(6, 25)), "lease_open"]
