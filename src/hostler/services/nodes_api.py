"""What the control API asks of nodes: this one's own work for its head, and the list of all for people.

Decides the calls and nothing else. `services.node_door` implements the first; the second is
`services.contact` on a head, and `services.neighbours` on every other node.
"""

from __future__ import annotations

from typing import Protocol

from hostler.wire.nodes import (
    EndCall,
    FenceCall,
    Heard,
    HeldCall,
    MemoryAnswer,
    NodeAnswer,
    NodeList,
    OperationAnswer,
    OperationCall,
    ProcessCall,
    ReceiptAnswer,
    ReportAnswer,
)


class NodeApi(Protocol):
    """The node API of this host (NODE-1): for other nodes, with this host's key."""

    async def now(self) -> NodeAnswer:
        """This node as it is."""
        ...

    async def operate(self, call: OperationCall) -> OperationAnswer:
        """One operation: preflight, observe, perform or verify."""
        ...

    async def receipt(self, id_: str) -> ReceiptAnswer:
        """What became of an operation. Refuses `not_found`."""
        ...

    async def held(self, call: HeldCall) -> Heard:
        """What leases hold here from now on (LEASE-15)."""
        ...

    async def fence(self, call: FenceCall) -> Heard:
        """The deployment fence as it stands now (LEASE-28)."""
        ...

    async def register(self, call: ProcessCall) -> Heard:
        """A process of this host works under a lease (JOB-5)."""
        ...

    async def end_processes(self, call: EndCall) -> Heard:
        """End what works under a lease here (F03)."""
        ...

    async def memory(self) -> MemoryAnswer:
        """What this node knows of the schedule (LEASE-8)."""
        ...

    async def report(self, window: str) -> ReportAnswer:
        """What this host wrote down of a window's restore (WIN-4)."""
        ...


class NodesApi(Protocol):
    """The nodes of the fleet, for people."""

    async def nodes(self) -> NodeList:
        """Every node as this daemon knows it, in the config's order."""
        ...

    def away(self, host: str) -> str | None:
        """Why that host's node is known to be away; None where it is not, or nobody here asks it."""
        ...
