"""Upstreams that fail are left alone for a while (GW-13): 1 s to 60 s, with jitter, one probe at a time.

Decides whether an upstream is asked now. Engines have a start policy of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.errors import UpstreamUnreachable
from hostler.domain.fleet import Target, UpstreamTarget
from hostler.services.needs import Clock, Ids

FIRST_S: Final = 1.0
MOST_S: Final = 60.0


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

    def check(self, name: str) -> None:
        """Refuses `upstream_unreachable` while it is off; after that the first caller is the probe."""
        found = self.off.get(name)
        if found is None:
            return
        left = found.until - self.clock.elapsed()
        if left > 0 or found.probing:
            raise UpstreamUnreachable(
                target=name,
                why=f"it failed {found.failures} times in a row and is left alone",
                retry_after=max(1, round(left)),
            )
        found.probing = True

    def failed(self, name: str, retry_after: float | None = None) -> None:
        """It failed: off for 1 s doubling to 60 s, up to a quarter more; its own Retry-After wins."""
        found = self.off.setdefault(name, _Off())
        found.failures += 1
        wait = min(MOST_S, FIRST_S * 2.0 ** (found.failures - 1)) * (1 + self.ids.jitter() / 4)
        found.until = self.clock.elapsed() + (retry_after if retry_after is not None else wait)
        found.probing = False

    def worked(self, name: str) -> None:
        """It answered."""
        self.off.pop(name, None)

    def last(self, targets: Sequence[Target]) -> Sequence[Target]:
        """The targets with those that are off at the end, when there are others."""
        on = [it for it in targets if not (isinstance(it, UpstreamTarget) and self.is_off(it.upstream))]
        return (*on, *(it for it in targets if it not in on)) if on else targets
