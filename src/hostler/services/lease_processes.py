"""Processes that work under a lease on this host, and their end with it (JOB-5, F03).

Decides which processes are ended, and when one counts as gone: only what was registered, and only while its
pid and start time are still the same; nothing is ever ended by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.errors import InvalidRequest, LimitReached, StoreFull
from hostler.domain.values import shorten, whole
from hostler.services.needs import Clock
from hostler.services.node_needs import Member, ProcessTable, Records

GRACE_S: Final = 10.0
"""Between SIGTERM and SIGKILL."""
GONE_S: Final = 5.0
"""How long a killed process may take to be gone."""
LOOK_S: Final = 0.1
MOST_PID: Final = (1 << 31) - 1
MOST_TICKS: Final = (1 << 63) - 1
MOST: Final = 256
"""Groups of one lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseProcesses:
    """The registered groups of each lease, kept in `<state>/leases/<lease>.json`."""

    records: Records
    table: ProcessTable
    clock: Clock
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def register(self, lease: str, pid: int, start_ticks: int) -> None:
        """Note the leader of a process group that works under `lease`. Twice is once.

        Refuses `invalid_request` for what leads no group, and for a group of ours; `store_full`, `limit`.
        """
        if not self.table.leads(pid, start_ticks):
            raise InvalidRequest(
                what=f"Process {pid} is not there, or leads no process group of its own.",
                expected="Register the leader of the group on the host where it runs.",
                where="pid",
            )
        async with self.lock:
            groups = await asyncio.to_thread(self._groups, lease)
            if (pid, start_ticks) in groups:
                return
            if len(groups) >= MOST:
                raise LimitReached(what="process groups of a lease", limit=MOST)
            rows = [{"pid": one, "start_ticks": ticks} for one, ticks in (*groups, (pid, start_ticks))]
            try:
                await asyncio.to_thread(self.records.save, lease, {"groups": rows})
            except OSError as error:
                raise StoreFull(file=f"leases/{lease}.json", why=error.strerror or str(error)) from error

    async def end(self, lease: str) -> Sequence[str]:
        """End them all: SIGTERM, 10 s, SIGKILL. A sentence for each that is still there."""
        try:
            groups = await asyncio.to_thread(self._groups, lease)
        except ValueError as error:
            return [f"what works under {lease} cannot be told: {shorten(str(error), 200)}"]
        left = [line for group in groups for line in await self._end(*group)]
        if not left:
            await asyncio.to_thread(self._forget, lease)
        return left

    async def _end(self, pid: int, start_ticks: int) -> Sequence[str]:
        known: dict[Member, None] = {}
        for hard, patience in ((False, GRACE_S), (True, GONE_S)):
            for root, ticks in ((pid, start_ticks), *((it.pid, it.start_ticks) for it in tuple(known))):
                known |= dict.fromkeys(self.table.family(root, ticks))
            for member in filter(self.table.alive, known):
                self.table.end(member, hard=hard)
            if await self._gone(known, patience):
                break
        left = [it for it in known if self.table.alive(it)]
        orphans = [it for it in self.table.orphans(pid, start_ticks) if it not in left]
        return [
            *(f"process {it.pid} ({shorten(it.comm, 20)}) does not end" for it in left),
            *(
                f"process {it.pid} ({shorten(it.comm, 20)}) of the ended group {pid} still runs"
                for it in orphans
            ),
        ]

    async def _gone(self, members: dict[Member, None], patience: float) -> bool:
        ends = self.clock.elapsed() + patience
        while any(map(self.table.alive, members)):
            if self.clock.elapsed() >= ends:
                return False
            await self.clock.sleep(LOOK_S)
        return True

    def _groups(self, lease: str) -> tuple[tuple[int, int], ...]:
        found = self.records.load(lease) or {}
        rows = found.get("groups")
        groups = []
        for row in rows if isinstance(rows, list) else []:
            found = row if isinstance(row, dict) else {}
            pid, ticks = whole(found.get("pid"), 2, MOST_PID), whole(found.get("start_ticks"), 0, MOST_TICKS)
            if pid is not None and ticks is not None:
                groups.append((pid, ticks))
        return tuple(groups)

    def _forget(self, lease: str) -> None:
        try:
            self.records.remove(lease)
        except OSError:
            # It names processes that are gone: nobody is ended by it any more.
            return
