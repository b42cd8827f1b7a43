"""What a node needs from the world to do the steps of a lease. Adapters provide these; tests fake them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from hostler.domain.engine import Launch
from hostler.domain.fleet import Secret
from hostler.domain.hold_plan import LeaseHold, Taken


class Records(Protocol):
    """Small JSON files of one directory, each written whole: receipts, processes of leases."""

    def load(self, name: str) -> Mapping[str, object] | None:
        """The object of that name; None when there is none. Raises ValueError when it is broken."""
        ...

    def save(self, name: str, value: Mapping[str, object]) -> None:
        """Write it whole and durably. Raises OSError; the old one stays then."""
        ...

    def remove(self, name: str) -> None:
        """Remove it, if it is there. Raises OSError."""
        ...

    def names(self) -> Sequence[str]:
        """All names, the latest written first."""
        ...

    def prune(self, *, before: datetime, most: int, spare: frozenset[str]) -> int:
        """Remove what was written before that time, and the oldest beyond `most`; how many. Never raises."""
        ...


class HoldKeeper(Protocol):
    """Writes this host's hold record for leases (HOLD-11)."""

    def short_lived(self) -> str | None:
        """Why the file may go before its lease does, a sentence; None where it stays (HOLD-2)."""
        ...

    def write_for_lease(self, wanted: LeaseHold) -> None:
        """Put the lease's record in place; again for the same lease replaces its own.

        Refuses `held` for somebody else's live hold, and `store_full`, `not_yours`, `hold_path_unusable`.
        """
        ...

    def extend_for_lease(self, lease: str, expires_at: datetime) -> bool:
        """Give the lease's own live record another end; False when it is not there. Refuses as above."""
        ...

    def write_again_for_lease(self, wanted: LeaseHold, away: Callable[[Taken], bool]) -> bool:
        """As `write_for_lease`; False, and nothing is done, where a person took it away and it is `away`.

        `away` is asked under the writers' lock, of the last time that somebody did so by force (HOLD-9).
        """
        ...

    def remove_for_lease(self, lease: str) -> bool:
        """Remove the record if it is the lease's own; whether it went. Refuses `not_yours` and such."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended: `status` None when its time was up and its group was killed. `last` is output."""

    status: int | None
    last: str = ""


class Commands(Protocol):
    """Runs the commands of `exec` actions: argv, a clean environment, no shell (LEASE-2)."""

    def exists(self, program: str) -> bool:
        """Whether there is such a program to run."""
        ...

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Ran:
        """Run it to its end, at most `timeout_s`. Raises OSError when it cannot be started."""
        ...


class Webhooks(Protocol):
    """Calls the URLs of `webhook` actions: no key of ours, no redirect (LEASE-2)."""

    async def call(self, url: str, body: Mapping[str, object], *, timeout_s: float) -> str | None:
        """POST it; None when it was taken (2xx), else one sentence that does not have the URL in it."""
        ...


class Completions(Protocol):
    """One real piece of work of an engine, the smallest there is (LEASE-13)."""

    async def chat(self, launch: Launch, key: Secret | None) -> str | None:
        """One completion of one token; None when it was given, else what came instead. Never raises."""
        ...

    async def embed(self, launch: Launch, key: Secret | None) -> str | None:
        """One embedding; None when it was given, else what came instead. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of a registered group: pid and start time, never a name (ENG-6); `comm` is for people."""

    pid: int
    start_ticks: int
    comm: str = field(default="", compare=False)


class ProcessTable(Protocol):
    """Processes of this host, by identity."""

    def leads(self, pid: int, start_ticks: int) -> bool:
        """Whether that very process lives and leads a process group of its own, not this daemon's."""
        ...

    def family(self, pid: int, start_ticks: int) -> Sequence[Member]:
        """That very process, its process group and all below it; empty when it is not there any more."""
        ...

    def orphans(self, group: int, start_ticks: int) -> Sequence[Member]:
        """What is left of the group of a leader that is gone, as far as it can be told: for a sentence."""
        ...

    def alive(self, member: Member) -> bool:
        """Whether that very process still runs."""
        ...

    def end(self, member: Member, *, hard: bool) -> None:
        """SIGTERM, or SIGKILL when `hard`, to that very process and to no other that has its pid by now."""
        ...
