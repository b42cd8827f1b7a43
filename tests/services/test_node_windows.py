"""What a window does on this host: the look at memory, the verification, on the services of a world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    HoldPathUnusable,
    MemoryNever,
    MemoryNow,
    MemoryResidue,
    NotFound,
    PortConflict,
    Refusal,
    StepFailed,
    StoreFull,
)
from hostler.domain.fleet import frozen
from hostler.domain.mode import Mode, Tool, ToolCommand, VerifyCommand
from hostler.domain.step import CheckMemory, FoundNothing, Operation, RunCommand, VerifyRestore
from hostler.domain.values import EngineId, HostName
from tests.fakes.host import GIB
from tests.fakes.node_parts import Parts, parts
from tests.fakes.world import CROW, engine, world
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller

VERIFY = VerifyRestore(host=HOST, mode="heavy")
SCRIPT = Tool(
    open=ToolCommand(argv=("make", "window")),
    close=ToolCommand(argv=("unmake", "window")),
    status=ToolCommand(argv=("status",), timeout_s=2.0),
)


def modes(**heavy: object) -> dict[str, Mode]:
    """`bots` and `voice` are standing, `glm` is the heavy mode's."""
    standard = Mode(
        name="standard", standing=True, hosts=frozen({CROW: (EngineId("bots"), EngineId("voice"))})
    )
    made = Mode(name="heavy", hosts=frozen({CROW: (EngineId("glm"),)}))
    return {"standard": standard, "heavy": replace(made, **heavy)}  # type: ignore[arg-type]  # a test's fields


@asynccontextmanager
async def host(**heavy: object) -> AsyncIterator[tuple[Parts, Teller]]:
    """Crow with its standing engines up, and a lease that tells its node what to do."""
    async with world(engine("bots", need=40), engine("voice", need=15), engine("glm", need=70)) as it:
        it.lanes.config.fleet = replace(it.fleet, modes=frozen(modes(**heavy)))
        await it.up("bots", "voice")
        found = parts(it)
        yield found, Teller(LocalRig(found))


def opening(tell: Teller) -> Operation:
    """The step as a window does it when it opens."""
    return replace(tell.operation(VERIFY), found=FoundNothing())


async def refused(tell: Teller, step: CheckMemory | VerifyRestore) -> Refusal:
    """What the preflight of a step refuses."""
    with pytest.raises(Refusal) as found:
        await tell.rig.wait(tell.rig.node.preflight(tell.operation(step)))
    return found.value


async def test_memory_is_looked_at_live() -> None:
    """WIN-3: what is available now, not what the config says; it is waited for a moment."""
    async with host() as (it, tell):
        await tell.do(CheckMemory(host=HOST, available=60 * GIB))
        it.world.machine.others = 30 * GIB
        with pytest.raises(MemoryNow, match=r"asks for 60\.0 GiB available; 39\.0 are"):
            await tell.do(CheckMemory(host=HOST, available=60 * GIB))


async def test_a_gate_above_the_hosts_memory_is_refused_before_the_first_change() -> None:
    """WIN-8, WIN-3: no eviction gives so much."""
    async with host() as (_, tell):
        assert isinstance(await refused(tell, CheckMemory(host=HOST, available=200 * GIB)), MemoryNever)


async def test_what_a_stop_left_behind_opens_nothing() -> None:
    """WIN-3, MEM-4: a residue of any evicted engine is told with its size."""
    async with host() as (it, tell):
        await it.world.stopping.stop(it.world.lane("bots"), actor="test", why="test")
        it.world.lane("bots").residue = "86.0 GiB"
        with pytest.raises(MemoryResidue, match=r"86\.0 GiB"):
            await tell.do(CheckMemory(host=HOST))
        operation = tell.operation(CheckMemory(host=HOST))
        assert "86.0 GiB" in (await tell.rig.node.verify(operation) or "")


async def test_memory_that_cannot_be_read_is_none() -> None:
    """WIN-3: fail closed where the mode asks for some."""
    async with host() as (it, tell):
        it.world.machine.broken = True
        with pytest.raises(MemoryNow):
            await tell.do(CheckMemory(host=HOST, available=GIB))


async def test_a_stranger_on_a_port_is_told_before_the_first_change() -> None:
    """WIN-8: what runs there has to be known; nothing is stopped for it."""
    async with host() as (it, tell):
        it.world.driver.strangers[it.world.lane("glm").launch.port] = "pid 4711 (nginx)"
        found = await refused(tell, VERIFY)
        assert isinstance(found, PortConflict)
        assert found.holder == "pid 4711 (nginx)"


async def test_a_hold_that_could_go_with_a_login_opens_nothing() -> None:
    """HOLD-2: where the run-time directory ends with the last session a window is refused."""
    async with host() as (it, tell):
        it.keeper.goes = (
            "/run/user/4242 goes when the last session of ada ends: `loginctl enable-linger ada`."
        )
        found = await refused(tell, VERIFY)
        assert isinstance(found, HoldPathUnusable)
        assert "loginctl enable-linger ada" in str(found)
        assert it.keeper.written == 0


async def test_a_mode_or_a_program_that_is_not_there_is_refused() -> None:
    """WIN-8: lasting defects, told before the first change."""
    async with host(verify=(VerifyCommand(host=CROW, argv=("check", "db")),)) as (it, tell):
        it.commands.missing.add("check")
        assert isinstance(await refused(tell, VERIFY), NotFound)
        assert isinstance(await refused(tell, VerifyRestore(host=HOST, mode="gone")), NotFound)


