"""The hold record of a lease on this host: written, kept alive, removed (HOLD-11).

Decides when it is rewritten: it expires 10 min after the lease; of a lease without an end it is written for
an hour, and again every 10 min. Whether one that went is written again is `hold_again`'s decision.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hostler.domain import hold
from hostler.domain.errors import BoxReserved, HoldPathUnusable, HoldTaken, InvalidRequest, Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.hold import HoldState, HoldView, parse_instant
from hostler.domain.hold_plan import NEAR, REWRITTEN, LeaseHold
from hostler.domain.holding import Holding
from hostler.domain.step import FoundHold, HoldHost, Operation
from hostler.domain.values import Priority
from hostler.services.holds import Holds
from hostler.services.needs import Clock, Events
from hostler.services.node_needs import HoldKeeper

AFTER: Final = timedelta(minutes=10)
"""How long a record outlives its lease: a renewal that is late leaves no gap."""
ENDLESS: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHold:
    """The hold steps of one host."""

    holds: Holds
    writer: HoldKeeper
    clock: Clock
    events: Events
    lost: dict[str, str] = field(default_factory=dict)
    """Of the lease that has this host: which loss of its hold was told last, which is said once."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def observe(self) -> FoundHold:
        """Who holds the host now."""
        view = self.holds.view()
        if not view.held:
            return FoundHold()
        return FoundHold(
            identity=view.identity, owner=view.owner, lease=view.record.lease if view.record else None
        )

    def preflight(self, operation: Operation) -> None:
        """Refuse `box_reserved` while somebody else holds the host: that passes (LEASE-23)."""
        view = self.holds.view()
        if view.held and not is_of(view, operation.lease):
            raise self._reserved(operation, view)

    def lasts(self) -> None:
        """Refuse `hold_path_unusable` where a window's hold could go with a login (HOLD-2)."""
        why = self.writer.short_lived()
        if why is not None:
            raise HoldPathUnusable(path=self.holds.view().path, why=why.removesuffix("."))

    async def write(self, operation: Operation, step: HoldHost) -> None:
        """Hold the host in the lease's name. Refuses `box_reserved`, and what the file refuses."""
        wanted = LeaseHold(
            lease=operation.lease,
            fence=operation.fence,
            reason=": ".join(it for it in (operation.holder, operation.reason) if it),
            expires_at=self.end(_instant(operation.expires_at), timedelta(seconds=step.after_s)),
            allow=step.allow,
            stop_accepting_at=_instant(operation.stop_accepting_at),
        )
        async with self.lock:
            try:
                await asyncio.to_thread(self.writer.write_for_lease, wanted)
            except HoldTaken as taken:
                raise self._reserved(operation, self.holds.view()) from taken

    async def remove(self, operation: Operation) -> None:
        """Remove the lease's own record; another's is left."""
        async with self.lock:
            await asyncio.to_thread(self.writer.remove_for_lease, operation.lease)

    def verify(self, lease: str, *, held: bool) -> str | None:
        """None when the lease holds the host, or, with `held` False, does not."""
        view = self.holds.view()
        own = view.held and is_of(view, lease)
        if own is held:
            return None
        if own:
            return f"{self.holds.host} is still held by the lease"
        return f"{self.holds.host} is {'held by ' + view.owner if view.held else 'free'}"

    async def keep(self, holding: Holding) -> None:
        """Give the lease's record the end that it should have, where that is another one (HOLD-11).

        A window's has its end from the beginning and never another; that it lapsed is told (WIN-4, WIN-5).
        """
        if holding.mode:
            self._lapsed(holding)
            return
        view, now = self.holds.view(), self.clock.now()
        record = view.record
        if record is None or not is_of(view, holding.lease):
            return
        wanted = self.end(holding.until)
        if holding.until is None:
            due = record.expires_at - now <= ENDLESS - REWRITTEN
        else:
            due = abs(record.expires_at - wanted) > NEAR and wanted > now
        if not due:
            return
        try:
            await asyncio.to_thread(self.writer.extend_for_lease, holding.lease, wanted)
        except Refusal as refusal:
            self.events.emit(
                Event(
                    type="deferred",
                    at=now,
                    actor=f"lease:{holding.lease}",
                    subject=frozen({"host": self.holds.host, "lease": holding.lease}),
                    message=f"the hold of {self.holds.host} was not written again: {refusal}",
                )
            )

    def _lapsed(self, holding: Holding) -> None:
        """Tell that a window's record lapsed while its engines are not back: LEASE-15 keeps them now."""
        view = self.holds.view()
        if view.state is not HoldState.LAPSED or not is_of(view, holding.lease):
            return
        self.events.emit(
            Event(
                type="window_hold_lapsed",
                at=self.clock.now(),
                actor=f"lease:{holding.lease}",
                subject=frozen({"host": self.holds.host, "lease": holding.lease}),
                message=f"The hold of {self.holds.host} lapsed; the window of {holding.mode} is not closed.",
                priority=Priority.HIGH,
                once=f"window_hold_lapsed {holding.lease} {self.holds.host}",
            )
        )

    def end(self, until: datetime | None, after: timedelta = AFTER) -> datetime:
        """When the record of a lease that ends `until` is to end."""
        return self.clock.now() + ENDLESS if until is None else until + after

    def _reserved(self, operation: Operation, view: HoldView) -> BoxReserved:
        # Before it is granted a lease has no name.
        what = f"the lease {operation.lease}" if operation.lease else "a lease"
        return hold.refusal(view, engine=what, host=self.holds.host, now=self.clock.now())


def is_of(view: HoldView, lease: str) -> bool:
    """Whether the record that is there was written for that lease."""
    return view.record is not None and view.record.lease == lease


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = parse_instant(text)
    if found is None:
        raise InvalidRequest(what=f"{text!r} is no time.", expected="RFC 3339 in UTC.", where="expires_at")
    return found
