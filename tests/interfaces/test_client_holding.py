import asyncio
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from hostler.client.drive import Steps
from hostler.client.holding import LEAST_S, MOST_S, Lease
from hostler.client.lease import Leases
from hostler.client.patience import LONGEST_S, between
from hostler.client.saved import saved_leases
from hostler.client.trust import trusted
from hostler.domain.errors import DaemonUnreachable, LeaseLost, NotYours, StaleGeneration
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease
from hostler.wire.values import to_json
from tests.fakes.head import Head, listening
from tests.fakes.head_leases import blank
from tests.interfaces.holders import Hand, ahostler, ask, hostler, pause

AWAY = DaemonUnreachable(url="http://crow.lan", why="refused")


def told(**changes: object) -> OneLease:
    """An active lease of an hour, as the head tells it."""
    view = blank("ls_1", "pair", 1)
    changed = {"state": State.ACTIVE, "epoch": "e1", "generation": 41, "expires_in_s": 3600, **changes}
    return OneLease(at=view.created_at, lease=replace(view, **changed))  # type: ignore[arg-type]  # the test says which fields


@pytest.fixture
def hand() -> Hand:
    return Hand()


def held(hand: Hand, folder: Path, one: OneLease, lost: list[LeaseLost] | None = None) -> Lease:
    """A lease that was had just now."""
    leases = Leases(files=saved_leases(folder), url="http://crow.lan", machine=hand.machine())
    prepared = leases.prepare("pair", ttl_s=3600.0)
    steps = leases.ask(prepared)
    ask(next(steps))
    with pytest.raises(StopIteration):
        steps.send(to_json(one))
    return Lease(leases=leases, saved=prepared, one=one, on_lost=None if lost is None else lost.append)


def attempt(hand: Hand, steps: Steps[None], seconds: float) -> None:
    """Time goes on by the pause that the steps ask for, and they ask for a renewal."""
    hand.at += seconds
    assert ask(steps.send(None)).path.endswith("/ls_1/renew")


@pytest.mark.parametrize(("ttl", "margin"), [(3600, 180), (200, 10), (201, 10.05), (60, 10), (5, 10)])
def test_trust_ends_before_the_lease(ttl: int, margin: float) -> None:
    """LEASE-22: a lease is trusted from the attempt's start for its ttl less the larger of 10 s and 5 %."""
    assert trusted(told(expires_in_s=ttl), 1000.0) == pytest.approx(1000.0 + ttl - margin)


def test_trust_of_what_has_no_end_or_is_not_active() -> None:
    """LEASE-22, LEASE-18: a lease without an end is trusted for ever, one that is not active not at all."""
    assert trusted(told(expires_in_s=None), 1000.0) is None
    assert trusted(told(state=State.QUEUED), 1000.0) == 1000.0


def test_check_goes_by_the_local_deadline(hand: Hand, tmp_path: Path) -> None:
    """LEASE-22, CLIENT-1: `check` is silent up to the local deadline and raises `lease_lost` from it on."""
    lease = held(hand, tmp_path, told())
    assert (lease.trusted_until, lease.trusted_s) == (1000.0 + 3420, 3420.0)
    hand.at += 3419.9
    lease.check()
    hand.at += 0.1
    with pytest.raises(LeaseLost, match="has not confirmed it for 57 min"):
        lease.check()
    assert lease.trusted_s == 0.0


def test_trust_counts_from_before_the_call(hand: Hand, tmp_path: Path) -> None:
    """LEASE-22: an answer that was long on its way counts from when its attempt began."""
    lease = held(hand, tmp_path, told())
    steps = lease.upkeep()
    pause(next(steps))
    attempt(hand, steps, 100.0)
    hand.at += 14.0
    steps.send(to_json(told()))
    assert lease.trusted_until == 1000.0 + 100.0 + 3420.0


def test_an_end_that_no_renewal_moves_is_named(hand: Hand, tmp_path: Path) -> None:
    """LEASE-17, LEASE-26: a lease that a booking ends was confirmed all the time, and says what ended it."""
    lease = held(hand, tmp_path, told(limited_by="booking"))
    hand.at += 3420
    with pytest.raises(LeaseLost, match="its time is up: a booking begins"):
        lease.check()


def test_renewal_comes_at_a_third(hand: Hand, tmp_path: Path) -> None:
    """CLIENT-1: it is renewed at a third of the remaining time, by the time that was asked for."""
    lease = held(hand, tmp_path, told(expires_in_s=600))
    steps = lease.upkeep()
    wait = pause(next(steps))
    assert wait == pytest.approx(200)
    hand.at += wait
    asked = ask(steps.send(None))
    assert cast("dict[str, object]", asked.body) == {
        "secret": lease.saved.secret,
        "epoch": "e1",
        "generation": 41,
        "ttl_s": 3600.0,
    }
    steps.send(to_json(told(expires_in_s=300)))
    assert lease.view.expires_in_s == 300
    assert lease.trusted_until == hand.at + 300 - 15


@pytest.mark.parametrize(("expires", "wait"), [(36_000, MOST_S), (None, MOST_S), (11, LEAST_S), (5, LEAST_S)])
def test_renewal_is_neither_rare_nor_a_storm(
    hand: Hand, tmp_path: Path, expires: int | None, wait: float
) -> None:
    """LEASE-18, LEASE-22: a long lease is renewed every 5 minutes, a very short one twice a second."""
    lease = held(hand, tmp_path, told(expires_in_s=expires))
    assert pause(next(lease.upkeep())) == wait


