import os
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.state_files import DirectoryStateFiles
from hostler.bootstrap.node import node_of
from hostler.deadman import written
from hostler.domain.fleet import EngineTarget, Plain, Route, UpstreamTarget, frozen
from hostler.domain.holding import Holding
from hostler.domain.step import HoldHost, PointRoute, RunCommand, SuspendEngine, UndoCommand
from hostler.domain.values import EngineId, RouteName
from hostler.services.deadman_needs import Orders
from hostler.services.guard import Guard
from hostler.services.node import LocalNode
from hostler.services.routes import Routes, load
from tests.adapters.hold_writers import at
from tests.fakes.node_parts import parts, with_routes
from tests.fakes.world import World, engine, world
from tests.services.node_conformance import HOST, LocalRig, Teller

CHAT = Route(
    name=RouteName("chat"),
    profiles=frozen(
        {
            "local": Plain(targets=(EngineTarget(engine=EngineId("big")),)),
            "away": Plain(targets=(UpstreamTarget(upstream="cloud"),)),
        }
    ),
    active="local",
)


def node(it: World, state: Path, *, guard: Guard | None = None) -> tuple[LocalNode, tuple[str, ...]]:
    """A node on this world's services and real files."""
    files = DirectoryStateFiles(root=state)
    own = guard or it.gate.guard
    routes = Routes(files=files, clock=it.clock, events=it.events, current=load(it.fleet, files), guard=own)
    return node_of(
        engines=it.engines,
        routes=routes,
        holds=it.holds,
        hold_writer=at(state / "hold.json"),
        files=files,
        events=it.events,
        state_dir=state,
        env=dict(os.environ),
    )


def files_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*.json")}


async def test_a_node_on_real_files(tmp_path: Path) -> None:
    """NODE-1: what a node did is in its state directory: receipts, fence numbers, routes and what is held."""
    async with world(engine("big")) as base:
        it = with_routes(base, chat=CHAT)
        made, told = node(it, tmp_path)
        tell = Teller(LocalRig(parts(it)))
        await made.perform(tell.operation(PointRoute(host=HOST, route="chat", profile="away")))
        await made.perform(tell.operation(SuspendEngine(host=HOST, engine="big")))
        await made.adopt({"engine big": Holding(lease="lease_1", resource="pair", holder="ann")})
        mark = tmp_path / "mark"
        check = ("test", "-e", str(mark))
        await made.perform(tell.operation(RunCommand(host=HOST, argv=("touch", str(mark)), check=check)))
        assert mark.exists()
        await made.perform(tell.operation(UndoCommand(host=HOST, argv=("rm", str(mark)), check=check)))
        assert not mark.exists()
        assert told == ()
        kept = files_in(tmp_path)
        receipts = {f"receipts/lease_1.7.{n}.json" for n in range(4)}
        assert kept == {"receipts/fences.json", *receipts, "routes.json", "held.json"}


async def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """LEASE-28: a damaged fence file is told at the start, and counts as a fence."""
    (tmp_path / "fence.json").write_text("{torn")
    async with world(engine("big")) as it:
        _, told = node(it, tmp_path)
        assert len(told) == 1
        assert it.gate.guard.fence(it.clock.moment()) is not None


async def test_one_guard_for_all(tmp_path: Path) -> None:
    """LEASE-15: a gate and routes that ask two guards are a bug, found before anything runs."""
    async with world(engine("big")) as it:
        with pytest.raises(ValueError, match="two guards"):
            node(it, tmp_path, guard=Guard())


async def test_a_foreign_hold_on_real_files(tmp_path: Path) -> None:
    """HOLD-9: the file decides: another's record is not overwritten though nobody read it before."""
    async with world(engine("big")) as it:
        made, _ = node(it, tmp_path)
        (tmp_path / "hold.json").write_text("{torn")
        with pytest.raises(Exception, match="the lease lease_1 is not started"):
            await made.perform(Teller(LocalRig(parts(it))).operation(HoldHost(host=HOST)))
        assert (tmp_path / "hold.json").read_text() == "{torn"


async def test_the_deadman_reads_memory_where_the_daemon_does(tmp_path: Path) -> None:
    """MEM-1, WIN-4: the written restore names the file of the host's `memory.reader`, else the kernel's."""
    async with world(engine("big")) as it:
        host, bed = it.fleet.host, tmp_path / "memory"
        for reader, file in ((None, "/proc/meminfo"), (f"files:{bed}", f"{bed}/host")):
            hosts = frozen({it.fleet.here: replace(host, reader=reader)})
            it.lanes.config.fleet = replace(it.fleet, hosts=hosts)
            made, _ = node(it, tmp_path)
            orders = Orders(window="lease_1", mode="heavy", host=HOST, cap_s=60.0, end=(), start=())
            made.deadman.deadmen.write(orders)
            assert written.load(tmp_path / "windows" / "lease_1").meminfo == file
