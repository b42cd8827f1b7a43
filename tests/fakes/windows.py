"""The services of modes and windows as an API test needs them: calls are kept, answers are what was set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hostler.domain.errors import Refusal
from hostler.domain.values import Requester
from hostler.services.keys import Principal
from hostler.wire.schedule import LeaseList, OneLease, WindowPart
from hostler.wire.windows import (
    AbortBody,
    CloseBody,
    ModePlan,
    ModesNow,
    OpenBody,
    WindowReport,
    WindowsQuery,
)
from tests.fakes.schedule import AT, LEASE, Asked

PART = WindowPart(
    mode="heavy",
    hosts=("crow",),
    cap_at=AT,
    stop_accepting_at=AT,
    closing=False,
    strikes=(),
    hold_until={"crow": AT},
)
WINDOW = replace(LEASE, kind="window", window=PART, limited_by="cap")


@dataclass(slots=True)
class FakeWindows:
    """The service `WindowsApi`. `refuses` is raised by every call while it is set."""

    refuses: Refusal | None = None
    asked: list[Asked] = field(default_factory=list)

    async def open(self, body: OpenBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        return self._one("open", body, request_id, who, by)

    async def close(self, id_: str, body: CloseBody, who: Principal, by: Requester) -> OneLease:
        return self._one("close", id_, body, who, by)

    async def abort(self, id_: str, body: AbortBody, who: Principal, by: Requester) -> OneLease:
        return self._one("abort", id_, body, who, by)

    async def windows(self, query: WindowsQuery) -> LeaseList:
        self._hear("windows", query)
        return LeaseList(at=AT, leases=(WINDOW,), next=None)

    async def status(self, id_: str) -> OneLease:
        return self._one("status", id_)

    async def report(self, id_: str) -> WindowReport:
        self._hear("report", id_)
        return WindowReport(
            at=AT,
            lease=id_,
            mode="heavy",
            state="released",
            cause="closed",
            opened_at=AT,
            ended_at=AT,
            strikes=(),
            engines=(),
            wrong=(),
            steps=(),
        )

    def _one(self, call: str, *given: object) -> OneLease:
        self._hear(call, *given)
        return OneLease(at=AT, lease=WINDOW)

    def _hear(self, call: str, *given: object) -> None:
        self.asked.append(Asked(call, given))
        if self.refuses is not None:
            raise self.refuses


@dataclass(slots=True)
class FakeModes:
    """The service `ModesApi`: no mode at all."""

    asked: list[Asked] = field(default_factory=list)

    async def modes(self) -> ModesNow:
        self.asked.append(Asked("modes", ()))
        return ModesNow(at=AT, present=None, nearest=None, window=None, modes=())

    async def plan(self, name: str, cap_s: float | None = None) -> ModePlan:
        self.asked.append(Asked("plan", (name, cap_s)))
        return ModePlan(
            at=AT,
            mode=name,
            resource="pair",
            covers=("pair",),
            cap_s=3600.0,
            drain_before_s=600.0,
            hosts=(),
            steps=(),
        )
