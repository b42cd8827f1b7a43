"""Deadmen beside the real daemon: what it finds of them as it starts, and what their restore does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.drivers.process import ProcessDriver
from hostler.adapters.host import process_table
from hostler.adapters.ids import SystemIds
from hostler.adapters.store.sqlite import SqliteStore
from hostler.deadman import written
from hostler.domain.engine import Launch
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import LeaseId
from hostler.domain.step import ArmDeadman, FoundDeadman
from hostler.domain.values import EngineId
from hostler.services.deadman_needs import DeadmanState, Orders, Words
from hostler.services.schedule_needs import Tx
from tests.fakes.fake_engine import eventually
from tests.story.house import House, Json
from tests.story.lease_house import begun, events, furnish, lease_is, resources, taken

WINDOW = "lease_1"


@pytest.fixture
async def deadmen(fake: House) -> AsyncIterator[SystemDeadmen]:
    """The deadmen of the house's state; those that still live at the end are ended."""
    it = SystemDeadmen(root=fake.state, host="local", hold_path=fake.hold, environment=os.environ)
    yield it
    for state in it.windows():
        assert await it.end(state.window) is None


def words(it: House, name: str) -> Words:
    """An engine of the house as the daemon would write it down."""
    keys = it.engines[name]
    file, port, argv, env = keys["files"], keys["port"], keys["argv"], keys["env"]
    assert isinstance(file, list)
    assert isinstance(port, int)
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    launch = Launch(
        engine=EngineId(name),
        driver="process",
        argv=tuple(one.format(file=file[0], model=name, address="127.0.0.1", port=port) for one in argv),
        env=env,
        cwd=str(it.root),
        address="127.0.0.1",
        port=port,
        url=f"http://127.0.0.1:{port}",
        model=name,
        directory=str(it.state / "engines" / name),
    )
    restore = ProcessDriver(environment=os.environ).restore(launch)
    return Words(launch=launch, restore=restore, stop_timeout_s=2.0, budget_s=30.0, task="chat")


def orders(it: House, window: str = WINDOW, *, cap_s: float = 3600.0) -> Orders:
    """A window that runs `heavy` and brings back `work`."""
    return Orders(
        window=window,
        mode="heavy",
        host="local",
        cap_s=cap_s,
        end=(words(it, "heavy"),),
        start=(words(it, "work"),),
        look_s=0.05,
    )


def seen(deadmen: SystemDeadmen, window: str = WINDOW) -> DeadmanState:
    """What is seen of the window now."""
    found = deadmen.state(window)
    assert found is not None
    return found


async def kill(deadmen: SystemDeadmen, window: str = WINDOW) -> None:
    """The deadman is killed, by its own identity."""
    pid = seen(deadmen, window).pid
    assert pid is not None
    found = process_table.read(pid)
    assert found is not None
    process_table.send(pid, found.start_ticks, signal.SIGKILL)
    await eventually(lambda: not process_table.alive(pid, found.start_ticks), "it is killed")


async def test_with_both_dead_the_next_start_restores_first(fake: House, deadmen: SystemDeadmen) -> None:
    """WIN-11: daemon and deadman killed, the next daemon restores the host before it serves anything."""
    fake.fakes("heavy")
    fake.fakes("work")
    await fake.start()
    await fake.told("start", "heavy")
    deadmen.write(orders(fake))
    await deadmen.start(WINDOW)
    await fake.end(signal.SIGKILL)
    await kill(deadmen)
    await fake.start()
    assert (await fake.row("work"))["state"] == "ready"
    assert (await fake.row("heavy"))["state"] == "stopped"
    report = seen(deadmen).report
    assert report is not None
    assert (report.verified, report.cause) == (True, "both_dead")
    assert "restored by its deadman" in await fake.told("deadman", "status")


async def test_a_killed_deadman_is_replaced(fake: House, deadmen: SystemDeadmen) -> None:
    """WIN-11: the daemon sees that the deadman was killed, starts another, and tells."""
    fake.fakes("heavy")
    fake.fakes("work")
    deadmen.write(orders(fake))
    await deadmen.start(WINDOW)
    await fake.start()
    assert (await fake.row("work"))["state"] == "stopped"  # It serves, so it has looked at deadmen once.
    await kill(deadmen)
    await eventually(lambda: seen(deadmen).alive, "another lives")
    found: list[Json] = []

    async def told() -> bool:
        found[:] = await events(fake, "deadman_restarted", "deadman_missing")
        return found != []

    await eventually(told, f"it is told\n{fake.words()}")
    assert [(row["type"], row["subject"]) for row in found] == [
        ("deadman_restarted", {"lease": WINDOW, "host": "local"})
    ]
    status = json.loads(await fake.told("deadman", "status", "--json"))
    assert [(row["window"], row["deadman_alive"]) for row in status["windows"]] == [(WINDOW, True)]


async def test_a_restore_by_the_deadman_ends_the_lease(fake: House, deadmen: SystemDeadmen) -> None:
    """WIN-7, F15: at the cap the deadman restores beside a living daemon; the lease ends, nothing twice."""
    furnish(fake)
    fake.fakes("heavy")
    actions = [{"hold": "local"}, {"route": "chat", "to": "away"}, {"suspend": "work"}, {"start": "heavy"}]
    resources(fake, box={"title": "the box", "actions": actions})
    await begun(fake)
    lease = await taken(fake)
    await fake.end(signal.SIGKILL)
    await arm_lease(fake.state / "schedule.db", lease)
    deadmen.write(orders(fake, lease, cap_s=3.0))
    deadmen.note(lease, "open")
    await deadmen.start(lease)
    await fake.start()
    ended = await lease_is(fake, lease, "released", "expired")
    assert ended["state"] == "expired", ended
    assert str(ended["why"]).endswith(": deadman"), ended
    await fake.is_state("work", "ready")
    assert (await fake.row("heavy"))["state"] != "ready"
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"
    assert not fake.hold.exists()
    assert seen(deadmen, lease).over
    assert started(deadmen, lease) == ["work"]
    assert len(await events(fake, "deadman_restored")) == 1


def started(deadmen: SystemDeadmen, window: str) -> list[str]:
    """The engines that the deadman started, by its own lines."""
    path = deadmen.root / "windows" / window / written.DONE
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["engine"] for row in rows if row["did"] == "started"]


async def arm_lease(file: Path, id_: str) -> None:
    """The lease's plan and journal have an armed deadman: it is a window from now on."""
    store = SqliteStore(file, SystemIds())

    def work(tx: Tx) -> None:
        lease = tx.lease(LeaseId(id_))
        assert lease is not None
        step = ArmDeadman(
            host="local", window=id_, mode="heavy", cap_s=3.0, bring_back=("work",), end=("heavy",)
        )
        plan = (*lease.plan, step)
        tx.put(replace(lease, plan=plan))
        tx.begin(Entry(lease=id_, n=len(plan), step=step, found=FoundDeadman()))
        tx.mark(LeaseId(id_), len(plan), EntryState.DONE, "")

    await store.write(work)
    await store.close()
