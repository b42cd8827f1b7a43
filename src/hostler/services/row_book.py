"""The rows that this node keeps, and its Lamport clock: `sync.json` (SYNC-1, SYNC-5).

Decides that a change is durable before anybody is told of it, and that what is no change writes nothing. A
row of the file that is not as it should be is kept aside and named, never dropped. What a row means is
`domain.registry`'s decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.addresses import place_of
from hostler.domain.errors import StoreFull
from hostler.domain.registry import JUMP, Registry, Row, homes_of
from hostler.domain.values import whole
from hostler.services.needs import StateFiles
from hostler.services.present import Present
from hostler.services.sync_needs import Interfaces
from hostler.wire.sync import MAX_VERSION, row_to, sound_from

FILE: Final = "sync"
ASIDE: Final = "it is kept as sync.json.unreadable-… once another is written"


@dataclass(eq=False, slots=True, kw_only=True)
class Kept:
    """What is kept. `aside` are rows of the file as they were found, with `notes`.

    `trouble` is of a file that could not be read at all: told as long as this daemon runs.
    """

    registry: Registry
    aside: tuple[object, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: str = ""


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
        """Make of the rows what `how` says: on disk, then in force. Whether that was any change.

        Refuses `store_full`, and what `how` refuses; nothing is changed then.
        """
        async with self.lock:
            after = how(self.kept.registry)
            if after == self.kept.registry:
                return False
            try:
                await asyncio.to_thread(self.files.save, FILE, self._file(after))
            except OSError as error:
                raise StoreFull(file=f"{FILE}.json", why=error.strerror or str(error)) from error
            self.kept.registry = after
            await self.share(self.resolved())
            return True

    async def look_again(self) -> None:
        """The rows are the same, and whom the config pairs with, or this node's addresses, may not be."""
        async with self.lock:
            await self.share(self.resolved())

    def _file(self, registry: Registry) -> Mapping[str, object]:
        return {
            "clock": registry.clock,
            "rows": [row_to(row) for row in registry.rows.values()],
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
    known = whole(found.get("clock"), 0, MAX_VERSION) or 0
    good, aside, notes = _sorted_out([*_list(found.get("rows")), *_list(found.get("aside"))], known)
    highest = max((row.version for row in good), default=0)
    return Kept(
        registry=Registry(node=node, rows={row.key: row for row in good}, clock=max(known, highest)),
        aside=tuple(aside),
        notes=tuple(notes),
    )


def _sorted_out(raws: Iterable[object], clock: int) -> tuple[list[Row], list[object], list[str]]:
    """The rows that are as they should be, the others as they are, and a sentence of each of these.

    `clock` is what was kept of it: no version is far beyond it (SYNC-5).
    """
    good, aside, notes = list[Row](), list[object](), list[str]()
    for raw in raws:
        try:
            row = sound_from(raw)
            if row.version > clock + JUMP:
                raise ValueError(f"{row.id}: its version {row.version} is none that changes lead to")
            if row.url and place_of(row.url) is None:
                raise ValueError(f"{row.id}: its URL cannot be understood")
        except ValueError as error:
            aside.append(raw)
            notes.append(f"a row of {FILE}.json is kept aside: {error}")
        else:
            good.append(row)
    return good, aside, notes


def _list(value: object) -> list[object]:
    """A list; anything else that stands in its place is one broken thing, and is kept as such."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
