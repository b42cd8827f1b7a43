"""Work as steps: generators that say what to ask and when to pause, and the two loops that do it.

Decides nothing of the schedule: `hostler.client.lease` and `hostler.client.job` are written once, as
`Steps`, and driven here, synchronously or not. Whatever interrupts the driver (Ctrl-C, a signal's exception,
the end of a task) is thrown into the steps, which may still give a place back before it goes on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx2

from hostler.client.call import ANSWER_S
from hostler.client.senders import AsyncClient, Client
from hostler.domain.errors import DaemonUnreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call of the daemon. `body` None reads; anything else changes. The answer is its JSON value."""

    path: str
    body: object = None
    query: Mapping[str, object] | None = None
    idempotency_key: str | None = None
    timeout_s: float = ANSWER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait so many seconds; what keeps the time may end it sooner."""

    seconds: float


_T = TypeVar("_T")
Steps = Generator[Ask | Pause, object, _T]
"""Yields what is to be done, is sent the answer or thrown the refusal, returns what came of it."""


def drive(client: Client, steps: Steps[_T], pause: Callable[[float], object]) -> _T:
    """Do the steps, and give what they return. Raises what they raise."""
    sent: object = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(sent) if error is None else steps.throw(error)
            sent, error = None, None
            sent = pause(step.seconds) if isinstance(step, Pause) else _do(client, step)
        except StopIteration as end:
            value: _T = end.value
            return value
        except BaseException as caught:
            # Also what strikes between two steps: it is theirs to give back what they took.
            if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                raise
            error = caught


def _do(client: Client, ask: Ask) -> object:
    if ask.body is None:
        return client.get(ask.path, ask.query, timeout_s=ask.timeout_s)
    return client.post(ask.path, ask.body, timeout_s=ask.timeout_s, idempotency_key=ask.idempotency_key)


async def adrive(
    client: AsyncClient, steps: Steps[_T], pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> _T:
    """As `drive`, in a task: its cancellation is thrown into the steps."""
    sent: object = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(sent) if error is None else steps.throw(error)
            sent, error = None, None
            sent = await (pause(step.seconds) if isinstance(step, Pause) else _ado(client, step))
        except StopIteration as end:
            value: _T = end.value
            return value
        except BaseException as caught:
            if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                raise
            error = caught


async def _ado(client: AsyncClient, ask: Ask) -> object:
    if ask.body is None:
        return await client.get(ask.path, ask.query, timeout_s=ask.timeout_s)
    return await client.post(ask.path, ask.body, timeout_s=ask.timeout_s, idempotency_key=ask.idempotency_key)


def never_sent(error: BaseException) -> bool:
    """Whether a call cannot have had an effect: no connection came about."""
    return isinstance(error, DaemonUnreachable) and isinstance(
        error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout
    )
