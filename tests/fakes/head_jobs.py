"""The jobs of a fake head: each update applied once by its number, and kept in the order of application."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from hostler.domain.errors import Ended, JobNotFound, NotYours
from hostler.wire.jobs import FinishBody, JobBody, JobView, OneJob, ProgressView, UpdateBody
from hostler.wire.values import request_from

NOW = "2026-06-01T12:00:00.000Z"


@dataclass(kw_only=True)
class JobRow:
    """A job as this head keeps it, and what was applied to it, in order."""

    view: JobView
    secret: str
    applied: list[UpdateBody | FinishBody] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class Jobs:
    """All jobs."""

    rows: dict[str, JobRow] = field(default_factory=dict)
    _requests: dict[str, str] = field(default_factory=dict)

    def do(self, id_: str | None, verb: str | None, method: str, body: bytes, request_id: str) -> object:
        """What a call under `/jobs` answers."""
        del method
        if id_ is None:
            return self._start(request_from(JobBody, body), request_id)
        return self._job(id_, verb, body)

    def _start(self, body: JobBody, request_id: str) -> OneJob:
        known = self._requests.get(request_id)
        if known is not None:
            return OneJob(at=NOW, job=self.rows[known].view)
        id_ = f"jb_{len(self.rows):026d}"
        view = JobView(
            id=id_,
            title=body.title,
            holder=body.holder,
            lease=body.lease,
            resource=body.resource,
            state="running",
            every_s=body.every_s,
            created_at=NOW,
            heard_at=NOW,
            quiet_s=0,
            note="",
            source="holder",
            progress=None,
            metrics={},
            receipts=(),
            applied=0,
            lease_lost=False,
            ended_at=None,
            why="",
            seq=0,
        )
        self.rows[id_] = JobRow(view=view, secret=body.secret_hash)
        self._requests[request_id] = id_
        return OneJob(at=NOW, job=view)

    def _job(self, id_: str, verb: str | None, body: bytes) -> OneJob:
        row = self.rows.get(id_)
        if row is None:
            raise JobNotFound(job=id_)
        if verb is None:
            return OneJob(at=NOW, job=row.view)
        asked: UpdateBody | FinishBody
        asked = request_from(UpdateBody, body) if verb == "updates" else request_from(FinishBody, body)
        if hashlib.sha256((asked.secret or "").encode()).hexdigest() != row.secret:
            raise NotYours(what=f"The job {id_}")
        if asked.n is not None and asked.n <= row.view.applied:
            return OneJob(at=NOW, job=row.view)
        if row.view.ended_at is not None:
            raise Ended(what="job", name=id_, why=row.view.why)
        row.applied.append(asked)
        row.view = replace(row.view, applied=asked.n or row.view.applied, note=asked.note or row.view.note)
        if isinstance(asked, FinishBody):
            row.view = replace(row.view, state=asked.result, ended_at=NOW)
        else:
            row.view = replace(row.view, metrics={**row.view.metrics, **asked.metrics})
            if asked.progress is not None:
                told = asked.progress
                share = told.value if told.value is not None else (told.n or 0) / (told.total or 1)
                progress = ProgressView(value=share, n=told.n, total=told.total, label=told.label)
                row.view = replace(row.view, progress=progress)
        return OneJob(at=NOW, job=row.view)

    def end(self, id_: str) -> None:
        """Somebody else ends it."""
        row = self.rows[id_]
        row.view = replace(row.view, state="cancelled", ended_at=NOW, why="an operator ended it")
