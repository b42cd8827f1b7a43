"""What is seen of windows: what one left up, and what is wrong in one that is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.domain.errors import HoldTaken, InvalidRequest, NodeUnreachable, StepFailed
from hostler.domain.fleet import frozen
from hostler.domain.mode import QuietHours, Tool, ToolCommand
from hostler.domain.step import FoundHold
from hostler.domain.values import RouteName
from hostler.wire.windows import WindowsQuery
from tests.fakes.modes import HEAVY, mode, moded
from tests.fakes.schedule_world import OPERATOR
from tests.services.window_room import room


async def test_what_an_abandoned_window_left_is_told_and_makes_way_for_the_next() -> None:
    """MODE-2, WIN-8, LEASE-14: the next window stops it like all that is outside, and leaves it down."""
    async with room() as it:
        window = await it.open()
        it.node.faults["perform stop glm"] = StepFailed(step="stop glm", why="it does not end")
        stuck = await it.close(window)
        assert stuck.state == "stuck"
        it.node.faults.clear()
        released = await it.head.release(
            stuck, who=OPERATOR, secret=None, because="late", generation=stuck.generation, abandon=True
        )
        assert "abandoned: late" in released.why
        for name in ("bots", "voice"):
            it.node.world.engines[name].up = True
        now = await it.head.parts.modes.modes()
        assert (now.present, now.nearest) == (None, "standard")
        assert now.strays == (
            "glm on crow is up, and not of the standing mode: `hostler stop glm` on crow ends it",
        )
        it.node.world.routes["chat"].active = "local"
        plan = await it.head.parts.modes.plan("heavy")
        assert [step.text for step in plan.steps if "glm" in step.text] == [
            "drain glm",
            "stop glm",
            "start glm",
        ]
        it.node.log.clear()
        again = await it.open(request="open-2")
        assert it.node.log[4:] == [
            "drain glm",
            "drain bench",
            "drain bots",
            "drain voice",
            "stop glm",
            "suspend bench",
            "suspend bots",
            "suspend voice",
            "look at the memory of crow",
            "start glm",
        ]
        assert (await it.head.parts.modes.modes()).strays == ()
        assert (await it.close(again)).state == "released"
        assert it.node.picture() == it.before


async def test_a_resident_one_that_an_abandoned_window_left_is_told_as_well() -> None:
    """MODE-2, LEASE-14: by the journal, as its class would let it come by itself."""
    async with room(moded(mode("light", "embed", "bench"))) as it:
        window = await it.open("light", override=None)
        it.node.faults["perform stop bench"] = StepFailed(step="stop bench", why="it does not end")
        stuck = await it.close(window)
        await it.head.release(
            stuck, who=OPERATOR, secret=None, because="late", generation=stuck.generation, abandon=True
        )
        (stray,) = (await it.head.parts.modes.modes()).strays
        assert stray.startswith("bench on crow is up")


async def test_no_window_opens_over_a_route_that_leads_to_what_was_left_alone() -> None:
    """WIN-8: its restore would lead the route to an engine that is down: it is put back by hand first."""
    async with room(moded(replace(HEAVY, routes=frozen({RouteName("chat"): "glm"})))) as it:
        it.node.world.engines["glm"].up = True
        it.node.world.routes["chat"].active = "glm"
        before = it.node.picture()
        with pytest.raises(InvalidRequest, match="Route chat leads to glm, left up") as told:
            await it.open()
        assert told.value.expected == "Put it back first: `hostler routes set chat local`."
        assert (it.node.log, it.node.picture()) == ([], before)
        it.node.world.routes["chat"].active = "local"
        assert (await it.open()).state == "active"


async def test_an_open_window_is_told_before_its_own_route() -> None:
    """WIN-8, MODE-3: that its route leads to its engine is no fault: the next is refused as held."""
    async with room(moded(replace(HEAVY, routes=frozen({RouteName("chat"): "glm"})))) as it:
        window = await it.open()
        assert it.node.world.routes["chat"].active == "glm"
        with pytest.raises(HoldTaken) as open_:
            await it.open(request="open-2")
        assert "`hostler window status` shows it" in open_.value.way
        assert open_.value.lease == window.id
        it.node.faults["perform stop glm"] = StepFailed(step="stop glm", why="it does not end")
        assert (await it.close(window)).state == "stuck"
        it.node.world.routes["chat"].active = "glm"
        with pytest.raises(HoldTaken) as stuck:
            await it.open(request="open-3")
        assert stuck.value.way.startswith("A window in heavy is not put back yet: ")


async def test_what_a_script_finds_up_is_left_to_it() -> None:
    """MODE-4: a mode with a script sees to its own engines: the plan has no step of ours more."""
    script = ToolCommand(argv=("window",))
    tool = Tool(open=script, close=script, status=script)
    async with room(moded(replace(HEAVY, tool=tool, routes=frozen({RouteName("chat"): "glm"})))) as it:
        it.node.world.engines["glm"].up = True
        it.node.world.routes["chat"].active = "glm"
        window = await it.open()
        assert window.state == "active"
        assert not [step.text for step in window.steps if step.text.endswith(" glm")]


async def test_what_is_wrong_in_an_open_window_is_shown() -> None:
    """WIN-5, WIN-10: an engine of it that is down, a hold that is not its own, a host that says nothing."""
    async with room() as it:
        windows = it.head.parts.windows
        window = await it.open()

        async def wrong() -> tuple[str, ...]:
            (shown,) = (await windows.windows(WindowsQuery())).leases
            part = (await windows.status(window.id)).lease.window
            assert shown.window == part
            assert part is not None
            return part.wrong

        assert await wrong() == ()
        held, it.node.world.hold = it.node.world.hold, FoundHold(identity="b@1", owner="bench")
        it.node.world.engines["glm"].up = False
        assert await wrong() == (
            f"crow is held by bench, not by this window: `hostler window close {window.id}` ends the window",
            f"glm on crow is stopped: `hostler start glm --lease {window.id}` there starts it again",
        )
        it.node.world.hold = FoundHold()
        it.node.world.engines["glm"].up = True
        (gone,) = await wrong()
        assert gone.startswith("crow is not held any more: ")
        it.node.faults["observe hold crow"] = NodeUnreachable(host="crow", why="it is away")
        assert await wrong() == ("crow does not say how it is",)
        it.node.faults.clear()
        it.node.world.hold = held
        await it.close(window)
        over = (await windows.status(window.id)).lease.window
        assert over is not None
        assert over.wrong == ()


async def test_the_end_of_a_hold_is_told_while_it_stands() -> None:
    """WIN-10, HOLD-11: of a record that went, or that nobody sees, no end is told, whatever the plan has."""
    async with room() as it:
        windows = it.head.parts.windows
        window = await it.open()

        async def ends() -> list[str]:
            (shown,) = (await windows.windows(WindowsQuery())).leases
            part = (await windows.status(window.id)).lease.window
            assert shown.window == part
            assert part is not None
            return list(part.hold_until)

        assert await ends() == ["crow"]
        held, it.node.world.hold = it.node.world.hold, FoundHold()
        assert await ends() == []
        it.node.world.hold = FoundHold(identity="b@1", owner="bench")
        assert await ends() == []
        it.node.world.hold = held
        it.node.faults["observe hold crow"] = NodeUnreachable(host="crow", why="it is away")
        assert await ends() == []
        it.node.faults.clear()
        it.node.faults["perform stop glm"] = StepFailed(step="stop glm", why="it does not end")
        assert (await it.close(window)).state == "stuck"
        assert await ends() == ["crow"]
        it.node.world.hold = FoundHold()
        assert await ends() == []


async def test_a_hold_that_the_script_wrote_is_not_wrong() -> None:
    """MODE-4: a window's script may write the record itself."""
    script = ToolCommand(argv=("window",))
    tool = Tool(open=script, close=script, status=script)
    async with room(moded(replace(HEAVY, tool=tool))) as it:
        window = await it.open()
        it.node.world.hold = FoundHold(identity="b@1", owner="dsv4-window")
        part = (await it.head.parts.windows.status(window.id)).lease.window
        assert part is not None
        assert part.wrong == ()


