"""Windows as leases whose plan enters a mode, on the memory store and a fake node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.domain.errors import (
    BoxReserved,
    HoldTaken,
    InvalidRequest,
    LeaseNotFound,
    MemoryResidue,
    NodeUnreachable,
    NotFound,
    ServingClassRefused,
    SlotTaken,
    TtlRefused,
    WrongScope,
)
from hostler.domain.mode import QuietHours
from hostler.domain.window import Answer, Back, HostReport
from hostler.wire.schedule import FenceBody
from hostler.wire.windows import WindowsQuery
from tests.fakes.clock import settle
from tests.fakes.modes import HEAVY, moded
from tests.fakes.schedule_world import AGENT, BY, OPERATOR
from tests.services.window_room import PLAIN, room


async def test_a_window_is_opened_closed_and_everything_is_as_before() -> None:
    """MODE-1, WIN-4: the steps come in the plan's order, their undo in reverse, holds and deadmen last."""
    async with room() as it:
        window = await it.open()
        assert (window.state, window.kind) == ("active", "window")
        assert it.node.log == [
            "arm the deadman of crow",
            "hold crow",
            "verify what is back on crow",
            "route chat to away on crow",
            "drain bench",
            "drain bots",
            "drain voice",
            "suspend bench",
            "suspend bots",
            "suspend voice",
            "look at the memory of crow",
            "start glm",
        ]
        assert it.node.world.deadman.window == window.id
        it.node.log.clear()
        closed = await it.close(window)
        assert (closed.state, closed.why) == ("released", "it was released: closed")
        assert it.node.log == [
            "stop glm",
            "resume voice",
            "resume bots",
            "resume bench",
            "route chat to local on crow",
            "verify what is back on crow",
            "remove the hold of crow",
            "disarm the deadman of crow",
        ]
        assert it.node.picture() == it.before


async def test_the_plan_is_the_modes_own() -> None:
    """MODE-1, MODE-3: what its resource does when it is leased is not done."""
    async with room() as it:
        window = await it.open("plain", override=None)
        assert window.resource == "window plain"
        assert {"box", "disk", "host crow"} < set(window.covers)
        with pytest.raises(HoldTaken):
            await it.head.reserve("disk", now=True)


async def test_only_an_operator_opens_one_and_the_class_must_be_the_modes_own() -> None:
    """CAT-5, WIN-8: another class or none is refused, and nothing is changed."""
    async with room() as it:
        with pytest.raises(WrongScope):
            await it.open(who=AGENT)
        for wrong in (None, "resident", "wedge-risk"):
            with pytest.raises(ServingClassRefused):
                await it.open(override=wrong)
        with pytest.raises(InvalidRequest):
            await it.open("plain", override="windowed")
        it.untouched()


async def test_the_standing_mode_is_none_that_a_window_enters() -> None:
    """MODE-1: the fleet is in it while no window is open."""
    async with room() as it:
        with pytest.raises(InvalidRequest, match="standing mode"):
            await it.open("standard", override=None)


async def test_a_cap_is_bounded_by_the_mode_and_forced_over_eight_hours() -> None:
    """WIN-2: a cap past the mode's, or over 8 h without force, is refused before anything is changed."""
    async with room() as it:
        with pytest.raises(TtlRefused):
            await it.open(cap_s=11 * 3600.0)
        with pytest.raises(InvalidRequest, match="--force"):
            await it.open(cap_s=9 * 3600.0)
        it.untouched()
        assert (await it.open(cap_s=9 * 3600.0, force=True)).state == "active"


async def test_quiet_hours_are_respected_unless_forced() -> None:
    """WIN-8, TIME-1: at 22:05 in Berlin an hour's window does not run into quiet hours from 22:30 on."""
    late = replace(HEAVY, not_between=(QuietHours(start=22 * 60 + 30, end=4 * 60),))
    async with room(moded(late)) as it:
        with pytest.raises(InvalidRequest, match="22:30-04:00"):
            await it.open()
        it.untouched()
        assert (await it.open(cap_s=900.0)).state == "active"
        await it.abort((await it.head.parts.windows.windows(WindowsQuery())).leases[0])
        assert (await it.open(request="open-2", force=True)).state == "active"


