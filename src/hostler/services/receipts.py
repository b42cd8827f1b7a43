"""Receipts: which operations this node began and ended, and the highest fence numbers (NODE-1, LEASE-8).

Decides when an operation is stale, and what a repeat is answered. A receipt is on disk before the effect and
again after it; a repeat of an ended one is answered from it, of a begun one is looked at and gone on with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hostler.domain.errors import IdempotencyConflict, Refusal, StaleGeneration, StoreFull
from hostler.domain.holding import Holding
from hostler.domain.journal import Entry, EntryState
from hostler.domain.step import (
    CallWebhook,
    FenceNumber,
    HoldHost,
    Operation,
    PointRoute,
    RemoveHold,
    RunCommand,
    Step,
    Undo,
)
from hostler.domain.values import rfc3339, whole
from hostler.services.needs import Clock
from hostler.services.node_needs import Records
from hostler.services.schedule_needs import NodeMemory, Remembered
from hostler.wire.refusals import error_of
from hostler.wire.steps import found_from_json, plain, step_from_json, work_from_json
from hostler.wire.told import refusal_from

FENCES: Final = "fences"
WHOLE: Final = "engine "
"""What begins the cover of a distributed engine's operations: its numbers are no schedule's (ENG-11)."""
KEPT: Final = timedelta(days=7)
MOST: Final = 1000
HOLD_TEXTS: Final = ("holder", "reason", "expires_at", "stop_accepting_at")
"""What of an operation its hold record says: kept, so that one that went can be written again."""
FOLLOWED: Final = "followed"
"""In the receipt of a hold step: somebody else's hold was seen in its place."""
MOST_GENERATION: Final = (1 << 63) - 1
"""What the schedule's store can count to: a higher number would refuse every step that is still to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What became of an operation that was begun before. `refusal` None: it was done."""

    ended: bool
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldDone:
    """A hold that a lease wrote, with what its record says besides: those of `HOLD_TEXTS` that are known.

    `followed`: somebody else's hold was seen in its place since it was written last.
    """

    step: HoldHost
    fence: FenceNumber
    texts: Mapping[str, str]
    followed: bool = False

    @property
    def timed(self) -> bool:
        """Whether the lease had an end when it wrote it: only one without is rewritten again and again."""
        return "expires_at" in self.texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """The receipts of one node. `known` are the highest fence numbers by resource, once they were read."""

    records: Records
    clock: Clock
    known: dict[str, FenceNumber] = field(default_factory=dict)
    read: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, operation: Operation, holder: Callable[[str], str] = lambda _: "") -> None:
        """Refuse `stale_generation` for a fence number below the highest accepted; keep nothing.

        One that was never granted (generation 0) has no number to compare. `holder` names who has a resource.
        """
        async with self.lock:
            await self._recall()
        self._refuse(operation, holder)

    async def admit(self, operation: Operation, holder: Callable[[str], str] = lambda _: "") -> None:
        """As `check`, and the number is the highest from now on, durably. Refuses `store_full`."""
        async with self.lock:
            await self._recall()
            self._refuse(operation, holder)
            number = operation.fence
            higher = {name: number for name in operation.covers if self._below(name, number)}
            if not higher:
                return
            after = {**self.known, **higher}
            await self._save(FENCES, {name: _number(it) for name, it in after.items()})
            self.known.update(higher)

    def _below(self, resource: str, number: FenceNumber) -> bool:
        known = self.known.get(resource)
        return known is None or known.order < number.order

    def _refuse(self, operation: Operation, holder: Callable[[str], str]) -> None:
        number = operation.fence
        if number.generation == 0:
            return
        for name in operation.covers:
            known = self.known.get(name)
            if known is not None and number.order < known.order:
                raise StaleGeneration(
                    resource=name,
                    given=number.generation,
                    present=known.generation,
                    holder=holder(name) or "nobody",
                )

    async def _recall(self) -> None:
        if not self.read.is_set():
            self.known.update(await asyncio.to_thread(self._fences))
            self.read.set()

    def _fences(self) -> Mapping[str, FenceNumber]:
        """The numbers that were kept; where they cannot be read, those of the receipts: no old one passes."""
        try:
            found = self.records.load(FENCES)
        except ValueError:
            found = None
            told = list(map(self._covered, self.records.names()))
        else:
            numbers = {name: _read(it) for name, it in (found or {}).items()}
            told = [numbers]
            if None in numbers.values():
                told += map(self._covered, self.records.names())
        highest: dict[str, FenceNumber] = {}
        for each in told:
            for name, number in each.items():
                if number is not None and (name not in highest or highest[name].order < number.order):
                    highest[name] = number
        return highest

    def _covered(self, name: str) -> Mapping[str, FenceNumber | None]:
        try:
            found = self.records.load(name) or {}
        except ValueError:
            return {}
        covers, number = found.get("covers"), _read(found.get("fence"))
        return dict.fromkeys(map(str, covers), number) if isinstance(covers, list) else {}

    # ------------------------------------------------------------ what it remembers

    async def remembered(self, held: Mapping[str, Holding]) -> NodeMemory:
        """What the receipts say of the leases that hold something here, and the highest number accepted."""
        async with self.lock:
            await self._recall()
        numbers = (it for name, it in self.known.items() if not name.startswith(WHOLE))
        highest = max(numbers, key=lambda it: it.order, default=None)
        leases = {it.lease: it for it in held.values()}
        rows = await asyncio.to_thread(self._rows, frozenset(leases))
        found = [self._lease(holding, rows.get(id_, [])) for id_, holding in sorted(leases.items())]
        return NodeMemory(highest=highest, leases=tuple(it for it in found if it is not None))

    def _rows(self, leases: frozenset[str]) -> Mapping[str, list[tuple[str, Mapping[str, object]]]]:
        """The receipts of these leases, by lease, each with its id."""
        rows: dict[str, list[tuple[str, Mapping[str, object]]]] = {}
        for name in self.records.names():
            found = None if name == FENCES else self._load(name)
            lease = None if found is None else found.get("lease")
            if found is not None and isinstance(lease, str) and lease in leases:
                rows.setdefault(lease, []).append((name, found))
        return rows

    def _lease(self, holding: Holding, rows: list[tuple[str, Mapping[str, object]]]) -> Remembered | None:
        """The lease with what it did and has not undone, as journal entries; None when nothing is known."""
        undone = {_number_of(name) for name, row in rows if is_undo(name) and _worked(row)}
        entries: list[Entry] = []
        fence: FenceNumber | None = None
        covers: tuple[str, ...] = ()
        for name, row in rows:
            number, given = _read(row.get("fence")), row.get("covers")
            if number is not None and (fence is None or fence.order < number.order):
                fence = number
                covers = tuple(map(str, given)) if isinstance(given, list) else ()
            if is_undo(name) or row.get("found") is None:
                continue
            n = _number_of(name)
            state = EntryState.UNDONE if n in undone else EntryState.BEGUN
            try:
                step, found = step_from_json(row.get("step")), found_from_json(row.get("found"))
            except ValueError:
                continue  # As one that cannot be read at all: what it did is not known here.
            entries.append(Entry(lease=holding.lease, n=n, step=step, found=found, state=state))
        if fence is None:
            return None
        return Remembered(
            lease=holding.lease,
            resource=holding.resource,
            holder=holding.holder,
            key=holding.key,
            fence=fence,
            covers=covers,
            entries=tuple(sorted(entries, key=lambda it: it.n)),
        )

    # ------------------------------------------------------------ one operation

    async def begin(self, operation: Operation) -> Past | None:
        """Write that it begins; what is known of it when it is a repeat, None when it is new.

        Refuses, before any effect, `store_full`, and `idempotency_conflict` for the id of another operation.
        """
        found = await asyncio.to_thread(self._load, operation.id)
        if found is None:
            await self._save(operation.id, self._receipt(operation))
            return None
        if any(found.get(key) != value for key, value in _what(operation).items()):
            raise IdempotencyConflict(key=operation.id)
        return _past(found)

    async def end(
        self, operation: Operation, refusal: Refusal | None, *, live: frozenset[str] = frozenset()
    ) -> None:
        """Write how it ended. A receipt that cannot be written stays begun: a repeat looks, and goes on.

        Old ones are removed, but for those of `live` leases: they are what this host would put back (NODE-4).
        """
        told = None if refusal is None else error_of(refusal)
        receipt = {**self._receipt(operation), "ended": rfc3339(self.clock.now()), "refusal": told}
        try:
            await self._save(operation.id, receipt)
        except StoreFull:
            return
        before = self.clock.now() - KEPT
        await asyncio.to_thread(self._prune, before, live)

    def _prune(self, before: datetime, live: frozenset[str]) -> None:
        kept = {name for name in self.records.names() if name.partition(".")[0] in live}
        self.records.prune(before=before, most=MOST, spare=frozenset({FENCES, *kept}))

    async def past(self, id_: str) -> Past | None:
        """What became of the operation of that id; None when nothing is known of it. Refuses bad ids."""
        found = await asyncio.to_thread(self._load, id_)
        return None if found is None else _past(found)

    def step_of(self, lease: str, digest: str) -> RunCommand | CallWebhook | None:
        """The command or webhook of that digest as it was done here for the lease (LEASE-5, CONF-6)."""
        for name in self.records.names():
            row = self._load(name) if name.partition(".")[0] == lease else None
            step = None if row is None or is_undo(name) else _work(row)
            if isinstance(step, RunCommand | CallWebhook) and step.digest == digest:
                return step
        return None

    def pointed(self, lease: str) -> Mapping[str, str]:
        """Where the lease has its routes: what its steps, or their undos, made of each last (GW-1)."""
        told: list[tuple[str, PointRoute]] = []
        for name in self.records.names():
            row = self._load(name) if name.partition(".")[0] == lease else None
            work = None if row is None or row.get("refusal") is not None else _work(row)
            if row is not None and isinstance(work, PointRoute):
                told.append((str(row.get("begun")), work))
        return {step.route: step.profile for _, step in sorted(told, key=lambda it: it[0])}

    def hold_of(self, lease: str) -> HoldDone | None:
        """The hold that the lease wrote here; None when it wrote none, or began to remove it (HOLD-11)."""
        done: HoldDone | None = None
        for name in self.records.names():
            row = self._load(name) if name.partition(".")[0] == lease else None
            work = None if row is None else _work(row)
            if isinstance(work, RemoveHold):
                return None
            if row is not None and isinstance(work, HoldHost) and _worked(row):
                texts = {key: it for key in HOLD_TEXTS if isinstance(it := row.get(key), str)}
                fence = _read(row.get("fence"))
                followed = row.get(FOLLOWED) is True
                done = (
                    None
                    if fence is None
                    else HoldDone(step=work, fence=fence, texts=texts, followed=followed)
                )
        return done

    async def follow(self, lease: str, *, followed: bool) -> None:
        """Note whether another's hold was seen in the place of the lease's, for a later start (HOLD-11).

        Refuses `store_full`.
        """
        for name in self.records.names():
            row = self._load(name) if name.partition(".")[0] == lease else None
            if row is None or not isinstance(_work(row), HoldHost) or not _worked(row):
                continue
            if (row.get(FOLLOWED) is True) is not followed:
                await self._save(name, {**row, FOLLOWED: followed})

    def _load(self, name: str) -> Mapping[str, object] | None:
        """The receipt; one that cannot be read is none: its steps look before they act."""
        try:
            return self.records.load(name)
        except ValueError:
            return None

    def _receipt(self, operation: Operation) -> dict[str, object]:
        found = None if operation.found is None else dict(plain(operation.found))
        begun = rfc3339(self.clock.now())
        made = {**_what(operation), "found": found, "begun": begun, "ended": None, "refusal": None}
        if isinstance(operation.step, HoldHost):
            made |= {key: getattr(operation, key) for key in HOLD_TEXTS}
        return made

    async def _save(self, name: str, value: Mapping[str, object]) -> None:
        try:
            await asyncio.to_thread(self.records.save, name, value)
        except OSError as error:
            raise StoreFull(file=f"receipts/{name}.json", why=error.strerror or str(error)) from error


