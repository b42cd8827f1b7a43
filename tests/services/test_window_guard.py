"""The guard of an open window, in the watch of a host in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hostler.domain.engine import State
from hostler.domain.fleet import frozen
from hostler.domain.holding import Holding
from hostler.domain.mode import Mode, Tool, ToolCommand
from hostler.domain.values import EngineId
from hostler.domain.window import Answer
from tests.fakes.clock import settle
from tests.fakes.world import CROW, World, engine, world

WINDOW = "ls_1"


@dataclass(slots=True)
class Struck:
    """The schedule's side: what was told, and what it answers in turn."""

    notes: list[str] = field(default_factory=list)
    answers: list[Answer | None] = field(default_factory=lambda: [Answer.STOP, Answer.ABORT])

    async def __call__(self, lease: str, note: str) -> Answer | None:
        assert lease == WINDOW
        self.notes.append(note)
        return self.answers.pop(0) if self.answers else None


@asynccontextmanager
async def guarded(**heavy: object) -> AsyncIterator[tuple[World, Struck]]:
    """Crow in a window of `heavy`: `glm` is allowed, `embed` is essential, `bots` is neither."""
    engines = (engine("bots", need=4), engine("glm", need=4), engine("embed", need=1, essential=True))
    async with world(*engines) as it:
        mode = Mode(name="heavy", hosts=frozen({CROW: (EngineId("glm"),)}))
        mode = replace(mode, **heavy)  # type: ignore[arg-type]  # a test names the fields that matter to it
        it.lanes.config.fleet = replace(it.fleet, modes=frozen({"heavy": mode}))
        said = Struck()
        it.watch.window = replace(it.watch.window, strike=said)
        it.hold.write(f"lease:{WINDOW}", allow=("glm",))
        opened(it)
        yield it, said


def opened(it: World, **more: object) -> None:
    """The schedule has told this host of the window."""
    held = Holding(
        lease=WINDOW,
        resource="box",
        holder="anna",
        until=it.clock.now() + timedelta(hours=1),
        mode="heavy",
    )
    it.gate.guard.adopt({"hold crow": replace(held, **more)})  # type: ignore[arg-type]  # as above


async def came_up(it: World, name: str) -> None:
    """The engine comes up past the gate, as one that something else starts does."""
    it.hold.remove()
    await it.up(name)
    it.hold.write(f"lease:{WINDOW}", allow=("glm",))


async def look(it: World) -> None:
    it.watch.window.tick()
    await settle()
    await it.clock.advance(60)
    await settle()


async def test_an_intruder_is_stopped_once_with_who_asked() -> None:
    """WIN-6: strike one stops it by its identity, strike two is the schedule's to end the window with."""
    async with guarded() as (it, said):
        await came_up(it, "bots")
        await look(it)
        assert [note.split(",")[0] for note in said.notes] == ["bots came up"]
        assert it.state("bots") == "stopped"
        await look(it)
        assert len(said.notes) == 1
        await came_up(it, "bots")
        await look(it)
        assert len(said.notes) == 2


async def test_one_that_is_back_before_the_next_look_counts_again() -> None:
    """WIN-6: it was stopped and came up between two looks: that is the second coming."""
    async with guarded() as (it, said):
        await came_up(it, "bots")
        await look(it)
        assert it.state("bots") == "stopped"
        await came_up(it, "bots")
        await look(it)
        assert len(said.notes) == 2


async def test_one_that_stays_up_counts_once() -> None:
    """WIN-6: it is one coming, however often it is seen."""
    async with guarded() as (it, said):
        said.answers = [None]
        await came_up(it, "bots")
        await look(it)
        await look(it)
        assert len(said.notes) == 1
        assert it.state("bots") == "ready"


async def test_what_the_hold_allows_is_no_intruder() -> None:
    """WIN-6, HOLD-5: the mode's engines and essential ones come and go."""
    async with guarded() as (it, said):
        await it.up("glm", "embed")
        await look(it)
        assert said.notes == []


async def test_a_stranger_is_named_and_counts_again_when_it_comes_again() -> None:
    """WIN-6: whoever listens on the port of an engine that is down; nothing of it is stopped."""
    async with guarded() as (it, said):
        port = it.lane("bots").launch.port
        it.driver.strangers[port] = "pid 4711 (nginx)"
        await look(it)
        await look(it)
        assert said.notes == [f"pid 4711 (nginx) listens on port {port} of bots"]
        del it.driver.strangers[port]
        await look(it)
        it.driver.strangers[port] = "pid 4711 (nginx)"
        await look(it)
        assert len(said.notes) == 2
        assert "signal" not in " ".join(it.driver.journal)


async def test_a_teardown_marker_stands_the_guard_down() -> None:
    """WIN-6: nobody fights a restore."""
    async with guarded() as (it, said):
        it.files.texts[f"windows/{WINDOW}/teardown"] = ""
        await came_up(it, "bots")
        await look(it)
        assert said.notes == []


async def test_outside_an_open_window_nobody_is_guarded_against() -> None:
    """WIN-6: neither while it opens or is put back, nor past its cap, nor for a lease."""
    async with guarded() as (it, said):
        await came_up(it, "bots")
        for more in ({"until": None}, {"until": it.clock.now()}, {"mode": ""}):
            opened(it, **more)
            await look(it)
        it.gate.guard.adopt({})
        await look(it)
        assert said.notes == []


async def test_a_script_guards_its_own_window() -> None:
    """MODE-4: with `tool` the guard is the tool's."""
    command = ToolCommand(argv=("win",))
    async with guarded(tool=Tool(open=command, close=command, status=command)) as (it, said):
        await came_up(it, "bots")
        await look(it)
        assert said.notes == []


async def test_an_intruder_that_cannot_be_stopped_is_told() -> None:
    """WIN-6: the strike stands, and the event says why it still runs."""
    async with guarded() as (it, said):
        await came_up(it, "bots")
        it.driver.deaf.add(EngineId("bots"))
        await look(it)
        assert len(said.notes) == 1
        assert it.state("bots") == "failed"
        assert "deferred" in it.events.types


async def test_the_modes_own_engine_is_no_intruder_without_its_hold() -> None:
    """WIN-6: a hold record that somebody removed makes no enemy of what the window runs."""
    async with guarded() as (it, said):
        await it.up("glm")
        it.hold.remove()
        await look(it)
        assert said.notes == []
        assert it.lane("glm").state is State.READY