async def test_a_repeat_of_the_call_is_the_same_window() -> None:
    """LEASE-9: the answer was lost, and asking again opens no second one."""
    async with room() as it:
        window = await it.open()
        assert (await it.open()).id == window.id


async def test_a_held_host_refuses_a_window() -> None:
    """WIN-8: somebody else's hold is told before the first change."""
    async with room() as it:
        it.node.world.hold = replace(it.node.world.hold, identity="kim@now", owner="kim")
        it.before = it.node.picture()
        with pytest.raises(BoxReserved):
            await it.open()
        it.untouched()


async def test_a_lease_on_the_resource_refuses_a_window() -> None:
    """WIN-8, MODE-3: two parties do not get one box."""
    async with room() as it:
        await it.head.reserve("box")
        with pytest.raises(HoldTaken) as told:
            await it.open()
        assert told.value.way.startswith("A window waits for nobody: ")


async def test_two_windows_never_share_a_host() -> None:
    """MODE-3, WIN-8: their resources differ, and both cover the host."""
    async with room() as it:
        await it.open()
        with pytest.raises(HoldTaken) as told:
            await it.open("plain", override=None, request="open-2")
        assert "`window close` ends it" in told.value.advice()


async def test_a_booking_before_the_cap_refuses_a_window() -> None:
    """WIN-2, LEASE-26: a cap is absolute, so a window that would run into a booking is not opened."""
    async with room() as it:
        await it.head.reserve("box", start="2026-09-04T20:30Z", ttl_s=600.0)
        with pytest.raises(SlotTaken):
            await it.open()
        it.untouched()
        assert (await it.open(cap_s=900.0)).state == "active"


async def test_memory_that_does_not_come_back_opens_nothing() -> None:
    """WIN-3: the reason is named, everything is restored, and the window is over."""
    async with room() as it:
        refusal = MemoryResidue(engine="bots", host="crow", residue="86.0 GiB", waited_s=30)
        it.node.faults["perform look at the memory of crow"] = refusal
        window = await it.open()
        assert window.state == "failed"
        assert "86.0 GiB" in window.why
        assert it.node.picture() == it.before


async def test_at_the_cap_the_undo_begins() -> None:
    """WIN-2, MODE-3: an hour after it was opened it is put back, by the cause `cap`."""
    async with room() as it:
        window = await it.open()
        await it.head.skip(3599.0)
        assert (await it.head.look(window)).state == "active"
        await it.head.skip(1.0)
        over = await it.head.look(window)
        assert (over.state, over.why) == ("expired", "its time was up: cap")
        assert it.node.picture() == it.before


async def test_the_cap_counts_from_the_grant() -> None:
    """WIN-2: what opening took is part of it, as the deadmen count it."""
    async with room() as it:
        window = await it.open()
        row = await it.head.row(window)
        assert row.hard is not None
        assert row.expires == row.hard
        assert window.limited_by == "cap"
        assert window.window is not None
        assert window.window.stop_accepting_at == "2026-09-04T20:55:11.482Z"
        assert window.window.hold_until["crow"] > (window.window.cap_at or "")


async def test_renewing_past_the_cap_is_refused() -> None:
    """WIN-2, LEASE-17: nothing moves a cap."""
    async with room() as it:
        window = await it.open()
        await it.head.skip(60.0)
        with pytest.raises(TtlRefused, match="cap"):
            await it.head.renew(window, ttl_s=3600.0)
        assert (await it.head.renew(window)).hard_at == window.hard_at
        assert (await it.head.renew(window, ttl_s=600.0)).expires_at == window.expires_at
        for ttl_s in (600.0, None):
            # Without its secret no reason is asked for: none would help.
            with pytest.raises(TtlRefused, match="The window of heavy ends at its cap"):
                await it.head.renew(window, who=OPERATOR, secret=None, ttl_s=ttl_s)


