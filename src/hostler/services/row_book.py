"""The rows that this node keeps, and its Lamport clock: `sync.json` (SYNC-1, SYNC-5).

Decides that a change is durable before anybody is told of it, and that what is no change writes nothing. A
row of the file that is not as it should be is kept aside and named, never dropped; what a newer version wrote
is written back as it was found. What a row means is `domain.registry`'s decision.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.addresses import place_of
from hostler.domain.errors import StoreFull
from hostler.domain.registry import JUMP, Key, Registry, Row, homes_of
from hostler.domain.values import shorten, whole
from hostler.services.lanes import heard
from hostler.services.needs import StateFiles
from hostler.services.present import Present
from hostler.services.sync_needs import Interfaces
from hostler.wire.sync import MAX_VERSION, row_to, sound_from
from hostler.wire.values import is_deeper, plain_text

FILE: Final = "sync"
Extra = Mapping[str, object]
DEEPEST: Final = 100
"""How deep what this version does not know may be nested to be kept as it is; a write walks through it."""
ASIDE: Final = "it is kept as sync.json.unreadable-… once another is written"


@dataclass(eq=False, slots=True, kw_only=True)
class Kept:
    """What is kept. `aside` are rows of the file as they were found, with `notes`.

    `more` are keys of the file that this version does not know, `extras` those of a row (key and version).
    `trouble` is of a file that could not be read at all: told as long as this daemon runs.
    """

    registry: Registry
    aside: tuple[object, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict)
    extras: Mapping[tuple[Key, int], Mapping[str, object]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A write that failed. `there`: the file has its content all the same, and memory must have it too."""

    refusal: StoreFull
    cause: Exception
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBook:
    """The rows. `share` gives the gateway those of peers that an id leads to from now on."""

    config: Present
    files: StateFiles
    interfaces: Interfaces
    kept: Kept
    share: Callable[[tuple[Row, ...]], Awaitable[None]]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def registry(self) -> Registry:
        """The rows now."""
        return self.kept.registry

    def homes(self) -> Mapping[str, str]:
        """Whose each address is, as far as this node knows by itself."""
        return homes(self.config, self.interfaces)

    def resolved(self) -> tuple[Row, ...]:
        """The rows of peers that an id leads to."""
        return self.registry.resolved(self.config.fleet.peers, self.homes())

    async def change(self, how: Callable[[Registry], Registry]) -> bool:
        """Make of the rows what `how` says: on disk, then in force, also when the caller leaves meanwhile.

        Whether that was any change. Refuses `store_full`, and what `how` refuses; nothing is changed then.
        """
        task = asyncio.create_task(self._change(how))
        task.add_done_callback(heard)
        return await asyncio.shield(task)

    async def _change(self, how: Callable[[Registry], Registry]) -> bool:
        async with self.lock:
            after = how(self.kept.registry)
            if after == self.kept.registry:
                return False
            failed = await asyncio.to_thread(self._save, self._file(after))
            if failed is None or failed.there:
                self.kept.registry = after
                await self.share(self.resolved())
            if failed is not None:
                raise failed.refusal from failed.cause
            return True

    def _save(self, value: Mapping[str, object]) -> Failed | None:
        """Write the file; None once it is durable. What failed at the very end may be in it."""
        try:
            self.files.save(FILE, value)
        except (OSError, ValueError, RecursionError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return Failed(
                refusal=StoreFull(file=f"{FILE}.json", why=why), cause=error, there=self._there(value)
            )
        return None

    def _there(self, value: Mapping[str, object]) -> bool:
        try:
            return self.files.load(FILE) == value
        except ValueError:
            return False

    async def look_again(self) -> None:
        """The rows are the same, and whom the config pairs with, or this node's addresses, may not be."""
        async with self.lock:
            await self.share(self.resolved())

    def _file(self, registry: Registry) -> Mapping[str, object]:
        extras = self.kept.extras
        return {
            **self.kept.more,
            "clock": registry.clock,
            "rows": [
                {**extras.get((row.key, row.version), {}), **row_to(row)} for row in registry.rows.values()
            ],
            "aside": list(self.kept.aside),
        }


def homes(config: Present, interfaces: Interfaces) -> Mapping[str, str]:
    """Whose each address is: where other nodes are asked, and what is on an interface of this machine."""
    fleet = config.fleet
    urls = {str(name): peer.url for name, peer in fleet.peers.items()}
    urls |= {str(name): host.url for name, host in fleet.hosts.items() if host.url and name != fleet.here}
    return homes_of(urls, str(fleet.here), interfaces.addresses())


def load(node: str, files: StateFiles) -> Kept:
    """What was kept when this node ran last. Of a file that cannot be read nothing is known: it says so."""
    try:
        found = files.load(FILE) or {}
    except ValueError as error:
        trouble = f"{error}; {ASIDE}, and its rows are not known until they are told again"
        return Kept(registry=Registry(node=node), trouble=trouble)
    known = whole(found.get("clock"), 0, MAX_VERSION)
    good, aside, notes = _sorted_out([*_list(found.get("rows")), *_list(found.get("aside"))], known or 0)
    rows = {row.key: row for row, _ in good}
    more = {key: writable(it) for key, it in found.items() if key not in ("clock", "rows", "aside")}
    return Kept(
        registry=Registry(
            node=node, rows=rows, clock=max(known or 0, max((it.version for it in rows.values()), default=0))
        ),
        aside=tuple(aside),
        more=more,
        extras={(row.key, row.version): extra for row, extra in good if extra},
        notes=(*notes, *_odd(found, known, more, good)),
    )


def _odd(
    found: Mapping[str, object], clock: int | None, more: Iterable[str], good: Iterable[tuple[Row, Extra]]
) -> Iterator[str]:
    """What of a file that can be read is odd all the same, a sentence each: nothing of it is dropped."""
    if clock is None and found:
        what = (
            f"its clock is {shorten(plain_text(found['clock']), 60)}"
            if "clock" in found
            else "it has no clock"
        )
        yield f"{FILE}.json: {what}: it goes on from the highest version of its rows"
    if keys := ", ".join(sorted(map(shorten, more))):
        yield f"{FILE}.json: a newer version wrote {keys}: kept as it was found"
    for row, extra in good:
        name = f"the row {shorten(row.id)} of {shorten(row.author)} in {FILE}.json"
        if clock is not None and row.version > clock:
            yield f"{name}: its version {row.version} is beyond the clock {clock}, which goes on from there"
        if keys := ", ".join(sorted(map(shorten, extra))):
            yield f"{name}: a newer version wrote {keys}: kept as it was found until the row is said anew"


def _sorted_out(
    raws: Iterable[object], clock: int
) -> tuple[list[tuple[Row, Extra]], list[object], list[str]]:
    """The rows that are as they should be, the others as they are, and a sentence of each of these.

    Each row comes with what this version does not know of it. `clock` is what was kept: no version is far
    beyond it, and of two rows of a key the later one is the row (SYNC-5).
    """
    good, aside, notes = dict[Key, tuple[Row, object]](), list[object](), list[str]()
    for raw in raws:
        try:
            row = sound_from(raw)
            if row.version > clock + JUMP:
                raise ValueError(f"{row.id}: its version {row.version} is none that changes lead to")
            if row.url and place_of(row.url) is None:
                raise ValueError(f"{row.id}: its URL cannot be understood")
        except ValueError as error:
            aside.append(writable(raw))
            notes.append(f"a row of {FILE}.json is kept aside: {error}")
        else:
            other = good.get(row.key)
            if other is None or row.order > other[0].order:
                good[row.key] = row, raw
            if other is not None:
                kept = good[row.key][0]
                earlier, found = other if kept is row else (row, raw)
                aside.append(writable(found))
                notes.append(_twice(earlier, kept))
    return [(row, _extra(raw, row)) for row, raw in good.values()], aside, notes


def _twice(earlier: Row, kept: Row) -> str:
    """The sentence of a row that another one of the same author and id takes the place of."""
    return (
        f"a row of {FILE}.json is kept aside: {shorten(earlier.id)} of {shorten(earlier.author)} is there"
        f" more than once, and this one is version {earlier.version}: version {kept.version} counts"
    )


def _extra(raw: object, row: Row) -> Extra:
    """What a row has that this version does not know."""
    known = row_to(row).keys()
    found = raw if isinstance(raw, Mapping) else {}
    return {str(key): writable(it) for key, it in found.items() if key not in known}


def writable(raw: object) -> object:
    """What was found, as a state file can hold it: a number beyond all, or what is too deep, as a text."""
    if is_deeper(raw, DEEPEST):
        return plain_text(raw)
    try:
        json.dumps(raw, allow_nan=False)
    except ValueError:
        return plain_text(raw)
    return raw


def _list(value: object) -> list[object]:
    """A list; anything else that stands in its place is one broken thing, and is kept as such."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
