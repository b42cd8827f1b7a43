"""Endpoints of leases, resources and the fence: each call is the schedule's, in the form of the wire.

Decides nothing but the form. Who may do what to whose lease is `services.schedule`'s decision.
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.idempotency import request_id
from hostler.wire.schedule import (
    BackupBody,
    CancelBody,
    ClaimBody,
    FenceBody,
    LeasesQuery,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
)


async def reserve(call: Call) -> Response:
    """The lease of that request: its `state` says whether it is active, waits, or is being activated."""
    schedule, body = call.control.schedule, call.body(ReserveBody)
    return json_answer(await schedule.reserve(body, request_id(call.headers), call.who, call.by))


async def renew(call: Call) -> Response:
    """Its place is kept, its offer taken up, or it is extended (LEASE-17, LEASE-24)."""
    body = call.body(RenewBody)
    return json_answer(await call.control.schedule.renew(call.path["lease"], body, call.who, call.by))


async def release(call: Call) -> Response:
    """It is put back; with `wait_s` the answer comes when that is done (LEASE-13)."""
    body = call.body(ReleaseBody)
    return json_answer(await call.control.schedule.release(call.path["lease"], body, call.who, call.by))


async def cancel(call: Call) -> Response:
    """It is called off, whatever its state (LEASE-16)."""
    body = call.body(CancelBody)
    return json_answer(await call.control.schedule.cancel(call.path["lease"], body, call.who, call.by))


async def claim(call: Call) -> Response:
    """Its offer is taken up (LEASE-24)."""
    body = call.body(ClaimBody)
    return json_answer(await call.control.schedule.claim(call.path["lease"], body, call.who, call.by))


async def register(call: Call) -> Response:
    """The process group is known to its node (JOB-5)."""
    body = call.body(ProcessBody)
    return json_answer(await call.control.schedule.register(call.path["lease"], body, call.who, call.by))


async def lease(call: Call) -> Response:
    """One lease."""
    return json_answer(await call.control.schedule.lease(call.path["lease"]))


async def leases(call: Call) -> Response:
    """A page of leases."""
    return json_answer(await call.control.schedule.leases(call.query(LeasesQuery)))


async def resources(call: Call) -> Response:
    """Everything that can be leased."""
    return json_answer(await call.control.schedule.resources())


async def why(call: Call) -> Response:
    """Each condition of a grant (LEASE-23)."""
    return json_answer(await call.control.schedule.why(call.path["resource"]))


async def fence(call: Call) -> Response:
    """The fence is up, or down (LEASE-28)."""
    body = call.body(FenceBody)
    return json_answer(await call.control.schedule.fence(body, call.who, call.by))


async def fence_now(call: Call) -> Response:
    """The fence as it is."""
    return json_answer(await call.control.schedule.fence_now())


async def backup(call: Call) -> Response:
    """The store is copied, whole, while writers go on (REL-4)."""
    return json_answer(await call.control.care.backup(call.body(BackupBody)))


async def recover(call: Call) -> Response:
    """A new epoch, with what the nodes remember as stuck (LEASE-8)."""
    return json_answer(await call.control.care.recover())
