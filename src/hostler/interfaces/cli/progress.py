"""What a person sees while an engine starts: `starting 41 s of 240 s` on one line (ENG-5).

Decides nothing about the start: another call waits for it, this one only looks.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from typing import Final

from hostler.client import Client
from hostler.domain.errors import Refusal
from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import OneEngine
from hostler.interfaces.cli.daemon import answer, at
from hostler.interfaces.cli.output import on_terminal

LOOK_S: Final = 1.0
_CLEAR_LINE: Final = "\r\x1b[K"


def while_waiting(client: Client, engine: str, ask: Callable[[], object]) -> object:
    """What `ask` gives, and on a terminal the engine's progress until then. Raises what `ask` raises."""
    if not on_terminal(sys.stderr):
        return ask()
    results: queue.Queue[tuple[object, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            results.put((ask(), None))
        except Exception as failure:  # noqa: BLE001 - carried to the main thread, which raises it
            results.put((None, failure))

    # A daemon thread: Ctrl-C ends the command at once, and the start goes on without it.
    threading.Thread(target=run, daemon=True).start()
    try:
        value, failure = _look_until(results, client, engine)
    finally:
        sys.stderr.write(_CLEAR_LINE)
        sys.stderr.flush()
    if failure is not None:
        raise failure
    return value


def _look_until(
    results: queue.Queue[tuple[object, Exception | None]], client: Client, engine: str
) -> tuple[object, Exception | None]:
    while True:
        try:
            return results.get(timeout=LOOK_S)
        except queue.Empty:
            sys.stderr.write(f"{_CLEAR_LINE}{shorten(engine)}: {_line(client, engine)}")
            sys.stderr.flush()


def _line(client: Client, engine: str) -> str:
    """How far it is; a look that fails is no failure of the start."""
    try:
        shown = answer(client.get(at("/v1/hostler/engines", engine)), OneEngine).engine
    except Refusal as refusal:
        return shorten(str(refusal))
    if shown.starting is None:
        return shown.state
    begun = shown.starting.elapsed_s
    if shown.state == "starting":
        return f"starting {begun} s of {shown.starting.budget_s} s"
    return shorten(shown.starting.text)
