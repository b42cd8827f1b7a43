"""What goes on beside the block of a `with`: a thread or a task for the upkeep, and an ear for SIGTERM.

Decides that upkeep ends with its block, that a bug in it is not lost, and that SIGTERM unwinds the program
instead of ending it on the spot, so that a lease is given back and a job is `cancelled`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Final, Protocol

from hostler.client.drive import Steps, adrive, drive
from hostler.client.senders import AsyncClient, Client

TERMINATED: Final = 128 + signal.SIGTERM
END_S: Final = 20.0
"""How long the end of the upkeep is waited for: one attempt of it takes less."""


class Upkeep(Protocol):
    """Something with steps that go on until `closing` is set; calls its `wakers` to end a pause."""

    closing: bool
    wakers: list[Callable[[], None]]

    def upkeep(self) -> Steps[None]:
        """The steps."""
        ...


@contextmanager
def in_thread(client: Client, work: Upkeep) -> Iterator[None]:
    """The upkeep in a thread for the length of the block. A bug in it is raised at the end of the block."""
    woken, failed = threading.Event(), list[BaseException]()

    def pause(seconds: float) -> None:
        woken.wait(seconds)
        woken.clear()

    def run() -> None:
        try:
            drive(client, work.upkeep(), pause)
        except BaseException as error:  # noqa: BLE001 - it is raised where the block ends
            failed.append(error)

    work.wakers.append(woken.set)
    thread = threading.Thread(target=run, name="hostler-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        work.closing = True
        woken.set()
        thread.join(END_S)
    if failed:
        raise failed[0]


@asynccontextmanager
async def in_task(client: AsyncClient, work: Upkeep) -> AsyncIterator[None]:
    """The upkeep in a task for the length of the block. A bug in it is raised at the end of the block."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    async def pause(seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), seconds)
        woken.clear()

    def wake() -> None:
        # What is told may be told from another thread, such as that of `asyncio.to_thread`.
        loop.call_soon_threadsafe(woken.set)

    work.wakers.append(wake)
    task = asyncio.create_task(adrive(client, work.upkeep(), pause))
    try:
        yield
    finally:
        work.closing = True
        woken.set()
        await asyncio.wait([task], timeout=END_S)
        if not task.done():
            task.cancel()
    if task.done() and not task.cancelled():
        task.result()


def _ours_to_hear() -> bool:
    """Whether SIGTERM would end the program on the spot, and this thread may change that."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )


@contextmanager
def terminated() -> Iterator[None]:
    """SIGTERM raises SystemExit (143) within the block, unless the program listens to it itself."""
    if not _ours_to_hear():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def terminated_task() -> Iterator[None]:
    """SIGTERM cancels this task within the block, and then raises SystemExit (143)."""
    task = asyncio.current_task()
    if task is None or not _ours_to_hear():
        yield
        return
    loop, heard = asyncio.get_running_loop(), list[int]()

    def end() -> None:
        heard.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if heard:
            raise SystemExit(TERMINATED) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
