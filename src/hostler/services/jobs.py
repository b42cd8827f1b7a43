"""Jobs: what their holders report is kept and told (JOB-1, JOB-2, JOB-4, JOB-6, JOB-7).

Decides who may report, what is an event, and when a beat counts for a lease. What an update makes of a job
is `hostler.domain.job_update`'s, what silence does is `services.job_silence`'s; leases are the schedule's: it
gives `extend` and `release`, and tells of leases that end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hostler.domain import job_events
from hostler.domain.errors import (
    Ended,
    IdempotencyConflict,
    InvalidRequest,
    JobNotFound,
    LeaseNotFound,
    NotYours,
    QueueFull,
    Refusal,
    ResourceNotFound,
)
from hostler.domain.fleet import frozen
from hostler.domain.job import (
    Cancelled,
    Ending,
    Failed,
    Finished,
    Job,
    JobId,
    LeaseEnded,
    Lost,
    apply,
    check_every,
    extends,
)
from hostler.domain.job_update import Update, applied, points_of, updated
from hostler.domain.lease import Lease, LeaseId
from hostler.domain.moment import Moment
from hostler.domain.values import Requester, rfc3339, shorten
from hostler.services.job_form import Redact, line, note_of, title_of, update_of
from hostler.services.job_pages import check_cursor, known_id, page
from hostler.services.job_silence import Silence
from hostler.services.job_views import job_view, point_view
from hostler.services.keys import Principal, Scope
from hostler.services.needs import Clock, Ids
from hostler.services.proof import proven, stale
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.wire.jobs import FinishBody, JobBody, JobList, JobsQuery, OneJob, UpdateBody
from hostler.wire.values import dump

MOST_OPEN: Final = 100_000
"""Jobs that are open at once, of all holders."""
POINTS: Final = 500
"""Measured values of one name in an answer, at most."""
ALL_POINTS: Final = 20_000
"""Measured values in an answer: at 50 bytes each 1 MB."""
MAX_WHY: Final = 500

_ENDINGS: Final[Mapping[str, type[Ending]]] = frozen(
    {"finished": Finished, "failed": Failed, "cancelled": Cancelled, "lost": Lost}
)
_T = TypeVar("_T")


@dataclass(eq=False, slots=True, kw_only=True)
class Jobs:
    """The service `JobsApi`.

    `redact` takes known secrets out of a text. Inside the write transaction of a beat, `extend` renews the
    job's lease by it (LEASE-20); inside that of an end `release` begins to give it back, told the actor
    (JOB-4). `resources` are those that can be leased now.
    """

    store: ScheduleStore
    clock: Clock
    ids: Ids
    redact: Redact
    extend: Callable[[Tx, Job, Moment], None]
    release: Callable[[Tx, Job, str, Moment], None]
    resources: Callable[[], Container[str]]
    most: int = MOST_OPEN
    silence: Silence = field(default_factory=Silence)
    _open: int | None = None

    # ------------------------------------------------------------ what holders do

    async def start(self, body: JobBody, request_id: str, who: Principal, by: Requester) -> OneJob:
        """A new job, or the one that the same request made before.

        Refuses `invalid_request`, `resource_not_found`, `lease_not_found`, `ended` (that lease is),
        `not_yours` (its lease is to be released with it, and is another's), `idempotency_conflict`,
        `queue_full`.
        """
        asked = self._asked(body, request_id, who)
        count = await self._counted()
        self._open = count + 1
        job = None
        try:
            job = await self._write(lambda tx: self._start(tx, asked, by, full=count >= self.most))
        finally:
            if job is None or job.job.id != asked.id:
                self._one_less()
        return job

    async def update(self, id_: str, body: UpdateBody, who: Principal, by: Requester) -> OneJob:
        """The job with everything that was sent; a heartbeat alone is no event (JOB-2).

        Refuses `job_not_found`, `not_yours`, `ended`, `invalid_request`: nothing is kept then (R67).
        """
        del who, by  # A key opens the door; the secret is what proves a holder (LEASE-9).
        update = update_of(body, self.redact)
        known = known_id(id_)
        return await self._write(lambda tx: self._update(tx, known, body, update))

    async def finish(self, id_: str, body: FinishBody, who: Principal, by: Requester) -> OneJob:
        """The job, over. Its holder ends it, or an operator with a reason; `lost` needs proof (JOB-2).

        Refuses as `update` does.
        """
        known, note, event = known_id(id_), note_of(body.note, self.redact), self._ending(body)

        def work(tx: Tx) -> tuple[OneJob, bool]:
            job = _read(tx, known)
            actor = _ender(job, body, who, by)
            if applied(job, body.n):
                return self._told(tx, job), False
            return self._finish(tx, job, body, note, event, actor), True

        told, over = await self._write(work)
        if over:
            self._one_less()
        return told

    # ------------------------------------------------------------ what everybody sees

    async def job(self, id_: str) -> OneJob:
        """One job, with the last measured values of each name. Refuses `job_not_found`."""
        known = known_id(id_)

        def work(tx: Tx) -> OneJob:
            job = _read(tx, known)
            each = min(POINTS, ALL_POINTS // max(1, len(job.metrics)))
            points = tuple(point_view(point) for point in tx.points(known, each))
            return replace(self._told(tx, job), points=points, notes=(job.note,) if job.note else ())

        return await self.store.read(work)

    async def jobs(self, query: JobsQuery) -> JobList:
        """A page of jobs, oldest first; the pages of ended ones lead from the newest back.

        Refuses `cursor_reset` for a cursor that is none of a page.
        """
        check_cursor(query.cursor)

        def work(tx: Tx) -> JobList:
            now, fenced = self.clock.moment(), tx.fence() is not None
            rows, more = page(tx, query)
            told = (job_view(job, self.silence.state(job, now, fenced=fenced), now) for job in rows)
            return JobList(at=rfc3339(now.at), jobs=tuple(told), next=more)

        return await self.store.read(work)

    # ------------------------------------------------------------ what the schedule does

    async def resumed(self, alive: Moment | None = None) -> None:
        """Begin after a start of the daemon: the time that nobody listened is no quiet time (JOB-3).

        `alive` is when an earlier daemon is known to have listened last; without it the last update that
        any job had counts for all. Verdicts wait one interval of each job from now.
        """
        self._open = await self._write(lambda tx: self.silence.begin(tx, alive, self.clock.moment()))

    def excuse(self, tx: Tx, since: Moment, now: Moment) -> None:
        """In the transaction that takes a fence down: the time since `since` was no quiet time (JOB-3)."""
        self.silence.excuse(tx, since, now)

    def lease_ended(self, tx: Tx, lease: Lease, now: Moment) -> None:
        """In the transaction that ends `lease`: its open jobs go on and say that they lost it (JOB-4)."""
        for job in tx.jobs_of(lease.id):
            if not job.state.ended and not job.lease_lost:
                after = apply(job, LeaseEnded(at=now))
                self.silence.put(tx, after, now, tx.record(job_events.lease_lost(after, now)))

    async def watch(self, now: Moment, *, fenced: bool, grace_until: float) -> None:
        """Write what silence makes of jobs by `now`, one event each (R63).

        Nothing under a fence, and nothing before the elapsed second `grace_until`.
        """
        self.silence.grace = grace_until
        if self.silence.since is None:
            await self.resumed()  # The store was away when the daemon began.
        if fenced or now.elapsed < grace_until:
            return
        if await self.store.read(lambda tx: tx.jobs_quiet(now.elapsed, 1)):
            while await self._write(lambda tx: self.silence.judge(tx, now)):
                pass

    # ------------------------------------------------------------ inside a transaction

    def _start(self, tx: Tx, asked: Job, by: Requester, *, full: bool) -> OneJob:
        known = tx.job_of_request(asked.request_id)
        if known is not None:
            if known.digest != asked.digest:
                raise IdempotencyConflict(key=shorten(asked.request_id))
            return self._told(tx, known)
        if full:
            raise QueueFull(what="their end as open jobs", waiting=self.most)
        job = _tied(tx, asked)
        seq = tx.record(job_events.started(job, by.tag()))
        return self._told(tx, self.silence.put(tx, job, job.created, seq))

    def _update(self, tx: Tx, id_: JobId, body: UpdateBody, update: Update) -> OneJob:
        now, job = self.clock.moment(), _read(tx, id_)
        if not proven(body.secret, job.secret):
            raise _not_yours(job)
        if body.generation is not None:
            _granted(tx, job, body.generation, now)
        if applied(job, update.n):
            return self._told(tx, job)
        before = self.silence.judged(tx, job, now, fenced=tx.fence() is not None)
        after, kinds = updated(before, update, now)
        after = _tied_later(tx, after)
        seq, actor = before.seq, _holder(job)
        if after.state is not before.state:
            seq = tx.record(job_events.recovered(before, after, actor))
        if kinds:
            seq = tx.record(job_events.updated(after, update, actor))
        after = self.silence.put(tx, after, now, seq)
        tx.add_points(id_, points_of(after, update, now))
        if extends(after) and _same_holder(tx, after):
            self.extend(tx, after, now)
        return self._told(tx, after)

    def _finish(
        self, tx: Tx, job: Job, body: FinishBody, note: str | None, event: Ending, actor: str
    ) -> OneJob:
        over = replace(apply(job, event), applied=max(job.applied, body.n or 0))
        if note is not None:
            over = replace(over, note=note, source="holder")
        seq = tx.record(job_events.ended(job, over, note, actor, event.at))
        over = self.silence.put(tx, over, event.at, seq)
        if (body.release or job.release) and over.lease is not None and not over.lease_lost:
            if not _same_holder(tx, over):
                raise _lease_not_yours(over)
            self.release(tx, over, actor, event.at)
        return self._told(tx, over)

    def _told(self, tx: Tx, job: Job) -> OneJob:
        now = self.clock.moment()
        state = self.silence.state(job, now, fenced=tx.fence() is not None)
        return OneJob(at=rfc3339(now.at), job=job_view(job, state, now))

    # ------------------------------------------------------------ before a transaction

    def _asked(self, body: JobBody, request_id: str, who: Principal) -> Job:
        """The job that is asked for, checked as far as it can be without the store."""
        check_every(body.every_s)
        if body.resource is not None and body.resource not in self.resources():
            raise ResourceNotFound(resource=shorten(body.resource), known="`hostler schedule` lists them.")
        now = self.clock.moment()
        return Job(
            id=JobId(self.ids.new("job")),
            title=title_of(body.title, self.redact),
            holder=line(body.holder or who.name, self.redact),
            key=who.name,
            secret=body.secret_hash,
            request_id=request_id,
            digest=hashlib.sha256(dump(body)).hexdigest(),
            lease=body.lease,
            resource=body.resource,
            every_s=body.every_s,
            release=body.release,
            created=now,
            heard=now,
        )

    def _ending(self, body: FinishBody) -> Ending:
        """The end that is asked for. Refuses `lost` without a proof."""
        proof = body.proof if body.result == "lost" else body.because
        if body.result == "lost" and not proof.strip():
            raise InvalidRequest(
                what="A job is lost only where that is proven.",
                expected="`proof`: how its process or its box is known to be gone",
                where="proof",
            )
        why = line(proof.strip(), self.redact, MAX_WHY)
        return _ENDINGS[body.result](at=self.clock.moment(), why=why)

    async def _counted(self) -> int:
        """How many jobs are open: counted once, then kept in step."""
        if self._open is None:
            self._first_count(await self.store.read(lambda tx: len(tx.open_jobs())))
        return self._open or 0

    def _first_count(self, found: int) -> None:
        """Somebody else may have counted in the meantime, and gone on from there."""
        if self._open is None:
            self._open = found

    def _one_less(self) -> None:
        if self._open is not None:
            self._open -= 1

    async def _write(self, work: Callable[[Tx], _T]) -> _T:
        try:
            return await self.store.write(work)
        except Refusal:
            raise
        except BaseException:
            self._open = None  # Whether it was written is not known: they are counted anew.
            raise


def _granted(tx: Tx, job: Job, generation: int, now: Moment) -> None:
    """Refuse `stale_generation` for a grant of the job's lease that is not the present one (LEASE-8, F03)."""
    lease = None if job.lease is None else tx.lease(LeaseId(job.lease))
    if lease is None or lease.fence is None:
        return
    if lease.fence.generation != generation or lease.state.ended:
        holder = next((it for cover in lease.covers if (it := tx.holder(cover)) is not None), None)
        raise stale(lease, generation, now, holder)


def _read(tx: Tx, id_: JobId) -> Job:
    job = tx.job(id_)
    if job is None:
        raise JobNotFound(job=id_)
    return job


def _holder(job: Job) -> str:
    return f"holder {job.holder}"


def _ender(job: Job, body: FinishBody, who: Principal, by: Requester) -> str:
    """Who ends the job: its holder by the secret, or an operator who says why (LEASE-9)."""
    if proven(body.secret, job.secret):
        return _holder(job)
    if body.secret is not None or not who.may(Scope.OPERATOR):
        raise _not_yours(job)
    if not body.because.strip():
        raise InvalidRequest(
            what=f"The job {job.id} is {job.holder}'s: why do you end it?",
            expected="Give `because`: it is told in the events.",
            where="because",
        )
    return f"operator {by.tag()}"


def _not_yours(job: Job) -> NotYours:
    return NotYours(
        what=f"The job {job.id} is {job.holder}'s.",
        expected="Only its holder, by the secret, reports for it; an operator may end it with a reason.",
    )


def _lease_not_yours(job: Job) -> NotYours:
    return NotYours(
        what=f"The lease {shorten(job.lease or '')} is not the job's to release.",
        expected="Start the job with the lease's own secret, or release the lease by itself.",
    )


def _tied(tx: Tx, job: Job) -> Job:
    """The new job with the lease that it is tied to. Refuses one that is not there, or over."""
    if job.lease is None:
        return _tied_later(tx, job)
    lease = tx.lease(LeaseId(job.lease))
    if lease is None:
        raise LeaseNotFound(lease=shorten(job.lease))
    if lease.state.ended:
        raise Ended(what="lease", name=lease.id, why=lease.state.value)
    if job.release and lease.secret != job.secret:
        raise _lease_not_yours(job)
    return replace(job, resource=job.resource or lease.resource)


def _tied_later(tx: Tx, job: Job) -> Job:
    """The job, tied to the lease that its holder has got on its resource by now."""
    if job.lease is not None or job.resource is None:
        return job
    lease = tx.holder(job.resource)
    return job if lease is None or lease.secret != job.secret else replace(job, lease=lease.id)


def _same_holder(tx: Tx, job: Job) -> bool:
    """Whether whoever holds the job holds its lease as well, by the secret (LEASE-20)."""
    lease = None if job.lease is None else tx.lease(LeaseId(job.lease))
    return lease is not None and lease.secret == job.secret
