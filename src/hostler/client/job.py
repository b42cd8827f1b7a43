"""Jobs from the side of whoever does the work: started, told about, ended (JOB-1, JOB-4, JOB-6).

Decides that what is told lies in the spool before it is sent and is sent in order, each once, whenever the
head is there; and that an update out of bounds is refused here, before it could stop those behind it. Written
as steps (`hostler.client.drive`). When to beat is `hostler.client.reporting`'s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from hostler.client.call import fitted, plain
from hostler.client.drive import Ask, Steps
from hostler.client.machine import Machine
from hostler.client.patience import Got, passes, patiently
from hostler.client.saved import Drawer, SavedJob, SavedLease, saved_jobs
from hostler.client.spool import Spool, Waiting, spool
from hostler.client.trust import hash_of
from hostler.domain.addresses import shown_url
from hostler.domain.errors import Ended, InvalidRequest, JobNotFound, Kind, NotYours, Refusal
from hostler.domain.values import exact_duration
from hostler.wire.jobs import (
    LONGEST_EVERY_S,
    MAX_METRICS,
    MAX_NOTE,
    MAX_RECEIPTS,
    JobBody,
    OneJob,
    ProgressBody,
    ReceiptBody,
)
from hostler.wire.schedule import MAX_TITLE

JOBS: Final = "/v1/hostler/jobs"
START_S: Final = 30.0
FINISH_S: Final = 30.0
UPDATE_S: Final = 5.0
"""How long one update may take: work waits for it. What takes longer is sent by a later one."""
BATCH: Final = 500
"""Answered calls that stay in the spool at most before they go: a repeat of them does nothing."""

Result = Literal["finished", "failed", "cancelled", "lost"]
_NEVER: Final = frozenset({Kind.INVALID, Kind.CONFLICT, Kind.NOT_FOUND, Kind.GONE})
"""What the head will never take, however often it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """This user's jobs at one head; `state` is the state directory."""

    state: Path
    url: str
    machine: Machine = field(default_factory=Machine)

    @property
    def files(self) -> Drawer[SavedJob]:
        """The saved requests."""
        return saved_jobs(self.state)

    def spool(self, saved: SavedJob) -> Spool:
        """What waits of that job."""
        return spool(self.state, saved.request_id)

    # ------------------------------------------------------------ start

    def prepare(
        self,
        title: str,
        *,
        every_s: float = 300.0,
        lease: SavedLease | None = None,
        lease_id: str | None = None,
        resource: str | None = None,
        release: bool = False,
        holder: str = "",
    ) -> SavedJob:
        """A request for a job, on the disk before anything is sent (JOB-1).

        `lease` is this user's: the job gets its secret, so that its beats extend it (LEASE-20). `lease_id`
        ties it to anybody's, `resource` to whatever lease its holder has there. `release`: ending it
        releases the lease (JOB-4). Refuses `invalid_request` for what is out of bounds, `state_unusable`.
        """
        _check(1 <= len(title) <= MAX_TITLE, "title", f"The title has {len(title)} characters", MAX_TITLE)
        within = 0 < every_s <= LONGEST_EVERY_S
        _check(
            within,
            "every_s",
            f"An update every {exact_duration(every_s)}",
            f"up to {exact_duration(LONGEST_EVERY_S)}",
        )
        secret = lease.secret if lease is not None else self.machine.secret()
        body = JobBody(
            title=title,
            secret_hash=hash_of(secret),
            holder=holder,
            lease=lease.lease if lease is not None else lease_id,
            resource=resource,
            every_s=every_s,
            release=release,
        )
        saved = SavedJob(
            request_id=self.machine.request_id(),
            secret=secret,
            url=self.url,
            title=title,
            body=plain(body),
            lease=body.lease,
            every_s=every_s,
        )
        self.spool(saved).check()
        self.files.save(saved)
        return saved

    def start(self, saved: SavedJob, patience_s: float = START_S) -> Steps[OneJob]:
        """The job of that request; the same one, however often it is asked for. Refused, it is forgotten."""
        ask = Ask(path=JOBS, body=saved.body, idempotency_key=saved.request_id)
        try:
            got = yield from patiently(ask, self.machine, patience_s)
        except Refusal:
            self.files.forget(saved.request_id)
            raise
        one = self._one(got)
        self.files.save(replace(saved, job=one.job.id))
        return one

    # ------------------------------------------------------------ updates

    def put(
        self,
        saved: SavedJob,
        *,
        note: str | None = None,
        progress: ProgressBody | None = None,
        metrics: Mapping[str, float] | None = None,
        receipts: Sequence[ReceiptBody] = (),
        source: Literal["holder", "child"] = "holder",
    ) -> int:
        """Put one update into the spool and give its number; `flush` sends it. Nothing at all is a beat.

        Refuses `invalid_request` for what is out of bounds (JOB-7), `limit` when the spool is full.
        """
        _check_update(note, progress, metrics or {}, receipts)
        body = {
            "note": note,
            "progress": None if progress is None else plain(progress),
            "metrics": dict(metrics or {}),
            "receipts": [plain(receipt) for receipt in receipts],
            "source": source,
        }
        return self.spool(saved).put("updates", {name: it for name, it in body.items() if it})

    def update(
        self,
        saved: SavedJob,
        *,
        note: str | None = None,
        progress: ProgressBody | None = None,
        metrics: Mapping[str, float] | None = None,
        receipts: Sequence[ReceiptBody] = (),
        source: Literal["holder", "child"] = "holder",
    ) -> Steps[OneJob | None]:
        """`put`, then `flush`: None means that the head is away and the update waits."""
        self.put(saved, note=note, progress=progress, metrics=metrics, receipts=receipts, source=source)
        return (yield from self.flush(saved))

    def finish(
        self,
        saved: SavedJob,
        result: Result,
        *,
        note: str | None = None,
        release: bool = False,
        patience_s: float = FINISH_S,
    ) -> Steps[OneJob | None]:
        """End it, after all that waits (JOB-2). None: the head is away, and the end waits in the spool.

        Refuses `ended` when it has ended already.
        """
        _check_update(note, None, {}, ())
        self.spool(saved).put("finish", {"result": result, "note": note, "release": release})
        return (yield from self.flush(saved, patience_s))

    def flush(self, saved: SavedJob, patience_s: float = 0.0) -> Steps[OneJob | None]:
        """Send what waits, in order. The last answer; None when the head is away, or nothing waited.

        A call that the head will never take is dropped, those behind it are sent, and then it raises the
        first such refusal. When the job is over, its files go.
        """
        known, lines = self._known(saved), self.spool(saved)
        one: OneJob | None = None
        refused: Refusal | None = None
        over, sent, reached = False, 0, 0
        for line in lines.waiting():
            try:
                got = yield from patiently(_ask(known, line), self.machine, patience_s)
                one, over = self._one(got), over or line.verb == "finish"
            except Refusal as refusal:
                if passes(refusal):
                    one = None
                    break
                if refusal.kind not in _NEVER:
                    lines.done(reached)
                    raise
                refused, over = refused or refusal, over or isinstance(refusal, Ended | JobNotFound)
            sent, reached = sent + 1, line.n
            if sent % BATCH == 0:
                lines.done(reached)
        self._tidy(known, lines, reached, over=over)
        if refused is not None:
            raise refused
        return one

    def _tidy(self, known: SavedJob, lines: Spool, reached: int, *, over: bool) -> None:
        if reached:
            lines.done(reached)
        if over and not lines.waiting():
            lines.forget()
            self.files.forget(known.request_id)

    def replay(self) -> Steps[int]:
        """Send what waits of every job of this user here. How many jobs still have something waiting.

        What the head never takes is dropped; its jobs are over.
        """
        left = 0
        for saved in self.files.list():
            if saved.url != self.url or saved.job is None:
                continue
            try:
                yield from self.flush(saved)
            except Refusal as refusal:
                if refusal.kind not in _NEVER:
                    raise
            left += bool(self.spool(saved).waiting())
        return left

    def _known(self, saved: SavedJob) -> SavedJob:
        known = self.files.get(saved.request_id) or saved
        if known.url != self.url:
            raise NotYours(what=f"The job {known.job}", expected=f"It was started at {shown_url(known.url)}.")
        if known.job is None:
            raise JobNotFound(job=known.title)
        return known

    def _one(self, got: Got) -> OneJob:
        return fitted(got.value, OneJob, self.url)


