"""Hostler for Python programs, synchronous and asynchronous (CLIENT-1).

    with Hostler() as hostler, hostler.lease("pair", ttl="2h", wait="30m", reason="bench") as lease:
        with hostler.job("q8 sweep", lease=lease) as job:
            job.progress(3, 10)

Decides how the steps of leases and jobs are driven: in this thread and a background thread, or in tasks.
What they do is written once, in `hostler.client.holding`, `reporting`, `lease` and `job`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeVar, Unpack

from hostler.client.address import Address, find_head, state_dir
from hostler.client.background import in_task, in_thread, terminated, terminated_task
from hostler.client.drive import Steps, adrive, drive
from hostler.client.holding import Lease, OnLost
from hostler.client.job import Jobs
from hostler.client.lease import Leases
from hostler.client.machine import Machine
from hostler.client.reporting import Job
from hostler.client.saved import SavedJob, SavedLease, saved_leases
from hostler.client.senders import AsyncClient, Client
from hostler.domain.errors import InvalidRequest, Refusal
from hostler.domain.values import LONGEST_S, parse_duration
from hostler.wire.jobs import OneJob
from hostler.wire.schedule import OneLease

_T = TypeVar("_T")
Duration = float | int | str
"""Seconds, or text such as `90s`, `2h30m`."""


class Asked(TypedDict, total=False):
    """What may be said of a lease.

    `ttl`: how long it is for; without it the resource's default. `wait`: how long to wait in the queue
    (`math.inf`: for ever); without it a resource that is taken is refused. `on_lost` is called in the
    background when it can be trusted no more.
    """

    ttl: Duration | None
    wait: Duration | None
    reason: str
    holder: str
    indefinite: bool
    priority: int
    on_lost: OnLost | None


class Titled(TypedDict, total=False):
    """What may be said of a job.

    `lease`: one of ours, or the id of anybody's; `resource`: whatever lease its holder has there. `every`:
    how often to expect word of it. `release`: its end releases the lease. `beat` False: only what is told
    counts as a sign of life.
    """

    lease: Lease | str | None
    resource: str | None
    every: Duration
    release: bool
    holder: str
    beat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What both clients are made of: where the head is, and this user's leases and jobs there."""

    address: Address
    holder: str
    leases: Leases
    jobs: Jobs

    def wanted(self, resource: str, asked: Asked) -> tuple[SavedLease, float | None]:
        """A request that is saved and not yet sent, and how long to wait for it; None for ever."""
        wait_s = seconds(asked.get("wait"), "wait") or 0.0
        saved = self.leases.prepare(
            resource,
            ttl_s=seconds(asked.get("ttl"), "ttl"),
            reason=asked.get("reason", ""),
            holder=asked.get("holder", self.holder),
            indefinite=asked.get("indefinite", False),
            priority=asked.get("priority", 0),
            now=wait_s == 0,
        )
        return saved, None if math.isinf(wait_s) else wait_s

    def titled(self, title: str, said: Titled) -> SavedJob:
        """A request for a job that is saved and not yet sent."""
        lease = said.get("lease")
        return self.jobs.prepare(
            title,
            every_s=seconds(said.get("every", "5m"), "every") or 0.0,
            lease=lease.saved if isinstance(lease, Lease) else None,
            lease_id=lease if isinstance(lease, str) else None,
            resource=said.get("resource"),
            release=said.get("release", False),
            holder=said.get("holder", self.holder),
        )

    def started(self, saved: SavedJob, one: OneJob, said: Titled) -> Job:
        """A job that the head knows, to be told about."""
        beat, release = said.get("beat", True), said.get("release", False)
        return Job(jobs=self.jobs, saved=saved, one=one, beat=beat, release=release)

    def left(self, saved: SavedLease, error: BaseException) -> Steps[None]:
        """Give back what an interrupt between two steps has left; refusals are the steps' own affair."""
        if not isinstance(error, Refusal) and self.leases.files.get(saved.request_id) is not None:
            yield from self.leases.give_back(saved)


def parts(
    address: Address | None, env: Mapping[str, str] | None, state: Path | None, machine: Machine | None
) -> Parts:
    """The parts of a client; `os.environ` says what is not given. Refuses `daemon_unreachable`."""
    found = os.environ if env is None else env
    place = state or state_dir(found)
    head = address or find_head(found, place)
    own = machine or Machine()
    return Parts(
        address=head,
        holder=found.get("USER") or found.get("LOGNAME") or "",
        leases=Leases(files=saved_leases(place), url=head.url, machine=own),
        jobs=Jobs(state=place, url=head.url, machine=own),
    )


