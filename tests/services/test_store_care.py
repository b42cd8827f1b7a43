"""The schedule's store looked after while the daemon runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from hostler.domain.errors import InvalidRequest
from hostler.services.store_care import NewEpoch, StoreCare
from hostler.wire.schedule import BackupBody
from tests.fakes.schedule_world import head


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """A store that began anew."""

    epoch: str = "ep_2"
    aside: str | None = None


@dataclass(kw_only=True)
class Kept:
    """A store in a file, that remembers what was asked of it."""

    backups: list[Path] = field(default_factory=list)
    known: list[Sequence[str]] = field(default_factory=list)

    async def backup(self, target: Path) -> None:
        self.backups.append(target)

    async def recover(self, now: datetime, *, known: Sequence[str] = ()) -> NewEpoch:
        self.known.append(known)
        return Epoch(aside=f"{now:%H}")


@pytest.mark.parametrize("file", ["", "here.db", "/", "/tmp/\x00x", "/tmp/a\nb", "../x"])
async def test_a_backup_goes_to_a_whole_path_of_a_file(file: str) -> None:
    """REL-4: what names no file from / on is refused, and nothing is written."""
    async with head() as it:
        kept = Kept()
        care: StoreCare = it.parts.care(kept)
        with pytest.raises(InvalidRequest):
            await care.backup(BackupBody(file=file))
        assert kept.backups == []
        assert (await care.backup(BackupBody(file="/srv/b.db"))).file == "/srv/b.db"
        assert kept.backups == [Path("/srv/b.db")]


async def test_a_recovery_says_what_it_began() -> None:
    """REL-4, LEASE-8: a new epoch begins after those of the nodes; the answer says where the old is."""
    async with head() as it:
        kept = Kept()
        told = await it.parts.care(kept).recover()
        assert (told.epoch, told.kept_as, list(told.stuck)) == ("ep_2", "20", [])
        assert kept.known == [[]]