def test_a_head_that_is_away_is_asked_until_trust_ends_and_after(hand: Hand, tmp_path: Path) -> None:
    """LEASE-22, F21: while the head is away tries go on; at the local deadline the holder is told, once."""
    lost = list[LeaseLost]()
    lease = held(hand, tmp_path, told(expires_in_s=60), lost)
    steps = lease.upkeep()
    wait = pause(next(steps))
    waits = []
    for _ in range(12):
        attempt(hand, steps, wait)
        wait = pause(steps.throw(AWAY))
        waits.append(wait)
    assert max(waits) <= LONGEST_S
    assert len(lost) == 1
    assert hand.at > lease.trusted_until
    attempt(hand, steps, wait)
    steps.send(to_json(told()))
    lease.check()
    assert lease.lost == ""


def test_the_holder_is_told_at_the_deadline_itself(hand: Hand, tmp_path: Path) -> None:
    """LEASE-22: no pause and no attempt lasts beyond the local deadline while the lease is trusted."""
    lease = held(hand, tmp_path, told(expires_in_s=60), [])
    steps = lease.upkeep()
    wait = pause(next(steps))
    for _ in range(20):
        hand.at += wait
        asked = ask(steps.send(None))
        assert asked.timeout_s <= max(1.0, lease.trusted_until - hand.at)
        before = hand.at
        wait = pause(steps.throw(AWAY))
        assert before >= lease.trusted_until or before + wait <= lease.trusted_until


@pytest.mark.parametrize(
    "refusal", [StaleGeneration(resource="pair", given=41, present=42), NotYours(what="The lease ls_1")]
)
def test_a_refused_renewal_is_the_end(
    hand: Hand, tmp_path: Path, refusal: StaleGeneration | NotYours
) -> None:
    """LEASE-8, LEASE-22: a renewal that is refused loses the lease at once, whatever time is left."""
    lost = list[LeaseLost]()
    lease = held(hand, tmp_path, told(), lost)
    steps = lease.upkeep()
    attempt(hand, steps, pause(next(steps)))
    with pytest.raises(StopIteration):
        steps.throw(refusal)
    with pytest.raises(LeaseLost):
        lease.check()
    assert [it.lease for it in lost] == ["ls_1"]


def test_a_lease_that_was_called_off_is_lost(hand: Hand, tmp_path: Path) -> None:
    """LEASE-16, LEASE-22: a renewal that finds it releasing loses it, with the reason."""
    lease = held(hand, tmp_path, told(), [])
    steps = lease.upkeep()
    attempt(hand, steps, pause(next(steps)))
    with pytest.raises(StopIteration):
        steps.send(to_json(told(state=State.RELEASING, why="an operator called it off")))
    with pytest.raises(LeaseLost, match="an operator"):
        lease.check()


def test_tries_are_spread_and_bounded() -> None:
    """R94: between tries are at most 15 s, half of it by chance, a Retry-After heeded up to that."""
    assert [between(n, 1.0) for n in (0, 1, 2, 5, 6, 60)] == [0.25, 0.5, 1.0, 8.0, 15.0, 15.0]
    assert between(3, 0.0) == between(3, 1.0) / 2
    assert (between(0, 0.0, 7), between(0, 0.0, 3600)) == (7.0, 15.0)


@pytest.fixture
def head() -> Iterator[Head]:
    with listening() as made:
        made.leases.ttl_s = 11  # Trusted for 1 s: renewed twice a second.
        yield made


def renewals(head: Head) -> int:
    return len(head.asked("POST", "/renew"))


def test_it_is_renewed_in_a_thread(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: within the block a thread renews; at its end the thread is gone."""
    with hostler(head, tmp_path) as client:
        with client.lease("pair"):
            head.until(lambda: renewals(head) >= 2, "it is renewed")
        assert not [it for it in threading.enumerate() if it.name == "hostler-upkeep"]


async def test_it_is_renewed_in_a_task(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: within the block a task renews; at its end the task is gone."""
    async with ahostler(head, tmp_path) as client:
        async with client.lease("pair"):
            await asyncio.to_thread(head.until, lambda: renewals(head) >= 2, "it is renewed")
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_holder_without_a_head_loses_its_trust(head: Head, tmp_path: Path) -> None:
    """LEASE-22, F21: with the head gone the holder is told by itself, and trusts again when it is back."""
    lost = threading.Event()
    with hostler(head, tmp_path) as client, client.lease("pair", on_lost=lambda _: lost.set()) as lease:
        head.down()
        assert lost.wait(10)
        with pytest.raises(LeaseLost):
            lease.check()
        head.up()
        before = renewals(head)
        head.until(lambda: renewals(head) > before, "it is asked again", timeout_s=20)
    assert head.of(State.RELEASED) != []


def test_an_endless_lease_is_trusted_for_ever(hand: Hand, tmp_path: Path) -> None:
    """LEASE-18: a lease without an end is never lost by time."""
    lease = held(hand, tmp_path, told(expires_in_s=None))
    hand.at += 30 * 86_400
    lease.check()
    assert lease.trusted_until == math.inf
