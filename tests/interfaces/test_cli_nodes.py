"""`hostler nodes`, and the list of nodes behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.holding import Holding
from hostler.domain.values import rfc3339
from hostler.interfaces.api.app import create_app
from hostler.services.neighbours import Neighbours
from hostler.services.own_restore import CUT_OFF_S
from hostler.wire.nodes import KeptView, NodeList, NodeView
from tests.fakes.far_host import far_host
from tests.interfaces.room import Room, room
from tests.interfaces.terminal import Shell, served
from tests.services.node_conformance import LEASE, local_rig

AT = "2026-09-04T20:05:11.482Z"
KEPT = KeptView(
    lease="ls_1",
    resource="pair",
    holder="ann",
    things=("hold raven",),
    hard_in_s=60.0,
    then=f"is kept until {AT}",
)
FOUND = NodeList(
    at=AT,
    nodes=(
        NodeView(host="crow", url=None, head=True, here=True, up=True, since=None, api=1, version="0.1.0"),
        NodeView(
            host="raven",
            url="https://raven.lan:7070",
            head=False,
            here=False,
            up=False,
            since=AT,
            why="no connection within 3 s",
            api=1,
            version="0.1.0",
            skew_s=-86_400.0,
            hold="lease:ls_1",
            hold_until=AT,
            leases=(KEPT,),
            left=("fast is kept suspended by lease ls_0\x1b[31m",),
        ),
        NodeView(host="owl", url=None, head=False, here=False, up=None, since=None),
        NodeView(host="jay", url=None, head=False, here=False, up=False, since=None, skew_s=90.0),
        NodeView(host="wren", url=None, head=False, here=False, up=True, since=AT, skew_s=0.2),
    ),
)


class Nodes:
    """The service `NodesApi` with these nodes."""

    async def nodes(self) -> NodeList:
        return FOUND

    def away(self, host: str) -> str | None:
        return next((it.why for it in FOUND.nodes if it.host == host and it.up is False), None)


@pytest.fixture
async def box() -> AsyncIterator[Room]:
    async with room() as it:
        it.control = replace(it.control, nodes=Nodes())
        it.app = create_app(it.control)
        yield it


@pytest.fixture
async def user(box: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    async with served(box.app, tmp_path) as it:
        yield it


async def test_the_table_of_nodes(user: Shell) -> None:
    """NODE-3, F18, INTERFACE-2, TIME-1: a row per node, a line per lease, all in local time."""
    done = await user.run("nodes")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["HOST", "STATE", "API", "VERSION", "CLOCK", "HOLD", "LEASES", "WHY"]
    assert lines[1].startswith("crow (head) (here)")
    assert "away since 22:05 (in 0 s)" in lines[2]
    assert "24 h behind" in lines[2]
    assert "lease:ls_1 until 22:05 (in 0 s)" in lines[2]
    assert "no connection within 3 s" in lines[2]
    assert "unknown" in lines[3]
    assert "90 s ahead" in lines[4]
    assert "right" in lines[5]
    assert lines[6] == "raven: ls_1 (pair, ann) is kept until 22:05 (in 0 s)"
    assert lines[7].startswith("raven: fast is kept suspended by lease ls_0")
    assert lines[7].isprintable()
    assert AT not in done.out


async def test_the_list_of_nodes_as_json(user: Shell) -> None:
    """INTERFACE-2: `--json` is the answer as the wire has it."""
    done = await user.run("nodes", "--json")
    assert [it["host"] for it in json.loads(done.out)["nodes"]] == ["crow", "raven", "owl", "jay", "wren"]


async def test_what_a_node_says_that_is_not_the_head() -> None:
    """NODE-4: a node lists itself with what it keeps, and its head by when that asked last."""
    async with local_rig() as local:
        it = far_host(local.parts)
        clock = local.parts.world.clock
        listed = Neighbours(config=it.far_config, own=it.own, answer=it.door.answer, clock=clock)
        here, head = (await listed.nodes()).nodes
        assert (here.host, here.here, here.up, head.host, head.up) == ("crow", True, True, "raven", None)
        await it.remote.adopt({"hold crow": Holding(lease=LEASE, resource="box", holder="ann")})
        here, head = (await listed.nodes()).nodes
        assert [kept.lease for kept in here.leases] == [LEASE]
        assert (head.up, head.why) == (True, "")
        await clock.advance(CUT_OFF_S + 1.0)
        _, head = (await listed.nodes()).nodes
        assert head.up is False
        assert head.since == rfc3339(clock.moment().plus(-CUT_OFF_S - 1.0).at)
        it.far_config.fleet = replace(it.far_config.fleet, head=(it.far_config.fleet.here,))
        _, other = (await listed.nodes()).nodes
        assert (other.up, other.head) == (None, False)
        assert "only crow asks it" in other.why
