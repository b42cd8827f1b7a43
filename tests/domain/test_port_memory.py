import pytest

from hostler.domain.port_memory import Claim, Room, crowds, short_gib, together
from tests.fakes.ports import GIB

ROOM = Room(total=124 * GIB, reserve=8 * GIB)


def claim(port: int, gib: float, *, group: str = "", gated: bool = False) -> Claim:
    return Claim(
        service=f"s{port}", port=port, ports=str(port), needs=int(gib * GIB), group=group, gated=gated
    )


def test_free_ports_and_one_memory() -> None:
    """MEM-6: two whose ports are free and whose memory is not there are told with the sum of both."""
    (same,) = crowds("raven", [claim(8030, 92.6), claim(8036, 92.6)], ROOM)
    assert same.sentence == (
        "8030 and 8036 are both free, and each wants 92.6 GiB of raven's 124"
        " (92.6 + 92.6 + 8 reserve = 193.2)"
    )
    (other,) = crowds("raven", [claim(8030, 106.3), claim(8036, 92.6)], ROOM)
    assert other.sentence == (
        "8030 and 8036 are both free, and they want 106.3 and 92.6 GiB of raven's 124"
        " (106.3 + 92.6 + 8 reserve = 206.9)"
    )


@pytest.mark.parametrize(
    ("claims", "room"),
    [
        ([claim(1, 58), claim(2, 58)], ROOM),
        ([claim(1, 117), claim(2, 20)], ROOM),
        ([claim(1, 100), claim(1, 100)], ROOM),
        ([claim(1, 100, group="crow/main"), claim(2, 100, group="crow/main")], ROOM),
        ([claim(1, 100, gated=True), claim(2, 100, gated=True)], ROOM),
        ([claim(1, 100), claim(2, 100)], Room(total=None, reserve=0)),
    ],
    ids=["fits", "alone too large", "one port", "one group", "gated", "size unknown"],
)
def test_what_is_no_crowd(claims: list[Claim], room: Room) -> None:
    """MEM-6: who fits, excludes the other, has the same port, or is kept apart by the gate is not told."""
    assert crowds("raven", claims, room) == ()


def test_one_that_is_not_gated_is_told() -> None:
    """MEM-6: the gate keeps two of its own apart, and nobody else from one of them."""
    assert len(crowds("raven", [claim(1, 100, gated=True), claim(2, 100)], ROOM)) == 1
    assert len(crowds("raven", [claim(1, 100, group="a"), claim(2, 100, group="b")], ROOM)) == 1


def test_sums_by_pool() -> None:
    """MEM-6: a set is summed per pool with its reserve; exactly full fits, one byte more does not."""
    needs = {"a": {"host": 58 * GIB, "gpu0": 10 * GIB}, "b": {"host": 58 * GIB}}
    rooms = {"host": ROOM, "gpu0": Room(total=10 * GIB, reserve=GIB // 2)}
    host, card = together(needs, rooms, "crow")
    assert (host.fits, host.arithmetic) == (True, "a 58 + b 58 + reserve 8 = 124 GiB of crow's 124")
    assert (card.fits, card.pool) == (False, "gpu0")
    assert card.arithmetic == "a 10 + reserve 0.5 = 10.5 GiB of crow's gpu0's 10"
    more, _ = together({**needs, "c": {"host": 1}}, rooms, "crow")
    assert more.fits is False


def test_what_is_not_known_cannot_be_told_to_fit() -> None:
    """MEM-6: with an unknown need or size nobody says that it fits; that it does not may still be certain."""
    rooms = {"host": ROOM}
    (unsure,) = together({"a": {"host": GIB}, "b": None}, rooms, "crow")
    assert unsure.fits is None
    assert unsure.arithmetic == "a 1 + b unknown + reserve 8 = at least 9 GiB of crow's 124"
    (certain,) = together({"a": {"host": 120 * GIB}, "b": None}, rooms, "crow")
    assert certain.fits is False
    (nothing,) = together({"b": None}, rooms, "crow")
    assert nothing.fits is None
    (sizeless,) = together({"a": {"host": GIB}}, {"host": Room(total=None, reserve=0)}, "crow")
    assert sizeless.fits is None
    assert sizeless.arithmetic == "a 1 + reserve 0 = 1 GiB of crow's size, which the config does not say"
    (poolless,) = together({"a": {"gpu0": GIB}}, rooms, "crow")
    assert poolless.fits is None


def test_sizes_are_short() -> None:
    """MEM-6: whole GiB are written without a decimal."""
    assert [short_gib(int(it * GIB)) for it in (124, 92.6, 0.5)] == ["124", "92.6", "0.5"]
