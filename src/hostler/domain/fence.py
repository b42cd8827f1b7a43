"""The deployment fence: while it is up nothing expires and nothing is promoted (LEASE-28).

Decides how long it may be up and when it comes down by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.domain.moment import Moment

LONGEST_S: Final = 2 * 3600.0
"""A fence is up for at most two hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fence that is up: since when, until when, who put it up and why.

    `unreadable` says why the record cannot be read: then it is up (fail closed), without an end.
    """

    since: Moment
    until: Moment
    by: str
    reason: str
    unreadable: str | None = None
