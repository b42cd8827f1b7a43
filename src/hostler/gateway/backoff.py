"""Upstreams that fail are left alone for a while (GW-13): 1 s to 60 s, with jitter, one probe at a time.

Decides whether an upstream is asked now. Engines have a start policy of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from hostler.domain.errors import UpstreamUnreachable
from hostler.domain.fleet import Target, UpstreamTarget
from hostler.services.needs import Clock, Ids

FIRST_S: Final = 1.0
MOST_S: Final = 60.0
MOST_ASKED_S: Final = 3600.0
"""An upstream that asks for more is tried again after this."""


@dataclass(eq=False, slots=True)
class _Off:
    """One failing upstream: failures in a row, until when it is off, and whether a probe is out."""

    failures: int = 0
    until: float = 0.0
    probing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The failing upstreams of one gateway, by name."""

    clock: Clock
    ids: Ids
    off: dict[str, _Off] = field(default_factory=dict)

    def is_off(self, name: str) -> bool:
        """Whether it would be refused now."""
        found = self.off.get(name)
        return found is not None and (found.probing or self.clock.elapsed() < found.until)

    def check(self, name: str) -> bool:
        """Whether the caller is its probe: the first one after its time. It says `probed` when it is done.

        Refuses `upstream_unreachable` while it is off, and while a probe is out.
        """
        found = self.off.get(name)
        if found is None:
            return False
        left = found.until - self.clock.elapsed()
        if left > 0 or found.probing:
            raise UpstreamUnreachable(
                target=name,
                why=f"it failed {found.failures} times in a row and is left alone",
                retry_after=max(1, round(left)),
            )
        found.probing = True
        return True

    def probed(self, name: str) -> None:
        """The probe is over, however it ended; one that learned nothing leaves its turn to the next."""
        found = self.off.get(name)
        if found is not None:
            found.probing = False

    def failed(self, name: str, retry_after: float | None = None) -> None:
        """It failed: off for 1 s doubling to 60 s, up to a quarter more; its own Retry-After wins.

        Requests that were under way when it failed and fail as well are the same failure, not the next.
        """
        found = self.off.setdefault(name, _Off())
        if self.clock.elapsed() < found.until and retry_after is None:
            return
        found.failures += 1
        wait = min(MOST_S, FIRST_S * 2.0 ** (found.failures - 1)) * (1 + self.ids.jitter() / 4)
        found.until = self.clock.elapsed() + (wait if retry_after is None else min(retry_after, MOST_ASKED_S))

    def worked(self, name: str) -> None:
        """It answered."""
        self.off.pop(name, None)

    def last(self, targets: Sequence[Target]) -> Sequence[Target]:
        """The targets with those that are off at the end, when there are others."""
        on = [it for it in targets if not (isinstance(it, UpstreamTarget) and self.is_off(it.upstream))]
        return (*on, *(it for it in targets if it not in on)) if on else targets


def fails(status: int, retry_after: bytes | None) -> bool:
    """Whether an answer says that its sender is not well, and not that one request was too much for it."""
    return status in (502, 503, 504) or (status == 429 and retry_after is not None)


def asked_for(retry_after: bytes | None, now: datetime) -> float | None:
    """The seconds of a `Retry-After`, a number or a date; None without one that can be read."""
    text = (retry_after or b"").decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError):
        return None