async def test_a_script_that_does_not_say_where_it_stands_is_refused() -> None:
    """MODE-4: its status has to answer within its time."""
    async with host(tool=SCRIPT) as (it, tell):
        await tell.rig.node.preflight(tell.operation(VERIFY))
        it.commands.hang.add("status")
        found = await refused(tell, VERIFY)
        assert isinstance(found, StepFailed)
        assert "did not answer within 2 s" in str(found)


async def test_a_script_is_told_its_cap_and_where_the_hold_is() -> None:
    """MODE-4: by its environment; other commands are not."""
    async with host(tool=SCRIPT) as (it, tell):
        await tell.do(RunCommand(host=HOST, argv=("make", "window"), cap_s=90.0))
        assert it.commands.told[-1]["HOSTLER_CAP_SECONDS"] == "90"
        assert "HOSTLER_BOX_RESERVATION_PATH" in it.commands.told[-1]
        await tell.do(RunCommand(host=HOST, argv=("make", "other")))
        assert it.commands.told[-1] == {}


async def test_what_was_up_is_verified_and_reported() -> None:
    """WIN-4: each engine with its memory and its seconds; the commands of this host, each with exit 0."""
    async with host(
        verify=(
            VerifyCommand(host=CROW, argv=("make", "sure")),
            VerifyCommand(host=HostName("raven"), argv=("far",)),
        )
    ) as (it, tell):
        await tell.rig.wait(tell.rig.node.perform(opening(tell)))
        await tell.do(VERIFY)
        assert it.commands.ran == [("make", "sure")]
        report = it.world.files.load(f"windows/{LEASE}/verified")
        assert report is not None
        assert report["wrong"] == []
        rows = report["engines"]
        assert isinstance(rows, list)
        assert [(row["engine"], row["up"], row["verified"], row["memory"]) for row in rows] == [
            ("bots", True, True, {"host": 40 * GIB}),
            ("voice", True, True, {"host": 15 * GIB}),
        ]
        (told,) = it.world.events.of("window_restored")
        assert told.facts["verified"] is True


async def test_an_engine_that_did_not_come_back_is_not_verified() -> None:
    """WIN-4: it was up when the window opened; one that was down then keeps nothing from closing."""
    async with host() as (it, tell):
        await it.world.stopping.stop(it.world.lane("voice"), actor="test", why="test")
        await tell.rig.wait(tell.rig.node.perform(opening(tell)))
        await tell.do(VERIFY)
        await it.world.stopping.stop(it.world.lane("bots"), actor="test", why="test")
        with pytest.raises(StepFailed, match="bots: it is stopped"):
            await tell.do(VERIFY)


async def test_one_that_a_person_suspended_meanwhile_is_left() -> None:
    """WIN-4, LEASE-11: that is their wish, and the report shows it."""
    async with host() as (it, tell):
        await tell.rig.wait(tell.rig.node.perform(opening(tell)))
        await it.world.stopping.stop(it.world.lane("bots"), actor="test", why="test")
        await it.world.engines.suspensions.add(it.world.lane("bots"), "person:ann")
        await tell.do(VERIFY)


async def test_memory_outside_the_usual_range_is_not_verified() -> None:
    """WIN-4: it came back with other memory than it had when the window opened."""
    async with host() as (it, tell):
        await tell.rig.wait(tell.rig.node.perform(opening(tell)))
        it.world.lane("bots").taken = frozen({"host": 90 * GIB})
        with pytest.raises(StepFailed, match=r"took 90\.0 GiB of host, and 40\.0 before"):
            await tell.do(VERIFY)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("fail", "check ended with 3: it went wrong"),
        ("hang", "check did not end within"),
        ("missing", "cannot be run"),
    ],
)
async def test_a_command_that_does_not_succeed_is_told(way: str, words: str) -> None:
    """WIN-4: how it ended and what it said; the report is written all the same."""
    async with host(verify=(VerifyCommand(host=CROW, argv=("check", "db")),)) as (it, tell):
        getattr(it.commands, way).add("check")
        with pytest.raises(StepFailed, match=words):
            await tell.do(VERIFY)
        report = it.world.files.load(f"windows/{LEASE}/verified")
        assert report is not None
        assert words in str(report["wrong"])


async def test_without_a_note_every_standing_engine_has_to_serve() -> None:
    """WIN-4: a note that was lost, or cannot be read, lets nothing pass."""
    async with host() as (it, tell):
        it.world.files.texts[f"windows/{LEASE}/before"] = "garbage"
        await tell.do(VERIFY)
        await it.world.stopping.stop(it.world.lane("voice"), actor="test", why="test")
        with pytest.raises(StepFailed, match="voice: it is stopped"):
            await tell.do(VERIFY)


async def test_a_full_disk_refuses_the_note() -> None:
    """WIN-8: state has to be writable before anything is changed."""
    async with host() as (it, tell):
        it.world.files.full = True
        with pytest.raises(StoreFull):
            await tell.rig.wait(tell.rig.node.perform(opening(tell)))


async def test_after_a_script_the_engines_are_waited_for() -> None:
    """MODE-4: the script restored them, Hostler sees that they serve."""
    async with host(tool=SCRIPT) as (it, tell):
        await tell.rig.wait(tell.rig.node.perform(opening(tell)))
        await it.world.stopping.stop(it.world.lane("bots"), actor="test", why="test")
        it.world.wanted("bots")
        await tell.do(VERIFY)
