"""The schedule's use cases on the memory store: asking, waiting, renewing, giving back."""

from __future__ import annotations

import asyncio

import pytest

from hostler.domain.errors import (
    Ended,
    HoldTaken,
    IdempotencyConflict,
    InvalidRequest,
    NotYours,
    QueueFull,
    ResourceNotFound,
    StaleGeneration,
    TtlRefused,
    WrongScope,
)
from hostler.wire.schedule import LeasesQuery
from tests.fakes.schedule_world import OPERATOR, head, resource


async def test_a_resource_without_actions_is_active_at_once_and_released_at_once() -> None:
    """LEASE-1, R9: without actions a resource is a plain timed lock."""
    async with head() as it:
        lease = await it.reserve()
        assert (lease.state, lease.expires_in_s, lease.generation) == ("active", 3600, 1)
        assert (await it.release(lease)).state == "released"
        assert (await it.reserve(holder="bert")).generation == 2


async def test_an_unknown_resource_is_refused_with_the_known_ones() -> None:
    """R4: only what the config names can be reserved, and the refusal lists it."""
    async with head() as it:
        with pytest.raises(ResourceNotFound, match="nope") as caught:
            await it.reserve("nope")
        assert "bench-disk" in caught.value.advice()


async def test_fifty_who_ask_at_once_are_one_holder_and_a_line() -> None:
    """LEASE-7, R25, F01: of many who ask at once one has it, the others have places from 1 on."""
    async with head(resource(queue_max=60)) as it:
        found = await asyncio.gather(*(it.reserve(holder=f"h{n}") for n in range(50)))
        states = [lease.state for lease in found]
        assert states.count("active") == 1
        queued = [await it.look(lease) for lease in found if lease.state == "queued"]
        assert sorted(lease.place or 0 for lease in queued) == list(range(1, 50))


async def test_the_same_request_is_the_same_lease() -> None:
    """LEASE-9, R23, F02: a repeated request is answered with its lease; with another body it is refused."""
    async with head() as it:
        first = await it.reserve(request="one")
        again = await it.reserve(request="one")
        assert (again.id, again.generation) == (first.id, first.generation)
        with pytest.raises(IdempotencyConflict):
            await it.reserve(request="one", reason="another")


async def test_a_lost_reply_is_found_again_after_a_restart() -> None:
    """LEASE-9, F02: after a restart of the head too the same request is the same lease."""
    async with head() as it:
        first = await it.reserve(request="one")
        later = await it.again()
        assert (await later.reserve(request="one")).id == first.id


async def test_the_line_is_first_come_first_served() -> None:
    """LEASE-23, R41: who came first is offered it first, and sees its place until then."""
    async with head() as it:
        a, b, c = [await it.reserve(holder=name) for name in ("a", "b", "c")]
        assert ((await it.look(b)).place, (await it.look(c)).place) == (1, 2)
        assert "a has bench-disk until" in (await it.look(b)).why
        await it.release(a)
        await it.ticks(1)
        assert [(await it.look(x)).state for x in (b, c)] == ["offered", "queued"]


async def test_a_waiting_client_takes_up_its_offer_with_its_renewal() -> None:
    """LEASE-24, F28: an offer ends a wait and is not taken by it: the client's next renewal takes it up."""
    async with head() as it:
        a = await it.reserve(holder="a")
        b = await it.reserve(holder="b")
        waiting = asyncio.ensure_future(it.renew(b, wait_s=30))
        await it.clock.advance(1)
        await it.release(a)
        await it.ticks(1)
        assert (await waiting).state == "offered"
        assert (await it.renew(b, wait_s=30)).state == "active"


async def test_a_place_that_nobody_renews_lapses() -> None:
    """LEASE-24, R43, F28: a waiter that is gone is passed over; one that renews keeps its place."""
    async with head() as it:
        await it.reserve(holder="a")
        b = await it.reserve(holder="b")
        c = await it.reserve(holder="c")
        for _ in range(5):
            await it.ticks(30)
            await it.renew(c)
        assert (await it.look(b)).state == "lapsed"
        assert (await it.look(c)).place == 1


