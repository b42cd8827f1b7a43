from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from hostler.domain.errors import BoxReserved, InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.hold import HoldRecord
from hostler.domain.hold_plan import RELEASED, TAKEN_OVER, Taken
from hostler.domain.holding import Holding
from hostler.domain.mode import Mode, Tool, ToolCommand
from hostler.domain.step import HoldHost, RemoveHold
from hostler.domain.values import Priority, rfc3339
from hostler.services.deadman_needs import DeadmanState
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller, local_rig

HOLD = HoldHost(host=HOST, allow=("embed",))


@pytest.fixture
async def it() -> AsyncIterator[Parts]:
    """A host with its node."""
    async with local_rig() as rig:
        rig.parts.world.watch.upkeep = rig.parts.node.upkeep
        yield rig.parts


def record(it: Parts) -> HoldRecord:
    found = it.world.hold.record
    assert found is not None
    return found


def left(it: Parts) -> float:
    return (record(it).expires_at - it.world.clock.now()).total_seconds()


async def held(it: Parts, *, seconds: float | None) -> None:
    until = None if seconds is None else it.world.clock.now() + timedelta(seconds=seconds)
    row = Holding(lease=LEASE, resource="pair", holder="ann", key="ann", until=until)
    await it.node.adopt({f"hold {HOST}": row})


async def hold(it: Parts, *, seconds: float | None) -> None:
    tell = Teller(LocalRig(it))
    until = None if seconds is None else rfc3339(it.world.clock.now() + timedelta(seconds=seconds))
    await it.node.perform(replace(tell.operation(HOLD), expires_at=until))


async def window(it: Parts) -> None:
    """A window of an hour is open here."""
    await hold(it, seconds=3600)
    until = it.world.clock.now() + timedelta(seconds=3600)
    row = Holding(lease=LEASE, resource="pair", holder="ann", key="ann", until=until, mode="heavy")
    await it.node.adopt({f"hold {HOST}": row})
    await it.world.ticks(1)


def told(it: Parts, kind: str) -> list[str]:
    """What was told of that kind, a notice of one identity once."""
    found = {event.once: event for event in it.world.events.of(kind)}
    assert all(event.priority is Priority.HIGH for event in found.values())
    return [event.message for event in found.values()]


async def test_what_a_lease_writes(it: Parts) -> None:
    """HOLD-11: a lease's record names lease and fence number, is forced, and ends 10 min after the lease."""
    await hold(it, seconds=7200)
    assert dict(record(it).raw) == {
        "owner": "lease:lease_1",
        "reason": "ann: bench",
        "started_at": rfc3339(it.world.clock.now()),
        "expires_at": rfc3339(it.world.clock.now() + timedelta(seconds=7800)),
        "allow": ["embed"],
        "by": "lease",
        "forced": True,
        "lease": "lease_1",
        "epoch": "e1",
        "generation": 7,
    }


async def test_a_renewal_rewrites_the_record(it: Parts) -> None:
    """HOLD-11: each new end of the lease is written to its record, 10 min later; the rest stays as it was."""
    await hold(it, seconds=3600)
    before = record(it)
    await held(it, seconds=7200)
    assert left(it) == pytest.approx(7800)
    after = record(it)
    assert {**after.raw, "expires_at": ""} == {**before.raw, "expires_at": ""}
    written = it.keeper.written
    await held(it, seconds=7200)
    assert it.keeper.written == written


async def test_the_record_of_a_lease_without_an_end(it: Parts) -> None:
    """HOLD-11: an indefinite lease's record is written for 1 h, and again every 10 min by the watch."""
    await hold(it, seconds=None)
    assert left(it) == pytest.approx(3600)
    await held(it, seconds=None)
    written = it.keeper.written
    await it.world.ticks(3 * 600 + 60)
    assert it.keeper.written - written == 3
    assert left(it) > 3600 - 600 - 31


async def test_a_lease_that_is_put_back_keeps_its_hold_alive(it: Parts) -> None:
    """LEASE-14: while nobody knows when it ends, as of a stuck one, a record is kept alive hour by hour."""
    await hold(it, seconds=60)
    await held(it, seconds=None)
    await it.world.ticks(7200)
    assert it.world.hold.read().held


async def test_a_record_that_lapsed_while_the_daemon_was_down(it: Parts) -> None:
    """HOLD-11: the record of a lease that is still active is written anew though it lapsed meanwhile."""
    await hold(it, seconds=None)
    await held(it, seconds=None)
    await it.world.clock.advance(7200)
    assert not it.world.hold.read().held
    await it.world.ticks(31)
    assert it.world.hold.read().held


def taken(it: Parts, change: str) -> None:
    """A person takes the lease's hold away by force."""
    row = Taken(change=change, at=it.world.clock.now(), until=record(it).expires_at)
    it.keeper.forced[LEASE] = row
    it.world.hold.remove()


