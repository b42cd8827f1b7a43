"""What every schedule store does inside its transactions. Each test runs on each of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Recorded
from hostler.domain.job import JobId
from hostler.domain.lease import LeaseId, State
from hostler.services.schedule_needs import Taken, Tx
from tests.adapters.schedule_calls import ended, holder, ids, of_request, put
from tests.adapters.schedule_rows import (
    FENCE,
    LIVE,
    OVER,
    entry,
    full_lease,
    job,
    lease,
    moment,
    points,
)
from tests.adapters.stores import STORES, Both, event, numbers
from tests.fakes.ids import CountingIds


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Both]:
    made = STORES[request.param](tmp_path, CountingIds())
    yield made
    await made.close()


# ---------------------------------------------------------------- transactions


async def test_what_a_work_returns_is_returned(store: Both) -> None:
    """LEASE-7: `write` and `read` give what their work gives, and a read sees what was written before."""
    kept = await store.write(lambda tx: tx.put(lease(1)))
    assert await store.read(lambda tx: tx.lease(kept.id)) == kept
    assert await store.read(lambda tx: tx.lease(LeaseId("ls_none"))) is None


async def test_a_work_that_raises_leaves_nothing(store: Both) -> None:
    """LEASE-7: what a work wrote before it raised is undone with its numbers, and its error comes out."""

    def bad(tx: Tx) -> None:
        held = tx.put(lease(1, State.ACTIVATING))
        tx.begin(entry(held, 1))
        tx.put_job(job(1), watch=1.0)
        tx.add_points(job(1).id, points("loss", 3))
        tx.put_fence(FENCE)
        tx.next_generation()
        tx.record(event(1))
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        await store.write(bad)

    def look(tx: Tx) -> tuple[object, ...]:
        of = lease(1)
        rows = (tx.lease(of.id), tx.holder("pair"), tx.fence(), tx.job(job(1).id))
        return (*rows, *tx.live(), *tx.journal(of.id), *tx.points(job(1).id, 9))

    assert await store.read(look) == (None, None, None, None)
    meta = await store.read(lambda tx: tx.meta())
    assert (meta.seq, meta.generation) == (0, 0)
    kept = await store.write(lambda tx: (tx.put(lease(2)), tx.next_generation(), tx.record(event(2))))
    assert (kept[0].number, kept[1].generation, kept[2]) == (1, 1, 1)


async def test_whatever_a_work_raises_the_store_goes_on(store: Both) -> None:
    """REL-1: a work that wants to end the process ends its own call only; the next one is answered."""
    for error in (SystemExit(3), AssertionError("a bug")):
        for call in (store.write, store.read):
            with pytest.raises(type(error)):
                await call(_raiser(error))
    for call in (store.write, store.read):
        with pytest.raises(RuntimeError, match="StopIteration"):  # As every coroutine tells it.
            await call(_raiser(StopIteration()))
    assert await store.write(lambda tx: tx.record(event(1))) == 1


def _raiser(error: BaseException) -> Callable[[Tx], None]:
    def work(tx: Tx) -> None:
        raise error

    return work


async def test_works_beside_a_bad_one_stand(store: Both) -> None:
    """LEASE-7: of works that wait together, one that raises undoes itself and no other."""

    def work(n: int) -> Callable[[Tx], int]:
        def run(tx: Tx) -> int:
            tx.put(lease(n, covers=(f"r{n}",)))
            seq = tx.record(event(n))
            if n % 3 == 0:
                raise ValueError(f"number {n}")
            return seq

        return run

    results = await asyncio.gather(*(store.write(work(n)) for n in range(1, 61)), return_exceptions=True)
    good = [n for n in range(1, 61) if n % 3]
    assert [str(each) for each in results if isinstance(each, ValueError)] == [
        f"number {n}" for n in range(3, 61, 3)
    ]
    assert [each for each in results if isinstance(each, int)] == list(range(1, 41))
    rows = await store.since(None, 100)
    assert [row.seq for row in rows] == list(range(1, 41))
    assert numbers(rows) == good
    assert ids(await store.read(lambda tx: tx.live())) == good


async def test_a_transaction_sees_what_it_wrote(store: Both) -> None:
    """LEASE-7: within one transaction later reads have what was written before."""

    def work(tx: Tx) -> None:
        held = tx.put(lease(1, State.OFFERED))
        assert tx.holder("pair") == held
        assert tx.live() == (held,)
        assert tx.lease_of_request("request-1") == held
        assert tx.meta().seq == 0
        assert tx.record(event(1)) == tx.meta().seq == 1
        assert tx.next_generation().generation == tx.meta().generation == 1
        tx.put(replace(held, state=State.RELEASED, ended=moment()))
        assert tx.holder("pair") is None
        assert tx.live() == ()

    await store.write(work)


WRITES: dict[str, Callable[[Tx], object]] = {
    "put": lambda tx: tx.put(lease(2)),
    "next_generation": lambda tx: tx.next_generation(),
    "record": lambda tx: tx.record(event(1)),
    "begin": lambda tx: tx.begin(entry(lease(1), 1)),
    "put_job": lambda tx: tx.put_job(job(1), watch=None),
    "add_points": lambda tx: tx.add_points(JobId("jb"), points("loss", 1)),
    "put_fence": lambda tx: tx.put_fence(FENCE),
    "drop_fence": lambda tx: tx.put_fence(None),
    "prune_ended": lambda tx: tx.prune_ended("9999", 1),
}


@pytest.mark.parametrize("write", WRITES)
async def test_writing_in_a_read_is_an_error(store: Both, write: str) -> None:
    """LEASE-7: a work that was given for reading cannot write, and what it tried left nothing."""
    await store.write(lambda tx: tx.put(lease(1, State.RELEASED)))
    with pytest.raises(RuntimeError, match="for reading"):
        await store.read(WRITES[write])
    assert await store.cursor() == f"{(await store.read(lambda tx: tx.meta())).epoch}:0"
    assert ids(await store.read(lambda tx: tx.ended(after=0, limit=9))) == [1]


async def test_events_of_a_transaction_are_events(store: Both) -> None:
    """FEED-2: events recorded by transactions and by `record` are one log, in order and without gaps."""
    await store.record([event(0)])
    assert await store.write(lambda tx: [tx.record(event(n)) for n in (1, 2)]) == [2, 3]
    assert [row.seq for row in await store.record([event(3)])] == [4]
    assert numbers(await store.since(None, 10)) == [0, 1, 2, 3]


async def test_listeners_hear_all_in_commit_order(store: Both) -> None:
    """FEED-2: every committed event is heard once, in order, whoever wrote it, before its writer goes on."""
    heard: list[Recorded] = []
    store.listen(heard.extend)

    async def one(n: int) -> None:
        if n % 4 == 3:
            with pytest.raises(ValueError, match="no"):
                await store.write(_raising)
        elif n % 2:
            (row,) = await store.record([event(n)])
            assert heard[row.seq - 1] == row
        else:
            seq = await store.write(lambda tx: tx.record(event(n)))
            assert heard[seq - 1].event.facts["number"] == n

    await asyncio.gather(*(one(n) for n in range(200)))
    assert tuple(heard) == await store.since(None, 1000)
    assert [row.seq for row in heard] == list(range(1, 151))


def _raising(tx: Tx) -> None:
    tx.record(event(999))
    raise ValueError("no")


async def test_secrets_are_taken_out_of_what_transactions_record(tmp_path: Path) -> None:
    """SEC-1, FEED-3: what a transaction records goes through the store's cleaning first."""
    for make in STORES.values():
        store = make(tmp_path, CountingIds(), clean=lambda each: replace(each, message="****"))
        await store.write(lambda tx: tx.record(event(1)))
        assert [row.event.message for row in await store.since(None, 9)] == ["****"]
        await store.close()


