"""A lease that is held: kept by renewals, trusted by this machine's own clock (LEASE-22).

Decides when to renew and when the holder must take it for lost, whether the head answers or not. One class
for the synchronous and the asynchronous client; both drive its steps in the background.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hostler.client.drive import Pause, Steps
from hostler.client.lease import RELEASE_S, Leases
from hostler.client.patience import between, passes
from hostler.client.saved import SavedLease
from hostler.client.trust import time_up, trusted
from hostler.domain.errors import LeaseLost, Refusal
from hostler.domain.lease import State
from hostler.domain.values import format_duration
from hostler.wire.schedule import LeaseView, OneLease

MOST_S: Final = 300.0
"""A renewal at least so often: a holder should hear within five minutes that its lease was called off."""
LEAST_S: Final = 0.5
ATTEMPT_S: Final = 15.0

OnLost = Callable[[LeaseLost], None]


@dataclass(eq=False, slots=True, kw_only=True)
class Lease:
    """A lease of ours. Times are seconds; `trusted_until` is elapsed time here, infinite without an end.

    `on_lost` is called once each time that it is taken for lost, from the renewing thread or task. `wakers`
    are the driver's: they end a pause of the steps.
    """

    leases: Leases
    saved: SavedLease
    one: OneLease
    on_lost: OnLost | None = None
    lost: str = ""
    closing: bool = False
    wakers: list[Callable[[], None]] = field(default_factory=list)
    trusted_until: float = field(init=False, default=0.0)
    _told: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._adopt(self.leases.files.get(self.saved.request_id) or self.saved, self.one)

    # ------------------------------------------------------------ what it is

    @property
    def view(self) -> LeaseView:
        """The lease as the head last told it."""
        return self.one.lease

    @property
    def id(self) -> str:
        """Its id."""
        return self.view.id

    @property
    def resource(self) -> str:
        """What it is on."""
        return self.view.resource

    @property
    def epoch(self) -> str | None:
        """The first half of its fence number (LEASE-8)."""
        return self.view.epoch

    @property
    def generation(self) -> int | None:
        """The second half of its fence number."""
        return self.view.generation

    @property
    def notice(self) -> str:
        """What its holder should know now, such as that it expires soon (LEASE-19); else empty."""
        return self.view.notice

    @property
    def trusted_s(self) -> float:
        """How long it can still be trusted without word from the head; 0 when it cannot."""
        return max(0.0, self.trusted_until - self.leases.machine.elapsed()) if not self.lost else 0.0

    def check(self) -> None:
        """Raise `lease_lost` when the lease can be trusted no more. Asks nobody, takes no time."""
        lost = self._lost()
        if lost is not None:
            raise lost

    def _lost(self) -> LeaseLost | None:
        why = self.lost
        if not why and self.trusted_s <= 0:
            ago = self.leases.machine.elapsed() - (self.saved.attempt or 0.0)
            why = time_up(self.view.limited_by) or f"the head has not confirmed it for {format_duration(ago)}"
        return LeaseLost(lease=self.id, resource=self.resource, why=why) if why else None

    # ------------------------------------------------------------ keeping it

    def upkeep(self) -> Steps[None]:
        """Renew it until it is closed or lost for good; a head that is away is asked again."""
        tries = 0
        while not self.closing and not self.lost:
            yield Pause(seconds=self._pause(tries))
            if not self.closing:
                tries = tries + 1 if (yield from self._renewal_failed()) else 0

    def _renewal_failed(self) -> Steps[bool]:
        try:
            known, one = yield from self.leases.extend(self.saved, self._timeout())
        except Refusal as refusal:
            self.lost = "" if passes(refusal) else str(refusal)
            failed = True
        else:
            self._adopt(known, one)
            failed = False
        self._tell()
        return failed

    def close(self, error: BaseException | None) -> Steps[None]:
        """Give it back, and wait until that is verified. `error` is what ends its use, if anything does.

        Raises `stuck`, and `lease_lost` when it had ended before it was given back: what was done under it
        may not count. With an `error` these become notes of that one.
        """
        try:
            before = (yield from self._gone()) if error is None else ""
            one = yield from self.leases.release(self.saved)
            if before or one.lease.state != State.RELEASED:
                why = before or one.lease.why or f"it ended as {one.lease.state}"
                raise LeaseLost(lease=self.id, resource=self.resource, why=why)
        except Refusal as refusal:
            if error is None:
                raise
            error.add_note(f"{type(refusal).__name__}: {refusal}")

    def _gone(self) -> Steps[str]:
        """Why it was over before it was given back; empty when it was not."""
        if self.lost:
            return self.lost
        lease = (yield from self.leases.look(self.saved, RELEASE_S)).lease
        return "" if lease.state == State.ACTIVE else lease.why or f"it is {lease.state}"

    def _adopt(self, known: SavedLease, one: OneLease) -> None:
        self.saved, self.one = known, one
        if one.lease.state == State.ACTIVE:
            until = trusted(one, known.attempt or 0.0)
            self.trusted_until = math.inf if until is None else until
            self._told = False
        else:
            self.lost = one.lease.why or f"it is {one.lease.state}"

    def _tell(self) -> None:
        lost = self._lost()
        if lost is not None and not self._told and self.on_lost is not None:
            self._told = True
            self.on_lost(lost)

    def _pause(self, tries: int) -> float:
        """A third of the remaining time, sooner where little of it is trusted; backing off after failures."""
        trust = self.trusted_s
        if tries:
            wait = between(tries - 1, self.leases.machine.jitter())
            return min(wait, trust) if trust > 0 else wait
        remaining = self.view.expires_in_s
        third = MOST_S if remaining is None else remaining / 3
        return max(LEAST_S, min(MOST_S, third, trust / 2))

    def _timeout(self) -> float:
        """An attempt ends when the trust does: whoever works under the lease is to hear of it in time."""
        return max(1.0, min(ATTEMPT_S, self.trusted_s))
