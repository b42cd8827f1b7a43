"""What `hostler box` prints: for people one row per item, for programs the wire form (HOLD-8).

Decides words and order. Every text that is not ours is escaped and cut (BG-22); JSON is as it was found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, TextIO

from hostler.domain.hold import HoldState, HoldView, seconds_left
from hostler.domain.hold_plan import change
from hostler.domain.hold_record import HoldRecord
from hostler.domain.values import shorten
from hostler.interfaces.cli.box_times import clock, when
from hostler.interfaces.cli.failure import complain
from hostler.services.holds_offline import BoxStatus, Held, HoldPath, Released

TEXT: Final = 120
"""The longest text of others in a row."""
NAMES: Final = 50
"""Engines that an allow list shows; a longer one says how many more there are."""

_SHOWN: Final = frozenset({"owner", "reason", "started_at", "expires_at", "allow"})


def say(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Lines of an answer, foreign parts already shortened."""
    for line in lines:
        print(line, file=stream, flush=True)


def say_json(value: Mapping[str, object]) -> None:
    """One document on one line, in ASCII, so that no text of others moves a cursor."""
    print(json.dumps(value, separators=(",", ":")), flush=True)


def warn(where: HoldPath, *more: str) -> None:
    """Notes and warnings, on stderr: an answer on a pipe stays an answer."""
    for title, texts in (("note", where.notes), ("warning", (*where.warnings, *more))):
        for text in texts:
            complain(f"{title}: {shorten(text, 400)}")


def status_json(view: HoldView, now: datetime) -> dict[str, object]:
    """The wire form of a hold (HOLD-8)."""
    return {
        "held": view.held,
        "path": view.path,
        "record": dict(view.record.raw) if view.record is not None else None,
        "unreadable": view.defect,
        "allow": sorted(view.allow) if view.held else [],
        "seconds_left": seconds_left(view, now),
    }


def status_lines(found: BoxStatus, now: datetime) -> Iterator[str]:
    """`free`, or everything about the hold, a row each."""
    view = found.view
    if not view.held:
        yield "free"
        yield from _over(view, now)
        return
    yield _row("held", f"by {shorten(view.owner, TEXT)}")
    if view.record is None:
        yield _row("record", f"{shorten(view.defect or '', TEXT)}: `hostler box release` clears it")
        yield _row("until", f"ages out {when(view.until or now, now)}")
    else:
        yield from _record(view, view.record, now)
    yield _row("allow", _allow(found))
    yield from _refused(found, now)
    yield _row("file", shorten(view.path, 400))


def _over(view: HoldView, now: datetime) -> Iterator[str]:
    """What lies there although nothing is held."""
    owner = shorten(view.owner, TEXT)
    if view.state is HoldState.LAPSED and view.until is not None:
        yield f"The last hold, of {owner}, lapsed {when(min(view.until, now), now)}."
    elif view.state is HoldState.OTHER_BOOT:
        yield f"The last hold, of {owner}, is of another boot."
    elif view.state is HoldState.AGED_OUT:
        yield (
            f"A record that {shorten(view.defect or '', TEXT)} has aged out; `hostler box release` clears it."
        )


def _record(view: HoldView, record: HoldRecord, now: datetime) -> Iterator[str]:
    yield _row("reason", shorten(record.reason, TEXT) or "-")
    yield _row("from", when(record.started_at, now) if record.started_at is not None else "-")
    flag = ", more than 8 h away and not forced" if view.overlong else ""
    yield _row("until", when(record.expires_at, now) + flag)
    for key, value in record.raw.items():
        if key not in _SHOWN:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield _row("also", f"{shorten(key, 40)}: {shorten(text, TEXT)}")


def _allow(found: BoxStatus) -> str:
    """The effective list; what the config does not know is marked (HOLD-5)."""
    names = sorted(found.view.allow)
    shown = [shorten(name) + _mark(name, found) for name in names[:NAMES]]
    more = [f"and {len(names) - NAMES} more"] if len(names) > NAMES else []
    return ", ".join((*shown, *more)) or "nothing"


def _mark(name: str, found: BoxStatus) -> str:
    if name in found.essentials:
        return " (essential)"
    return " (unknown)" if found.engines is not None and name not in found.engines else ""


def _refused(found: BoxStatus, now: datetime) -> Iterator[str]:
    count = found.refused_count
    yield _row("refused", f"{count} start{'' if count == 1 else 's'}" if count else "no start")
    for row in found.refused:
        at = clock(row.at, now) if row.at is not None else "-"
        yield _row("", f"{at}  {shorten(row.engine)}  {shorten(row.by, TEXT)}")


def held_lines(held: Held, before: HoldView, now: datetime) -> Iterator[str]:
    """What was written over what was there `before`."""
    view = held.view
    ends = when(view.until, now) if view.until is not None else "-"
    verb = change(before, view) if held.extended else "Held"
    reason = f": {shorten(view.reason, TEXT)}" if view.reason else ""
    yield f"{verb} by {shorten(view.owner, TEXT)}, ends {ends}{reason}"
    if held.took_over is not None:
        yield f"Took over from {shorten(held.took_over, TEXT)}, who is told."
    yield from _kept(held.kept_as)


def held_json(held: Held, now: datetime) -> dict[str, object]:
    """The wire form of a hold, and how it came about."""
    return {
        **status_json(held.view, now),
        "extended": held.extended,
        "took_over": held.took_over,
        "kept_as": held.kept_as,
        "warnings": [*held.where.notes, *held.where.warnings, *held.warnings],
    }


def released_lines(released: Released, now: datetime) -> Iterator[str]:
    """What became of the hold."""
    if not released.removed:
        yield "Nothing to release."
        yield from _over(released.before, now)
        return
    if released.before.defect is None:
        yield f"Released the hold of {shorten(released.before.owner, TEXT)}."
    else:
        yield f"Cleared a record that {shorten(released.before.defect, TEXT)}."
    if released.forced:
        yield "It was somebody else's: the daemon tells them."
    yield from _kept(released.kept_as)


def released_json(released: Released) -> dict[str, object]:
    """What became of the hold, for programs."""
    return {
        "released": released.removed,
        "path": released.where.path,
        "owner": released.before.owner if released.removed else None,
        "forced": released.forced,
        "kept_as": released.kept_as,
        "warnings": [*released.where.notes, *released.where.warnings, *released.warnings],
    }


def path_json(where: HoldPath) -> dict[str, object]:
    """Where the hold file is, for programs."""
    return {
        "path": where.path,
        "source": where.source,
        "survives_reboot": where.survives_reboot,
        "warnings": [*where.notes, *where.warnings],
    }


def _kept(kept_as: str | None) -> Iterator[str]:
    if kept_as is not None:
        yield f"What could not be read is kept as {shorten(kept_as, 400)}"


def _row(title: str, text: str) -> str:
    return f"{title:<9}{text}"
