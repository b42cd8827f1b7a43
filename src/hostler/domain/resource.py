"""Resources: named things that one party at a time can lease, and what leasing one does (LEASE-1, LEASE-2).

Decides nothing: values that the config is turned into. The plan of a lease is `hostler.domain.plan`'s.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from hostler.domain.values import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that leasing a resource does (LEASE-2). `verb` says which of the fields count.

    `hold`: target is a host, `allow` its engines. `route`: target is a route, `to` a profile. `suspend`,
    `stop`, `start`: target is an engine. `exec`: `argv`, `undo`, `check`, `timeout_s`. `webhook`: target and
    `undo_url` are URLs, which may hold a secret. `definition` names an exec or webhook in the config:
    `RESOURCE/N`, counted from 1 in that resource.
    """

    verb: Literal["hold", "route", "suspend", "start", "stop", "exec", "webhook"]
    target: str = ""
    host: HostName
    allow: tuple[str, ...] = ()
    to: str = ""
    memory_back: bool = False
    argv: tuple[str, ...] = ()
    undo: tuple[str, ...] | None = None
    check: tuple[str, ...] | None = None
    undo_url: str | None = None
    timeout_s: float = 60.0
    definition: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of what a command or webhook does: equal where two configs say the same (CONF-6)."""
        if not self.definition:
            return ""
        parts = [self.argv, self.undo, self.check, self.target, self.undo_url, self.timeout_s]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that one party at a time can lease (LEASE-1). Durations in seconds.

    `covers` is itself and everything that it contains, `actions` what leasing it does: its own, else those
    of the inner ones in order (LEASE-3), in the config's order.
    """

    name: str
    title: str = ""
    hosts: tuple[HostName, ...]
    covers: tuple[str, ...]
    actions: tuple[Action, ...] = ()
    ttl_s: float = 3600.0
    max_s: float = 12 * 3600.0
    warn: tuple[float, ...] = (900.0, 300.0)
    indefinite: bool = False
    drain_s: float = 300.0
    queue_max: int = 20
    place_s: float = 120.0
    claim_s: float = 900.0
