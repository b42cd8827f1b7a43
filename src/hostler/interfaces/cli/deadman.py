"""`hostler deadman status`: which windows have a deadman on this host, and what it did. Needs no daemon.

Decides the words for people. `parts` comes from `bootstrap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from cyclopts import App, Parameter

from hostler.domain.deadman import DeadmanReport
from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json, with_local_times
from hostler.services.deadman_needs import DeadmanState
from hostler.services.deadman_offline import OfflineDeadmen
from hostler.wire.values import to_json

app = App(
    name="deadman",
    help="See the deadmen of windows on this host. Needs no daemon.",
    help_epilogue="Example: hostler deadman status",
)

Parts = Annotated[OfflineDeadmen, Parameter(parse=False)]


@app.command(help_epilogue="Example: hostler deadman status --json")
def status(*, json: AsJson = False, parts: Parts) -> int:
    """Show each window that this host knows, whether its deadman lives, and what it restored."""
    found = parts.windows()
    if json:
        say_json({"windows": [row(it) for it in found]})
        return 0
    for it in found:
        for line in lines(it):
            say(line)
    if not found:
        say("No window is known on this host.")
    return 0


def row(it: DeadmanState) -> Mapping[str, object]:
    """One window, for programs."""
    return {
        "window": it.window,
        "mode": it.mode,
        "phase": it.phase,
        "deadman_alive": it.alive,
        "pid": it.pid,
        "cap_in_s": round(it.left_s, 1) if it.waits else None,
        "daemon_alive": it.daemon_lives,
        "restoring": it.restoring,
        "this_boot": it.this_boot,
        "report": None if it.report is None else to_json(it.report),
    }


def lines(it: DeadmanState) -> list[str]:
    """One window, for people: the line with its state, then what was not seen to be back."""
    mode = shorten(it.mode) or "unknown mode"
    head = f"{it.window}  {mode}  {it.phase}  {with_local_times(_deadman(it))}"
    return [head, *(f"  {shorten(why, 300)}" for why in (it.report.failing if it.report is not None else ()))]


def _deadman(it: DeadmanState) -> str:
    if it.report is not None:
        return _reported(it.report)
    if it.over:
        return "disarmed"
    if not it.this_boot:
        return "armed before the machine's last start: the next daemon start puts everything back"
    if not it.alive:
        return "NO DEADMAN LIVES: the daemon starts another, or its next start restores"
    if it.restoring:
        return f"deadman restores now (pid {it.pid})"
    when = f"in {format_duration(it.left_s)}" if it.left_s > 0 else "now"
    return f"deadman alive (pid {it.pid}), restores {when} at the latest"


def _reported(report: DeadmanReport) -> str:
    if report.verified:
        return f"restored by its deadman at {report.ended_at} ({shorten(report.cause)})"
    return f"NOT ALL RESTORED by its deadman at {report.ended_at} ({shorten(report.cause)}):"