def _ask(known: SavedJob, line: Waiting) -> Ask:
    path = f"{JOBS}/{quote(known.job or '', safe='')}/{line.verb}"
    return Ask(path=path, body={**line.body, "n": line.n, "secret": known.secret}, timeout_s=UPDATE_S)


def _check_update(
    note: str | None,
    progress: ProgressBody | None,
    metrics: Mapping[str, float],
    receipts: Sequence[ReceiptBody],
) -> None:
    size = len((note or "").encode("utf-8", "backslashreplace"))
    _check(size <= MAX_NOTE, "note", f"The note has {size} bytes", MAX_NOTE)
    _check(len(metrics) <= MAX_METRICS, "metrics", f"There are {len(metrics)} metrics", MAX_METRICS)
    _check(len(receipts) <= MAX_RECEIPTS, "receipts", f"There are {len(receipts)} receipts", MAX_RECEIPTS)
    for name, value in metrics.items():
        _check(math.isfinite(value), f"metrics.{name}", f"The metric {name!r} is {value}", "a finite number")
    told = () if progress is None else (progress.value, progress.n, progress.total)
    for part in told:
        _check(part is None or math.isfinite(part), "progress", f"The progress is {part}", "a finite number")


def _check(holds: bool, where: str, what: str, limit: int | str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        expected = f"At most {limit}." if isinstance(limit, int) else f"Expected {limit}."
        raise InvalidRequest(what=f"{what}.", expected=expected, where=where)
