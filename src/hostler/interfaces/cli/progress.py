"""What is looked after while a command waits: a start's progress, and whether anybody reads on.

`starting 41 s of 240 s` stands on one line (ENG-5). Decides nothing about the start or the stream: a
thread waits for them, the command only looks.
"""

from __future__ import annotations

import io
import queue
import select
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from hostler.client import Client
from hostler.domain.errors import Refusal
from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import OneEngine
from hostler.interfaces.cli.daemon import answer, at
from hostler.interfaces.cli.failure import mutter
from hostler.interfaces.cli.output import on_terminal

Item = TypeVar("Item")

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
        mutter(_CLEAR_LINE)
    if failure is not None:
        raise failure
    return value


def while_read(stream: Iterator[Item]) -> Iterator[Item]:
    """The items of `stream` as they come, as long as somebody reads stdout. Raises what `stream` raises.

    BrokenPipeError within a second of the reader's end, however long nothing comes (INTERFACE-2).
    """
    items: queue.Queue[Item | _End] = queue.Queue(maxsize=1)

    def run() -> None:
        failure: Exception | None = None
        try:
            for item in stream:
                items.put(item)
        except Exception as error:  # noqa: BLE001 - carried to the main thread, which raises it
            failure = error
        items.put(_End(failure=failure))

    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            found = items.get(timeout=LOOK_S)
        except queue.Empty:
            _check_reader()
            continue
        if not isinstance(found, _End):
            yield found
        elif found.failure is not None:
            raise found.failure
        else:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of a stream, and what it ended with."""

    failure: Exception | None


def _check_reader() -> None:
    """BrokenPipeError when whoever read stdout has gone: a pipe says so without being written to."""
    try:
        handle = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # No file is behind it, so nobody can leave.
    poll = select.poll()
    poll.register(handle, 0)
    if any(said & (select.POLLERR | select.POLLHUP) for _, said in poll.poll(0)):
        raise BrokenPipeError


def _look_until(
    results: queue.Queue[tuple[object, Exception | None]], client: Client, engine: str
) -> tuple[object, Exception | None]:
    while True:
        try:
            return results.get(timeout=LOOK_S)
        except queue.Empty:
            mutter(f"{_CLEAR_LINE}{shorten(engine)}: {_line(client, engine)}")


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
