"""A place to measure at: a head's services in this process, or a daemon of its own, on the same files.

Decides the config and how leases and jobs are seeded. Measures nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, TypeVar

from bench.peers import PROXY_CORE, UP_S, BenchError, free_port, running
from hostler.adapters.clock import SystemClock
from hostler.adapters.ids import SystemIds
from hostler.adapters.store.sqlite import SqliteStore
from hostler.bootstrap.scheduling import Means, Scheduling, scheduling
from hostler.domain.events import Event
from hostler.domain.fleet import Fleet, Host, Node, frozen
from hostler.domain.resource import Resource
from hostler.domain.values import HostName, Requester, requester
from hostler.services.cleaning import Cleaner
from hostler.services.event_queue import EventQueue
from hostler.services.keys import INCLUDES, Principal, Scope
from hostler.services.present import Present
from hostler.services.schedule_needs import Tx
from hostler.wire.jobs import JobBody, UpdateBody
from hostler.wire.schedule import LeaseView, ReleaseBody, ReserveBody

HERE: Final = HostName("crow")
SECRET: Final = "bench-" + "s" * 37  # As long as a client's own: 43 characters.
HASH: Final = hashlib.sha256(SECRET.encode()).hexdigest()
KEY: Final = "sk-bench-" + "k" * 37
"""As long as our own keys: 46 characters."""
WHO: Final = Principal(name="bench", rights=INCLUDES[Scope.OPERATOR])
BY: Final[Requester] = requester(ip="127.0.0.1", ua="bench", client="bench", key="bench")
TTL_S: Final = 3600.0
EVERY_S: Final = 30.0
AT_ONCE: Final = 200
WORTH: Final = 0.1
"""The part of a lease's time after which a beat extends it (`services.beats`)."""
_T = TypeVar("_T")


def names(count: int) -> list[str]:
    """The names of so many resources."""
    return [f"r{number:05}" for number in range(count)]


def fleet(resources: int) -> Fleet:
    """One host that can lease so many resources without actions."""
    made = (Resource(name=name, hosts=(HERE,), covers=(name,), ttl_s=TTL_S) for name in names(resources))
    return Fleet(
        here=HERE,
        head=(HERE,),
        node=Node(),
        hosts=frozen({HERE: Host(name=HERE)}),
        engines=frozen({}),
        resources=frozen({it.name: it for it in made}),
    )


@dataclass(eq=False, slots=True, kw_only=True)
class Head:
    """The services of a head on the real store, without HTTP."""

    parts: Scheduling
    store: SqliteStore
    queue: EventQueue
    ids: SystemIds

    async def reserve(self, resource: str) -> LeaseView:
        """A lease on it, active at once."""
        body = ReserveBody(resource=resource, holder="bench", secret_hash=HASH)
        found = await self.parts.schedule.reserve(body, self.ids.new("rq"), WHO, BY)
        if found.lease.state != "active":
            raise BenchError(f"{resource} is {found.lease.state}: {found.lease.why}")
        return found.lease

    async def release(self, lease: LeaseView) -> None:
        """Give it back."""
        found = await self.parts.schedule.release(lease.id, ReleaseBody(secret=SECRET), WHO, BY)
        if found.lease.state != "released":
            raise BenchError(f"{lease.resource} is {found.lease.state}: {found.lease.why}")

    async def start(self, number: int, lease: str | None = None) -> str:
        """A job, under that lease; its id."""
        body = JobBody(title=f"job {number}", secret_hash=HASH, lease=lease, every_s=EVERY_S)
        return (await self.parts.jobs.start(body, self.ids.new("rq"), WHO, BY)).job.id

    async def beat(self, job: str) -> None:
        """A heartbeat."""
        await self.parts.jobs.update(job, UpdateBody(secret=SECRET), WHO, BY)

    async def seed(self, leases: int, jobs: int) -> Sequence[str]:
        """So many leases and jobs, the first jobs under the leases; the jobs' ids.

        Leases are as old as they come to be in daily use: some was just extended, some nearly is.
        """
        held = await gathered([self.reserve(name) for name in names(leases)])
        await self.store.write(_spread)
        of = [lease.id for lease in held] + [None] * max(0, jobs - leases)
        return await gathered([self.start(number, of[number]) for number in range(jobs)])