async def test_a_detached_place_is_kept_and_its_offer_has_claim_time() -> None:
    """LEASE-24, F28: nothing is done for someone who went home: an offer not claimed passes on."""
    async with head() as it:
        a = await it.reserve(holder="a")
        b = await it.reserve(holder="b", detached_s=43_200)
        c = await it.reserve(holder="c", detached_s=43_200)
        await it.ticks(1200, step=10)
        await it.release(a)
        await it.ticks(1)
        assert (await it.look(b)).state == "offered"
        await it.ticks(900, step=5)
        assert [(await it.look(x)).state for x in (b, c)] == ["lapsed", "offered"]


@pytest.mark.parametrize("ttl", [0, -1, 1e9])
async def test_a_ttl_out_of_bounds_is_refused(ttl: float) -> None:
    """LEASE-17, R47: a lease is given no time that its resource does not allow."""
    async with head() as it:
        with pytest.raises(TtlRefused):
            await it.reserve(ttl_s=ttl)
        assert await it.types() == []


async def test_an_endless_lease_only_where_it_is_allowed() -> None:
    """LEASE-18, R55: without an end there is no expiry, and only where the resource allows it."""
    async with head(resource(), resource("raven-box", indefinite=True)) as it:
        with pytest.raises(TtlRefused):
            await it.reserve(indefinite=True)
        lease = await it.reserve("raven-box", indefinite=True)
        assert (lease.expires_at, lease.indefinite) == (None, True)


async def test_an_endless_lease_is_reminded_of_daily_and_never_expires() -> None:
    """LEASE-18, R56: thirty days pass, a reminder a day, and it is still held."""
    async with head(resource("raven-box", indefinite=True)) as it:
        lease = await it.reserve("raven-box", indefinite=True)
        for _ in range(30):
            await it.skip(86_400)
        assert (await it.look(lease)).state == "active"
        assert (await it.types()).count("lease_reminder") == 30


async def test_a_renewal_extends_to_the_bound_and_says_so() -> None:
    """LEASE-17, R44: a renewal never passes `max`, and the answer says what limited it."""
    async with head(resource(max_s=7200.0)) as it:
        lease = await it.reserve()
        await it.ticks(60, step=10)
        assert (await it.renew(lease, ttl_s=3600)).expires_in_s == 3600
        limited = await it.renew(lease, ttl_s=7200)
        assert (limited.expires_in_s, limited.limited_by) == (7140, "max")


async def test_a_renewal_never_shortens() -> None:
    """LEASE-17, R46: asking for less than is left changes nothing."""
    async with head() as it:
        lease = await it.reserve()
        assert (await it.renew(lease, ttl_s=60)).expires_in_s == 3600


async def test_only_the_holder_renews_and_releases() -> None:
    """LEASE-9, R37, R45: a name is no proof; the refusal names the holder."""
    async with head() as it:
        lease = await it.reserve(holder="anna")
        with pytest.raises(NotYours, match="anna"):
            await it.renew(lease, secret="bert")
        with pytest.raises(NotYours, match="anna"):
            await it.release(lease, secret=None)


async def test_an_operator_says_which_grant_and_why() -> None:
    """LEASE-9, R37: an operator may release what is another's, with generation and reason."""
    async with head() as it:
        lease = await it.reserve(holder="anna")
        with pytest.raises(InvalidRequest, match="why"):
            await it.release(lease, who=OPERATOR, secret=None, generation=1)
        with pytest.raises(InvalidRequest, match="Which grant"):
            await it.release(lease, who=OPERATOR, secret=None, because="forgotten")
        with pytest.raises(StaleGeneration):
            await it.release(lease, who=OPERATOR, secret=None, because="forgotten", generation=7)
        done = await it.release(lease, who=OPERATOR, secret=None, because="forgotten", generation=1)
        assert done.state == "released"


async def test_a_wrong_generation_is_refused() -> None:
    """LEASE-8: every call under a lease carries its fence number; a wrong one is refused."""
    async with head() as it:
        lease = await it.reserve()
        with pytest.raises(StaleGeneration):
            await it.renew(lease, generation=2)
        assert (await it.renew(lease, generation=1, epoch=lease.epoch)).state == "active"


