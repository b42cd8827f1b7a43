"""What a window over two hosts survives (WIN-11): kills, cuts, a reboot, an engine that stays away."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from hostler.adapters.host import process_table
from tests.fakes.fake_engine import eventually
from tests.testbed.bed import Bed
from tests.testbed.box import Box
from tests.testbed.cable import NoNamespaces, needed
from tests.testbed.fault_line import PATIENCE_S, Moment, begun, close, every, over, reached
from tests.testbed.telling import lease_is
from tests.testbed.window_bed import LONG_S, as_before, deadmen, hold, modes, opened, standing

pytestmark = pytest.mark.slow
KILLS = (
    Moment(phase="open", who="crow", steps=2),
    Moment(phase="open", who="raven", steps=9),
    Moment(phase="close", who="crow", steps=4),
    Moment(phase="close", who="raven", steps=8),
)


async def test_a_daemon_killed_in_the_middle(tmp_path: Path) -> None:
    """WIN-11, WIN-1, LEASE-14: of head or node, opening or closing: all is as before in the end."""
    try:
        ends = await every(KILLS, tmp_path)
    except* NoNamespaces as error:
        needed(NoNamespaces(str(error.exceptions[0])))
    assert {str(end.moment) for end in ends} == {str(it) for it in KILLS}
    assert all(end.holds == () for end in ends)


async def test_a_head_that_stays_away(both: Bed) -> None:
    """WIN-11, NODE-4: with the head gone each host ends the window at its cap; back, it has nothing to do."""
    modes(both)
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    id_ = str((await opened(both, "--cap", "40s"))["id"])
    await crow.end(signal.SIGKILL)
    await raven.is_state("raven-work", "ready", patience_s=PATIENCE_S)
    await eventually(lambda: not raven.hold.exists(), raven.words(), patience_s=PATIENCE_S)
    await eventually(lambda: not crow.hold.exists(), "crow's deadman", patience_s=PATIENCE_S)
    await crow.start()
    ended = await over(both, id_)
    assert ended["state"] in ("expired", "released"), ended
    await as_before(both)


@pytest.mark.parametrize("steps", [0, 9])
async def test_the_cable_is_cut_while_it_opens(both: Bed, steps: int) -> None:
    """WIN-11: the window is not opened; the host that is cut off is back at the latest at the cap."""
    modes(both)
    await both.start()
    await standing(both)
    id_ = await begun(both, 60.0)
    await reached(both, id_, Moment(phase="open", who="crow", steps=steps))
    both.cable.cut()
    stuck = await lease_is(both.crow, id_, "failed", "stuck", patience_s=PATIENCE_S)
    await both.crow.is_state("crow-work", "ready", patience_s=PATIENCE_S)
    await both.raven.is_state("raven-work", "ready", patience_s=PATIENCE_S)
    assert stuck["state"] == "failed" or "raven" in str(stuck["stuck"])
    both.cable.heal()
    await over(both, id_)
    await as_before(both)


async def test_the_cable_is_cut_in_the_middle(both: Bed) -> None:
    """WIN-11, WIN-2: cut while it is open it ends at its cap on both, each by itself, verified."""
    modes(both)
    await both.start()
    await standing(both)
    id_ = str((await opened(both, "--cap", "40s"))["id"])
    both.cable.cut()
    await both.crow.is_state("crow-work", "ready", patience_s=PATIENCE_S)
    await both.raven.is_state("raven-work", "ready", patience_s=PATIENCE_S)
    both.cable.heal()
    await over(both, id_)
    await as_before(both)
    report = await both.crow.get(f"/v1/hostler/windows/{id_}/report")
    assert report["wrong"] == []


@pytest.mark.parametrize("steps", [1, 6])
async def test_the_cable_is_cut_while_it_closes(both: Bed, steps: int) -> None:
    """WIN-11, WIN-4: both hosts come back, each by whoever reaches it; the window ends verified."""
    modes(both)
    await both.start()
    await standing(both)
    id_ = str((await opened(both, "--cap", "60s"))["id"])
    await close(both, id_)
    await reached(both, id_, Moment(phase="close", who="crow", steps=steps))
    both.cable.cut()
    await both.crow.is_state("crow-work", "ready", patience_s=PATIENCE_S)
    await both.raven.is_state("raven-work", "ready", patience_s=PATIENCE_S)
    both.cable.heal()
    await over(both, id_)
    await as_before(both)
    report = await both.crow.get(f"/v1/hostler/windows/{id_}/report")
    assert report["wrong"] == []


async def test_a_deadman_that_is_killed(both: Bed) -> None:
    """WIN-11: on the host that is not the head too another one is there within 10 s, and it is told."""
    modes(both)
    await both.start()
    await standing(both)
    id_ = str((await opened(both, "--cap", "10m"))["id"])
    await kill_deadman(both.raven, id_)

    async def another() -> bool:
        return await deadmen(both.raven) == [(id_, True)]

    await eventually(another, both.raven.words(), patience_s=LONG_S)
    assert len(await both.raven.events("deadman_restarted")) == 1
    await both.crow.told("window", "close")
    await as_before(both)


async def test_deadman_and_daemon_are_killed(both: Bed) -> None:
    """WIN-11: with both dead the next start restores before it serves, and ends the window for both hosts."""
    modes(both)
    await both.start()
    await standing(both)
    id_ = str((await opened(both, "--cap", "10m"))["id"])
    await both.raven.end(signal.SIGKILL)
    await kill_deadman(both.raven, id_)
    await both.raven.start()
    assert (await both.raven.row("raven-work"))["state"] == "ready"
    ended = await over(both, id_)
    assert (ended["state"], ended["why"]) == ("released", "it was released: deadman")
    await as_before(both)


async def test_an_engine_that_will_not_come_back(both: Bed) -> None:
    """WIN-11, WIN-4: the window is stuck and its host held, with the engine's name, until it comes."""
    modes(both)
    await both.start()
    await standing(both)
    model = both.root / "raven-work.gguf"
    kept = model.read_bytes()
    await opened(both, "--cap", "10m")
    model.unlink()
    done = await both.crow.run("window", "close")
    assert done.code == 73, (done.out, done.err)
    assert "raven-work" in done.out + done.err
    assert hold(both.raven) is not None
    # The other host's production is back all the same.
    for name in ("crow-work", "crow-spare"):
        await both.crow.is_state(name, "ready")
    model.write_bytes(kept)
    await both.raven.run("clear", "raven-work")
    await both.crow.told("window", "close")
    await as_before(both)