async def test_a_closed_store_refuses_transactions(store: Both) -> None:
    """REL-1: a store that was closed says so to `write` and `read`; what was asked before is finished."""
    waiting = asyncio.ensure_future(store.write(lambda tx: tx.record(event(1))))
    await asyncio.sleep(0)
    await store.close()
    assert await waiting == 1
    for call in (store.write(lambda tx: tx.meta()), store.read(lambda tx: tx.meta())):
        with pytest.raises(ScheduleUnavailable, match="it is closed"):
            await call


# ---------------------------------------------------------------- leases


async def test_a_lease_keeps_every_field(store: Both) -> None:
    """LEASE-10: a lease reads back whole, its times to the microsecond, its plan with every kind of step."""
    wanted = replace(full_lease(), number=1)
    assert await store.write(lambda tx: tx.put(full_lease())) == wanted
    assert await store.read(lambda tx: tx.lease(wanted.id)) == wanted
    bare = await store.write(lambda tx: tx.put(lease(8)))
    assert await store.read(lambda tx: tx.lease(bare.id)) == replace(lease(8), number=2)


async def test_a_lease_is_numbered_once(store: Both) -> None:
    """R41: leases are numbered in the order of their making; a later write keeps the number."""
    kept = [await store.write(put(lease(n))) for n in (5, 3, 4)]
    assert [each.number for each in kept] == [1, 2, 3]
    again = await store.write(lambda tx: tx.put(replace(kept[0], state=State.RELEASED, ended=moment())))
    assert again.number == 1
    assert ids(await store.read(lambda tx: tx.live())) == [3, 4]
    await store.write(lambda tx: tx.put(replace(kept[2], state=State.LAPSED, ended=moment())))
    assert await store.write(lambda tx: tx.prune_ended("9999", 10)) == 2
    assert (await store.write(lambda tx: tx.put(lease(9)))).number == 4


@pytest.mark.parametrize("state", State)
async def test_claim_rows_follow_the_state(store: Both, state: State) -> None:
    """LEASE-7: a lease has claims on all that it covers while it holds, and on nothing before and after."""
    covers = ("pair", "crow")
    first = await store.write(lambda tx: tx.put(lease(1, State.ACTIVE, covers=covers)))
    kept = await store.write(lambda tx: tx.put(replace(first, state=state, ended=moment())))
    for resource in covers:
        assert await store.read(holder(resource)) == (kept if state.holds else None)
    assert await store.read(lambda tx: tx.holder("raven")) is None
    assert (await store.read(lambda tx: tx.live()) == (kept,)) is (state in LIVE)
    assert (await store.read(lambda tx: tx.ended(after=0, limit=9)) == (kept,)) is (state in OVER)


