"""How jobs are told to people: one line each, and one whole with its progress and plots (R69, HIST-2).

Decides words only. All foreign text is escaped and cut (BG-22).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli import plots
from hostler.interfaces.cli.output import when
from hostler.wire.jobs import JobView, OneJob, PointView, ReceiptView

NOTE: Final = 120
NOTES: Final = 20
"""Notes that `job show` has; --json has all that were told."""
COLUMNS: Final = ("JOB", "STATE", "HEARD", "PROGRESS", "TITLE", "HOLDER", "LEASE", "NOTE")
SPARE: Final = ("LEASE", "HOLDER", "NOTE")


def rows(jobs: Iterable[JobView], now: str) -> list[tuple[str, ...]]:
    """One row per job under `COLUMNS`."""
    return [
        (
            it.id,
            it.state,
            when(it.heard_at, now),
            _short(it),
            it.title,
            it.holder,
            f"{it.lease} (lost)" if it.lease is not None and it.lease_lost else it.lease or "-",
            it.note,
        )
        for it in jobs
    ]


def line(it: JobView) -> str:
    """A job on one line: state, how far, its last note, how old that is."""
    note = f": {shorten(it.note, NOTE)}" if it.note else ""
    lost = ", lease lost" if it.lease_lost else ""
    return (
        f"{it.id}  {it.state}{lost}  {_short(it)}  {shorten(it.title)} ({shorten(it.holder)}){note}"
        f"  heard {format_duration(it.quiet_s)} ago"
    )


def _short(it: JobView) -> str:
    if it.progress is None:
        return "-"
    counted = f" ({_counted(it)})" if it.progress.n is not None else ""
    return f"{int(min(1.0, max(0.0, it.progress.value)) * 100)} %{counted}"


def _counted(it: JobView) -> str:
    if it.progress is None or it.progress.n is None:
        return ""
    total = f"/{plots.number(it.progress.total)}" if it.progress.total is not None else ""
    label = f" {shorten(it.progress.label, 40)}" if it.progress.label else ""
    return f"{plots.number(it.progress.n)}{total}{label}"


def whole(found: OneJob, *, blocks: bool) -> Iterator[str]:
    """Everything about a job, its progress as a bar and each metric as a small plot."""
    it, now = found.job, found.at
    yield _row("job", f"{it.id}  {shorten(it.title, NOTE)}")
    yield _row("state", f"{it.state}{', its lease was lost' if it.lease_lost else ''}")
    if it.why:
        yield _row("why", shorten(it.why, NOTE))
    where = f", lease {it.lease}" if it.lease else ""
    on = f" on {shorten(it.resource)}" if it.resource else ""
    yield _row("holder", f"{shorten(it.holder)}{where}{on}")
    yield _row("started", when(it.created_at, now))
    yield _row("heard", f"{when(it.heard_at, now)}, every {format_duration(it.every_s)}")
    if it.ended_at is not None:
        yield _row("ended", when(it.ended_at, now))
    if it.progress is not None:
        counted = _counted(it)
        yield _row(
            "progress", f"{plots.bar(it.progress.value, blocks=blocks)}{f'  {counted}' if counted else ''}"
        )
    yield from _metrics(it, found.points, blocks=blocks)
    for receipt in it.receipts:
        yield _row("receipt", _receipt(receipt))
    for note in (found.notes or ((it.note,) if it.note else ()))[-NOTES:]:
        yield from _note(note)


def _note(note: str) -> Iterator[str]:
    for number, text in enumerate(note.splitlines() or [""]):
        yield _row("" if number else "note", shorten(text, 400))


def _metrics(it: JobView, points: Iterable[PointView], *, blocks: bool) -> Iterator[str]:
    series: dict[str, list[float]] = {}
    for point in points:
        series.setdefault(point.name, []).append(point.value)
    for name in sorted({*series, *it.metrics}):
        values = series.get(name) or [it.metrics[name]]
        last = it.metrics.get(name, values[-1])
        span = f"  {plots.number(min(values))} to {plots.number(max(values))}" if len(values) > 1 else ""
        drawn = f"  {plots.line(values, blocks=blocks)}" if len(values) > 1 else ""
        yield _row("metric", f"{shorten(name, 40)} {plots.number(last)}{drawn}{span}")


def _receipt(it: ReceiptView) -> str:
    parts = [f"{shorten(it.kind, 40)} {shorten(it.name)}"]
    if it.exit_code is not None:
        parts.append(f"exit {it.exit_code}")
    parts.extend(shorten(text, 400) for text in (it.path, it.url) if text)
    if it.sha256:
        parts.append(f"sha256 {it.sha256}")
    return "  ".join(parts)


def _row(name: str, text: str) -> str:
    return f"{name:<9} {text}".rstrip()
