"""The command line as a process, against a control API on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import sys
import unittest.mock
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from hostler.__main__ import Lazily
from hostler.interfaces.cli.main import run
from tests.fakes.signals import send
from tests.interfaces.room import LOCAL

HOSTLER = (sys.executable, "-m", "hostler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A user's shell: runs commands with one environment."""

    env: Mapping[str, str] = field(default_factory=dict)

    async def run(self, *words: str, **extra: str) -> Ended:
        """Run `hostler WORDS` on pipes to its end."""
        process = await asyncio.create_subprocess_exec(
            *HOSTLER,
            *words,
            env={**self.env, **extra},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Ended(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def inside(self, *words: str) -> Ended:
        """As `run`, but in this process, a fifth of the time: for tables of many commands."""
        out, err = io.StringIO(), io.StringIO()
        with (
            unittest.mock.patch.dict(os.environ, self.env, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = await asyncio.to_thread(run, words, Lazily())
        return Ended(code=code, out=out.getvalue(), err=err.getvalue())

    async def on_terminal(self, *words: str, until: str = "", **extra: str) -> tuple[int, str]:
        """Run `hostler WORDS` on a terminal; with `until` only until it printed that, then Ctrl-C."""
        ours, theirs = os.openpty()
        process = await asyncio.create_subprocess_exec(
            *HOSTLER,
            *words,
            env={**self.env, "TERM": "xterm-256color", "COLUMNS": "200", **extra},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = await asyncio.to_thread(_read, ours, until, process)
        os.close(ours)
        return await process.wait(), seen


def _read(terminal: int, until: str, process: asyncio.subprocess.Process) -> str:
    seen = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return seen.decode()
        seen += data
        if not data:
            return seen.decode()
        if until and until in seen.decode(errors="ignore"):
            send(process, 2)
            until = ""


@asynccontextmanager
async def served(app: ASGIApp, state: Path) -> AsyncIterator[Shell]:
    """A shell of a user whose daemon serves `app`."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    # What uvicorn puts back at its end would be the handler of a runner that is over.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment] # signals are pytest's
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield shell(state, HOSTLER_URL=f"http://127.0.0.1:{listener.getsockname()[1]}", HOSTLER_API_KEY=LOCAL)
    finally:
        server.should_exit = True
        await serving


def shell(state: Path, **more: str) -> Shell:
    """A shell with nothing of this machine's in its environment but the PATH."""
    env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(state),
        "HOSTLER_STATE_DIR": str(state),
        "TZ": "Europe/Berlin",
        "LANG": "C.UTF-8",
        **more,
    }
    return Shell(env=env)
