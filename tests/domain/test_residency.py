from dataclasses import replace
from typing import TypedDict, Unpack

import pytest

from hostler.domain.engine import State
from hostler.domain.fleet import DriverKind, Engine, Group
from hostler.domain.residency import Due, Seen, World, due
from hostler.domain.values import Cause, EngineId, HostName

CROW = HostName("crow")
NOW = 100_000.0


class Keys(TypedDict, total=False):
    """What the config says of an engine."""

    resident: bool
    order: int
    group: str | None
    ttl_s: float
    enabled: bool
    driver: DriverKind


def engine(name: str, **keys: Unpack[Keys]) -> Engine:
    return Engine(id=EngineId(name), host=CROW, **keys)


def stopped(name: str, **keys: Unpack[Keys]) -> Seen:
    return Seen(engine=engine(name, **keys), state=State.STOPPED, down_since=NOW - 10)


def ready(name: str, idle_s: float | None = 5000.0, **keys: Unpack[Keys]) -> Seen:
    """A ready engine; `idle_s` None: in use."""
    quiet = None if idle_s is None else NOW - idle_s
    return Seen(engine=engine(name, **keys), state=State.READY, quiet_since=quiet)


def world(*engines: Seen, groups: tuple[Group, ...] = (), held: bool = False) -> World:
    return World(engines=engines, groups={it.name: it for it in groups}, held=held, now=NOW)


def started(*engines: Seen, groups: tuple[Group, ...] = ()) -> tuple[EngineId, Cause] | None:
    return due(world(*engines, groups=groups)).start


def resident(name: str) -> tuple[EngineId, Cause]:
    return EngineId(name), Cause.RESIDENCY


def revert(name: str) -> tuple[EngineId, Cause]:
    return EngineId(name), Cause.IDLE_REVERT


# ---------------------------------------------------------------- residents


def test_residents_come_up_in_their_order() -> None:
    """ENG-10: residents that are down are started one at a time, by `order`, then by name."""
    late = stopped("a", resident=True, order=40)
    early = stopped("z", resident=True, order=10)
    same = stopped("b", resident=True, order=40)
    assert started(late, early, same) == resident("z")
    assert started(same, late) == resident("a")


def test_who_is_not_resident_is_not_started() -> None:
    """ENG-10: an engine that is not resident, or that is up already, is not started."""
    assert started(stopped("a"), ready("b", resident=True)) is None


def test_what_failed_is_tried_too() -> None:
    """ENG-10: a resident that failed is kept up like one that stopped."""
    assert started(replace(stopped("a", resident=True), state=State.FAILED)) == resident("a")


@pytest.mark.parametrize("state", [it for it in State if it not in (State.STOPPED, State.FAILED)])
def test_what_is_on_its_way_is_not_asked_for_again(state: State) -> None:
    """ENG-10: a resident with a process, or whose start is under way, is not asked for again."""
    assert started(replace(stopped("a", resident=True), state=state)) is None
    assert started(replace(stopped("a", resident=True), starting=True)) is None


def test_what_a_person_suspended_stays_down() -> None:
    """ENG-10: a resident that is suspended or switched off in the config is not started."""
    assert started(replace(stopped("a", resident=True), suspended=True)) is None
    assert started(stopped("a", resident=True, enabled=False)) is None


def test_a_retry_comes_after_120_s() -> None:
    """ENG-10: a resident that could not be started is tried again 120 s later, and not before."""
    tried = stopped("a", resident=True)
    assert started(replace(tried, tried=NOW - 119.9)) is None
    assert started(replace(tried, tried=NOW - 120)) == resident("a")


def test_one_that_fails_does_not_stop_the_others() -> None:
    """ENG-10: while one resident waits for its retry the next in order is started."""
    first = replace(stopped("a", resident=True, order=1), tried=NOW - 5)
    assert started(first, stopped("b", resident=True, order=2)) == resident("b")


def test_residency_throws_nobody_out() -> None:
    """ENG-10: a resident waits while a sibling, which somebody asked for, is up or coming up."""
    default = stopped("a", resident=True, group="main")
    assert started(default, ready("b", idle_s=None, group="main")) is None
    assert started(default, replace(stopped("b", group="main"), starting=True)) is None
    assert started(default, stopped("b", group="main")) == resident("a")
    assert started(default, ready("b", group="extra")) == resident("a")
    assert started(stopped("a", resident=True), ready("b")) == resident("a")


# ---------------------------------------------------------------- idle revert

MAIN = Group(name="main", host=CROW, idle_revert=EngineId("default"), idle_s=1200.0)
DEFAULT = Seen(engine=engine("default", group="main"), state=State.STOPPED, down_since=NOW - 9000)


def reverted(*rivals: Seen, default: Seen = DEFAULT) -> tuple[EngineId, Cause] | None:
    return started(default, *rivals, groups=(MAIN,))


def test_the_default_comes_back_when_the_other_was_idle() -> None:
    """ENG-10: a group's default comes back when the other member has been idle for its time, not before."""
    assert reverted(ready("other", 1200.0, group="main")) == revert("default")
    assert reverted(ready("other", 1199.9, group="main")) is None
    assert reverted(ready("other", None, group="main")) is None


