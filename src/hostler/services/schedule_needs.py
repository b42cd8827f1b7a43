"""What the schedule needs from the world: its store as transactions, and nodes that are told what to do.

Adapters and `services.node` provide these; tests fake them. One conformance suite holds for every store,
another for every node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hostler.domain.deadman import DeadmanReport
from hostler.domain.events import Event, Recorded
from hostler.domain.fence import Fence
from hostler.domain.holding import Holding
from hostler.domain.job import Job, JobId, Point
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import Lease, LeaseId
from hostler.domain.step import FenceNumber, Found, Operation
from hostler.domain.window import HostReport, WindowStrike

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Where the store stands: its epoch, the number of its last event, the last generation given out.

    `began` is the number of the last event of the epoch before: what a restored store had (LEASE-8).
    """

    epoch: str
    seq: int
    generation: int
    began: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A lease as a node knows it by its receipts: what it did there, and has not undone (LEASE-8)."""

    lease: str
    resource: str
    holder: str
    key: str
    fence: FenceNumber
    covers: tuple[str, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """A lease that a node put back by itself while it was cut off, `ago_s` ago; what it left (NODE-4)."""

    lease: str
    fence: FenceNumber
    ago_s: float
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """What a node knows of the schedule: its highest fence number, and the leases that it works for.

    `restored` are those that it put back by itself; `rebooted` those that it was told of before its
    machine's last restart: their hold and engines went with it (F20). `reports` are its receipts of restores
    that deadmen did, of windows that are not over yet (NODE-4); `restoring` are windows that its deadmen are
    putting back now. `strikes` are what its guard saw against windows that are not over (WIN-6).
    """

    highest: FenceNumber | None = None
    leases: tuple[Remembered, ...] = ()
    restored: tuple[PutBack, ...] = ()
    rebooted: tuple[str, ...] = ()
    reports: tuple[DeadmanReport, ...] = ()
    restoring: tuple[str, ...] = ()
    strikes: tuple[WindowStrike, ...] = ()


class Tx(Protocol):
    """The schedule inside one transaction. Synchronous: the work runs on the store's own thread.

    What is written is there for later reads of the same transaction, and durable when it committed. A work
    that raises leaves nothing behind.
    """

    def meta(self) -> Meta:
        """Where the store stands, this transaction's own events included."""
        ...

    def next_generation(self) -> FenceNumber:
        """The schedule's next fence number (LEASE-8)."""
        ...

    def begin_epoch(self, epoch: str, generation: int) -> None:
        """From here on `epoch`, which sorts after all before, and generations above `generation` (LEASE-8).

        Cursors of before are refused from now on.
        """
        ...

    def record(self, event: Event) -> int:
        """Append an event; its seq. It commits with the rest (LEASE-7)."""
        ...

    # -------------------------------------------------------- leases

    def lease(self, id_: LeaseId) -> Lease | None:
        """The lease of that id, live or ended."""
        ...

    def lease_of_request(self, request_id: str) -> Lease | None:
        """The lease that a reserve with that Idempotency-Key made (LEASE-9)."""
        ...

    def live(self) -> Sequence[Lease]:
        """Every lease that is not over, by number."""
        ...

    def waiting(self) -> Sequence[Lease]:
        """Those of them that have a place, in the queue or in the calendar, by number."""
        ...

    def holder(self, resource: str) -> Lease | None:
        """The lease whose claim row covers `resource`."""
        ...

    def ended(self, *, after: int, limit: int) -> Sequence[Lease]:
        """Leases that are over, with a number below `after` (0: from the newest on), newest first."""
        ...

    def put(self, lease: Lease) -> Lease:
        """Write the lease whole; a new one gets its `number`. Its claim rows follow its state.

        Raises Taken when one of `covers` is claimed by another (LEASE-7).
        """
        ...

    # -------------------------------------------------------- journal

    def journal(self, id_: LeaseId) -> Sequence[Entry]:
        """The entries of a lease, in order."""
        ...

    def begin(self, entry: Entry) -> None:
        """Write a new entry: one of its `n` was not begun before. Several hosts begin theirs in any order."""
        ...

    def mark(self, id_: LeaseId, n: int, state: EntryState, note: str = "") -> None:
        """What became of the entry."""
        ...

    # -------------------------------------------------------- jobs

    def job(self, id_: JobId) -> Job | None:
        """The job of that id."""
        ...

    def job_of_request(self, request_id: str) -> Job | None:
        """The job that a start with that Idempotency-Key made."""
        ...

    def open_jobs(self) -> Sequence[Job]:
        """Every job that is not over, oldest first."""
        ...

    def jobs_of(self, lease: LeaseId) -> Sequence[Job]:
        """The jobs of a lease, oldest first."""
        ...

    def jobs_quiet(self, before: float, limit: int) -> Sequence[Job]:
        """Jobs not over whose watch time (`put_job`'s `watch`) is at most `before`, earliest first."""
        ...

    def ended_jobs(self, *, before: str, limit: int) -> Sequence[Job]:
        """Jobs that are over with an id below `before` (empty: from the newest on), newest first."""
        ...

    def put_job(self, job: Job, *, watch: float | None) -> None:
        """Write the job whole. `watch`: the elapsed second at which the keeper looks at it; None: never."""
        ...

    def add_points(self, id_: JobId, points: Sequence[Point]) -> None:
        """Append measured values; of each name the newest 2,000 are kept."""
        ...

    def points(self, id_: JobId, limit: int) -> Sequence[Point]:
        """The newest `limit` values of each name, oldest first."""
        ...

    # -------------------------------------------------------- fence

    def fence(self) -> Fence | None:
        """The fence that is up."""
        ...

    def put_fence(self, fence: Fence | None) -> None:
        """Put it up, or take it down."""
        ...

    # -------------------------------------------------------- upkeep

    def prune_ended(self, before: str, limit: int) -> int:
        """Drop leases and jobs that ended before that time (RFC 3339), with all that belongs to them."""
        ...


