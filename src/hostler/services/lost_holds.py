"""Holds of active leases that are not their own now, as the nodes of their hosts said last (HOLD-9, HOLD-11).

Decides in which words it is told, and what puts it right. Asks nobody: a host that says nothing now, or has
said nothing since the lease became active, is passed over. A window's are looked at by `window_look`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from hostler.domain.hold_plan import LEASE_OWNER
from hostler.domain.lease import Lease, State
from hostler.domain.step import HoldHost
from hostler.domain.values import shorten
from hostler.wire.nodes import NodeAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a node said of its host, and when that was by the head's own clock."""

    answer: NodeAnswer
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHolds:
    """`said` gives what the node of a host said last; None where it does not answer now."""

    said: Callable[[str], Said | None]

    def wrong(self, lease: Lease) -> tuple[str, ...]:
        """A sentence for each host that the lease should hold and does not; none unless it is active."""
        if lease.state is not State.ACTIVE or lease.mode or lease.activated is None:
            return ()
        hosts = [it.host for it in lease.plan if isinstance(it, HoldHost)]
        return tuple(dict.fromkeys(self._lost(lease, hosts, lease.activated.at)))

    def _lost(self, lease: Lease, hosts: list[str], since: datetime) -> Iterator[str]:
        for host in hosts:
            said = self.said(host)
            if said is None or said.at <= since or said.answer.hold == f"{LEASE_OWNER}{lease.id}":
                continue
            owner, until = said.answer.hold, said.answer.hold_until or "an unknown time"
            if owner is None:
                way = f"`hostler renew {lease.id}` writes its hold again"
                endless = "its hold is written again within 10 min"
                yield f"{host} is not held any more: {way if lease.expires is not None else endless}"
            else:
                yield f"{host} is held by {shorten(owner)} until {until}, not by this lease"