async def test_a_claimed_resource_is_taken(store: Both) -> None:
    """LEASE-7: one claim row of another's is enough: nothing is written, even when the work goes on."""
    await store.write(lambda tx: tx.put(lease(1, State.OFFERED, covers=("crow",))))
    waiting = await store.write(lambda tx: tx.put(lease(2, covers=("pair", "crow", "raven"))))

    def work(tx: Tx) -> str:
        with pytest.raises(Taken):
            tx.put(replace(waiting, state=State.ACTIVATING))
        return "goes on"

    assert await store.write(work) == "goes on"
    assert await store.read(lambda tx: tx.lease(waiting.id)) == waiting
    assert await store.read(lambda tx: [tx.holder(each) is None for each in ("pair", "raven")]) == [
        True,
        True,
    ]
    with pytest.raises(Taken):
        await store.write(lambda tx: tx.put(lease(3, State.STUCK, covers=("crow",))))
    assert await store.read(lambda tx: tx.lease(lease(3).id)) is None


async def test_one_of_many_that_race_gets_it(store: Both) -> None:
    """LEASE-7, R25: of 200 grants at once of one resource one is kept and all others are told Taken."""
    results = await asyncio.gather(
        *(store.write(put(lease(n, State.ACTIVATING))) for n in range(1, 201)),
        return_exceptions=True,
    )
    winners = [each for each in results if not isinstance(each, Taken)]
    assert len(winners) == 1
    assert await store.read(lambda tx: tx.live()) == tuple(winners)
    assert await store.read(lambda tx: tx.holder("pair")) == winners[0]


async def test_a_resource_changes_hands_in_one_transaction(store: Both) -> None:
    """LEASE-7: one transaction may end a lease and grant the next."""
    first = await store.write(lambda tx: tx.put(lease(1, State.RELEASING)))

    def work(tx: Tx) -> None:
        tx.put(replace(first, state=State.RELEASED, ended=moment()))
        tx.put(lease(2, State.OFFERED))

    await store.write(work)
    found = await store.read(holder("pair"))
    assert found is not None
    assert ids([found]) == [2]


async def test_a_request_makes_one_lease(store: Both) -> None:
    """LEASE-9, R23: a lease is found by the request that made it, and a second one of it is an error."""
    first = await store.write(lambda tx: tx.put(lease(1)))
    with pytest.raises(ValueError, match="request"):
        await store.write(lambda tx: tx.put(lease(2, request_id="request-1")))
    over = await store.write(lambda tx: tx.put(replace(first, state=State.CANCELLED, ended=moment())))
    assert await store.read(lambda tx: tx.lease_of_request("request-1")) == over
    for other in ("request-2", "", "request"):
        assert await store.read(of_request(other)) is None
    for n in (3, 4):
        await store.write(put(lease(n, request_id="")))
    assert await store.read(lambda tx: tx.lease_of_request("")) is None


async def test_a_lease_that_is_not_there_cannot_be_changed(store: Both) -> None:
    """LEASE-7: a lease with a number that nobody gave it, or given twice, is a bug that is told."""
    kept = await store.write(lambda tx: tx.put(lease(1)))
    for bad in (lease(2, number=7), replace(kept, number=0), replace(kept, number=2)):
        with pytest.raises(ValueError, match="lease"):
            await store.write(put(bad))
    assert await store.read(lambda tx: tx.live()) == (kept,)


async def test_ended_leases_come_in_pages(store: Both) -> None:
    """LEASE-9: ended leases come newest first, page by page, each once."""

    def work(tx: Tx) -> None:
        for n in range(1, 10):
            tx.put(lease(n, OVER[n % len(OVER)] if n % 2 else State.SCHEDULED))

    await store.write(work)
    pages, after = [], 0
    while page := await store.read(ended(after)):
        pages.append(ids(page))
        after = page[-1].number
    assert pages == [[9, 7], [5, 3], [1]]


@pytest.mark.parametrize(
    "bad", [{"ttl_s": float("inf")}, {"detached_s": float("nan")}, {"warned": (float("inf"),)}]
)
async def test_a_number_that_json_has_not_is_refused(store: Both, bad: dict[str, Any]) -> None:
    """LEASE-18: an infinite time cannot become null in the store, which would be a lease without an end."""
    with pytest.raises(ValueError, match="no place in JSON"):
        await store.write(lambda tx: tx.put(lease(1, **bad)))


async def test_generations_only_rise(store: Both) -> None:
    """LEASE-8: fence numbers are given out once, in order, under the store's epoch."""
    given = await asyncio.gather(*(store.write(lambda tx: tx.next_generation()) for _ in range(50)))
    epoch = (await store.cursor()).rpartition(":")[0]
    assert [(each.epoch, each.generation) for each in given] == [(epoch, n) for n in range(1, 51)]
    assert (await store.read(lambda tx: tx.meta())).generation == 50
