"""The control API as one table: from it come the routes, the description and the reference page (API-1).

Decides which calls there are, the scope that each needs, and the refusals that it may give.
"""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import (
    CursorReset,
    EngineNotFound,
    InvalidConfig,
    LimitReached,
    MemoryResidue,
    ModelNotFound,
    NodeUnreachable,
    NotFound,
    NotLaunchable,
    OrchestrationDisabled,
    Refusal,
    ScheduleUnavailable,
    StopUnverified,
    UpstreamUnreachable,
)
from hostler.interfaces.api import changing, reading, schedule
from hostler.interfaces.api.acquire import acquire
from hostler.interfaces.api.answers import SSE
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.node_endpoints import NODES
from hostler.interfaces.api.ports import PORTS
from hostler.interfaces.api.refusing import STARTING
from hostler.interfaces.api.schedule_endpoints import SCHEDULING
from hostler.interfaces.api.shapes import (
    AcquireBody,
    Acquired,
    Cancelled,
    CatalogList,
    DrainBody,
    Drained,
    EngineList,
    EventsQuery,
    HoldNow,
    LogQuery,
    Logs,
    OneEngine,
    OneRoute,
    PageQuery,
    ProfileBody,
    ReloadBody,
    Reloaded,
    RequestList,
    RouteList,
    Schedule,
    ScheduleQuery,
    StartBody,
    StopBody,
    Why,
    WhyQuery,
)
from hostler.interfaces.api.sync_endpoints import SYNCING
from hostler.interfaces.api.window_endpoints import WINDOWING
from hostler.services.keys import Scope
from hostler.services.picture import Health, Picture

Codes = tuple[type[Refusal], ...]

STOPPING: Final[Codes] = (EngineNotFound, OrchestrationDisabled, NotLaunchable, StopUnverified, MemoryResidue)

ENGINE: Final = "/v1/hostler/engines/{engine}"

READING: Final = (
    Endpoint(
        method="GET",
        path="/health",
        scope=None,
        summary="Whether the daemon's work goes on: how late its loop, its keeper and its event log are.",
        handler=reading.health,
        answer=Health,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        scope=Scope.STATUS,
        summary="Metrics in the text form of Prometheus.",
        handler=reading.metrics,
        media="text/plain",
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/status",
        scope=Scope.STATUS,
        summary="The whole picture of this host at one instant; its requests only for who may read logs.",
        handler=reading.status,
        answer=Picture,
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/engines",
        scope=Scope.STATUS,
        summary="The engines of this host, in the config's order.",
        handler=reading.engines,
        query=PageQuery,
        answer=EngineList,
        refusals=(CursorReset,),
    ),
    Endpoint(
        method="GET",
        path=ENGINE,
        scope=Scope.STATUS,
        summary="One engine.",
        handler=reading.engine,
        answer=OneEngine,
        refusals=(EngineNotFound,),
    ),
    Endpoint(
        method="GET",
        path=f"{ENGINE}/why",
        scope=Scope.STATUS,
        summary="Every check of the gate in order with its result; starts nothing.",
        handler=reading.why,
        query=WhyQuery,
        answer=Why,
        refusals=(EngineNotFound,),
    ),
    Endpoint(
        method="GET",
        path=f"{ENGINE}/logs",
        scope=Scope.LOGS,
        summary="The last lines of an engine's log; with `follow` as server-sent events that go on.",
        handler=reading.logs,
        query=LogQuery,
        answer=Logs,
        refusals=(EngineNotFound, NodeUnreachable),
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/catalog",
        scope=Scope.STATUS,
        summary="The catalog's entries by their ids: class, shapes, and what is offered of each.",
        handler=reading.catalog,
        query=PageQuery,
        answer=CatalogList,
        refusals=(CursorReset,),
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/routes",
        scope=Scope.STATUS,
        summary="The routes of this gateway with their profiles, and where each leads.",
        handler=reading.routes,
        query=PageQuery,
        answer=RouteList,
        refusals=(CursorReset,),
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/requests",
        scope=Scope.LOGS,
        summary="The inference requests under way, oldest first.",
        handler=reading.requests,
        query=PageQuery,
        answer=RequestList,
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/hold",
        scope=Scope.STATUS,
        summary="The hold of this host as the gate sees it, and whom it has refused.",
        handler=reading.hold,
        answer=HoldNow,
    ),
    Endpoint(
        method="GET",
        path="/gateway/schedule",
        scope=Scope.SCHEDULE_READ,
        summary="A consistent snapshot with its cursor; with `since` every later event once, in order.",
        handler=schedule.schedule,
        query=ScheduleQuery,
        answer=Schedule,
        refusals=(CursorReset, ScheduleUnavailable),
    ),
    Endpoint(
        method="GET",
        path="/gateway/events",
        scope=Scope.SCHEDULE_READ,
        summary="Later events as a stream; `Last-Event-ID` goes on where a cut stream ended.",
        handler=schedule.events,
        query=EventsQuery,
        media=SSE,
        refusals=(CursorReset, ScheduleUnavailable),
    ),
)

