"""Engines that are containers of Docker or Podman (ENG-2), made by name or by compose.

Decides how such an engine is found, looked at and ended. How it is brought up is its `Maker`'s, which is all
that the drivers `container` and `compose` differ in. What is not seen is not claimed: where the container
engine cannot be asked, an engine is neither stopped nor started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import quote

from hostler.adapters.drivers import container_record, container_world, http_look, ports
from hostler.adapters.drivers.container_api import ContainerApi, Declined, LogFrames, Unanswered
from hostler.adapters.drivers.container_end import call_off, ending, exit_of
from hostler.adapters.drivers.container_find import Where, find, find_now, inspect
from hostler.adapters.drivers.container_seen import NEVER, Container, instant, policy
from hostler.adapters.host import process_table
from hostler.domain.engine import (
    ExitReport,
    Launch,
    Probe,
    Restore,
    Run,
    StopReport,
    as_started,
    served_of,
)
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.values import EngineId

LOOK_S: Final = 2.8
"""For one whole look, the question to the container engine and those to the engine in it."""
ASK_S: Final = 1.0
"""The container engine's part of it."""
FOLLOW_AGAIN_S: Final = 0.5
"""How soon after the end of a log its container is looked for again."""
_BOTH: Final[Mapping[str, str]] = MappingProxyType({"stdout": "1", "stderr": "1"})


