"""Writers of hold files at a fixed time, for the tests of writing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.hold_plan import Wanted

NOW = datetime(2026, 9, 4, 21, 0, tzinfo=UTC)


def at(path: Path, mode: int = 0o600) -> HoldWriter:
    """A writer of `path`, this boot being `b-1`."""
    return HoldWriter(reader=HoldFile(path=str(path), boot="b-1", now=lambda: NOW), mode=mode)


def wanted(
    owner: str = "w1", *, minutes: float = 30, take_over: str | None = None, reason: str = "r"
) -> Wanted:
    """A hold of that length from now."""
    ends = NOW + timedelta(minutes=minutes)
    return Wanted(owner=owner, reason=reason, expires_at=ends, take_over=take_over)


def kept(path: Path) -> list[Path]:
    """What lies beside the record, but the lock."""
    return sorted(it for it in path.parent.iterdir() if it not in (path, path.with_name("h.json.lock")))
