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
            self.hold.others.add(holding.lease)
            until = "an unknown time" if view.until is None else rfc3339(view.until)
            why = f"{shorten(view.owner)} holds it until {until}, and it is written again after that"
            self._lost(holding, why, view.identity)
        else:
            await self._write(holding, wanted)

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

    async def _write(self, holding: Holding, wanted: LeaseHold) -> None:
        taken: list[Taken] = []
        endless, now = holding.until is None and not holding.mode, self.hold.clock.now()
        followed = holding.lease in self.hold.others

        def away(it: Taken) -> bool:
            taken.append(it)
            return not followed and stays_away(it, wanted.expires_at, endless=endless, now=now)

        try:
            if not await asyncio.to_thread(self.hold.writer.write_again_for_lease, wanted, away):
                self._lost(holding, _released(holding), f"force {taken[0].at}")
                return
        except Refusal as refusal:
            self._lost(
                holding, f"it was gone and could not be written again: {refusal}", type(refusal).__name__
            )
            return
        self.hold.others.discard(holding.lease)
        text = f"The hold of {self.hold.holds.host} was gone; {_whose(holding)} has it again."
        at = rfc3339(self.hold.clock.now())
        self._tell("hold_written_again", holding, text, f"{holding.lease} {at}")

    def _lost(self, holding: Holding, why: str, what: str) -> None:
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


def _released(holding: Holding) -> str:
    """That a person released it by force, and what brings it back (HOLD-11)."""
    if holding.mode:
        return "somebody released it by force"
    if holding.until is None:
        return "somebody released it by force, and it is written again within 10 min"
    return f"somebody released it by force, and `hostler renew {holding.lease}` writes it again"


def _whose(holding: Holding) -> str:
    what = f"the window of {holding.mode}" if holding.mode else f"lease {holding.lease}"
    return f"{what} ({shorten(holding.holder)})"