class Maker(Protocol):
    """Brings containers of one kind up."""

    def where(self, launch: Launch) -> Where:
        """How the engine's container is found."""
        ...

    def named(self, launch: Launch) -> bool:
        """Whether `launch` says which container it is: not so for an engine that has another driver now."""
        ...

    def owns(self, launch: Launch, seen: Container) -> bool:
        """Whether that container is the engine's, and no other's that has its name."""
        ...

    async def bring_up(self, launch: Launch, seen: Container | None) -> None:
        """Make or start it; `seen` does not run. Refuses `not_launchable`, `engine_failed`.

        Raises Unanswered and Declined.
        """
        ...

    def restore(self, launch: Launch, seen: Container | None) -> Restore:
        """The start in words that need no driver. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDriver:
    """The Driver of `driver: container` and `driver: compose`. `look_s` bounds one look over HTTP."""

    api: ContainerApi
    maker: Maker
    look_s: float = http_look.LOOK_S
    _last: dict[EngineId, Container] = field(default_factory=dict, init=False)

    # ------------------------------------------------------------ up

    async def start(self, launch: Launch) -> Run:
        """Bring it up; returns once its identity is durable. Refusals: engine_failed, not_launchable.

        A start that is cancelled half way still happens, and is ended before the cancellation goes on.
        """
        task = asyncio.ensure_future(self._start(launch))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with contextlib.suppress(EngineFailed, NotLaunchable):
                await self.stop(launch, await task, timeout_s=0, now=True)
            raise

    async def _start(self, launch: Launch) -> Run:
        try:
            seen = await find(self.api, self.maker.where(launch))
            if seen is not None and seen.restarting:
                await call_off(self.api, seen.id)
                seen = await find(self.api, self.maker.where(launch))
            if seen is not None and seen.running:
                raise EngineFailed(engine=launch.engine, why=f"the container {seen.name} runs already")
            await self.maker.bring_up(launch, seen)
            made = await find(self.api, self.maker.where(launch))
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error
        if made is None:
            raise EngineFailed(engine=launch.engine, why="it was started, and there is no container of it")
        run = replace(container_record.run_of(launch, made), served=served_of(launch))
        try:
            await asyncio.to_thread(container_record.save, launch, run)
        except OSError as error:
            await self.stop(launch, run, timeout_s=0, now=True)
            raise EngineFailed(
                engine=launch.engine, why=f"its start was not written down: {error}"
            ) from error
        return run

    async def adopt(self, launch: Launch) -> Run | None:
        """The container that the config names, if it runs: whoever started it (ENG-7), else None.

        Where the config names another than the one that we started, and that one runs still, it is that one.
        Where the container engine cannot be asked it is the recorded one, if its main process is seen to
        live. Refuses `engine_failed` when nothing is seen: that it does not run would be a guess.
        """
        recorded = container_record.load(launch)
        if recorded is not None and recorded.driver != launch.driver:
            recorded = None
        try:
            before = await self._before(launch, recorded)
            if before is not None or not self.maker.named(launch):
                return before
            seen = await find(self.api, self.maker.where(launch))
        except (Unanswered, Declined) as error:
            if recorded is not None and container_record.lives(recorded):
                return recorded
            raise _failed(launch, error) from error
        if seen is None or not seen.up or not self.maker.owns(launch, seen):
            return None
        run = container_record.as_recorded(container_record.run_of(launch, seen), recorded)
        if run != recorded:
            with contextlib.suppress(OSError):  # It runs and is known now; only its next finding is slower.
                await asyncio.to_thread(container_record.save, launch, run)
        return run

    async def _before(self, launch: Launch, recorded: Run | None) -> Run | None:
        """The recorded run, where the config names another container by now and this one runs still."""
        if recorded is None or recorded.served is None:
            return None
        then = as_started(launch, recorded)
        if not self.maker.named(then):
            return None
        if self.maker.named(launch) and self.maker.where(then) == self.maker.where(launch):
            return None
        seen = await find(self.api, self.maker.where(then))
        return recorded if seen is not None and seen.up and seen.identity == recorded.identity else None

    def restore(self, launch: Launch) -> Restore:
        """The start in words that need no driver. Refuses `engine_failed` when there are none to promise."""
        try:
            return self.maker.restore(launch, find_now(self.api, self.maker.where(launch)))
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error

    # ------------------------------------------------------------ looking

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look: no inference, no waking. Never raises; takes at most 3 s."""
        loop = asyncio.get_running_loop()
        ends, unseen = loop.time() + LOOK_S, ""
        try:
            seen = await self._looked_up(launch, run)
        except (Unanswered, Declined) as error:
            seen, unseen = self._last.get(launch.engine), f"; its container engine cannot be asked: {error}"
        alive = self._alive(run, seen, unseen=bool(unseen))
        whose = await asyncio.to_thread(_whose, launch, run, seen, known=not unseen or seen is not None)
        if whose.owner == "stranger":
            told = f"port {launch.port} is held by {await asyncio.to_thread(lambda: whose.name)}"
            name = told.partition(" held by ")[2]
            return Probe(
                alive=alive, port_owner="stranger", stranger=name, health="unreachable", detail=told + unseen
            )
        if whose.owner == "nobody":
            told = f"nothing listens on {launch.address}:{launch.port}{_last_words(run, seen)}{unseen}"
            return Probe(alive=alive, port_owner="nobody", health="unreachable", detail=told)
        most = min(self.look_s, ends - loop.time())
        answer = await http_look.look(launch.url, launch.health, {}, timeout_s=most)
        return Probe(
            alive=alive,
            port_owner=whose.owner,
            health=answer.health,
            http_status=answer.status,
            model_ids=answer.ids,
            detail=answer.detail + unseen,
        )

    async def _looked_up(self, launch: Launch, run: Run | None) -> Container | None:
        if run is not None:
            seen = await inspect(self.api, container_record.id_of(run), within_s=ASK_S)
        else:
            seen = await find(self.api, self.maker.where(launch), within_s=ASK_S / 2)
        if seen is not None:
            self._last[launch.engine] = seen
        return seen

    def _alive(self, run: Run | None, seen: Container | None, *, unseen: bool) -> bool:
        """Whether that start lives. Where nobody can be asked, and nothing be seen, it is not called dead."""
        if run is None:
            return False
        if unseen:
            return container_record.lives(run) if run.pid else True
        return seen is not None and seen.up and seen.identity == run.identity

    def rss(self, run: Run) -> int | None:
        """Bytes that its processes hold in memory, None where this host cannot see them (MEM-5)."""
        found = container_world.processes(container_record.id_of(run), run.pid) if run.pid else ()
        return process_table.held_bytes(process.pid for process in found) if found else None

    # ------------------------------------------------------------ down

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """SIGTERM, wait, SIGTERM again, SIGKILL, then look (ENG-6). `now` skips the waits.

        Whatever start of that container runs now is ended: its restart policy may have begun another. The
        gentle signal is the one that its image asks for. Refuses `engine_failed` when it cannot be asked.
        """
        loop = asyncio.get_running_loop()
        begun, id_ = loop.time(), container_record.id_of(run)
        try:
            seen = await inspect(self.api, id_)
            before = await asyncio.to_thread(_whose, launch, run, seen, known=True)
            ended = await ending(self.api, id_, seen, timeout_s=timeout_s, now=now)
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error
        after = await asyncio.to_thread(ports.in_the_way, launch.address, run.port)
        return StopReport(
            gone=not ended.left,
            port_free=set(after)
            <= set(before.strangers),  # Who had it against us before is no trace of ours.
            signals=ended.signals,
            seconds=loop.time() - begun,
            left=ended.left,
        )

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when that run has ended, whoever ended it. A container engine that is away is no end."""
        return await exit_of(self.api, run)

    # ------------------------------------------------------------ its log

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last log lines, oldest first, as the engine wrote them. Refuses `engine_failed`."""
        try:
            seen = find_now(self.api, self.maker.where(launch))
            if seen is None or lines <= 0:
                return []
            raw = self.api.ask_now(_logs(seen), {**_BOTH, "tail": str(lines)})
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error
        frames = LogFrames(plain=seen.tty)
        return [*frames.feed(raw), *frames.rest()][-lines:]

    async def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Log lines as they come, across starts of the container, and also of one that is made later."""
        last, at_end = "", True
        while True:
            try:
                seen = await find(self.api, self.maker.where(launch))
                if seen is not None and seen.up and seen.identity != last:
                    part = {"tail": "0"} if at_end else _since(seen)
                    last = seen.identity
                    async for line in self._lines(seen, {**part, **_BOTH, "follow": "1"}):
                        yield line
                at_end = False  # What comes after this is a later start's, and is wanted from its beginning.
            except (Unanswered, Declined):
                last, at_end = "", True
            await asyncio.sleep(FOLLOW_AGAIN_S)

    async def _lines(self, seen: Container, query: Mapping[str, str]) -> AsyncIterator[str]:
        frames = LogFrames(plain=seen.tty)
        async for data in self.api.stream(_logs(seen), query):
            for line in frames.feed(data):
                yield line
        for line in frames.rest():
            yield line

    # ------------------------------------------------------------ what else starts it

    async def revival(self, launch: Launch) -> str | None:
        """Its restart policy, such as `restart: always`. Refuses `engine_failed` when it cannot be asked."""
        try:
            seen = await find(self.api, self.maker.where(launch))
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error
        return None if seen is None or seen.restart.name == NEVER.name else str(seen.restart)

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Set the restart policy to no, or to what `revival` told. Refuses `engine_failed`."""
        wanted = NEVER if revival is None else policy(revival)
        if wanted is None:
            raise EngineFailed(engine=launch.engine, why=f"no container has the restart policy {revival}")
        try:
            seen = await find(self.api, self.maker.where(launch))
            if seen is None and wanted != NEVER:
                why = f"there is no container any more to put {revival} back on"
                raise EngineFailed(engine=launch.engine, why=why)
            if seen is not None and seen.restart != wanted:
                await self.api.ask("POST", f"/containers/{seen.id}/update", body=wanted.body)
        except (Unanswered, Declined) as error:
            raise _failed(launch, error) from error