def _spread(tx: Tx) -> None:
    live = tx.live()
    for place, lease in enumerate(live):
        if lease.expires is not None:
            tx.put(replace(lease, expires=lease.expires.plus(-WORTH * TTL_S * place / len(live))))


async def gathered(work: Sequence[Awaitable[_T]]) -> list[_T]:
    """What they give, not all of them at once."""
    found: list[_T] = []
    for start in range(0, len(work), AT_ONCE):
        found += await asyncio.gather(*work[start : start + AT_ONCE])
    return found


@asynccontextmanager
async def head(root: Path, resources: int, *, keeper: bool = True) -> AsyncIterator[Head]:
    """A head's services on `root/schedule.db`, with the keeper's loop and the event log's writer."""
    made = fleet(resources)
    clock, ids = SystemClock(), SystemIds()
    store = SqliteStore(root / "schedule.db", ids, clean=Cleaner().event)
    queue = EventQueue(store=store, clock=clock, ids=ids)
    parts = scheduling(
        Means(
            config=Present(fleet=made),
            store=store,
            nodes={},
            clock=clock,
            ids=ids,
            events=_Queued(queue=queue),
            redact=lambda text: text,
            bug=_raised,
            note_process=_no_process,
            warn=_warned,
        )
    )
    await parts.keeper.begin()
    parts.keeper.mind.grace_until = 0.0
    tasks = [asyncio.create_task(queue.run())]
    if keeper:
        tasks.append(asyncio.create_task(parts.keeper.run()))
    try:
        await queue.mark()
        yield Head(parts=parts, store=store, queue=queue, ids=ids)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queued:
    """The need `Events`."""

    queue: EventQueue

    def emit(self, event: Event) -> None:
        self.queue.emit(event)


def _raised(error: BaseException) -> str:
    raise BenchError(f"a bug: {error!r}") from error


def _warned(told: tuple[str, ...]) -> None:
    if told:
        raise BenchError(f"the keeper warns: {'; '.join(told)}")


async def _no_process(host: str | None, lease: str, pid: int, ticks: int) -> None:
    raise BenchError(f"{host}, {lease}, {pid}, {ticks}: the bench registers no process")


@contextmanager
def daemon(root: Path, resources: int) -> Iterator[tuple[int, int]]:
    """A daemon on `root/state`, a process of its own on a core of its own; its port and pid."""
    port = free_port()
    config = root / "hostler.yaml"
    key = root / "bench.key"
    key.write_text(KEY)
    key.chmod(0o600)
    config.write_text(json.dumps(_config(port, resources, key)))
    config.chmod(0o600)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "HOSTLER_CONFIG": str(config),
        "HOSTLER_STATE_DIR": str(root / "state"),
        "HOSTLER_BOX_RESERVATION_PATH": str(root / "box-reservation.json"),
    }
    argv: list[str | Path] = [sys.executable, "-m", "hostler", "serve"]
    with running(argv, PROXY_CORE, root / "hostler.log", env) as pid:
        _until_ready(port, root / "hostler.log")
        yield port, pid


def _config(port: int, resources: int, key: Path) -> dict[str, object]:
    return {
        "version": 1,
        "node": {"listen": f"127.0.0.1:{port}"},
        "hosts": {str(HERE): {}},
        "keys": [{"name": "bench", "key": f"${{file:{key}}}", "scope": ["operator"]}],
        "reservations": {"resources": {name: {"ttl": {"default": "1h"}} for name in names(resources)}},
    }


def _until_ready(port: int, log: Path) -> None:
    begun, last = time.monotonic(), "nothing"
    while time.monotonic() - begun < UP_S:
        line = HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(line):
            try:
                line.request("GET", "/v1/hostler/fence", headers={"Authorization": f"Bearer {KEY}"})
                answer = line.getresponse()
                last = f"{answer.status} {answer.read(300)!r}"
                if answer.status == 200:
                    return
            except OSError as error:
                last = str(error)
        time.sleep(0.05)
    raise BenchError(f"the daemon did not come up: {last}; {log.read_text()[-1000:]}")
