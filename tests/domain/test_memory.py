from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.fleet import Host, Pool
from hostler.domain.memory import (
    FloorWatch,
    Pools,
    Reading,
    available_of,
    effective_need,
    fits,
    floor_of,
    never_fits,
    pool_of,
    reserve_of,
    residue,
    total_of,
    unexplained,
    who_grew,
)
from hostler.domain.values import EngineId, HostName

GIB = 1 << 30
RAVEN = Host(name=HostName("raven"))
CARDS = Host(
    name=HostName("crow"), pools=(Pool(), Pool(name="gpu0", total=24 * GIB), Pool(name="gpu1", reserve=GIB))
)


def gib(count: float) -> int:
    return round(count * GIB)


def host_pool(total: float, available: float) -> Pools:
    return {"host": Reading(total=gib(total), available=gib(available))}


def test_used_is_what_is_not_available() -> None:
    """MEM-1: what of a pool is used is its total less what is available."""
    assert Reading(total=10, available=3).used == 7


@pytest.mark.parametrize(
    ("claim", "measured", "catalog", "need"),
    [
        ({}, {}, None, None),
        ({}, {}, {}, None),
        ({"host": 5}, {}, None, {"host": 5}),
        ({"host": 5}, {"host": 7}, None, {"host": 7}),
        ({"host": 5}, {"host": 4}, None, {"host": 5}),
        ({}, {"host": 4}, None, {"host": 4}),
        ({}, {}, {"host": 9}, {"host": 9}),
        ({"host": 5}, {}, {"host": 9}, {"host": 5}),
        ({}, {"host": 10}, {"host": 9}, {"host": 10}),
        ({"gpu0": 5}, {"gpu0": 4, "host": 2}, None, {"gpu0": 5, "host": 2}),
    ],
)
def test_the_need(
    claim: Mapping[str, int],
    measured: Mapping[str, int],
    catalog: Mapping[str, int] | None,
    need: Mapping[str, int] | None,
) -> None:
    """MEM-2: the need is the larger of claim and measured peak in each pool, and unknown when both are."""
    assert effective_need(claim, measured, catalog) == need


@pytest.mark.parametrize(
    ("pool", "total", "reserve", "floor"),
    [
        (Pool(), 124, 8, 4),
        (Pool(), 60, 6, 3),
        (Pool(total=gib(40)), 124, 4, 2),
        (Pool(total=gib(200)), 60, 6, 3),
        (Pool(reserve=gib(2)), 124, 2, 1),
        (Pool(reserve=gib(2), floor=gib(1.5)), 124, 2, 1.5),
        (Pool(reserve=0), 124, 0, 0),
        (Pool(name="ram"), 124, 8, 4),
        (Pool(name="gpu0"), 24, 0.5, 0.25),
        (Pool(name="gpu1", reserve=gib(1)), 24, 1, 0.5),
    ],
)
def test_reserve_and_floor(pool: Pool, total: float, reserve: float, floor: float) -> None:
    """MEM-2: the reserve is the smaller of 8 GiB and a tenth, 512 MiB of a card; MEM-3: the floor is half."""
    reading = Reading(total=gib(total), available=gib(1))
    assert reserve_of(pool, reading) == gib(reserve)
    assert floor_of(pool, reading) == gib(floor)


@pytest.mark.parametrize(
    ("configured", "total", "available"),
    [(None, 124, 30), (gib(100), 100, 6), (gib(90), 90, 0), (gib(200), 124, 30)],
)
def test_a_configured_total_keeps_the_rest_out(
    configured: int | None, total: float, available: float
) -> None:
    """MEM-1: of a pool that the config makes smaller, the rest of the machine is not available."""
    pool, reading = Pool(total=configured), Reading(total=gib(124), available=gib(30))
    assert total_of(pool, reading) == gib(total)
    assert available_of(pool, reading) == gib(available)


def test_a_pool_without_settings_has_the_defaults() -> None:
    """MEM-1: a pool that the config does not name has the default settings under its own name."""
    assert pool_of(CARDS, "gpu0").total == 24 * GIB
    assert pool_of(RAVEN, "gpu7") == Pool(name="gpu7")


