"""The schedule's store looked after while the daemon runs: backed up, and begun anew (REL-4, LEASE-8).

Decides that after a new epoch the nodes are asked before anything is granted. What is done to files is the
store's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from hostler.domain.errors import InvalidRequest
from hostler.domain.values import rfc3339, shorten
from hostler.services.fences import Fences
from hostler.services.going_back import GoingBack
from hostler.services.holdings import Holders
from hostler.services.needs import Clock
from hostler.wire.schedule import BackupBody, Cared


class NewEpoch(Protocol):
    """A store that began a new epoch."""

    @property
    def epoch(self) -> str:
        """The new one."""
        ...

    @property
    def aside(self) -> str | None:
        """Where the file is kept that could not be read; None when it is the same one."""
        ...


class KeptStore(Protocol):
    """A store that lies in a file."""

    async def backup(self, target: Path) -> None:
        """Copy it to a new file. Refuses `schedule_unavailable`, `invalid_request` for one that is there."""
        ...

    async def recover(self, now: datetime, *, known: Sequence[str] = ()) -> NewEpoch:
        """Begin a new epoch after all of `known`; a file that cannot be read is set aside."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCare:
    """The need `CareApi`, on the head."""

    store: KeptStore
    back: GoingBack
    holders: Holders
    fences: Fences
    clock: Clock

    async def backup(self, body: BackupBody) -> Cared:
        """Copy the store, whole and consistent, while writers go on. Refuses `invalid_request`."""
        target = Path(body.file)
        if not target.is_absolute() or not target.name or not body.file.isprintable():
            raise InvalidRequest(
                what=f"{shorten(body.file)!r} is no whole path of a file.",
                expected="Name a new file on the daemon's machine, from / on.",
                where="file",
            )
        await self.store.backup(target)
        return Cared(at=rfc3339(self.clock.now()), file=str(target))

    async def recover(self) -> Cared:
        """A new epoch; what the nodes remember and the store does not is stuck (LEASE-8)."""
        begun = await self.store.recover(self.clock.now(), known=await self.back.epochs())
        stuck = await self.back.look()
        self.back.waive()
        await self.fences.mirror()
        await self.holders.sync()
        return Cared(
            at=rfc3339(self.clock.now()),
            epoch=begun.epoch,
            kept_as=begun.aside,
            stuck=tuple(lease.id for lease in stuck),
        )
