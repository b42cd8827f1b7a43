import pytest

from hostler.domain.hold import HoldState, HoldView
from hostler.domain.values import Cause, Priority
from tests.fakes.world import BOT, World, engine, world


def refused(it: World, name: str = "a", cause: Cause = Cause.REQUEST) -> None:
    """A start that the hold refuses."""
    it.holds.refused(it.holds.view(), name, BOT, cause)


async def test_a_hold_is_told_once() -> None:
    """HOLD-7: a hold is one event of normal priority, however often it is looked at or renewed."""
    async with world(engine("a")) as it:
        it.hold.write("dsv4")
        for _ in range(50):
            it.holds.tick()
        assert it.events.types == ["hold_opened"]
        told = it.events.last("hold_opened")
        assert told.priority is Priority.NORMAL
        assert told.message == "dsv4 holds crow until 2026-09-04T21:05:11.482Z: window"


async def test_a_hold_that_cannot_be_read_for_a_moment_is_told_once() -> None:
    """HOLD-7: a hold that is seen again after an unreadable moment is not opened, or first refused, twice."""
    async with world(engine("a")) as it:
        for _ in range(3):
            it.hold.defect = None
            if it.hold.record is None:
                it.hold.write()
            it.holds.tick()
            refused(it)
            it.hold.defect = "no expiry"
            it.holds.tick()
        assert len(it.events.of("hold_opened")) == 1
        assert len(it.events.of("hold_unreadable")) == 1
        assert len(it.events.of("hold_first_refusal")) == 1


async def test_a_refusal_may_be_the_first_sight() -> None:
    """HOLD-15: a hold that is first seen by a refusal is opened then; the next tick says nothing new."""
    async with world(engine("a")) as it:
        it.hold.write()
        refused(it)
        assert not it.holds.tick()
        assert it.events.types == ["hold_opened", "hold_first_refusal"]


async def test_the_first_refusal_is_seen_on_the_phone() -> None:
    """HOLD-15: the first refusal of a hold is of high priority, and names who, what, and the way out."""
    async with world(engine("a")) as it:
        it.hold.write("dsv4")
        for _ in range(3):
            refused(it)
        told = it.events.of("hold_first_refusal")
        assert len(told) == 1
        assert told[0].priority is Priority.HIGH
        assert told[0].message == (
            "dsv4 holds crow: a was refused to 10.99.0.7 ua=bot/1 client=bot."
            " If the hold is stale: hostler box release --force"
        )
        assert (it.holds.seen.count, len(it.holds.seen.refused)) == (3, 3)


async def test_timers_count_once_per_subject() -> None:
    """HOLD-15: a timer's refusals count once for each engine and cause; a caller's count each."""
    async with world(engine("a")) as it:
        it.hold.write()
        for _ in range(4):
            refused(it, "a", Cause.RESIDENCY)
            refused(it, "b", Cause.RESIDENCY)
            refused(it, "a", Cause.IDLE_REVERT)
            refused(it, "a", Cause.API)
        assert it.holds.seen.count == 3 + 4


async def test_the_list_of_refusals_is_bounded() -> None:
    """HOLD-8: a hundred refusals are kept for `box status`; the count goes on."""
    async with world(engine("a")) as it:
        it.hold.write()
        for _ in range(250):
            refused(it)
        kept = it.holds.unwritten()
        assert kept is not None
        assert kept["count"] == 250
        assert len(it.holds.seen.refused) == 100
        assert it.holds.unwritten() is None
        it.holds.write_again()
        assert it.holds.unwritten() == kept


async def test_how_a_hold_ends() -> None:
    """HOLD-11: a hold that lapses is `expired`; one that is removed or replaced is `released`."""
    async with world(engine("a")) as it:
        it.hold.write(seconds=10)
        it.holds.tick()
        await it.clock.advance(10)
        assert it.holds.tick()
        assert it.events.types[-1] == "hold_expired"
        it.hold.write("two")
        assert not it.holds.tick()
        it.hold.write("three")
        assert it.holds.tick()
        assert it.events.types[-2:] == ["hold_released", "hold_opened"]
        it.hold.remove()
        assert it.holds.tick()
        assert not it.holds.tick()
        assert it.events.types[-1] == "hold_released"


async def test_an_end_that_a_refusal_sees_first_is_not_lost() -> None:
    """HOLD-15: that a hold was replaced is told to residency also when a refusal saw it before the tick."""
    async with world(engine("a")) as it:
        it.hold.write("one")
        it.holds.tick()
        it.hold.write("two")
        refused(it)
        assert it.holds.tick()
        assert not it.holds.tick()


async def test_a_hold_that_ended_meanwhile_is_charged_with_nothing() -> None:
    """HOLD-15: a hold that ended between a refusal and its telling keeps its end for the tick."""
    async with world(engine("a")) as it:
        it.hold.write(seconds=10)
        it.holds.tick()
        await it.clock.advance(10)
        refused(it)
        assert it.holds.seen.count == 0
        assert it.holds.tick()


@pytest.mark.parametrize(
    ("state", "kind", "priority"),
    [
        (HoldState.UNREADABLE, "hold_unreadable", Priority.HIGH),
        (HoldState.AGED_OUT, "hold_aged_out", Priority.HIGH),
    ],
)
async def test_a_record_that_cannot_be_read(
    state: HoldState, kind: str, priority: Priority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-4: an unreadable record is a high notice with its defect and the way out, as is its end."""
    async with world(engine("a")) as it:
        views = [HoldState.UNREADABLE, state]

        def read(_: object) -> HoldView:
            return HoldView(
                state=views[0], path="/run/hold.json", defect="it has no expires_at", identity="inode 7"
            )

        monkeypatch.setattr(type(it.hold), "read", read)
        it.holds.tick()
        views.pop(0)
        it.holds.tick()
        told = it.events.last(kind)
        assert told.priority is priority
        first = it.events.of("hold_unreadable")
        text = "The hold record /run/hold.json counts as held: it has no expires_at."
        assert [event.message for event in first] == [f"{text} hostler box release removes it"]


async def test_an_overlong_hold_is_flagged() -> None:
    """HOLD-3: a hold of more than 8 h that nobody forced is honoured, and flagged in its first notice."""
    async with world(engine("a")) as it:
        it.hold.write(seconds=9 * 3600)
        it.hold.overlong = True
        it.holds.tick()
        assert it.events.last("hold_opened").message.endswith(
            "; its expiry is more than 8 h away and was not forced"
        )


async def test_forced_changes_are_told() -> None:
    """HOLD-9, HOLD-11: a take-over or a forced release is a high notice at the next tick, each once.

    Whose hold it was is looked at then, also where none was seen between two ticks.
    """
    async with world(engine("a")) as it:
        it.machine.forced.append("ops took the hold of dsv4 over")
        assert it.holds.tick()
        assert not it.holds.tick()
        told = it.events.of("hold_changed_by_force")
        assert [(event.message, event.priority) for event in told] == [
            ("ops took the hold of dsv4 over", Priority.HIGH)
        ]


async def test_an_owner_cannot_write_the_notice() -> None:
    """HOLD-7: an owner and a reason with control characters are shown escaped, and cut."""
    async with world(engine("a")) as it:
        it.hold.write("\x1b[2Jroot" + "x" * 200)
        it.holds.tick()
        message = it.events.last("hold_opened").message
        assert message.startswith("\\x1b[2Jroot")
        assert len(message) < 400
