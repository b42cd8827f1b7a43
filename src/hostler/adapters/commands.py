"""Commands of `exec` actions (LEASE-2): the need `Commands`.

Decides how one is run: argv only, a clean environment, a session of its own that is killed when its
time is up. Which commands there are is the config's decision.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hostler.adapters.drivers.run_record import clean_environment
from hostler.services.node_needs import Ran

KEPT: Final = 4096
"""The last bytes of its output: enough for the sentence that says why it failed."""
PIPE_S: Final = 0.5
"""How long output is read on after its end: what it left running may keep the pipe open for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCommands:
    """Runs commands of this host with what may be passed on of `environment` (ENG-2)."""

    environment: Mapping[str, str]
    more: Mapping[str, str] = field(default_factory=dict)
    """Added to the clean environment."""

    def exists(self, program: str) -> bool:
        return shutil.which(program, path=self.environment.get("PATH")) is not None

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Ran:
        # A pipe of our own: one of asyncio's would make its end wait for whatever the command leaves running.
        reading, writing = os.pipe()
        try:
            process = await _whole(self._spawn(argv, writing, env or {}))
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        tail = _Tail()
        pipe = await tail.follow(reading)
        status: int | None = None
        try:
            async with asyncio.timeout(timeout_s):
                status = await process.wait()
        except TimeoutError:
            status = None
        finally:
            # Its group goes with it, also when who asked has left: an action leaves nothing behind.
            await _end(process)
            await tail.rest()
            pipe.close()
        return Ran(status=status, last=tail.text())

    async def _spawn(
        self, argv: Sequence[str], output: int, more: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=clean_environment(self.environment, {**self.more, **more}),
            cwd="/",
            start_new_session=True,
        )


@dataclass(eq=False, slots=True)
class _Tail(asyncio.Protocol):
    """The end of a command's output; `over` once nobody can write to it any more."""

    data: bytes = b""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, reading: int) -> asyncio.ReadTransport:
        """Read what comes; the transport is closed by who called."""
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb", buffering=0))
        return pipe

    def data_received(self, data: bytes) -> None:
        """Keep the last of it."""
        self.data = (self.data + data)[-KEPT:]

    def connection_lost(self, _: Exception | None) -> None:
        """Every end is closed."""
        self.over.set()

    async def rest(self) -> None:
        """Wait a moment for what is still in the pipe."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), PIPE_S)

    def text(self) -> str:
        """What was kept, as text."""
        return self.data.decode("utf-8", "replace")


async def _whole(
    spawning: Coroutine[object, object, asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """The process of a spawn that is not left half way: who leaves in its middle leaves a command behind."""
    task = asyncio.ensure_future(spawning)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end(await task)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the group of a command that did not end. Its leader is our child: its pid is nobody else's yet."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
