"""How a container is ended, and how its end is noticed (ENG-6).

Decides which signals are sent through the API in which order, and when a container counts as gone. The API
knows the container by its id: a signal cannot miss.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from hostler.adapters.drivers import container_record, container_world
from hostler.adapters.drivers.container_api import CALL_S, ContainerApi, Declined, Unanswered
from hostler.adapters.drivers.container_find import inspect
from hostler.adapters.drivers.container_seen import Container
from hostler.domain.engine import ExitReport, Run

AGAIN_S: Final = 5.0
"""The most that a second SIGTERM may take before SIGKILL; less where the first had less."""
KILL_WAIT_S: Final = 10.0
"""How long SIGKILL may take: the engine unmounts and takes devices away after it."""
WAIT_S: Final = 3.0
"""One question for the end of a container; then it is looked at, since a policy's next start ends no wait."""
AWAY_S: Final = 0.5
"""How soon a container engine that is away is asked again."""
_GONE: Final = 404
_NOT_RUNNING: Final = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the end went: the signals in order, the pids that are still there (0: one not seen here)."""

    signals: tuple[str, ...]
    left: tuple[int, ...]


async def ending(
    api: ContainerApi, id_: str, seen: Container | None, *, timeout_s: float, now: bool
) -> Ended:
    """Signal the container until it is gone, and look. Raises Unanswered, Declined."""
    if seen is None or not seen.running:
        return Ended(signals=(), left=())
    steps = [] if now else [(seen.stop_signal, timeout_s), (seen.stop_signal, min(timeout_s, AGAIN_S))]
    sent: list[str] = []
    for name, wait_s in [*steps, ("SIGKILL", KILL_WAIT_S)]:
        if not await _signal(api, id_, name):
            break
        sent.append(name)
        if await _ended_within(api, id_, wait_s):
            break
    return Ended(signals=tuple(sent), left=await _left(api, id_, seen))


async def _signal(api: ContainerApi, id_: str, name: str) -> bool:
    """Whether there was something to signal."""
    try:
        await api.ask("POST", f"/containers/{id_}/kill", {"signal": name}, within_s=CALL_S)
    except Declined as no:
        if no.status in (_GONE, _NOT_RUNNING):
            return False
        raise
    return True


async def _ended_within(api: ContainerApi, id_: str, within_s: float) -> bool:
    """Whether the container ended within that time; one that its policy starts again has not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while (left := deadline - loop.time()) > 0:
        try:
            await api.ask("POST", f"/containers/{id_}/wait", within_s=min(left, WAIT_S))
        except Unanswered:
            if loop.time() < deadline:
                await asyncio.sleep(min(AWAY_S, deadline - loop.time()))
            continue
        except Declined as no:
            return no.status == _GONE
        found = await inspect(api, id_)
        return found is None or not found.running
    return False


async def call_off(api: ContainerApi, id_: str) -> None:
    """Call off the next start of a container that its policy starts again: nothing runs to be signalled."""
    await api.ask("POST", f"/containers/{id_}/stop", {"t": "0"}, within_s=KILL_WAIT_S)


async def _left(api: ContainerApi, id_: str, before: Container) -> tuple[int, ...]:
    """Who of it is still there: its processes where they are seen, else what the engine says."""
    found = await inspect(api, id_)
    if found is not None and found.running:
        return (found.pid,)
    deadline = asyncio.get_running_loop().time() + CALL_S
    while left := await asyncio.to_thread(container_world.processes, id_, before.pid):
        if asyncio.get_running_loop().time() >= deadline:
            return tuple(process.pid for process in left)
        await asyncio.sleep(0.05)
    return ()


async def exit_of(api: ContainerApi, run: Run) -> ExitReport:
    """Return when that start of the container has ended.

    The engine is asked until it says so. While it is away the main process says it, where it can be seen;
    where nothing can be seen nothing has ended.
    """
    id_ = container_record.id_of(run)
    while True:
        try:
            found = await inspect(api, id_)
        except (Unanswered, Declined) as error:
            if run.pid and not container_record.lives(run):
                return ExitReport(status=None, signal=None, hint=f"its container engine is away: {error}")
            await asyncio.sleep(AWAY_S)
            continue
        if found is None:
            return ExitReport(status=None, signal=None, hint="its container was removed")
        if found.identity != run.identity:
            return ExitReport(status=None, signal=None, hint="its container was started anew")
        if not found.up:
            return found.ended
        try:
            await api.ask("POST", f"/containers/{id_}/wait", within_s=WAIT_S)
        except (Unanswered, Declined):
            await asyncio.sleep(AWAY_S)
