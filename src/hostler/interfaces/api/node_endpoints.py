"""The nodes' rows of the endpoint table: what a head asks of a node, and the list for people (NODE-1, API-1).

Decides which calls there are, the scope that each needs, and the refusals that it may give.
"""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import (
    AlreadyRestored,
    BoxReserved,
    ConfigDiffers,
    Draining,
    EngineFailed,
    EngineNotFound,
    IdempotencyConflict,
    InvalidConfig,
    InvalidRequest,
    NodeOutdated,
    NotFound,
    OrchestrationDisabled,
    StaleGeneration,
    StepFailed,
    StoreFull,
)
from hostler.interfaces.api import acquire, nodes
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.ports import own_ports
from hostler.interfaces.api.reading import own_logs
from hostler.interfaces.api.refusing import STARTING
from hostler.interfaces.api.shapes import OwnLogQuery
from hostler.services.keys import Scope
from hostler.services.ports_live import LivePorts
from hostler.wire.nodes import (
    EndCall,
    FenceCall,
    Heard,
    HeldCall,
    LogAnswer,
    MemoryAnswer,
    NodeAnswer,
    NodeList,
    OperationAnswer,
    OperationCall,
    ProcessCall,
    ReceiptAnswer,
    ReportAnswer,
    WarmAnswer,
    WarmCall,
)

NODE: Final = "/v1/hostler/node"

NODES: Final = (
    Endpoint(
        method="GET",
        path="/v1/hostler/nodes",
        scope=Scope.STATUS,
        summary="The nodes of the fleet: which answer, their API number, clock, hold and leases.",
        handler=nodes.nodes,
        answer=NodeList,
    ),
    Endpoint(
        method="GET",
        path=NODE,
        scope=Scope.NODE,
        summary="This node for its head: API number, clocks, hold, and what it keeps for which lease.",
        handler=nodes.now,
        answer=NodeAnswer,
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/ops",
        scope=Scope.NODE,
        summary="One fenced operation: preflight, observe, perform, or verify; a repeat joins it.",
        handler=nodes.operate,
        body=OperationCall,
        answer=OperationAnswer,
        refusals=(
            NodeOutdated,
            ConfigDiffers,
            StaleGeneration,
            AlreadyRestored,
            IdempotencyConflict,
            InvalidRequest,
            NotFound,
            EngineNotFound,
            OrchestrationDisabled,
            BoxReserved,
            Draining,
            EngineFailed,
            StepFailed,
            StoreFull,
        ),
    ),
    Endpoint(
        method="GET",
        path=f"{NODE}/ops/{{operation}}",
        scope=Scope.NODE,
        summary="What became of an operation, by its receipt.",
        handler=nodes.receipt,
        answer=ReceiptAnswer,
        refusals=(NotFound,),
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/held",
        scope=Scope.NODE,
        summary="Everything that leases hold on this host from now on, with their ends as durations.",
        handler=nodes.held,
        body=HeldCall,
        answer=Heard,
        refusals=(NodeOutdated, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/fence",
        scope=Scope.NODE,
        summary="The deployment fence as it stands, so that this node knows it when cut off.",
        handler=nodes.fence,
        body=FenceCall,
        answer=Heard,
        refusals=(NodeOutdated, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/processes",
        scope=Scope.NODE,
        summary="Note a process group of this host that works under a lease.",
        handler=nodes.register,
        body=ProcessCall,
        answer=Heard,
        refusals=(NodeOutdated, InvalidRequest, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/processes/end",
        scope=Scope.NODE,
        summary="End the processes that were registered under a lease on this host.",
        handler=nodes.end_processes,
        body=EndCall,
        answer=Heard,
        refusals=(NodeOutdated,),
    ),
    Endpoint(
        method="GET",
        path=f"{NODE}/memory",
        scope=Scope.NODE,
        summary="What this node knows of the schedule by its receipts, and what it put back by itself.",
        handler=nodes.memory,
        answer=MemoryAnswer,
    ),
    Endpoint(
        method="GET",
        path=f"{NODE}/windows/{{window}}/report",
        scope=Scope.NODE,
        summary="What this host wrote down of a window's restore: each engine, and what is wrong.",
        handler=nodes.report,
        answer=ReportAnswer,
        refusals=(NotFound,),
    ),
    Endpoint(
        method="GET",
        path=f"{NODE}/ports",
        scope=Scope.NODE,
        summary="Who listens on this host, for another host's daemon.",
        handler=own_ports,
        answer=LivePorts,
        refusals=(InvalidConfig,),
    ),
    Endpoint(
        method="GET",
        path=f"{NODE}/engines/{{engine}}/logs",
        scope=Scope.NODE,
        summary="The last lines of the log of an engine of this host, for another host's daemon.",
        handler=own_logs,
        query=OwnLogQuery,
        answer=LogAnswer,
        refusals=(EngineNotFound,),
    ),
    Endpoint(
        method="POST",
        path=f"{NODE}/acquire",
        scope=Scope.NODE,
        summary="Have an engine of this host ready, through its own gate, for another host's gateway.",
        handler=acquire.warm,
        body=WarmCall,
        answer=WarmAnswer,
        refusals=(NodeOutdated, *STARTING),
    ),
)
"""Every call of other nodes, and the list of nodes."""