class Taken(Exception):
    """A claim row of a resource is another lease's: somebody was faster. The transaction is undone."""


class ScheduleStore(Protocol):
    """The schedule's store beside its event log. Every method may refuse `schedule_unavailable`."""

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in one write transaction; its result once that is durable. Refuses `store_full` too.

        What `work` raises is raised here, and nothing of it is kept. `work` must not touch the loop.
        """
        ...

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent view; writing in it is an error."""
        ...

    def listen(self, hear: Callable[[Sequence[Recorded]], None]) -> None:
        """Call `hear` in the loop with every batch of committed events, in commit order (FEED-2).

        Before whoever wrote them goes on. Only what this store object commits is heard.
        """
        ...


class Node(Protocol):
    """A host that is told what to do (NODE-1): fenced, and a repeat is answered from its receipt."""

    async def preflight(self, operation: Operation) -> None:
        """Whether the step could be done now; changes nothing. Raises the refusal that it would meet.

        `retry_after` None or a kind that does not pass (not_found, config, invalid): a lasting defect.
        """
        ...

    async def observe(self, operation: Operation) -> Found:
        """What the step would find. Changes nothing. Refuses `node_unreachable`, `stale_generation`."""
        ...

    async def perform(self, operation: Operation) -> None:
        """Do it, and return when it was seen to hold. Any refusal: it did not.

        Refuses `stale_generation` for a fence number below the highest that it accepted (LEASE-8).
        """
        ...

    async def verify(self, operation: Operation) -> str | None:
        """None when the step's effect is seen to hold now, else what is seen instead."""
        ...

    async def end_processes(self, lease: str) -> Sequence[str]:
        """End the registered processes of a lease (JOB-5); a sentence for each that is still there."""
        ...

    async def memory(self) -> NodeMemory:
        """What this node knows of the schedule by its receipts (LEASE-8). Refuses `node_unreachable`."""
        ...

    async def report(self, window: str) -> HostReport:
        """What it wrote down of a window's restore; nothing before that was tried (WIN-4).

        Refuses `node_unreachable`.
        """
        ...

    async def raise_fence(self, fence: Fence | None) -> None:
        """Mirror the deployment fence, so that this node knows it when cut off (LEASE-28)."""
        ...

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        """Which lease holds what on this host, by kind and name: `engine fast-4b`, `route chat`, `hold crow`.

        Others are refused these from now on (LEASE-15). A new end is written to the hold record (HOLD-11).
        """
        ...