def _whose(launch: Launch, run: Run | None, seen: Container | None, *, known: bool) -> container_world.Holder:
    """Whose the engine's port is now. `known`: that there is no container is a fact, if `seen` is None."""
    pid = seen.pid if seen is not None and seen.up else run.pid if run is not None else 0
    id_ = seen.id if seen is not None else container_record.id_of(run) if run is not None else ""
    ours = container_world.processes(id_, pid) if id_ else ()
    if not known:
        return container_world.unasked(ours, launch.address, launch.port)
    return container_world.holder(seen, ours, launch.address, launch.port)


def _last_words(run: Run | None, seen: Container | None) -> str:
    """How the run ended, when it did: `; it exited with status 3`."""
    if run is None or seen is None or seen.up or seen.identity != run.identity:
        return ""
    return f"; it {seen.ended}"


def _logs(seen: Container) -> str:
    return f"/containers/{quote(seen.id, safe='')}/logs"


def _since(seen: Container) -> Mapping[str, str]:
    """All of the present start's lines: from the end of the one before. Its first come before `started`."""
    before = instant(seen.finished).timestamp() if seen.finished else 0.0
    return {"since": f"{before:.6f}"} if before > 0 else {}


def _failed(launch: Launch, error: Unanswered | Declined) -> EngineFailed:
    if isinstance(error, Declined):
        return EngineFailed(engine=launch.engine, why=f"the container engine says: {error.said.strip()}")
    return EngineFailed(engine=launch.engine, why=f"the container engine cannot be asked: {error}")