async def test_what_is_over_is_over() -> None:
    """R38, R45, F04: releasing twice is harmless; renewing then is refused; an old release ends nothing."""
    async with head() as it:
        a = await it.reserve(holder="a")
        await it.release(a)
        assert (await it.release(a)).state == "released"
        with pytest.raises(Ended):
            await it.renew(a)
        b = await it.reserve(holder="b")
        with pytest.raises(StaleGeneration) as caught:
            await it.release(a)
        assert (caught.value.given, caught.value.present, caught.value.holder) == (1, 2, "b")
        assert (await it.look(b)).state == "active"


async def test_expiry_releases_by_itself() -> None:
    """LEASE-19, R50: at its time a lease is released as by its holder, and ends as expired."""
    async with head() as it:
        lease = await it.reserve(ttl_s=600)
        await it.ticks(599, step=10)
        assert (await it.look(lease)).state == "active"
        await it.ticks(2)
        assert (await it.look(lease)).state == "expired"


async def test_each_warning_once_and_again_after_a_renewal() -> None:
    """LEASE-19, R48, R49: each offset warns once per expiry, and a renewal re-arms it."""
    async with head(resource(warn=(900.0, 300.0))) as it:
        lease = await it.reserve(ttl_s=1800)
        await it.ticks(1000, step=5)
        assert (await it.types()).count("lease_expiring") == 1
        assert "expires in" in (await it.look(lease)).notice
        await it.ticks(510, step=5)
        assert (await it.types()).count("lease_expiring") == 2
        await it.renew(lease, ttl_s=1800)
        await it.ticks(1000, step=5)
        assert (await it.types()).count("lease_expiring") == 3


async def test_now_refuses_and_leaves_no_place() -> None:
    """LEASE-23: with `now` a held resource is refused with who has it, and nothing waits afterwards."""
    async with head() as it:
        await it.reserve(holder="anna")
        with pytest.raises(HoldTaken, match="anna") as caught:
            await it.reserve(holder="bert", now=True)
        assert caught.value.lease
        assert caught.value.way == (
            "Wait for it with --wait, or keep a place: `hostler reserve bench-disk --queue 12h`."
        )
        assert len((await it.schedule.leases(LeasesQuery())).leases) == 1


async def test_the_queue_is_bounded() -> None:
    """R58: past `queue.max` a place is refused, and nothing is kept of it."""
    async with head(resource(queue_max=2)) as it:
        for name in ("a", "b", "c"):
            await it.reserve(holder=name)
        with pytest.raises(QueueFull):
            await it.reserve(holder="d")
        assert len((await it.schedule.leases(LeasesQuery())).leases) == 3


async def test_a_pair_and_its_boxes_take_turns() -> None:
    """LEASE-3, F27: a queued pair takes its turn on both boxes: later claims on either wait behind it."""
    pair = resource("pair", covers=("pair", "crow-box", "raven-box"))
    async with head(resource("crow-box"), resource("raven-box"), pair) as it:
        first = await it.reserve("crow-box", holder="a")
        both = await it.reserve("pair", holder="b", detached_s=86_400)
        later = await it.reserve("raven-box", holder="c", detached_s=86_400)
        assert (await it.look(later)).state == "queued"
        await it.release(first)
        await it.ticks(1)
        assert [(await it.look(x)).state for x in (both, later)] == ["offered", "queued"]


async def test_independent_resources_never_wait_for_each_other() -> None:
    """LEASE-23: a queue on one resource keeps nobody from another."""
    async with head(resource("one"), resource("two")) as it:
        await it.reserve("one", holder="a")
        await it.reserve("one", holder="b")
        assert (await it.reserve("two", holder="c")).state == "active"


async def test_priority_is_an_operators() -> None:
    """LEASE-23: only an operator jumps the line."""
    async with head() as it:
        a = await it.reserve(holder="a")
        b = await it.reserve(holder="b", detached_s=86_400)
        with pytest.raises(WrongScope):
            await it.reserve(holder="c", priority=1)
        c = await it.reserve(holder="c", priority=1, who=OPERATOR, detached_s=86_400)
        await it.release(a)
        await it.ticks(1)
        assert [(await it.look(x)).state for x in (b, c)] == ["queued", "offered"]