class Hostler:
    """The head of this user's environment, spoken to synchronously. Refusals are the daemon's own classes."""

    def __init__(
        self,
        address: Address | None = None,
        *,
        env: Mapping[str, str] | None = None,
        state: Path | None = None,
        client: str | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.parts = parts(address, env, state, machine)
        self.client = Client(self.parts.address, client=client or self.parts.holder or None)

    @property
    def leases(self) -> Leases:
        """The steps of leases, for `run`."""
        return self.parts.leases

    @property
    def jobs(self) -> Jobs:
        """The steps of jobs, for `run`."""
        return self.parts.jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def run(self, steps: Steps[_T], pause: Callable[[float], object] = time.sleep) -> _T:
        """Do the steps in this thread. An interrupt is theirs first, then the caller's."""
        return drive(self.client, steps, pause)

    @contextmanager
    def lease(self, resource: str, **asked: Unpack[Asked]) -> Iterator[Lease]:
        """The resource, leased and renewed for the length of the block, given back and verified after it.

        Raises `held` and other refusals, `wait_timed_out`, `activation_failed`; at the end `stuck`, and
        `lease_lost` when it ended before. SIGTERM ends the block by SystemExit (143).
        """
        with terminated():
            saved, wait_s = self.parts.wanted(resource, asked)
            held = False
            try:
                one = self.run(self.leases.take(saved, wait_s=wait_s))
                with self.holding(saved, one, asked.get("on_lost")) as lease:
                    held = True
                    yield lease
            except BaseException as error:
                if not held:
                    self.run(self.parts.left(saved, error))
                raise

    @contextmanager
    def holding(self, saved: SavedLease, one: OneLease, on_lost: OnLost | None = None) -> Iterator[Lease]:
        """As `lease`, for one that is active already."""
        lease = Lease(leases=self.leases, saved=saved, one=one, on_lost=on_lost)
        error: BaseException | None = None
        try:
            with in_thread(self.client, lease):
                yield lease
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.run(lease.close(error))

    @contextmanager
    def job(self, title: str, **said: Unpack[Titled]) -> Iterator[Job]:
        """A job for the length of the block: `finished` after it, `failed` by an exception.

        SIGTERM ends the block by SystemExit (143) and the job as `cancelled`; a process that just vanishes
        never becomes `finished`.
        """
        with terminated():
            saved = self.parts.titled(title, said)
            one = self.run(self.jobs.start(saved))
            job = self.parts.started(saved, one, said)
            error: BaseException | None = None
            try:
                with in_thread(self.client, job):
                    yield job
            except BaseException as caught:
                error = caught
                raise
            finally:
                self.run(job.close(error))


class AsyncHostler:
    """The head of this user's environment, spoken to asynchronously: as `Hostler`, with `async with`."""

    def __init__(
        self,
        address: Address | None = None,
        *,
        env: Mapping[str, str] | None = None,
        state: Path | None = None,
        client: str | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.parts = parts(address, env, state, machine)
        self.client = AsyncClient(self.parts.address, client=client or self.parts.holder or None)

    @property
    def leases(self) -> Leases:
        """See `Hostler.leases`."""
        return self.parts.leases

    @property
    def jobs(self) -> Jobs:
        """See `Hostler.jobs`."""
        return self.parts.jobs

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def run(self, steps: Steps[_T]) -> _T:
        """Do the steps in this task."""
        return await adrive(self.client, steps)

    @asynccontextmanager
    async def lease(self, resource: str, **asked: Unpack[Asked]) -> AsyncIterator[Lease]:
        """See `Hostler.lease`. SIGTERM cancels the task, and ends it by SystemExit (143)."""
        with terminated_task():
            saved, wait_s = self.parts.wanted(resource, asked)
            held = False
            try:
                one = await self.run(self.leases.take(saved, wait_s=wait_s))
                async with self.holding(saved, one, asked.get("on_lost")) as lease:
                    held = True
                    yield lease
            except BaseException as error:
                if not held:
                    await self.run(self.parts.left(saved, error))
                raise

    @asynccontextmanager
    async def holding(
        self, saved: SavedLease, one: OneLease, on_lost: OnLost | None = None
    ) -> AsyncIterator[Lease]:
        """See `Hostler.holding`."""
        lease = Lease(leases=self.leases, saved=saved, one=one, on_lost=on_lost)
        error: BaseException | None = None
        try:
            async with in_task(self.client, lease):
                yield lease
        except BaseException as caught:
            error = caught
            raise
        finally:
            await self.run(lease.close(error))

    @asynccontextmanager
    async def job(self, title: str, **said: Unpack[Titled]) -> AsyncIterator[Job]:
        """See `Hostler.job`."""
        with terminated_task():
            saved = self.parts.titled(title, said)
            one = await self.run(self.jobs.start(saved))
            job = self.parts.started(saved, one, said)
            error: BaseException | None = None
            try:
                async with in_task(self.client, job):
                    yield job
            except BaseException as caught:
                error = caught
                raise
            finally:
                await self.run(job.close(error))


def seconds(value: Duration | None, name: str) -> float | None:
    """A duration in seconds. Refuses `invalid_request`, naming the argument."""
    if value is None:
        return None
    try:
        found = parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise InvalidRequest(what=f"{error}.", expected="Write 90s, 15m or 2h30m.", where=name) from error
    if math.isnan(found) or found < 0 or LONGEST_S < found < math.inf:
        raise InvalidRequest(what=f"{value} is no duration.", expected=f"0 to {LONGEST_S:.0f} s", where=name)
    return found
