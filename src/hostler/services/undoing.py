"""One undo of one lease: what is owed is compared, put back, verified, last first (LEASE-11, LEASE-13).

Decides what is put back, what is left because somebody changed it, and when a route may go back. What is left
is marked only when the lease ends: a release of a stuck lease looks at it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hostler.domain.errors import StepFailed
from hostler.domain.journal import Entry, EntryState, owed
from hostler.domain.lease import Failing, Lease
from hostler.domain.moment import Moment
from hostler.domain.plan import aim, depends, text, turns
from hostler.domain.step import (
    DrainEngine,
    FoundEngine,
    FoundRoute,
    PointRoute,
    ResumeEngine,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    VerifyRestore,
)
from hostler.domain.undo import drifted, holds_true, inverse, is_back, unserved, withdrawal
from hostler.services import step_log
from hostler.services.needs import Clock
from hostler.services.operations import OBSERVED, Operations
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.services.side_by_side import side_by_side

NOT_DONE = "not done (observed)"
BACK = "back already (observed)"
NO_UNDO = "it has no undo"


class Unrestored(Exception):
    """The undo cannot go on: an effect was not seen to be put back."""

    def __init__(self, failing: Failing) -> None:
        super().__init__(failing.seen)
        self.failing = failing


@dataclass(eq=False, slots=True, kw_only=True)
class Undoing:
    """One run. `left` has what somebody changed, or what depends on it: the entry's number and a sentence.

    `gone` are the engines that somebody changed, `proven` those that were seen to serve in this very run,
    `broken` the hosts that cannot be put back, in the order in which that was seen.
    """

    store: ScheduleStore
    clock: Clock
    ask: Operations
    lease: Lease
    entries: Sequence[Entry]
    left: dict[int, tuple[EntryState, str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    proven: set[int] = field(default_factory=set)
    broken: dict[str, Unrestored] = field(default_factory=dict)

    @property
    def drift(self) -> tuple[str, ...]:
        """What was left, in the order of the plan, each once (LEASE-11)."""
        return tuple(dict.fromkeys(self.left[n][1] for n in sorted(self.left)))

    def settle(self, tx: Tx) -> None:
        """Mark what was left: nothing looks at it any more."""
        for n, (state, note) in self.left.items():
            tx.mark(self.lease.id, n, state, note)

    async def end_processes(self, hosts: Sequence[str]) -> None:
        """End what still works under the lease before anything is put back (F03). Raises Unrestored."""
        remaining = await self.ask.end_processes(hosts)
        if remaining:
            step = "end the processes of the lease"
            raise Unrestored(Failing(n=0, step=step, wanted="none of them", seen="; ".join(remaining)))

    async def run(self) -> None:
        """Put back what is owed, then look once more (LEASE-13). Raises Unrestored.

        Engines come back one at a time on each host, on several hosts side by side (MODE-2). A host that
        cannot be put back keeps no engine of another one down: these go on, and nothing else does. Holds
        stay, and routes lead where the lease led them, until all of it is seen to be back.
        """
        for turn in turns(owed(self.entries), lambda it: it[0].step):
            await side_by_side([self._lane(lane) for lane in turn])
        if self.broken:
            raise next(iter(self.broken.values()))
        await self._look_again()
        if self.left:
            await self._look_for_targets()

    async def _lane(self, lane: Sequence[tuple[Entry, Undo | None]]) -> None:
        """What one host puts back in a turn. What cannot be is noted in `broken`."""
        for entry, undo in lane:
            host = entry.step.host
            if host in self.broken or (self.broken and not isinstance(entry.step, _ALONE)):
                return
            try:
                await self._put_back(entry, undo)
            except StepFailed as failure:
                self.broken[host] = _unrestored(entry.n, undo or entry.step, failure.why)

    # ------------------------------------------------------------ one entry

    async def _put_back(self, entry: Entry, undo: Undo | None) -> None:
        """Compare what is seen with what was found and wanted, and do what follows. Refuses `step_failed`."""
        if undo is None:
            await self._undone(entry, None, NO_UNDO)
            return
        step, found, lease = entry.step, entry.found, self.lease.id
        seen = await self.ask.observe(entry.n, step)
        if is_back(step, found, seen, lease=lease) and await self._serves(entry, undo):
            await self._undone(entry, undo, NOT_DONE if entry.state is EntryState.BEGUN else BACK)
            return
        why = drifted(step, found, seen, lease=lease)
        if why is not None:
            await self._leave(entry, withdrawal(step, seen, lease=lease), why)
            return
        if entry.state is EntryState.BEGUN and holds_true(step, seen, lease=lease):
            await self._write(lambda tx, now: step_log.done(tx, self.lease, entry, now, OBSERVED))
        if await self._may_go_back(entry, undo):
            note = await self.ask.do(self.ask.backward(entry.n, undo))
            self.proven.add(entry.n)
            await self._undone(entry, undo, note)

    async def _serves(self, entry: Entry, undo: Undo) -> bool:
        """Whether an engine that is up already serves as itself; of anything else there is no more to see."""
        if not _starts(undo):
            return True
        if await self.ask.look(self.ask.backward(entry.n, undo)) is not None:
            return False
        self.proven.add(entry.n)
        return True

    async def _leave(self, entry: Entry, claim: Undo | None, why: str) -> None:
        """Somebody changed it: only the lease's own claim is taken away (R29)."""
        if claim is not None:
            await self.ask.do(self.ask.backward(entry.n, claim))
        self.left[entry.n] = (EntryState.DRIFTED, why)
        if isinstance(entry.step, SuspendEngine | StopEngine):
            self.gone.add(entry.step.engine)

    async def _may_go_back(self, entry: Entry, undo: Undo) -> bool:
        """Whether a route may lead to its engines again (R28); everything else may."""
        if not (isinstance(undo, PointRoute) and isinstance(entry.found, FoundRoute)):
            return True
        if not any(it.n < entry.n and it.state.owed for it, _ in self._resumed()):
            await self._prove_engines()
        engine = depends(entry.found.engines, self.gone)
        if engine is None:
            return True
        profile = entry.step.profile if isinstance(entry.step, PointRoute) else ""
        why = f"route {undo.route} stays on {profile}: engine {engine} is not as it was"
        self.left[entry.n] = (EntryState.LEFT, why)
        return False

    async def _prove_engines(self) -> None:
        """Every engine that was put back in an earlier run serves still; one that does not is started again.

        One that somebody suspended since is left. Refuses `step_failed`.
        """
        for entry, undo in self._resumed():
            if entry.n in self.proven or entry.n in self.left:
                continue
            seen = await self.ask.observe(entry.n, entry.step)
            why = drifted(entry.step, entry.found, seen, lease=self.lease.id)
            if why is not None:
                await self._leave(entry, None, why)
            elif not await self._serves(entry, undo):
                await self.ask.do(self.ask.backward(entry.n, undo))
                self.proven.add(entry.n)

    def _resumed(self) -> Iterator[tuple[Entry, Undo]]:
        """The entries whose undo ends with an engine that serves."""
        for entry in self.entries:
            undo = inverse(entry.step, entry.found)
            if undo is not None and _starts(undo):
                yield entry, undo

    # ------------------------------------------------------------ the last look

    async def _look_again(self) -> None:
        """Every route that went back is there still; one that was moved since is left. Raises Unrestored."""
        for entry, step in self._routes():
            undo = inverse(step, entry.found)
            if entry.n in self.left or not isinstance(undo, PointRoute):
                continue
            try:
                if await self.ask.look(self.ask.backward(entry.n, undo)) is None:
                    continue
                seen = await self.ask.observe(entry.n, step)
            except StepFailed as failure:
                raise _unrestored(entry.n, undo, failure.why) from failure
            why = drifted(undo, entry.found, seen, lease=self.lease.id)
            if why is None:
                raise _unrestored(entry.n, undo, "it is there, and leads to nothing that serves")
            self.left[entry.n] = (EntryState.DRIFTED, why)

    async def _look_for_targets(self) -> None:
        """Something was left: each route of the plan has a target that serves, or it is stuck (LEASE-11)."""
        for entry, step in self._routes():
            try:
                seen = await self.ask.observe(entry.n, step)
            except StepFailed as failure:
                raise _unrestored(entry.n, step, failure.why) from failure
            if not isinstance(seen, FoundRoute):
                continue
            why = unserved(seen, await self._engines(entry.n, step.host, seen.engines))
            if why is not None:
                failing = Failing(n=entry.n, step=text(step), wanted="a target that serves", seen=why)
                raise Unrestored(failing)

    def _routes(self) -> Iterator[tuple[Entry, PointRoute]]:
        """The first step of each route at each host: what it found is where the route belongs."""
        met: set[tuple[str, str]] = set()
        for entry in self.entries:
            step = entry.step
            if isinstance(step, PointRoute) and (step.host, step.route) not in met:
                met.add((step.host, step.route))
                yield entry, step

    async def _engines(self, n: int, host: str, names: Sequence[str]) -> dict[str, FoundEngine]:
        """Those engines as they are; what cannot be seen is missing."""
        places = {it.step.engine: it.step.host for it in self.entries if isinstance(it.step, _OF_ENGINES)}
        found: dict[str, FoundEngine] = {}
        for name in names:
            try:
                seen = await self.ask.observe(n, StopEngine(host=places.get(name, host), engine=name))
            except StepFailed:
                continue
            if isinstance(seen, FoundEngine):
                found[name] = seen
        return found

    # ------------------------------------------------------------ the journal

    async def _undone(self, entry: Entry, undo: Undo | None, note: str) -> None:
        await self._write(lambda tx, now: step_log.undone(tx, self.lease, entry, now, undo, note))

    async def _write(self, work: Callable[[Tx, Moment], None]) -> None:
        await self.store.write(lambda tx: work(tx, self.clock.moment()))


_OF_ENGINES = (DrainEngine, SuspendEngine, StopEngine, StartEngine)
_ALONE = (*_OF_ENGINES, VerifyRestore)
"""What is put back on a host though another one cannot be (LEASE-11)."""


def _starts(undo: Undo) -> bool:
    return isinstance(undo, StartEngine) or (isinstance(undo, ResumeEngine) and undo.start)


def _unrestored(n: int, work: Step | Undo, seen: str) -> Unrestored:
    return Unrestored(Failing(n=n, step=text(work), wanted=aim(work), seen=seen))
