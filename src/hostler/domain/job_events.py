"""What the log is told of a job: one event for each change of it but a heartbeat (FEED-3).

Decides the words, and which facts a reader of the feed needs to keep its picture right: those of
`hostler.wire.schedule.JobView` that changed, by the same names. Of `metrics` an event has those that it
changed, to be merged by name; of `receipts` the new ones, to be appended; everything else is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.job import Job, Progress, State
from hostler.domain.job_update import Update
from hostler.domain.moment import Moment
from hostler.domain.values import Priority, format_duration, rfc3339, shorten

LONGEST: Final = 500
_WORDS: Final[Mapping[State, str]] = frozen(
    {
        State.QUIET: "has been quiet for",
        State.STALLED: "is stalled: nothing has been heard for",
        State.ABANDONED: "is abandoned: nothing has been heard for",
    }
)


def started(job: Job, actor: str) -> Event:
    """A job began."""
    facts = {
        "title": job.title,
        "holder": job.holder,
        "resource": job.resource,
        "every_s": job.every_s,
        "created_at": rfc3339(job.created.at),
        "heard_at": rfc3339(job.heard.at),
        "note": job.note,
        "source": job.source,
        "lease_lost": job.lease_lost,
    }
    return _event("job_started", job, job.created, actor, f"{job.title} began.", facts, after=job.state)


def recovered(before: Job, job: Job, actor: str) -> Event:
    """Its holder was heard of again."""
    text = f"{job.title} was heard of again; it was {before.state}."
    facts = {"heard_at": rfc3339(job.heard.at)}
    return _event("job_recovered", job, job.heard, actor, text, facts, before.state, job.state)


def updated(job: Job, update: Update, actor: str) -> Event:
    """Its holder reported; `update` is what it said."""
    facts: dict[str, object] = {"heard_at": rfc3339(job.heard.at), "applied": job.applied}
    if update.note is not None:
        facts |= {"note": job.note, "source": job.source}
    if update.progress is not None:
        facts["progress"] = asdict(update.progress)
    if update.metrics:
        facts["metrics"] = dict(update.metrics)
    if update.receipts:
        facts["receipts"] = [asdict(receipt) for receipt in update.receipts]
    return _event("job_updated", job, job.heard, actor, f"{job.title}: {_said(update)}", facts)


def silenced(before: Job, job: Job, silent_s: float, at: Moment) -> Event:
    """Its holder has not been heard of for `silent_s` seconds; that it stalled gives a notice (NOTE-1)."""
    kind, facts = f"job_{job.state}", {"heard_at": rfc3339(job.heard.at)}
    text = f"{job.title} {_WORDS[job.state]} {format_duration(silent_s)}."
    event = _event(kind, job, at, "schedule", text, facts, before.state, job.state)
    if job.state is not State.STALLED:
        return event
    return replace(event, priority=Priority.HIGH, once=f"{kind} {job.id}")


def lease_lost(job: Job, at: Moment) -> Event:
    """Its lease was over first (JOB-4)."""
    text = f"The lease of {job.title} ended before it."
    return _event("job_lease_lost", job, at, "schedule", text, {"lease_lost": True})


def ended(before: Job, job: Job, note: str | None, actor: str, at: Moment) -> Event:
    """It is over."""
    text = f"{job.title}: {job.state}" + (f", {job.why}." if job.why else ".")
    facts: dict[str, object] = {"ended_at": rfc3339(at.at), "why": job.why, "applied": job.applied}
    if note is not None:
        facts |= {"note": job.note, "source": job.source}
    return _event("job_ended", job, at, actor, text, facts, before.state, job.state)


def _said(update: Update) -> str:
    """An update in one line."""
    parts = [] if update.progress is None else [_far(update.progress)]
    if update.note is not None:
        parts.append(update.note)
    if update.metrics:
        parts.append(", ".join(f"{name}={value:g}" for name, value in update.metrics.items()))
    parts += [f"made {receipt.name}" for receipt in update.receipts]
    return "; ".join(parts)


def _far(progress: Progress) -> str:
    """`3/10 runs`, or `30%`."""
    if progress.n is None or progress.total is None:
        return f"{progress.value:.0%} {progress.label}".strip()
    return f"{progress.n:g}/{progress.total:g} {progress.label}".strip()


def _event(
    type_: str,
    job: Job,
    at: Moment,
    actor: str,
    text: str,
    facts: Mapping[str, object],
    before: State | None = None,
    after: State | None = None,
) -> Event:
    named = {"job": str(job.id), "lease": job.lease, "resource": job.resource}
    return Event(
        type=type_,
        at=at.at,
        actor=actor,
        subject=frozen({kind: name for kind, name in named.items() if name is not None}),
        before=before,
        after=after,
        message=shorten(text, LONGEST),
        facts=frozen({**facts, "lease": job.lease}),
    )
