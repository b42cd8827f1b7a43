"""The real jobs service on a store in memory, with the schedule's side of it written down."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.events import Event
from hostler.domain.job import Job
from hostler.domain.lease import Lease, LeaseId
from hostler.domain.lease import State as LeaseState
from hostler.domain.moment import Moment
from hostler.domain.values import Requester
from hostler.services.jobs import Jobs
from hostler.services.keys import ANONYMOUS, INCLUDES, Principal, Scope
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.wire.jobs import FinishBody, JobBody, JobView, UpdateBody
from tests.fakes.clock import ManualClock
from tests.fakes.ids import CountingIds

SECRET = "the-holder's-own-secret"
OTHER = "another-holder's-secret"
BY = Requester(ip="10.99.0.7", client="bot")
WHO = replace(ANONYMOUS, name="bots", rights=INCLUDES[Scope.SCHEDULE_WRITE])
OPERATOR = Principal(name="ops", rights=INCLUDES[Scope.OPERATOR])


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def unchanged(text: str) -> str:
    return text


def body(title: str = "sweep", secret: str = SECRET, **more: object) -> JobBody:
    return JobBody(title=title, secret_hash=hashed(secret), **more)  # type: ignore[arg-type]  # a test's shorthand


@dataclass(slots=True, kw_only=True)
class JobHouse:
    """Jobs, and what a test asks of them: `extended` are beats that counted, `released` leases given back."""

    store: ScheduleStore
    clock: ManualClock
    jobs: Jobs
    extended: list[Job] = field(default_factory=list)
    released: list[tuple[str, str]] = field(default_factory=list)

    async def start(self, request: str = "r1", **more: object) -> JobView:
        return (await self.jobs.start(body(**more), request, WHO, BY)).job  # type: ignore[arg-type]  # as `body`

    async def update(self, id_: str, secret: str = SECRET, **more: object) -> JobView:
        sent = UpdateBody(secret=secret, **more)  # type: ignore[arg-type]  # a test's shorthand
        return (await self.jobs.update(id_, sent, WHO, BY)).job

    async def finish(
        self, id_: str, result: str = "finished", who: Principal = WHO, **more: object
    ) -> JobView:
        more.setdefault("secret", SECRET)
        sent = FinishBody(result=result, **more)  # type: ignore[arg-type]  # a test's shorthand
        return (await self.jobs.finish(id_, sent, who, BY)).job

    async def job(self, id_: str) -> JobView:
        return (await self.jobs.job(id_)).job

    async def kept(self, id_: str) -> Job:
        """The row as it is stored."""
        jobs = await self.store.read(lambda tx: tx.open_jobs())
        return next(job for job in jobs if job.id == id_)

    async def watch(self, *, fenced: bool = False, grace_until: float = 0.0) -> None:
        await self.jobs.watch(self.clock.moment(), fenced=fenced, grace_until=grace_until)

    async def leased(self, id_: str = "ls_1", secret: str = SECRET, resource: str = "pair") -> Lease:
        """An active lease of whoever has `secret`."""
        now = self.clock.moment()
        lease = Lease(
            id=LeaseId(id_),
            resource=resource,
            covers=(resource,),
            holder="bench",
            key="bots",
            secret=hashed(secret),
            request_id=f"of {id_}",
            digest="",
            state=LeaseState.ACTIVE,
            created=now,
            ttl_s=3600.0,
            expires=now.plus(3600),
        )
        return await self.store.write(lambda tx: tx.put(lease))


def job_house(store: ScheduleStore | None = None, redact: Callable[[str], str] = unchanged) -> JobHouse:
    """Jobs of a schedule that has one resource, `pair`."""
    clock, ids = ManualClock(), CountingIds()
    kept: ScheduleStore = MemoryStore(ids) if store is None else store
    house: JobHouse

    def extend(tx: Tx, job: Job, now: Moment) -> None:
        house.extended.append(job)

    def release(tx: Tx, job: Job, actor: str, now: Moment) -> None:
        house.released.append((job.lease or "", actor))

    jobs = Jobs(
        store=kept,
        clock=clock,
        ids=ids,
        redact=redact,
        extend=extend,
        release=release,
        resources=lambda: {"pair"},
    )
    house = JobHouse(store=kept, clock=clock, jobs=jobs)
    return house


async def log(house: JobHouse) -> Sequence[Event]:
    """Every event, oldest first."""
    assert isinstance(house.store, MemoryStore)
    return [row.event for row in await house.store.since(f"{house.store.epoch}:0", 10_000)]


async def types(house: JobHouse) -> Sequence[str]:
    """The types of every event, oldest first."""
    return [event.type for event in await log(house)]
