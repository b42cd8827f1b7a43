"""Small files of state whose form is right and whose values are absurd: each is read as far as it can be."""

import json

import pytest

from hostler.domain.errors import StaleGeneration
from hostler.domain.holding import Holding
from hostler.domain.step import PointRoute
from hostler.domain.values import format_size
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller, local_rig

AWAY = PointRoute(host=HOST, route="chat", profile="away")
BACK = PointRoute(host=HOST, route="chat", profile="local")
HUGE = 10**400
HUGE_ = pytest.param(HUGE, id="huge")
HELD = Holding(lease=LEASE, resource="pair", holder="ann", key="ann")


@pytest.mark.parametrize("size", [HUGE_, -5, 1e308, "x", {"host": 1}, [1], True, None])
async def test_an_absurd_measure_counts_as_never_measured(size: object) -> None:
    """REL-1, MEM-5: a size that no machine has, or that is none, is no measure of an engine."""
    async with local_rig() as rig:
        it = rig.parts.world
        record = {"peak": {"host": size, "gpu0": 7}, "steady": {"host": size}}
        it.files.texts["engines/big/measured"] = json.dumps(record)
        late = it.again()
        lane = late.lane("big")
        late.engines.measure.recall(lane)
        assert (lane.peak, lane.taken) == ({"gpu0": 7}, {})
        assert [format_size(each) for each in lane.peak.values()] == ["7 B"]


@pytest.mark.parametrize("elapsed", [HUGE_, -1, 1e308, "x", None])
async def test_an_absurd_time_of_a_fence_means_fenced(elapsed: object) -> None:
    """REL-1, LEASE-28: a fence or a holding with an absurd time is told; the fence is up, fail closed."""
    async with local_rig() as rig:
        it = rig.parts
        moment = {"at": "2026-01-01T00:00:00Z", "boot": "b", "elapsed": elapsed}
        fence = {"since": moment, "until": moment, "by": "ann", "reason": "x"}
        held = {"lease": LEASE, "resource": "pair", "holder": "ann", "key": "ann", "hard": moment}
        it.world.files.texts |= {
            "fence": json.dumps({"fence": fence}),
            "held": json.dumps({"engine big": held}),
        }
        told = it.again().node.recall()
        assert [line.partition(":")[0] for line in told] == ["held.json", "fence.json"]


@pytest.mark.parametrize(
    "number", [{"epoch": -1, "generation": 7}, {"epoch": "e1", "generation": 1 << 70}, 7, None, "x"]
)
async def test_absurd_fence_numbers_are_those_of_the_receipts(number: object) -> None:
    """REL-1, LEASE-8: with absurd numbers in fences.json no old one passes, and the present one does."""
    async with local_rig() as rig:
        await Teller(rig).do(AWAY)
        rig.parts.records.texts["fences"] = json.dumps({"pair": number})
        late = LocalRig(rig.parts.again())
        with pytest.raises(StaleGeneration):
            await Teller(late, generation=6).do(BACK)
        await Teller(late, generation=8).do(BACK)


@pytest.mark.parametrize("part", ["step", "found", "covers"])
async def test_a_damaged_receipt_is_none(part: str) -> None:
    """REL-1, NODE-4: a receipt that holds something else than was written is left out, and breaks nothing."""
    async with local_rig() as rig:
        await Teller(rig).do(AWAY, found=await Teller(rig).see(AWAY))
        (name,) = (it for it in rig.parts.records.texts if it != "fences")
        row = json.loads(rig.parts.records.texts[name])
        rig.parts.records.texts[name] = json.dumps({**row, part: [{"kind": -1}]})
        rig.parts.records.texts["fences"] = "{torn"
        late = rig.parts.again()
        await late.node.adopt({"route chat": HELD})
        (told,) = (await late.node.memory()).leases
        assert len(told.entries) == (1 if part == "covers" else 0)
        assert late.node.receipts.step_of(LEASE, "digest") is None


@pytest.mark.parametrize("pid", [HUGE_, -1, 0, 1, "x", None, True])
async def test_an_absurd_process_is_not_ended(pid: object) -> None:
    """REL-1, JOB-5: a registered process with an absurd pid or start time is nobody's: none is ended."""
    async with local_rig() as rig:
        rows = [{"pid": pid, "start_ticks": 7}, {"pid": 100, "start_ticks": HUGE}]
        rig.parts.groups.texts[LEASE] = json.dumps({"groups": rows})
        assert await rig.wait(rig.parts.node.end_processes(LEASE)) == []
        assert rig.parts.processes.heard == []


@pytest.mark.parametrize("number", [HUGE_, -1, 1e308, "x", [1], None])
async def test_an_absurd_report_of_a_window_is_read(number: object) -> None:
    """REL-1, WIN-4: a window's report with absurd numbers is told without them."""
    async with local_rig() as rig:
        rows = [{"engine": "big", "up": True, "memory": number, "seconds": number}]
        rig.parts.world.files.texts["windows/w/report"] = json.dumps({"engines": rows})
        (row,) = rig.parts.node.windows.report("w").engines
        assert (row.engine, row.up, row.memory, row.seconds) == ("big", True, {}, None)
