"""Which job a command means, and how it is reported on (JOB-1, JOB-6).

Decides that a job is named by its id, by $HOSTLER_JOB, or is this user's only open one. One of this user's is
reported on through its spool; another's, under whose lease we were started, with that lease's secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Final

from hostler.client import Client
from hostler.client.address import state_dir
from hostler.client.call import plain
from hostler.client.drive import drive
from hostler.client.job import JOBS, Jobs, Result
from hostler.client.saved import SavedLease, by_resource
from hostler.domain.errors import InvalidRequest, JobNotFound
from hostler.domain.values import shorten
from hostler.interfaces.cli.daemon import answer, at
from hostler.interfaces.cli.lease_env import JOB_VAR, LEASE_VAR, SECRET_VAR, read_secret
from hostler.interfaces.cli.own_leases import drawer, meant
from hostler.wire.jobs import OneJob, ProgressBody, ReceiptBody, UpdateBody

NOWHERE: Final = "0" * 32
"""The request id of a lease that this user did not ask for; nothing is kept under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update, of any kinds; none of any kind is a heartbeat."""

    note: str | None = None
    progress: ProgressBody | None = None
    metrics: Mapping[str, float] | None = None
    receipts: Sequence[ReceiptBody] = ()


def jobs_of(client: Client) -> Jobs:
    """This user's jobs at the head that `client` speaks to."""
    return Jobs(state=Path(state_dir(os.environ)), url=client.address.url)


def meant_job(client: Client, name: str | None) -> str:
    """The id of the job that `name` means; without one that of $HOSTLER_JOB, or this user's only open one.

    Refuses `job_not_found`, and `invalid_request` when this user has several.
    """
    if name is not None:
        return name
    inherited = os.environ.get(JOB_VAR)
    if inherited:
        return inherited
    url = client.address.url
    own = [it.job for it in jobs_of(client).files.list() if it.job is not None and it.url == url]
    if len(own) > 1:
        raise InvalidRequest(
            what=f"You have {len(own)} jobs: {shorten(', '.join(own), 200)}.",
            expected="Give one of these ids.",
        )
    if not own:
        raise JobNotFound(job="of yours")
    return own[0]


def start_job(
    client: Client,
    title: str,
    *,
    lease: str | None,
    resource: str | None,
    every_s: float,
    release: bool,
    holder: str,
) -> OneJob:
    """Start a job; under a lease of this user's with its secret, so that its beats extend it (LEASE-20)."""
    jobs = jobs_of(client)
    if resource is not None:
        own = [it for it in by_resource(drawer(), resource) if it.lease is not None and it.url == jobs.url]
        saved = jobs.prepare(
            title,
            every_s=every_s,
            lease=own[-1] if own else None,
            resource=resource,
            release=release,
            holder=holder,
        )
    else:
        under = _lease(client, lease)
        saved = jobs.prepare(title, every_s=every_s, lease=under, release=release, holder=holder)
    return drive(client, jobs.start(saved), sleep)


def _lease(client: Client, name: str | None) -> SavedLease | None:
    """The lease that a job is to run under: the named one, else the one that we were started under."""
    if name is None and not os.environ.get(LEASE_VAR):
        return None
    found = meant(client, name)
    if found.saved is not None:
        return found.saved
    secret = found.secret or ""
    return SavedLease(request_id=NOWHERE, secret=secret, url=client.address.url, resource="", lease=found.id)


def report(client: Client, name: str | None, update: Update) -> OneJob | None:
    """Send an update. None: the head is away, and it waits in the spool for the next one."""
    id_ = meant_job(client, name)
    jobs = jobs_of(client)
    saved = jobs.files.find(id_)
    if saved is not None:
        steps = jobs.update(
            saved,
            note=update.note,
            progress=update.progress,
            metrics=update.metrics,
            receipts=update.receipts,
        )
        return drive(client, steps, sleep)
    body = UpdateBody(
        secret=_secret(),
        note=update.note,
        progress=update.progress,
        metrics=update.metrics or {},
        receipts=tuple(update.receipts),
    )
    return answer(client.post(at(JOBS, id_, "updates"), plain(body)), OneJob)


def finish_job(
    client: Client, name: str | None, result: Result, *, note: str | None, release: bool, because: str
) -> OneJob | None:
    """End a job; another's with `because`, as an operator. None: the head is away, and the end waits."""
    id_ = meant_job(client, name)
    jobs = jobs_of(client)
    saved = jobs.files.find(id_)
    if saved is not None and not because:
        return drive(client, jobs.finish(saved, result, note=note, release=release), sleep)
    secret = None if because else _secret()
    body = {"result": result, "secret": secret, "note": note, "release": release, "because": because}
    return answer(client.post(at(JOBS, id_, "finish"), body), OneJob)


def _secret() -> str:
    """The secret of the lease that we were started under; the head says what a wrong one may not do."""
    file = os.environ.get(SECRET_VAR)
    return (read_secret(file) if file else None) or ""
