"""The nodes of a fleet as one sees them that is not the head: itself, and when its head asked last.

Decides nothing: it asks nobody. The whole list is the head's (`services.contact`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from hostler.domain.values import HostName, rfc3339
from hostler.services.contact import view
from hostler.services.needs import Clock
from hostler.services.own_restore import OwnRestore
from hostler.services.present import Present
from hostler.wire.nodes import NodeAnswer, NodeList, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """`NodesApi` of a node that is not the head. `answer` is what it says of itself."""

    config: Present
    own: OwnRestore
    answer: Callable[[], NodeAnswer]
    clock: Clock

    async def nodes(self) -> NodeList:
        """Every node of the fleet, as far as this one knows of it."""
        return NodeList(at=rfc3339(self.clock.now()), nodes=tuple(map(self._view, self.config.fleet.hosts)))

    def away(self, host: str) -> str | None:
        """See `NodesApi.away`: nobody is asked from here."""

    def _view(self, host: HostName) -> NodeView:
        fleet = self.config.fleet
        here, head = host == fleet.here, host in fleet.head
        if here:
            return view(fleet.hosts[host].url, self.answer(), host=host, head=head, here=True, up=True)
        if not head:
            why = f"only {' or '.join(fleet.head)} asks it; `hostler nodes` there says how it is"
            return view(fleet.hosts[host].url, None, host=host, head=False, here=False, up=None, why=why)
        silent_s = self.own.silent_s
        since = None if silent_s is None else self.clock.now() - timedelta(seconds=silent_s)
        why = "it has not asked this node for anything yet" if silent_s is None else ""
        if self.own.is_cut_off:
            why = "it asks this node for nothing any more"
        return view(
            fleet.hosts[host].url,
            None,
            host=host,
            head=True,
            here=False,
            up=not self.own.is_cut_off if silent_s is not None or self.own.is_cut_off else None,
            since=since,
            why=why,
        )