CHANGING: Final = (
    Endpoint(
        method="POST",
        path=f"{ENGINE}/start",
        scope=Scope.ENGINES,
        summary="Start an engine and wait until it is ready; ready already is a success.",
        handler=changing.start,
        body=StartBody,
        answer=OneEngine,
        also=changing.GOES_ON,
        refusals=STARTING,
    ),
    Endpoint(
        method="POST",
        path=f"{ENGINE}/stop",
        scope=Scope.ENGINES,
        summary="Stop an engine: requests under way may finish first, then end with an error frame.",
        handler=changing.stop,
        body=StopBody,
        answer=OneEngine,
        refusals=STOPPING,
    ),
    Endpoint(
        method="POST",
        path=f"{ENGINE}/drain",
        scope=Scope.ENGINES,
        summary="Take no new requests and let those under way finish; at the deadline end them.",
        handler=changing.drain,
        body=DrainBody,
        answer=Drained,
        refusals=STOPPING,
    ),
    Endpoint(
        method="POST",
        path=f"{ENGINE}/suspend",
        scope=Scope.ENGINES,
        summary="Stop an engine and keep it stopped, across restarts, until `resume`.",
        handler=changing.suspend,
        body=DrainBody,
        answer=OneEngine,
        refusals=STOPPING,
    ),
    Endpoint(
        method="POST",
        path=f"{ENGINE}/resume",
        scope=Scope.ENGINES,
        summary="Let a suspended engine start again, and a draining one take requests again.",
        handler=changing.resume,
        answer=OneEngine,
        refusals=(EngineNotFound, OrchestrationDisabled, NotLaunchable),
    ),
    Endpoint(
        method="POST",
        path=f"{ENGINE}/clear",
        scope=Scope.ENGINES,
        summary="Let a failed engine be tried again at once.",
        handler=changing.clear,
        answer=OneEngine,
        refusals=(EngineNotFound,),
    ),
    Endpoint(
        method="POST",
        path="/v1/hostler/routes/{name:path}/profile",
        scope=Scope.ENGINES,
        summary="Make a profile of a route the active one; requests under way finish where they are.",
        handler=changing.switch,
        body=ProfileBody,
        answer=OneRoute,
        refusals=(NotFound,),
    ),
    Endpoint(
        method="POST",
        path="/v1/hostler/config/reload",
        scope=Scope.ADMIN,
        summary="Read the config file again and take it up; what runs goes on as it is.",
        handler=changing.reload,
        body=ReloadBody,
        answer=Reloaded,
        refusals=(InvalidConfig, LimitReached),
    ),
    Endpoint(
        method="POST",
        path="/v1/hostler/requests/{request}/cancel",
        scope=Scope.ENGINES,
        summary="End a request under way with an error frame.",
        handler=changing.cancel,
        answer=Cancelled,
        refusals=(NotFound,),
    ),
    Endpoint(
        method="POST",
        path="/llm/acquire",
        scope=Scope.INFER,
        summary="Warm an engine, or the engine of a route, and wait until it is ready.",
        handler=acquire,
        body=AcquireBody,
        answer=Acquired,
        refusals=(ModelNotFound, NotFound, NodeUnreachable, UpstreamUnreachable, *STARTING),
        flat=True,
    ),
)

ENDPOINTS: Final = (*READING, PORTS, *CHANGING, *SCHEDULING, *NODES, *SYNCING, *WINDOWING)
"""Every endpoint of the control API, but its own description (`interfaces.api.app`)."""
