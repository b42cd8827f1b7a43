"""What a node of another host is told of a window."""

from __future__ import annotations

from dataclasses import replace

from hostler.domain.holding import Holding
from hostler.domain.step import HoldHost
from hostler.domain.values import EngineId, rfc3339
from tests.adapters.far_lines import bodies, far
from tests.services.node_conformance import HOST, LEASE


async def test_what_a_window_holds_is_known_on_another_host() -> None:
    """WIN-2, LEASE-21: a node is told the mode, and after how many seconds no new requests are taken."""
    async with far() as (it, _):
        now = it.parts.world.clock.moment()
        row = Holding(
            lease=LEASE, resource="box", holder="ann", mode="heavy", stop_accepting=now.plus(30.0).at
        )
        await it.remote.adopt({"engine big": row})
        (kept,) = it.own.held().values()
        assert (kept.mode, kept.stop_accepting) == ("heavy", now.plus(30.0).at)
        rows = bodies(it, "/held")[-1]["held"]
        assert isinstance(rows, list)
        assert [(told["mode"], told["stop_accepting_in_s"]) for told in rows] == [("heavy", 30.0)]
        assert it.parts.world.gate.closing(EngineId("big")) is None
        await it.parts.world.clock.advance(30.0)
        assert it.parts.world.gate.closing(EngineId("big")) is not None


async def test_the_hold_of_another_host_has_the_soft_deadline() -> None:
    """WIN-2: a far hold record is written with the time from which on no new requests are taken."""
    async with far() as (it, tell):
        at = rfc3339(it.parts.world.clock.moment().plus(30.0).at)
        step = HoldHost(host=HOST, allow=())
        operation = replace(tell.operation(step), found=await tell.see(step), stop_accepting_at=at)
        await tell.rig.wait(it.remote.perform(operation))
        record = it.parts.keeper.hold.read().record
        assert record is not None
        assert record.stop_accepting_at is not None
        assert rfc3339(record.stop_accepting_at) == at
