"""The rows of modes and windows in the endpoint table (API-1). Windows are the operators' (API-4)."""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import (
    ActivationFailed,
    BoxReserved,
    Fenced,
    HoldTaken,
    MemoryResidue,
    NodeUnreachable,
    NotFound,
    PortConflict,
    QueueFull,
    ServingClassRefused,
    SlotTaken,
    TtlRefused,
)
from hostler.interfaces.api import windows
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.schedule_endpoints import HELD, READS, WRITES
from hostler.services.keys import Scope
from hostler.wire.schedule import LeaseList, OneLease
from hostler.wire.windows import (
    AbortBody,
    CloseBody,
    ModePlan,
    ModesNow,
    OpenBody,
    PlanQuery,
    WindowReport,
    WindowsQuery,
)

MODES: Final = "/v1/hostler/modes"
WINDOWS: Final = "/v1/hostler/windows"
WINDOW: Final = f"{WINDOWS}/{{window:path}}"

WINDOWING: Final = (
    Endpoint(
        method="GET",
        path=MODES,
        scope=Scope.SCHEDULE_READ,
        summary="Every mode with how the fleet differs from it now, and which one it is in.",
        handler=windows.modes,
        answer=ModesNow,
        refusals=READS,
    ),
    Endpoint(
        method="GET",
        path=f"{MODES}/{{mode:path}}/plan",
        scope=Scope.SCHEDULE_READ,
        summary="What opening a window of the mode would do, with its arithmetic; changes nothing.",
        handler=windows.plan,
        query=PlanQuery,
        answer=ModePlan,
        refusals=(NotFound, *READS),
    ),
    Endpoint(
        method="POST",
        path=WINDOWS,
        scope=Scope.OPERATOR,
        summary="Open a window: a capped stay in a mode; refused before the first change, or put back.",
        handler=windows.open_window,
        body=OpenBody,
        answer=OneLease,
        own_repeats=True,
        refusals=(
            NotFound,
            ServingClassRefused,
            TtlRefused,
            QueueFull,
            SlotTaken,
            HoldTaken,
            Fenced,
            BoxReserved,
            PortConflict,
            MemoryResidue,
            NodeUnreachable,
            ActivationFailed,
            *WRITES,
        ),
    ),
    Endpoint(
        method="GET",
        path=WINDOWS,
        scope=Scope.SCHEDULE_READ,
        summary="The windows that there are, with their caps; with `ended` those that are over as well.",
        handler=windows.windows,
        query=WindowsQuery,
        answer=LeaseList,
        refusals=READS,
    ),
    Endpoint(
        method="POST",
        path=f"{WINDOW}/close",
        scope=Scope.OPERATOR,
        summary="Close a window: the standing mode is restored and verified.",
        handler=windows.close,
        body=CloseBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="POST",
        path=f"{WINDOW}/abort",
        scope=Scope.OPERATOR,
        summary="Abort a window: what works under it is ended, and everything is put back.",
        handler=windows.abort,
        body=AbortBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="GET",
        path=f"{WINDOW}/report",
        scope=Scope.SCHEDULE_READ,
        summary="How a window ended, and what came back: each engine, verified, its memory and seconds.",
        handler=windows.report,
        answer=WindowReport,
        refusals=HELD[:1] + READS,
    ),
    Endpoint(
        method="GET",
        path=WINDOW,
        scope=Scope.SCHEDULE_READ,
        summary="One window, with its steps.",
        handler=windows.status,
        answer=OneLease,
        refusals=HELD[:1] + READS,
    ),
)