async def test_what_was_released_by_force_comes_back_with_a_renewal(it: Parts) -> None:
    """HOLD-9, HOLD-11: it is left away and told once, until a renewal of the lease rewrites it."""
    await hold(it, seconds=3600)
    await held(it, seconds=3600)
    taken(it, RELEASED)
    await it.world.ticks(1300)
    assert it.world.hold.record is None
    (lost,) = told(it, "hold_lost")
    assert lost == (
        "The hold of crow is not that of lease lease_1 (ann): somebody released it by force, and"
        " `hostler renew lease_1` writes it again. `hostler release lease_1` ends it."
    )
    await held(it, seconds=3600)
    assert left(it) == pytest.approx(4200)
    assert len(told(it, "hold_written_again")) == 1


async def test_what_was_released_of_an_endless_lease_comes_back_at_its_next_rewriting(it: Parts) -> None:
    """HOLD-11: the record of an indefinite lease is rewritten every 10 min, also after a forced release."""
    await hold(it, seconds=None)
    await held(it, seconds=None)
    taken(it, RELEASED)
    await it.world.ticks(590)
    assert it.world.hold.record is None
    assert "it is written again within 10 min" in told(it, "hold_lost")[0]
    await it.world.ticks(20)
    assert record(it).lease == LEASE


async def test_a_window_s_hold_that_was_released_by_force_stays_away(it: Parts) -> None:
    """HOLD-9, WIN-2: a window is never renewed, so that nothing brings its hold back, nor while it closes."""
    await window(it)
    taken(it, RELEASED)
    await it.world.ticks(700)
    row = it.world.gate.guard.posts.held[f"hold {HOST}"]
    await it.node.adopt({f"hold {HOST}": replace(row, until=None)})
    await it.world.ticks(700)
    assert it.world.hold.record is None
    assert "by force. `hostler window close` ends it." in told(it, "hold_lost")[0]


@pytest.mark.parametrize("change", [TAKEN_OVER, RELEASED])
@pytest.mark.parametrize("ends", ["expired", "gone"])
async def test_a_hold_in_the_lease_s_place_stands_while_it_is_live(it: Parts, change: str, ends: str) -> None:
    """HOLD-9, HOLD-11: another's live hold is never overwritten; once it is over the lease's is back."""
    await hold(it, seconds=7200)
    await held(it, seconds=7200)
    taken(it, change)
    it.world.hold.write("bench", seconds=600 if ends == "expired" else 3600)
    await it.world.ticks(590)
    assert record(it).owner == "bench"
    (lost,) = told(it, "hold_lost")
    assert "bench holds it until 2026" in lost
    assert "it is written again after that. `hostler release lease_1` ends it." in lost
    if ends == "gone":
        it.world.hold.remove()
    await it.world.ticks(20)
    assert record(it).lease == LEASE
    assert len(told(it, "hold_written_again")) == 1


async def test_who_took_over_unseen_has_it_no_longer_than_their_hold(it: Parts) -> None:
    """HOLD-11: a hold that was over before anybody saw it keeps the lease's own away no longer."""
    await hold(it, seconds=7200)
    await held(it, seconds=7200)
    taken(it, TAKEN_OVER)
    await it.world.ticks(2)
    assert record(it).lease == LEASE


@pytest.mark.parametrize("seconds", [None, 3600.0])
async def test_a_hold_whose_file_was_removed_is_written_again(it: Parts, seconds: float | None) -> None:
    """HOLD-11: a lease's record that merely went is there again at the next look, and that is told."""
    await hold(it, seconds=seconds)
    await held(it, seconds=seconds)
    await it.world.ticks(1)
    before = record(it)
    it.world.hold.remove()
    await it.world.ticks(2)
    again = record(it)
    assert {**again.raw, "started_at": "", "expires_at": ""} == {
        **before.raw,
        "started_at": "",
        "expires_at": "",
    }
    assert abs((again.expires_at - before.expires_at).total_seconds()) <= 3
    assert len(told(it, "hold_written_again")) == 1


async def test_a_window_s_hold_is_written_again_with_its_end(it: Parts) -> None:
    """WIN-5: the hold of a window that somebody removed is back at the next look, with owner and end.

    Also while it is being put back, when nobody knows its end.
    """
    await window(it)
    before = record(it)
    row = it.world.gate.guard.posts.held[f"hold {HOST}"]
    await it.node.adopt({f"hold {HOST}": replace(row, until=None)})
    it.world.hold.remove()
    await it.world.ticks(2)
    assert {**record(it).raw, "started_at": ""} == {**before.raw, "started_at": ""}
    assert told(it, "hold_written_again") == [
        "The hold of crow was gone; the window of heavy (ann) has it again."
    ]


