"""Holds, as the daemon sees them: each one noticed once, each refusal told once (HOLD-7, HOLD-11, HOLD-15).

Decides what is an event about a hold and with which priority. What a record means is `domain.hold`'s
decision; who is refused is the gate's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.hold import HoldState, HoldView
from hostler.domain.values import Cause, HostName, Priority, Requester, rfc3339, shorten
from hostler.services.needs import Clock, Events, ForcedChanges, HoldReader

REMEMBERED = 100
"""Refusals kept for `hostler box status`, the count goes on beyond; and holds that were told of."""


@dataclass(eq=False, slots=True, kw_only=True)
class Sighting:
    """What has been told: of the hold that is there now, and of which ones before it (`opened`)."""

    identity: str = ""
    held: bool = False
    ended: bool = False
    state: HoldState = HoldState.FREE
    refused: list[dict[str, object]] = field(default_factory=list)
    count: int = 0
    told: set[str] = field(default_factory=set)
    opened: list[str] = field(default_factory=list)
    first_refusals: list[str] = field(default_factory=list)
    unwritten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Watches this host's hold."""

    host: HostName
    reader: HoldReader
    changes: ForcedChanges
    clock: Clock
    events: Events
    seen: Sighting = field(default_factory=Sighting)

    def view(self) -> HoldView:
        """What holds now."""
        return self.reader.read()

    def tick(self) -> bool:
        """Look at the hold and tell what is new. True when one ended since the last, seen or not."""
        forced = self.changes.take()
        for change in forced:
            self._emit("hold_changed_by_force", shorten(change, 400), Priority.HIGH, once=change)
        self._notice(self.reader.read())
        ended, self.seen.ended = self.seen.ended or bool(forced), False
        return ended

    def _notice(self, view: HoldView) -> None:
        seen = self.seen
        if view.identity == seen.identity and view.held == seen.held:
            return
        if seen.held and (not view.held or view.identity != seen.identity):
            self._ended(view)
            seen.ended = True
        self.seen.identity, self.seen.held, self.seen.state = view.identity, view.held, view.state
        if view.held:
            self._opened(view)

    def refused(self, view: HoldView, engine: str, requester: Requester, cause: Cause) -> None:
        """A start was refused by `view`. The first refusal of each hold is a notice of high priority."""
        if not view.held:
            # It ended since it refused: the next tick says so, and residency goes on from there.
            return
        self._notice(view)
        seen = self.seen
        subject = f"{engine} {cause}"
        if cause.timer and subject in seen.told:
            return
        seen.told.add(subject)
        seen.count += 1
        first = _first(seen.first_refusals, view.identity)
        row: dict[str, object] = {
            "at": rfc3339(self.clock.now()),
            "engine": engine,
            "by": requester.tag(),
            "cause": cause.value,
        }
        seen.refused = [*seen.refused, row][-REMEMBERED:]
        seen.unwritten = True
        if first:
            self._emit(
                "hold_first_refusal",
                f"{shorten(view.owner)} holds {self.host}: {engine} was refused to {requester.tag()}."
                " If the hold is stale: hostler box release --force",
                Priority.HIGH,
                once=f"refusal {view.identity}",
                facts=row,
            )

    def unwritten(self) -> Mapping[str, object] | None:
        """What `<state>/hold_refusals.json` should say, when it does not say so yet.

        Written by the watch, off the loop: a full disk neither delays nor fails a gate (HOLD-15).
        """
        if not self.seen.unwritten:
            return None
        self.seen.unwritten = False
        seen = self.seen
        return {"identity": seen.identity, "count": seen.count, "refused": list(seen.refused)}

    def _opened(self, view: HoldView) -> None:
        self.seen.refused, self.seen.count, self.seen.told = [], 0, set()
        if not _first(self.seen.opened, view.identity):
            return
        if view.state is HoldState.UNREADABLE:
            self._emit(
                "hold_unreadable",
                f"The hold record {view.path} counts as held: {view.defect}. hostler box release removes it",
                Priority.HIGH,
                once=f"opened {view.identity}",
            )
            return
        until = rfc3339(view.until) if view.until is not None else "unknown"
        flag = "; its expiry is more than 8 h away and was not forced" if view.overlong else ""
        self._emit(
            "hold_opened",
            f"{shorten(view.owner)} holds {self.host} until {until}: {shorten(view.reason, 200)}{flag}",
            Priority.NORMAL,
            once=f"opened {view.identity}",
        )

    def _ended(self, view: HoldView) -> None:
        same = view.identity == self.seen.identity
        if same and view.state is HoldState.AGED_OUT:
            kind, text = "hold_aged_out", "The unreadable hold record no longer counts."
        elif same and view.state is HoldState.LAPSED:
            kind, text = "hold_expired", "The hold has lapsed."
        else:
            kind, text = "hold_released", "The hold was removed or replaced."
        priority = Priority.HIGH if kind == "hold_aged_out" else None
        self._emit(kind, text, priority, once=f"{kind} {self.seen.identity}")

    def write_again(self) -> None:
        """What `unwritten` gave could not be written."""
        self.seen.unwritten = True

    def _emit(
        self,
        kind: str,
        message: str,
        priority: Priority | None,
        *,
        once: str,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                subject=frozen({"host": self.host}),
                message=message,
                facts=frozen(facts or {}),
                priority=priority,
                once=once,
            )
        )


def _first(told: list[str], identity: str) -> bool:
    """Whether `identity` has not been told of, as far as is remembered (HOLD-7). It has, from now on."""
    if identity in told:
        return False
    told.append(identity)
    del told[:-REMEMBERED]
    return True