async def test_a_fence_does_not_pause_a_cap() -> None:
    """LEASE-28, WIN-2: under a fence and after it the cap is where it was."""
    async with room() as it:
        window = await it.open()
        await it.head.schedule.fence(FenceBody(up=True, reason="deploy", for_s=7200.0), OPERATOR, BY)
        await it.head.skip(3600.0)
        assert (await it.head.look(window)).state == "expired"


async def test_the_soft_deadline_is_told_once() -> None:
    """WIN-2: 10 min before the cap, with high priority."""
    async with room() as it:
        window = await it.open()
        await it.head.skip(3000.0)
        await it.head.skip(1.0)
        types = await it.head.types()
        assert types.count("window_closing") == 1
        shown = (await it.head.look(window)).window
        assert shown is not None
        assert shown.closing
        held = it.node.held["engine glm"]
        assert held.stop_accepting is not None
        assert it.node.held["engine bots"].stop_accepting is None
        assert held.mode == "heavy"


async def test_a_second_strike_aborts_the_window() -> None:
    """WIN-6: the first is noted, the second ends it with the true reason, and a third finds nothing."""
    async with room() as it:
        window = await it.open()
        windows = it.head.parts.windows
        assert await windows.strike(window.id, "bots came up, asked for by bot/1") is Answer.STOP
        assert await windows.strike(window.id, "bots came up again") is Answer.ABORT
        await settle()
        over = await it.head.look(window)
        assert (over.state, over.why) == ("cancelled", "it was called off: aborted: bots came up again")
        assert over.window is not None
        assert len(over.window.strikes) == 2
        assert it.node.picture() == it.before
        assert await windows.strike(window.id, "once more") is None


async def test_a_strike_elsewhere_is_counted_once() -> None:
    """WIN-6: another host tells of it again and again; two that it saw end the window."""
    async with room() as it:
        window = await it.open()
        windows = it.head.parts.windows
        one, two = (f"bots came up on raven at {n}" for n in (1, 2))
        assert await windows.strike_elsewhere(window.id, one) is Answer.STOP
        assert await windows.strike_elsewhere(window.id, one) is None
        assert await windows.strike_elsewhere(window.id, two) is Answer.ABORT
        await settle()
        assert (await it.head.look(window)).state == "cancelled"


async def test_the_report_is_of_every_host() -> None:
    """WIN-4: what a host wrote down, and that one which does not answer has not told."""
    async with room() as it:
        window = await it.open()
        back = Back(engine="bots", host="crow", up=True, verified=False, why="it took 9.0 GiB", memory={})
        it.node.restore_report = HostReport(engines=(back,), wrong=("bots: it took 9.0 GiB",))
        told = await it.head.parts.windows.report(window.id)
        assert [(row.engine, row.up, row.why) for row in told.engines] == [("bots", True, "it took 9.0 GiB")]
        assert told.wrong == ("crow: bots: it took 9.0 GiB",)
        it.node.faults["report"] = NotFound(what="window", name=window.id)
        assert (await it.head.parts.windows.report(window.id)).wrong == ()
        it.node.faults["report"] = NodeUnreachable(host="crow", why="cut")
        told = await it.head.parts.windows.report(window.id)
        assert told.engines == ()
        assert told.wrong == ("crow: its report is not to be had: The node of crow does not answer: cut",)


async def test_an_abort_says_why() -> None:
    """WIN-10: everything is put back, and the reason stays with it."""
    async with room() as it:
        over = await it.abort(await it.open(), "the fans scream")
        assert (over.state, over.why) == ("cancelled", "it was called off: aborted: the fans scream")
        assert it.node.picture() == it.before
        assert (await it.abort(over)).state == "cancelled"