@pytest.mark.parametrize(
    ("need", "sum_"),
    [
        ({"host": gib(116)}, None),
        ({"host": gib(116) + 1}, "needs 116.0 GiB + 8.0 reserve; the host has 124.0"),
        ({"host": gib(154.2)}, "needs 154.2 GiB + 8.0 reserve; the host has 124.0"),
        ({"host": 0, "gpu0": 0}, None),
        ({"gpu9": gib(999)}, None),
        (
            {"host": gib(130), "gpu0": gib(25), "gpu1": gib(3)},
            (
                "needs 130.0 GiB + 8.0 reserve; the host has 124.0,"
                " and needs 25.0 GiB of gpu0 + 0.5 reserve; the host has 24.0"
            ),
        ),
    ],
)
def test_what_can_never_fit(need: Mapping[str, int], sum_: str | None) -> None:
    """MEM-2: a need that with the reserve is above the pool's total can never fit, and the sum shows it."""
    readings = {
        "host": Reading(total=gib(124), available=gib(100)),
        "gpu0": Reading(total=gib(48), available=gib(48)),
        "gpu1": Reading(total=gib(24), available=gib(24)),
    }
    assert never_fits(need, CARDS, readings) == sum_


def test_the_sum_of_a_refusal() -> None:
    """MEM-2: what does not fit says need, reserve, what is available, and who holds how much of what."""
    fit = fits(
        {"host": gib(92.6)},
        RAVEN,
        host_pool(124, 17.7),
        {},
        {EngineId("flash-next"): {"host": gib(106.3)}},
    )
    assert not fit.ok
    assert fit.short == {"host": gib(92.6) + gib(8) - gib(17.7)}
    assert fit.arithmetic == ("needs 92.6 GiB + 8.0 reserve; available 17.7; flash-next holds 106.3 of 124.0")


def test_the_sum_names_every_holder() -> None:
    """MEM-2: all holders stand in the sum, the largest first; what planned stops give back is in it."""
    holders = {
        EngineId("b"): {"host": gib(2)},
        EngineId("a"): {"host": gib(2)},
        EngineId("large"): {"host": gib(30), "gpu0": gib(9)},
        EngineId("card"): {"gpu0": gib(1)},
    }
    fit = fits({"host": gib(40)}, RAVEN, host_pool(64, 5), {"host": gib(2)}, holders)
    assert fit.arithmetic == (
        "needs 40.0 GiB + 6.4 reserve; available 5.0; stops give back 2.0;"
        " large holds 30.0, a holds 2.0, b holds 2.0 of 64.0"
    )


def test_each_short_pool_has_its_sum() -> None:
    """MEM-2: each pool that is short has its own sum, a pool that is not stays out of the refusal."""
    readings = {
        "host": Reading(total=gib(64), available=gib(60)),
        "gpu0": Reading(total=gib(24), available=gib(3)),
        "gpu1": Reading(total=gib(24), available=gib(3)),
    }
    fit = fits({"host": gib(3), "gpu0": gib(20), "gpu1": gib(4)}, CARDS, readings, {}, {})
    assert set(fit.short) == {"gpu0", "gpu1"}
    assert fit.arithmetic == (
        "needs 20.0 GiB of gpu0 + 0.5 reserve; available 3.0; no engine of ours holds any of 24.0,"
        " and needs 4.0 GiB of gpu1 + 1.0 reserve; available 3.0; no engine of ours holds any of 24.0"
    )


def test_a_pool_that_cannot_be_read_is_short() -> None:
    """MEM-2: a need of a pool that cannot be read now is not met, and that is said."""
    fit = fits({"gpu0": gib(20)}, CARDS, host_pool(64, 60), {"gpu0": gib(99)}, {})
    assert fit.short == {"gpu0": gib(20)}
    assert fit.arithmetic == "needs 20.0 GiB of gpu0 + 0.0 reserve; gpu0 cannot be read now"


def test_nothing_needed_is_not_looked_at() -> None:
    """MEM-2: an engine that needs nothing of a pool starts though that pool is full."""
    assert fits({"host": 0, "gpu9": 0}, RAVEN, host_pool(64, 0), {}, {}).ok


SIZES = st.integers(0, 200 * GIB)