async def test_a_plan_depends_on_its_cap() -> None:
    """MODE-2, WIN-8: a plan says when its cap is refused, also for quiet hours; its class counts as named."""
    late = replace(HEAVY, not_between=(QuietHours(start=22 * 60 + 30, end=4 * 60),))
    async with room(moded(late)) as it:
        modes = it.head.parts.modes
        refused = (await modes.plan("heavy")).refused
        assert refused is not None
        assert refused.startswith("No window of heavy is open in its quiet hours 22:30-04:00: from ")
        short = await modes.plan("heavy", 900.0)
        assert (short.cap_s, short.refused) == (900.0, None)
        assert (await modes.plan("heavy", 5.0)).refused == "A window of heavy for 5 s would serve nobody."
        it.untouched()


async def test_a_host_that_says_nothing_is_named_beside_what_is_down() -> None:
    """MODE-2: of a host that cannot be asked nothing is known, and that is said."""
    async with room() as it:
        away = NodeUnreachable(host="crow", why="it is away")
        it.node.faults |= {f"observe stop {engine}": away for engine in it.node.world.engines}
        now = await it.head.parts.modes.modes()
        assert (now.present, now.silent) == (None, ("crow",))
        del it.node.faults["observe stop bots"]
        assert (await it.head.parts.modes.modes()).silent == ()