async def test_what_cannot_be_verified_is_stuck_with_its_hold() -> None:
    """WIN-4: the hold stays until a release has verified the restore."""
    async with room() as it:
        window = await it.open()
        it.node.unseen["verify what is back on crow"] = "exit code 1"
        stuck = await it.close(window)
        assert stuck.state == "stuck"
        assert it.node.world.hold.lease == window.id
        assert it.node.world.deadman.alive
        it.node.unseen.clear()
        assert (await it.close(window)).state == "released"
        assert it.node.picture() == it.before


async def test_a_lease_is_no_window() -> None:
    """WIN-10: closing and aborting are for windows, and say so of everything else."""
    async with room() as it:
        lease = await it.head.reserve("disk")
        with pytest.raises(InvalidRequest, match="no window"):
            await it.abort(lease)
        with pytest.raises(LeaseNotFound):
            await it.head.parts.windows.status("ls_none")


async def test_the_windows_are_listed_with_those_that_are_over() -> None:
    """WIN-10: each with its mode, its cap and its steps."""
    async with room() as it:
        window = await it.open()
        await it.head.reserve("disk")
        (shown,) = (await it.head.parts.windows.windows(WindowsQuery())).leases
        assert (shown.id, len(shown.steps)) == (window.id, 12)
        await it.close(window)
        assert (await it.head.parts.windows.windows(WindowsQuery())).leases == ()
        (over,) = (await it.head.parts.windows.windows(WindowsQuery(ended=True))).leases
        assert over.state == "released"


async def test_the_present_mode_is_shown_and_how_far_the_others_are() -> None:
    """MODE-2: the standing mode, then heavy, then neither."""
    async with room() as it:
        modes = it.head.parts.modes
        assert (await modes.modes()).present == "standard"
        window = await it.open()
        now = await modes.modes()
        assert (now.present, now.window) == ("heavy", window.id)
        standard = next(each for each in now.modes if each.standing)
        assert standard.missing == ("bots on crow", "voice on crow")
        it.node.world.engines["bench"].up = True
        near = await modes.modes()
        assert (near.present, near.nearest) == (None, "heavy")
        assert next(each for each in near.modes if each.name == "heavy").extra == ("bench on crow",)
        assert near.silent == ()


async def test_a_plan_is_shown_with_its_arithmetic_and_changes_nothing() -> None:
    """MODE-2, WIN-5: the sum of each host, what comes back, and how long the hold outlives the cap."""
    async with room() as it:
        plan = await it.head.parts.modes.plan("heavy")
        (crow,) = plan.hosts
        assert crow.text == "embed 1.0 + glm 74.0 = 75.0 GiB"
        assert crow.back == ("voice", "bots")
        assert crow.restore_s == pytest.approx(2 * 120 + 58 * (1 << 30) / 1e6 * 0.008)
        assert crow.hold_after_s == crow.restore_s
        assert [step.text for step in plan.steps][-1] == "start glm"
        assert plan.refused is None
        it.untouched()


async def test_the_report_of_a_window_that_was_not_restored_yet_is_empty() -> None:
    """WIN-4: nothing is invented; the cause and the steps are there."""
    async with room() as it:
        window = await it.open()
        report = await it.head.parts.windows.report(window.id)
        assert (report.mode, report.state, report.engines) == ("heavy", "active", ())
        assert len(report.steps) == 12


async def test_a_daemon_that_restarts_in_an_open_window_ends_nothing() -> None:
    """WIN-1: its successor knows the window, its cap and its soft deadline."""
    async with room() as it:
        window = await it.open()
        later = await it.head.again()
        await later.skip(3599.0)
        assert (await later.look(window)).state == "active"
        await later.skip(1.0)
        assert (await later.look(window)).state == "expired"
        assert it.node.picture() == it.before


async def test_a_mode_that_left_the_config_still_ends() -> None:
    """LEASE-5: the plan was captured at the grant."""
    async with room() as it:
        window = await it.open()
        later = await it.head.again(moded(PLAIN))
        await later.ticks(1.0)
        assert any(
            "the mode heavy is in the config no more" in text for told in later.warnings for text in told
        )
        await later.skip(3600.0)
        assert (await later.look(window)).state == "expired"