async def test_a_reboot_ends_the_window(both: Bed) -> None:
    """WIN-11, F20: a node comes back without its tmpfs: all is restored on both, with the cause `reboot`."""
    boots = [both.root / f"boot-{n}" for n in (1, 2)]
    for n, file in enumerate(boots, start=1):
        file.write_text(f"0000000{n}-0000-4000-8000-000000000000\n")
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    raven = both.raven
    raven.wrap = ("sh", "-c", script, str(boots[0]))
    modes(both)
    await both.start()
    await standing(both)
    id_ = str((await opened(both, "--cap", "10m"))["id"])
    await raven.end(signal.SIGKILL)
    await kill_deadman(raven, id_)
    await raven.engines_end()
    raven.hold.unlink()
    raven.wrap = ("sh", "-c", script, str(boots[1]))
    await raven.start()
    ended = await over(both, id_)
    assert "reboot" in str(ended["why"]), ended
    await as_before(both)


async def kill_deadman(box: Box, id_: str) -> None:
    """Killed by its pid and start time, as its file tells them."""
    mark = json.loads((box.state / "windows" / id_ / "deadman.json").read_text())
    process_table.send(mark["pid"], mark["ticks"], signal.SIGKILL)
    await eventually(lambda: not process_table.alive(mark["pid"], mark["ticks"]), "it is gone")
