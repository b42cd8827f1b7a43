"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import ParamSpec, TypeVar

from hostler.domain.moment import Moment

START = datetime(2026, 9, 4, 20, 5, 11, 482_000, tzinfo=UTC)
MOST_ROUNDS = 100_000
_P = ParamSpec("_P")
_T = TypeVar("_T")


class ManualClock:
    """The need `Clock`. `sleep` returns when `advance` has moved the time that far, never by itself."""

    def __init__(self, now: datetime = START, elapsed: float = 1000.0) -> None:
        self._now = now
        self._elapsed = elapsed
        self.boot = "boot-1"
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def elapsed(self) -> float:
        return self._elapsed

    def moment(self) -> Moment:
        return Moment(at=self._now, boot=self.boot, elapsed=self._elapsed)

    def reboot(self, seconds: float = 0.0) -> None:
        """The machine restarts: its elapsed time begins anew, `seconds` later on the wall."""
        self.boot = f"{self.boot}'"
        self._elapsed = 1.0
        self._now += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), wake))
        await wake

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as a person or NTP would: nobody wakes, `elapsed` stays."""
        self._now += timedelta(seconds=seconds)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: wakes each sleeper at its own moment, in order, and lets it act.

        Returns when every task that could run has run, so a test may look at once.
        """
        await settle()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, wake = heapq.heappop(self._sleepers)
            if wake.done():
                continue
            self._pass(due - self._elapsed)
            wake.set_result(None)
            await settle()
        self._pass(end - self._elapsed)
        await settle()

    def _pass(self, seconds: float) -> None:
        if seconds > 0:
            self._elapsed += seconds
            self._now += timedelta(seconds=seconds)


async def settle() -> None:
    """Return when no task can run without something from outside: time, a thread, a socket.

    Work given to threads is outside, unless `inline_threads` was called first.
    """
    ready: deque[object] = getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009 - not in the stubs
    for _ in range(MOST_ROUNDS):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError("a task spins without ever waiting")


def inline_threads() -> None:
    """From here on `asyncio.to_thread` of the running loop runs at once, in the loop's own thread.

    For fakes that never block: a test of services then has no thread whose speed it could see.
    """
    asyncio.get_running_loop().set_default_executor(_Inline(max_workers=1))


class _Inline(ThreadPoolExecutor):
    """asyncio asks for this very class; no thread of it is ever started."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        done: Future[_T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - a future carries whatever was raised to who waits
            done.set_exception(error)
        return done
