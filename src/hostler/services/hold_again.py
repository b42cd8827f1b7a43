"""The hold record of a lease that is gone from this host: written again, or told (HOLD-9, HOLD-11, WIN-5).

Decides that a file which was simply removed is written again, with the same owner and end. Anybody else's
hold that is there meanwhile is left and told; once that is over the lease's own is written again. One that a
person released by force stays away until the lease is renewed, which `domain.hold_plan` decides. The lease
keeps what it controls all the same (LEASE-15).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from hostler.domain.errors import Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.hold import parse_instant
from hostler.domain.hold_plan import LeaseHold, Taken, stays_away
from hostler.domain.holding import Holding
from hostler.domain.values import Priority, rfc3339, shorten
from hostler.services.deadman_needs import Deadmen
from hostler.services.node_hold import NodeHold, is_of
from hostler.services.present import Present
from hostler.services.receipts import HoldDone, Receipts


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAgain:
    """Looks after the hold of the lease that has this host."""

    hold: NodeHold
    receipts: Receipts
    deadmen: Deadmen
    config: Present

    async def look(self, holding: Holding) -> None:
        """One look at the record of that lease: it keeps its end, is written again, or its loss is told."""
        if is_of(self.hold.holds.view(), holding.lease):
            await self.hold.keep(holding)
        elif not self._left_to_others(holding):
            async with self.hold.lock:
                await self._gone(holding)

    def _left_to_others(self, holding: Holding) -> bool:
        """Whether the hold went with a reboot (HOLD-2), or is the window script's own to write (MODE-4)."""
        mode = self.config.fleet.modes.get(holding.mode)
        boot = self.hold.clock.moment().boot
        return holding.boot not in ("", boot) or (mode is not None and mode.tool is not None)

    async def _gone(self, holding: Holding) -> None:
        """Who removes it says so first, by a receipt or the deadman's marks: these are looked at last."""
        view = self.hold.holds.view()
        if is_of(view, holding.lease):
            return
        own = await asyncio.to_thread(self.deadmen.state, holding.lease)
        done = await asyncio.to_thread(self.receipts.hold_of, holding.lease)
        if done is None or (own is not None and (own.over or own.restoring or own.report is not None)):
            return
        wanted = self._wanted(holding, done)
        if wanted.expires_at <= self.hold.clock.now():
            return
        if view.held:
            await self._follow(holding, followed=True)
            until = "an unknown time" if view.until is None else rfc3339(view.until)
            why = f"{shorten(view.owner)} holds it until {until}, and it is written again after that"
            self._lost(holding, why, view.identity)
        else:
            await self._write(holding, wanted, done)

    async def _follow(self, holding: Holding, *, followed: bool) -> None:
        """What a later start must know of it. A disk that takes nothing is told, and tried at each look."""
        try:
            await self.receipts.follow(holding.lease, followed=followed)
        except Refusal as refusal:
            text = f"whose hold is in the place of lease {holding.lease} was not noted: {refusal}"
            self._tell("deferred", holding, text, f"{holding.lease} followed")

    def _wanted(self, holding: Holding, done: HoldDone) -> LeaseHold:
        """The record as it was; of a window with its first end, of another lease with its present one."""
        texts = done.texts
        first = parse_instant(texts.get("expires_at")) if holding.mode else None
        until = first or holding.until
        return LeaseHold(
            lease=holding.lease,
            fence=done.fence,
            reason=": ".join(it for it in (texts.get("holder", holding.holder), texts.get("reason")) if it),
            expires_at=self.hold.end(until, timedelta(seconds=done.step.after_s)),
            allow=done.step.allow,
            stop_accepting_at=parse_instant(texts.get("stop_accepting_at")),
        )

    async def _write(self, holding: Holding, wanted: LeaseHold, done: HoldDone) -> None:
        taken: list[Taken] = []
        now, endless = self.hold.clock.now(), _endless(holding, done)
        # Of a lease that is put back nobody knows the end: that is no renewal.
        renewed_to = None if holding.until is None and done.timed and not holding.mode else wanted.expires_at

        def away(it: Taken) -> bool:
            taken.append(it)
            return not done.followed and stays_away(it, renewed_to, endless=endless, now=now)

        try:
            if not await asyncio.to_thread(self.hold.writer.write_again_for_lease, wanted, away):
                self._lost(holding, _released(holding, endless=endless), f"force {taken[0].at}")
                return
        except Refusal as refusal:
            self._lost(
                holding, f"it was gone and could not be written again: {refusal}", type(refusal).__name__
            )
            return
        await self._follow(holding, followed=False)
        self.hold.lost.pop(holding.lease, None)
        text = f"The hold of {self.hold.holds.host} was gone; {_whose(holding)} has it again."
        at = rfc3339(self.hold.clock.now())
        self._tell("hold_written_again", holding, text, f"{holding.lease} {at}")

    def _lost(self, holding: Holding, why: str, what: str) -> None:
        if self.hold.lost.get(holding.lease) == what:
            return
        self.hold.lost.clear()
        self.hold.lost[holding.lease] = what
        end = "hostler window close" if holding.mode else f"hostler release {holding.lease}"
        text = f"The hold of {self.hold.holds.host} is not that of {_whose(holding)}: {why}. `{end}` ends it."
        self._tell("hold_lost", holding, text, f"{holding.lease} {what}")

    def _tell(self, kind: str, holding: Holding, text: str, once: str) -> None:
        host = self.hold.holds.host
        self.hold.events.emit(
            Event(
                type=kind,
                at=self.hold.clock.now(),
                actor=f"lease:{holding.lease}",
                subject=frozen({"host": host, "lease": holding.lease}),
                message=text,
                priority=Priority.HIGH,
                once=f"{kind} {once} {host}",
            )
        )


def _endless(holding: Holding, done: HoldDone) -> bool:
    """Whether its lease has no end, and not merely none that is known, as while it is put back."""
    return holding.until is None and not holding.mode and not done.timed


def _released(holding: Holding, *, endless: bool) -> str:
    """That a person released it by force, and what brings it back (HOLD-11)."""
    if holding.mode:
        return "somebody released it by force"
    if endless:
        return "somebody released it by force, and it is written again within 10 min"
    if holding.until is None:
        return "somebody released it by force, and it stays away while the lease is put back"
    return f"somebody released it by force, and `hostler renew {holding.lease}` writes it again"


def _whose(holding: Holding) -> str:
    what = f"the window of {holding.mode}" if holding.mode else f"lease {holding.lease}"
    return f"{what} ({shorten(holding.holder)})"
