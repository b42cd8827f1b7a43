"""The rows' part of the endpoint table: for people, and for paired nodes with the key of their pair (SYNC-1).

Decides which calls there are, the scope that each needs, and the refusals that it may give.
"""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import InvalidRequest, NodeOutdated, NotFound, RowUnreached, StoreFull
from hostler.interfaces.api import sync
from hostler.interfaces.api.endpoint import Endpoint
from hostler.services.keys import Scope
from hostler.wire.sync import (
    ExchangeAnswer,
    ExchangeCall,
    ExplainView,
    ProbeAnswer,
    ProbeCall,
    PublishBody,
    Published,
    RetireBody,
    RowView,
    SyncView,
)

SYNC: Final = "/v1/hostler/sync"

SYNCING: Final = (
    Endpoint(
        method="GET",
        path=SYNC,
        scope=Scope.STATUS,
        summary="The rows that this node shares and is told, its paired nodes, and what to look at.",
        handler=sync.now,
        answer=SyncView,
    ),
    Endpoint(
        method="GET",
        path=f"{SYNC}/rows/{{row:path}}",
        scope=Scope.STATUS,
        summary="Why a row travels or stays, who claims its id, and whose word counts.",
        handler=sync.explain,
        answer=ExplainView,
        refusals=(NotFound,),
    ),
    Endpoint(
        method="POST",
        path=f"{SYNC}/publish",
        scope=Scope.ADMIN,
        summary="Tell the paired nodes of an engine or upstream of this node, once each has reached it.",
        handler=sync.publish,
        body=PublishBody,
        answer=Published,
        refusals=(NotFound, InvalidRequest, RowUnreached, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{SYNC}/retire",
        scope=Scope.ADMIN,
        summary="Tell the paired nodes that a row is over; it stops resolving at once.",
        handler=sync.retire,
        body=RetireBody,
        answer=RowView,
        refusals=(NotFound, InvalidRequest, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{SYNC}/exchange",
        scope=Scope.PEER,
        summary="For a paired node: take its rows, and answer with what is new for it.",
        handler=sync.exchange,
        body=ExchangeCall,
        answer=ExchangeAnswer,
        refusals=(NodeOutdated, InvalidRequest, StoreFull),
    ),
    Endpoint(
        method="POST",
        path=f"{SYNC}/probe",
        scope=Scope.PEER,
        summary="For a paired node: whether this one reaches a URL, and has its address. Asks nothing there.",
        handler=sync.probe,
        body=ProbeCall,
        answer=ProbeAnswer,
        refusals=(NodeOutdated, InvalidRequest),
    ),
)
"""Every sync call."""
