"""Which jobs a page of the list has, and where the next one goes on (API-2).

Decides the order: open jobs from the oldest on; with the ended ones from the newest back, because these
are many and the last ones are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hostler.domain.errors import CursorReset, JobNotFound
from hostler.domain.job import Job, JobId
from hostler.domain.lease import LeaseId
from hostler.domain.values import shorten
from hostler.services.schedule_needs import Tx
from hostler.wire.jobs import JobsQuery

ID: Final = re.compile(r"job_[0-9a-z]{26}")
Page = tuple[Sequence[Job], str | None]


def known_id(text: str) -> JobId:
    """An id that can be one of ours. Refuses `job_not_found` for anything else, asking no store (BG-23)."""
    if not ID.fullmatch(text):
        raise JobNotFound(job=shorten(text))
    return JobId(text)


def check_cursor(cursor: str | None) -> None:
    """Refuses `cursor_reset` for a cursor that is none of a page."""
    if cursor is not None and not ID.fullmatch(cursor):
        raise CursorReset(cursor=shorten(cursor), snapshot="/v1/hostler/jobs")


def page(tx: Tx, query: JobsQuery) -> Page:
    """The jobs of one page, oldest first, and the cursor of the next; None on the last one."""
    found = tx.open_jobs() if query.lease is None else tx.jobs_of(LeaseId(query.lease))
    if query.ended:
        return _back(tx, found, query)
    # Ids rise: a job that ended since the last page is no trouble.
    rows = [job for job in found if not job.state.ended and job.id > (query.cursor or "")]
    part = rows[: query.limit]
    return part, part[-1].id if len(part) < len(rows) else None


def _back(tx: Tx, found: Sequence[Job], query: JobsQuery) -> Page:
    """Those just before the cursor, the ended ones among them."""
    cursor = query.cursor or ""
    rows = {job.id: job for job in found if not cursor or job.id < cursor}
    if query.lease is None:
        rows |= {job.id: job for job in tx.ended_jobs(before=cursor, limit=query.limit + 1)}
    ids = sorted(rows)[-query.limit - 1 :]
    part = [rows[each] for each in ids[-query.limit :]]
    return part, part[0].id if len(ids) > len(part) else None