def test_every_other_member_must_be_idle() -> None:
    """ENG-10: the default comes back only when all other members have been idle long enough."""
    idle, used = ready("other", 5000.0, group="main"), ready("third", 5.0, group="main")
    assert reverted(idle, used) is None


@pytest.mark.parametrize("state", [State.STARTING, State.DRAINING, State.STOPPING, State.UNKNOWN])
def test_a_member_on_its_way_is_no_idle_one(state: State) -> None:
    """ENG-10: while a member comes up or goes down the default waits."""
    assert reverted(replace(ready("other", group="main"), state=state)) is None
    assert reverted(replace(ready("other", group="main"), starting=True)) is None


def test_a_member_that_was_unloaded_since_counts() -> None:
    """ENG-10: the default comes back after a member that it went for, though that one is unloaded by now."""
    gone = replace(ready("other", 1500.0, group="main"), state=State.STOPPED)
    assert reverted(gone) == revert("default")
    assert reverted(replace(gone, quiet_since=NOW - 1100)) is None


def test_what_was_used_before_the_default_went_does_not_count() -> None:
    """ENG-10: a default that somebody stopped stays down when no other member was used since."""
    before = replace(ready("other", 9500.0, group="main"), state=State.STOPPED)
    assert reverted(before) is None
    assert reverted(replace(before, quiet_since=None)) is None
    assert reverted(before, default=replace(DEFAULT, down_since=None)) is None


def test_a_group_without_a_default_reverts_to_nobody() -> None:
    """ENG-10: a group without a default, or whose default may not start, is left as it is."""
    other = ready("other", group="main")
    assert started(DEFAULT, other, groups=(replace(MAIN, idle_revert=None),)) is None
    assert started(other, groups=(MAIN,)) is None
    assert reverted(other, default=replace(DEFAULT, suspended=True)) is None
    assert reverted(other, default=replace(DEFAULT, state=State.READY)) is None
    off = replace(DEFAULT, engine=engine("default", group="main", enabled=False))
    assert reverted(other, default=off) is None


def test_a_default_that_was_refused_is_tried_again_later() -> None:
    """ENG-10: a revert that was refused is tried again 120 s later."""
    other = ready("other", group="main")
    assert reverted(other, default=replace(DEFAULT, tried=NOW - 60)) is None
    assert reverted(other, default=replace(DEFAULT, tried=NOW - 120)) == revert("default")


def test_residents_come_before_reverts() -> None:
    """ENG-10: a resident that is down is started before a group goes back to its default."""
    down = stopped("voice", resident=True)
    assert reverted(down, ready("other", group="main")) == resident("voice")


# ---------------------------------------------------------------- unloads


def unloaded(*engines: Seen, held: bool = False) -> tuple[EngineId, ...]:
    return due(world(*engines, held=held)).unload


def test_an_idle_engine_is_unloaded_after_its_ttl() -> None:
    """ENG-10: an engine that has been idle for its ttl is unloaded, not before and never while in use."""
    assert unloaded(ready("a", 600.0, ttl_s=600.0), ready("b", 599.9, ttl_s=600.0)) == ("a",)
    assert unloaded(ready("a", None, ttl_s=600.0), ready("b", 9e9)) == ()
    assert unloaded(replace(ready("a", ttl_s=600.0), state=State.DRAINING)) == ()


def test_a_hold_unloads_nothing() -> None:
    """ENG-10: while the host is held no ttl unloads anything, since it could not come back."""
    assert unloaded(ready("a", ttl_s=600.0), held=True) == ()


def test_an_external_engine_is_never_unloaded() -> None:
    """ENG-2: an external engine is only used: no ttl stops it."""
    assert unloaded(ready("a", ttl_s=600.0, driver=DriverKind.EXTERNAL)) == ()


# ---------------------------------------------------------------- notices, and where nothing is ours


def down_for(seconds: float) -> Seen:
    return replace(stopped("a", resident=True), down_since=NOW - seconds, tried=NOW)


def test_ten_minutes_down_is_a_notice() -> None:
    """ENG-10: a resident that has not been ready for 10 minutes is a notice, once per outage."""
    assert due(world(down_for(600.0))).down == ("a",)
    assert due(world(down_for(599.9))).down == ()
    assert due(world(replace(down_for(9000.0), told_down=True))).down == ()
    assert due(world(replace(down_for(9000.0), state=State.STARTING))).down == ("a",)


def test_what_is_meant_to_be_down_is_no_outage() -> None:
    """ENG-10: a resident that is suspended, up, or has made way for a sibling is no outage."""
    assert due(world(replace(down_for(9000.0), suspended=True))).down == ()
    assert due(world(replace(down_for(9000.0), down_since=None))).down == ()
    displaced = replace(down_for(9000.0), engine=engine("a", resident=True, group="main"))
    assert due(world(displaced, ready("b", group="main"))).down == ()


def test_where_orchestration_is_off_nothing_is_due() -> None:
    """GATE-4: where orchestration is off nothing is started, unloaded or missed."""
    busy = world(down_for(9000.0), ready("b", ttl_s=1.0))
    assert due(busy) != Due()
    assert due(replace(busy, orchestrated=False)) == Due()