async def test_a_hold_that_the_window_gave_up_is_not_written_again(it: Parts) -> None:
    """WIN-5, WIN-7: not once its removal has begun here, and not while its deadman is at it or was."""
    await window(it)
    state = DeadmanState(
        window=LEASE,
        mode="heavy",
        alive=True,
        pid=4711,
        phase="open",
        left_s=3600.0,
        ours=True,
        daemon_lives=True,
        restoring=False,
        this_boot=True,
    )
    it.deadmen.states[LEASE] = replace(state, restoring=True)
    it.world.hold.remove()
    await it.world.ticks(40)
    assert it.world.hold.record is None
    it.deadmen.states[LEASE] = state
    await it.world.ticks(40)
    assert record(it).lease == LEASE
    await Teller(LocalRig(it), numbers=count(5)).do(RemoveHold(host=HOST))
    await it.world.ticks(40)
    assert it.world.hold.record is None


async def test_the_hold_of_a_window_with_a_script_is_the_script_s(it: Parts) -> None:
    """MODE-4: a window's script may write and remove the record itself: it is not fought, nobody is told."""
    script = ToolCommand(argv=("window",))
    mode = Mode(name="heavy", hosts=frozen({}), tool=Tool(open=script, close=script, status=script))
    config = it.world.lanes.config
    config.fleet = replace(config.fleet, modes=frozen({"heavy": mode}))
    await window(it)
    it.world.hold.remove()
    await it.world.ticks(40)
    it.world.hold.write("dsv4-window")
    await it.world.ticks(40)
    assert record(it).owner == "dsv4-window"
    assert told(it, "hold_lost") + told(it, "hold_written_again") == []


async def test_a_reboot_takes_the_hold_with_it(it: Parts) -> None:
    """HOLD-2: a reboot ends every hold: what was told before it is not written again."""
    await window(it)
    it.world.hold.remove()
    it.world.clock.reboot()
    await it.world.ticks(40)
    assert it.world.hold.record is None


async def test_somebody_else_s_hold_inside_a_window_is_told(it: Parts) -> None:
    """WIN-5, HOLD-9: another's hold is left where it is, and a high notice says so once, with the way out."""
    await window(it)
    it.world.hold.remove()
    it.world.hold.write("bench", seconds=60)
    await it.world.ticks(50)
    assert record(it).owner == "bench"
    lost = told(it, "hold_lost")
    assert len(lost) == 1
    assert "not that of the window of heavy (ann): bench holds it until" in lost[0]
    assert lost[0].endswith("`hostler window close` ends it.")
    await it.world.ticks(50)
    assert record(it).lease == LEASE


async def test_an_expired_holds_place_is_free(it: Parts) -> None:
    """HOLD-3: a lapsed record of somebody else keeps no lease from holding; one that is unreadable does."""
    it.world.hold.write("bench", seconds=1)
    await it.world.clock.advance(1)
    await hold(it, seconds=60)
    assert record(it).lease == LEASE
    it.world.hold.remove()
    it.world.hold.defect = "is not JSON"
    with pytest.raises(BoxReserved, match="held by unknown until unknown: the lease lease_1 is not started"):
        await Teller(LocalRig(it)).ask(HOLD)


async def test_a_lease_that_has_no_name_yet_is_told_as_one(it: Parts) -> None:
    """LEASE-23, INTERFACE-2: before its grant a refusal speaks of a lease, not of an empty name."""
    it.world.hold.write("bench", seconds=60)
    await it.world.ticks(1)
    named = Teller(LocalRig(it)).operation(HOLD)
    with pytest.raises(BoxReserved, match=": the lease lease_1 is not started"):
        it.node.hold.preflight(named)
    with pytest.raises(BoxReserved, match=": a lease is not started"):
        it.node.hold.preflight(replace(named, lease=""))


async def test_who_is_faster_has_it(it: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-9: a hold that comes between preflight and step is not overwritten: the step is refused."""
    tell = Teller(LocalRig(it))
    await tell.ask(HOLD)
    it.world.hold.write("bench")
    with pytest.raises(BoxReserved) as told:
        await tell.do(HOLD)
    assert (told.value.owner, told.value.retry_after) == ("bench", 3600)


async def test_another_leases_record_is_left(it: Parts) -> None:
    """HOLD-11: a lease removes its own record only."""
    await hold(it, seconds=60)
    await Teller(LocalRig(it), lease="lease_2", generation=8).do(RemoveHold(host=HOST))
    assert record(it).lease == LEASE


async def test_a_time_that_is_none(it: Parts) -> None:
    """TIME-1: an end that is no RFC 3339 time is refused."""
    with pytest.raises(InvalidRequest, match="is no time"):
        await it.node.perform(replace(Teller(LocalRig(it)).operation(HOLD), expires_at="tomorrow"))
