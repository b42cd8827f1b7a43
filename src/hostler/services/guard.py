"""The guard: what leases hold on this host, and the one question that every writer asks first (LEASE-15).

Decides that nobody but a lease's holder touches what the lease controls, and that no timer acts under a
fence. Which lease holds what is told by the schedule (`Node.adopt`). Whether an engine may start is the
gate's decision, which asks here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hostler.domain.fence import Fence
from hostler.domain.fleet import frozen
from hostler.domain.holding import Holding, place, refusal
from hostler.domain.moment import Moment, passed
from hostler.domain.values import Requester


@dataclass(eq=False, slots=True, kw_only=True)
class Posts:
    """What was told last. `freed`: something ended since `take_freed` was called."""

    held: Mapping[str, Holding] = field(default_factory=lambda: frozen({}))
    fence: Fence | None = None
    freed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is leased on this host now, and the fence that is up. All reads are of memory."""

    posts: Posts = field(default_factory=Posts)

    def holding(self, kind: str, name: str) -> Holding | None:
        """The lease that has it (`engine`, `route`, `hold`), None when nobody has."""
        held = self.posts.held
        return held.get(place(kind, name)) if held else None

    def check(self, kind: str, name: str, by: Requester, now: datetime) -> None:
        """Refuse `leased` when a lease of somebody else has it; the holder passes with its own (LEASE-15)."""
        held = self.holding(kind, name)
        if held is not None and not held.is_of(by):
            raise refusal(kind, name, held, now)

    def proven(self, by: Requester) -> str | None:
        """The lease that `by` names, when it holds something here and was taken with the same key."""
        if not by.lease:
            return None
        return next((it.lease for it in self.posts.held.values() if it.is_of(by)), None)

    def fence(self, now: Moment) -> Fence | None:
        """The fence that is up: it comes down by itself at its time, one that cannot be read does not."""
        fence = self.posts.fence
        if fence is None or (fence.unreadable is None and passed(fence.until, now)):
            return None
        return fence

    # ------------------------------------------------------------ for the node

    def adopt(self, held: Mapping[str, Holding]) -> None:
        """From here on these are held, and no others."""
        gone = any(place not in held for place in self.posts.held)
        self.posts.freed = self.posts.freed or gone
        self.posts.held = frozen(held)

    def raise_fence(self, fence: Fence | None) -> None:
        """From here on this fence is up, or none."""
        self.posts.freed = self.posts.freed or (self.posts.fence is not None and fence is None)
        self.posts.fence = fence

    def take_freed(self, now: Moment) -> bool:
        """Whether something ended since the last call: what waited for it is tried again at once."""
        if self.posts.fence is not None and self.fence(now) is None:
            self.raise_fence(None)
        freed, self.posts.freed = self.posts.freed, False
        return freed
