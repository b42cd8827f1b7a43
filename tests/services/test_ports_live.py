from collections.abc import Sequence

import pytest

from hostler.domain.engine import Run
from hostler.domain.ports import Row, Status
from hostler.services.ports_live import Listening, LivePorts
from tests.fakes.listeners import FakeListeners, watch_of
from tests.fakes.ports import row
from tests.fakes.world import World, engine, world


def listening(
    port: int, address: str = "127.0.0.1", process: str = "serve", pid: int | None = 7
) -> Listening:
    return Listening(address=address, port=port, protocol="tcp", uid=1000, pid=pid, process=process)


async def looked(house: World, found: Sequence[Listening], rows: Sequence[Row] = ()) -> LivePorts:
    return await watch_of(house.lanes, FakeListeners(list(found), list(rows))).look()


async def test_listeners_are_somebodys() -> None:
    """PORT-5: a listener is an engine's, the daemon's, a row's, or in no row."""
    async with world(engine("fast")) as house:
        lane = house.lane("fast")
        found = [listening(lane.launch.port), listening(7070), listening(9000), listening(9001)]
        shown = await looked(
            house, found, [row(9000, "web", status=Status.EXTERNAL), row(9001, host="raven")]
        )
        told = {it.port: (it.engine, it.service, it.status, it.known) for it in shown.ports}
        assert told == {
            lane.launch.port: ("", "", "", False),
            7070: ("the daemon", "", "", True),
            9000: ("", "web", "external", True),
            9001: ("", "", "", False),
        }
        await house.wanted("fast")
        assert isinstance(lane.run, Run)
        shown = await looked(house, found)
        assert {it.port: it.engine for it in shown.ports}[lane.launch.port] == "fast"
        assert (shown.host, shown.auto_from, shown.auto_to) == ("crow", 8100, 8199)


@pytest.mark.parametrize(
    ("each", "silent"),
    [
        (row(9000), False),
        (row(9001), True),
        (row(8999, last=9001), False),
        (row(9000, address="10.99.0.1"), True),
        (row(9000, protocol="udp"), True),
        (row(9001, status=Status.RESERVED), False),
        (row(9001, host="raven"), False),
    ],
)
async def test_rows_without_a_listener(each: Row, silent: bool) -> None:
    """PORT-5: a row of this host in production on whose port nothing listens is told."""
    async with world(engine("fast")) as house:
        shown = await looked(house, [listening(9000)], [each])
        assert bool(shown.silent) is silent


async def test_wildcards_of_one_owner_are_one() -> None:
    """PORT-3, PORT-5: one owner on the wildcards of both families is one port on every interface."""
    async with world(engine("fast")) as house:
        both = [listening(9000, "0.0.0.0"), listening(9000, "::")]  # noqa: S104 - told, never bound
        shown = await looked(house, both)
        assert [it.address for it in shown.ports] == ["any"]
        other = [both[0], listening(9000, "::", "other"), listening(9000, "10.99.0.1")]
        assert len((await looked(house, other)).ports) == 3


async def test_a_freed_row_is_nobodys() -> None:
    """PORT-5: a listener on a port that was freed is in no row."""
    async with world(engine("fast")) as house:
        (shown,) = (await looked(house, [listening(9000)], [row(9000, status=Status.FREED)])).ports
        assert not shown.known


async def test_what_cannot_be_seen_is_said() -> None:
    """PORT-5: a process that may not be looked into, and a machine that cannot be read, are told as such."""
    async with world(engine("fast")) as house:
        assert "show no process" in (await looked(house, [listening(9000, pid=None)])).note
        assert (await looked(house, [listening(9000)])).note == ""
        broken = FakeListeners(broken=OSError(13, "Permission denied"))
        shown = await watch_of(house.lanes, broken).look()
        assert shown.ports == ()
        assert shown.note == "The listeners of this machine cannot be read: Permission denied."