@given(need=SIZES, available=SIZES, back=SIZES)
def test_the_inequality(need: int, available: int, back: int) -> None:
    """MEM-2: a need fits exactly when need and reserve are at most what is available and given back."""
    total = 200 * GIB
    fit = fits({"host": need}, RAVEN, {"host": Reading(total=total, available=available)}, {"host": back}, {})
    assert fit.ok == (need == 0 or need + 8 * GIB <= available + back)
    if not fit.ok:
        assert fit.short["host"] == need + 8 * GIB - available - back
    if never_fits({"host": need}, RAVEN, {"host": Reading(total=total, available=available)}):
        assert not fits({"host": need}, RAVEN, {"host": Reading(total=total, available=total)}, {}, {}).ok


@pytest.mark.parametrize(
    ("before", "after", "gave_back", "missing"),
    [
        (10, 50, 40, None),
        (10, 48, 40, None),
        (10, 47.9, 40, 2.1),
        (10, 10, 40, 40),
        (10, 9, 0, None),
        (10, 5, 0, 5),
        (100, 124, 86, None),
    ],
)
def test_residue(before: float, after: float, gave_back: float, missing: float | None) -> None:
    """MEM-4: what is missing beyond 2 GiB is a residue; what the pool cannot hold is none."""
    found = residue(host_pool(124, before), host_pool(124, after), {"host": gib(gave_back)}, 2 * GIB)
    assert found == (None if missing is None else pytest.approx(gib(missing), abs=2))


def test_the_worst_pool_is_the_residue() -> None:
    """MEM-4: the pool that lacks most counts; one that can no longer be read is awaited."""
    before = {
        "host": Reading(total=gib(64), available=gib(10)),
        "gpu0": Reading(total=gib(24), available=gib(1)),
    }
    after = {"host": Reading(total=gib(64), available=gib(12))}
    gave = {"host": gib(5), "gpu0": gib(20), "gpu9": gib(99)}
    assert residue(before, after, gave, 2 * GIB) == gib(21)
    assert residue(before, before, {}, 2 * GIB) is None


def test_ten_seconds_under_the_floor_is_told_once() -> None:
    """MEM-7: 10 s under the floor are told once, and again only after the pool recovered."""
    watch, told = FloorWatch(), []
    for now, available in [(0, 3), (5, 3), (9.9, 3), (10, 3), (60, 3), (61, 4), (62, 3), (71, 3), (72, 3)]:
        after = watch.step(available=available, floor=4, now=float(now))
        if after.told and not watch.told:
            told.append(now)
        watch = after
    assert told == [10, 72]


def test_a_short_dip_is_not_told() -> None:
    """MEM-7: a pool that is under its floor for less than 10 s at a time is never told."""
    watch = FloorWatch()
    for second in range(100):
        watch = watch.step(available=4 if second % 10 == 9 else 3, floor=4, now=float(second))
        assert not watch.told


def test_who_grew() -> None:
    """MEM-7: the notice names who holds more than before, the largest growth first."""
    before = {EngineId("a"): {"host": 5}, EngineId("b"): {"host": 5}, EngineId("c"): {"host": 5}}
    now = {
        EngineId("a"): {"host": 9},
        EngineId("b"): {"host": 4},
        EngineId("d"): {"host": 7, "gpu0": 99},
        EngineId("c"): {"host": 9},
    }
    assert who_grew(before, now, "host") == [("d", 7), ("a", 4), ("c", 4)]


def test_what_gpu_memory_holds_beyond_our_engines() -> None:
    """WIN-3, MEM-4: a dead process pins 86 GiB of GTT; of main memory nobody can tell whose it is."""
    pools = {
        "host": Reading(total=124 * GIB, available=20 * GIB, pinned=90 * GIB),
        "gpu0": Reading(total=24 * GIB, available=23 * GIB),
    }
    ours = {EngineId("small"): {"host": 4 * GIB}}
    assert unexplained(pools, ours) == (86 * GIB, "host")
    assert unexplained({"gpu0": pools["gpu0"]}, ours) == (GIB, "gpu0")
    assert unexplained({"host": Reading(total=124 * GIB, available=GIB)}, {}) == (0, "")
