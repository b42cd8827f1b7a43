"""Endpoints of jobs and of the history: each call is a service's, in the form of the wire.

Decides nothing but the form. Who may report for a job is `services.jobs`' decision.
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.idempotency import request_id
from hostler.interfaces.api.shapes import History, HistoryQuery
from hostler.wire.jobs import FinishBody, JobBody, JobsQuery, UpdateBody


async def start(call: Call) -> Response:
    """The job of that request (JOB-1)."""
    body = call.body(JobBody)
    return json_answer(await call.control.jobs.start(body, request_id(call.headers), call.who, call.by))


async def update(call: Call) -> Response:
    """All of the update is applied, or nothing (R67)."""
    body = call.body(UpdateBody)
    return json_answer(await call.control.jobs.update(call.path["job"], body, call.who, call.by))


async def finish(call: Call) -> Response:
    """It is over, for ever (JOB-2)."""
    body = call.body(FinishBody)
    return json_answer(await call.control.jobs.finish(call.path["job"], body, call.who, call.by))


async def job(call: Call) -> Response:
    """One job, with its measured values."""
    return json_answer(await call.control.jobs.job(call.path["job"]))


async def jobs(call: Call) -> Response:
    """A page of jobs."""
    return json_answer(await call.control.jobs.jobs(call.query(JobsQuery)))


async def history(call: Call) -> Response:
    """What the history file has, through its rotation (HIST-2)."""
    asked = call.query(HistoryQuery)
    found = await call.control.history.read(
        lease=asked.lease, job=asked.job, since_s=asked.since_s, limit=asked.limit
    )
    return json_answer(History(at=call.control.status.at(), events=tuple(found)))
