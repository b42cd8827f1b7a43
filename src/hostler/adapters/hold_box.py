"""`hostler box` without a daemon (INTERFACE-3): the need `BoxParts`, joined from the parts beside it.

Decides which warnings go with which answer, whether a running daemon reads another file (HOLD-1), and that
who asks for a host which a lease has is told so, though the lease's record is gone (LEASE-15).
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.adapters.hold_path import lingering_warning
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import HoldPathDiffers, HoldTaken, Refusal
from hostler.domain.hold import HoldState, HoldView
from hostler.domain.hold_plan import LEASE_OWNER, Removal, Wanted
from hostler.domain.hold_record import parse_instant
from hostler.domain.holding import HOLD, Holding
from hostler.domain.values import rfc3339, shorten
from hostler.services.holds_offline import BoxStatus, Held, HoldPath, Ran, Refused, Released

REFUSALS_NAME: Final = "hold_refusals.json"
DAEMON_NAME: Final = "daemon.json"
HELD_NAME: Final = "held.json"
SYSTEM_STATE: Final = "var/lib/hostler"
"""The state directory of a system service, whose daemon is this host's too (CONF-5). Below the root."""
SHOWN: Final = 20
"""Refusals that a person is shown; the count is of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The hold of this host, from its files."""

    writer: HoldWriter
    place: HoldPath
    state_dirs: tuple[str, ...]
    uid: int
    engines: frozenset[str] | None = None
    root: str = "/"

    def now(self) -> datetime:
        return self.writer.reader.now()

    def where(self) -> HoldPath:
        return self.place

    def status(self) -> BoxStatus:
        view = self.writer.reader.read()
        count, refused = self._refused(view)
        return BoxStatus(
            view=view,
            where=self.place,
            essentials=self.writer.reader.essentials,
            engines=self.engines,
            refused=refused,
            refused_count=count,
        )

    def hold(self, wanted: Wanted) -> Held:
        self._compare()
        self._leased(wanted)
        written = self.writer.write(wanted)
        before = written.before
        lingering = lingering_warning(self.place.path, self.uid, self.root)
        return Held(
            view=self.writer.reader.read_fresh(),
            where=self.place,
            extended=before.state is HoldState.HELD and written.plan.forced is None,
            took_over=before.owner if written.plan.forced is not None else None,
            kept_as=written.kept_as,
            warnings=(*((lingering,) if lingering else ()), *written.warnings),
        )

    def release(self, *, owner: str | None, force: bool) -> Released:
        ended = self.writer.release(owner=owner, force=force, by=_login(self.uid))
        return Released(
            before=ended.before,
            where=self.place,
            removed=ended.plan.removal is not Removal.NOTHING,
            forced=ended.plan.forced is not None,
            kept_as=ended.kept_as,
            warnings=ended.warnings,
        )

    def run(self, command: Sequence[str], wanted: Wanted, begun: Callable[[Held], None]) -> Ran:
        from hostler.adapters import hold_command  # noqa: PLC0415 - `box status` runs no command (PERF-11)

        with hold_command.passing() as handler:
            held = self.hold(wanted)
            try:
                begun(held)
                code = hold_command.run(command, handler)
            except BaseException:
                self.writer.release_own(held.view.identity)
                raise
            now = self.writer.reader.read_fresh()
            lapsed = now.identity == held.view.identity and now.state is HoldState.LAPSED
            try:
                released = self.writer.release_own(held.view.identity)
            except Refusal as refusal:
                return Ran(code=code, released=False, warnings=(f"The hold was not removed: {refusal}",))
        return Ran(code=code, released=released, warnings=tuple(_ending(released=released, lapsed=lapsed)))

    def _compare(self) -> None:
        """A hold that no gate reads is none: refuse when a daemon that runs reads another file."""
        for directory in self.state_dirs:
            daemon = _object(Path(directory, DAEMON_NAME))
            theirs = daemon.get("hold_path")
            if isinstance(theirs, str) and self._runs(daemon) and not _same(theirs, self.place.path):
                raise HoldPathDiffers(ours=self.place.path, theirs=theirs)

    def _leased(self, wanted: Wanted) -> None:
        """Refuse `held` where a lease has this host by what its daemon was told last, record or not.

        A dead daemon's word counts to the lease's end alone: nobody wedges a host (HOLD-3).
        """
        view, now = self.writer.reader.read(), self.now()
        for directory in self.state_dirs:
            runs = self._runs(_object(Path(directory, DAEMON_NAME)))
            for thing, row in _object(Path(directory, HELD_NAME)).items():
                held = _holding(thing, row)
                if held is None or held.boot not in ("", self.writer.reader.boot):
                    continue
                owner = f"{LEASE_OWNER}{held.lease}"
                ended = not runs if held.until is None else now >= held.until
                if not ended and wanted.take_over != owner and not (view.held and view.owner == owner):
                    raise HoldTaken(
                        owner=owner,
                        until="unknown" if held.until is None else rfc3339(held.until),
                        way=_way(held, owner),
                        retry_after=None,
                    )

    def _runs(self, daemon: Mapping[str, object]) -> bool:
        """Whether that very process still lives: pid and start time are the same."""
        pid, ticks = daemon.get("pid"), daemon.get("start_ticks")
        if not isinstance(pid, int) or pid <= 0:
            return False
        try:
            line = Path(self.root, "proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        # Field 22 of all; the command, which may contain blanks and brackets, is the second.
        fields = line[line.rfind(")") + 2 :].split()
        return len(fields) > 19 and fields[19] == str(ticks)

    def _refused(self, view: HoldView) -> tuple[int, tuple[Refused, ...]]:
        """What the daemon has refused under this hold, as far as its note says."""
        for directory in self.state_dirs:
            found = _object(Path(directory, REFUSALS_NAME))
            rows = found.get("refused")
            if view.held and found.get("identity") == view.identity and isinstance(rows, list):
                shown = tuple(_row(row) for row in rows if isinstance(row, dict))
                count = found.get("count")
                return (count if isinstance(count, int) else len(shown), shown[-SHOWN:])
        return 0, ()


def _holding(thing: str, row: object) -> Holding | None:
    """The lease that has this host, of a line of the daemon's note; None for any other line."""
    from hostler.services.guard_files import holding_of  # noqa: PLC0415 - only `box hold` asks (PERF-11)

    try:
        return holding_of(row) if thing.startswith(f"{HOLD} ") else None
    except ValueError:
        return None


def _way(held: Holding, owner: str) -> str:
    what, end = f"lease {held.lease}", f"hostler release {held.lease}"
    if held.mode:
        what, end = f"window {held.lease} ({shorten(held.mode)})", f"hostler window close {held.lease}"
    return (
        f"{shorten(held.holder)} has this host with {what}, though its record is gone."
        f" Wait, ask, or end it: `{end}`. `--take-over {owner}` holds inside it."
    )


def _row(row: Mapping[str, object]) -> Refused:
    return Refused(
        at=parse_instant(row.get("at")), engine=str(row.get("engine", "-")), by=str(row.get("by", "-"))
    )


def _ending(*, released: bool, lapsed: bool) -> Iterator[str]:
    if lapsed:
        yield "The hold lapsed before the command ended; it was not extended."
    elif not released:
        yield "The hold was removed or replaced before the command ended; what is there now was left."


def _object(path: Path) -> Mapping[str, object]:
    """The JSON object in a note of the daemon; empty when there is none that we can read."""
    try:
        found: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        # The notes help to explain; a hold needs none of them.
        return {}
    return found if isinstance(found, dict) else {}


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _login(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