def _work(row: Mapping[str, object]) -> Step | Undo | None:
    """What a receipt is of; None for one that is damaged."""
    try:
        return work_from_json(row.get("step"))
    except ValueError:
        return None


def same(one: Operation, other: Operation) -> bool:
    """Whether it is one operation, told twice: its times and texts may differ."""
    return one.id == other.id and _what(one) == _what(other)


def _past(found: Mapping[str, object]) -> Past:
    if found.get("ended") is None:
        return Past(ended=False)
    error = found.get("refusal")
    return Past(ended=True, refusal=None if error is None else refusal_from(error))


def is_undo(name: str) -> bool:
    """Whether the id of an operation is an undo's: `<lease>.<generation>.u<n>.<run>`."""
    return name.split(".")[2].startswith("u")


def _number_of(name: str) -> int:
    """The number of the step in the plan, by the id of its operation or of its undo's."""
    return int(name.split(".")[2].removeprefix("u"))


def _worked(row: Mapping[str, object]) -> bool:
    return row.get("ended") is not None and row.get("refusal") is None


def _what(operation: Operation) -> dict[str, object]:
    """What makes an operation the same one: all but its times and texts."""
    return {
        "lease": operation.lease,
        "fence": _number(operation.fence),
        "covers": list(operation.covers),
        "step": dict(plain(operation.step)),
    }


def _number(number: FenceNumber) -> dict[str, object]:
    return {"epoch": number.epoch, "generation": number.generation}


def _read(found: object) -> FenceNumber | None:
    if not isinstance(found, Mapping):
        return None
    epoch, generation = found.get("epoch"), whole(found.get("generation"), 0, MOST_GENERATION)
    if not isinstance(epoch, str) or generation is None:
        return None
    return FenceNumber(epoch=epoch, generation=generation)
