from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hostler.domain.lease import Lease, State
from hostler.domain.step import HoldHost
from hostler.services.lost_holds import LostHolds, Said
from hostler.services.scene import Scene
from hostler.services.schedule_views import lease_view, resource_view, why_view
from hostler.wire.nodes import NodeAnswer
from tests.fakes.leases import NOW
from tests.fakes.leases import lease as made
from tests.fakes.schedule_world import fleet, resource

UNTIL = "2026-09-04T21:00:00.000Z"
SINCE = NOW.at
BY_BENCH = f"crow is held by bench until {UNTIL}, not by this lease"
GONE = "crow is not held any more: `hostler renew ls-1` writes its hold again"


def mine(**keys: object) -> Lease:
    it = made(
        "ls-1",
        state=State.ACTIVE,
        activated=NOW,
        expires=NOW.plus(60),
        covers=("bench-disk",),
        plan=(HoldHost(host="crow"),),
    )
    return replace(it, resource="bench-disk", **keys)  # type: ignore[arg-type]  # a test's shorthand


def looks(hold: str | None, at: datetime = SINCE + timedelta(seconds=1)) -> LostHolds:
    """What the node of crow said last of its hold."""
    answer = NodeAnswer(
        api=1,
        host="crow",
        version="1",
        at=UNTIL,
        boot="b",
        hold=hold,
        hold_until=None if hold is None else UNTIL,
        leases=(),
        heard_s=None,
    )
    return LostHolds(said=lambda host: Said(answer=answer, at=at) if host == "crow" else None)


@pytest.mark.parametrize(
    ("hold", "told"),
    [
        ("bench", (BY_BENCH,)),
        ("lease:ls-2", (BY_BENCH.replace("bench", "lease:ls-2"),)),
        (None, (GONE,)),
        ("lease:ls-1", ()),
    ],
)
def test_whose_hold_an_active_lease_has(hold: str | None, told: tuple[str, ...]) -> None:
    """HOLD-11: another's hold, or none, is told of an active lease with the way out; its own is not."""
    assert looks(hold).wrong(mine()) == told


def test_what_brings_the_hold_of_an_endless_lease_back() -> None:
    """HOLD-11: a renewal of a lease without an end changes nothing: its node rewrites its hold by itself."""
    (told,) = looks(None).wrong(mine(expires=None))
    assert told == "crow is not held any more: its hold is written again within 10 min"


def test_of_whom_nothing_is_said() -> None:
    """HOLD-11: not of one that is not active, of a window, of an old look, of a host that is away."""
    lost = looks("bench")
    assert lost.wrong(mine(state=State.RELEASING)) == ()
    assert lost.wrong(mine(mode="heavy")) == ()
    assert lost.wrong(mine(plan=())) == ()
    assert lost.wrong(mine(plan=(HoldHost(host="raven"),))) == ()
    assert looks("bench", at=SINCE).wrong(mine()) == ()


def test_where_it_is_told() -> None:
    """HOLD-11, LEASE-19, LEASE-23: in the lease, its notice, its `why`, and in `why` of its resource."""
    it = mine()
    disk = resource()
    scene = Scene(fleet=fleet(disk), live=(it,), fence=None, now=NOW, wrong=looks("bench").wrong)
    view = lease_view(it, scene)
    assert (view.wrong, view.notice, view.why) == ((BY_BENCH,), BY_BENCH, f"it is held; {BY_BENCH}")
    free = why_view(disk, scene, None).conditions[0]
    assert free.text.endswith(f"(active; {BY_BENCH})")
    assert resource_view(disk, scene).state == "active"
