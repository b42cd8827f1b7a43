"""People at a shell: `hostler` on their path, a state directory each, and what they leave running ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes import overlap_worker
from tests.fakes.fake_engine import eventually
from tests.fakes.overlap_worker import Span, spans
from tests.story.house import House
from tests.story.lease_house import Command, Holder


def person(it: House, name: str, **more: str) -> Mapping[str, str]:
    """The environment of another user: a client state of her own, and the daemon's address and key."""
    return {
        "HOSTLER_STATE_DIR": str(it.root / f"state-of-{name}"),
        "HOSTLER_URL": it.url,
        "HOSTLER_API_KEY": it.key,
        "USER": name,
        **more,
    }


def program(it: House) -> Path:
    """`hostler` as a program on a path of its own."""
    found = it.root / "bin" / "hostler"
    if not found.exists():
        found.parent.mkdir()
        found.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hostler "$@"\n')
        found.chmod(0o700)
    return found


@asynccontextmanager
async def shell(it: House, script: str, **env: str) -> AsyncIterator[Command]:
    """`sh -c SCRIPT` in a session of its own; what of its group still runs at the end is killed."""
    path = f"{program(it).parent}:{os.environ['PATH']}"
    with tempfile.NamedTemporaryFile(dir=it.root, prefix="shell.", delete=False) as out:
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            script,
            env={**it.environment(**env), "PATH": path},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Command(process=process, out=Path(out.name))
    finally:
        # The number is this group's while anybody of it is there; else there is none of that name.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def typed(it: House, script: str, **env: str) -> tuple[int, str]:
    """The exit code of a script, and what it said."""
    async with shell(it, script, **env) as it_:
        return await it_.code(60), it_.said()


def work(it: House, name: str) -> str:
    """The words of a shell for work that writes when it begins and ends (`fakes.overlap_worker`)."""
    return shlex.join([sys.executable, overlap_worker.__file__, str(it.root), name])


def go(it: House, name: str) -> None:
    """Let that work end."""
    (it.root / f"go.{name}").touch()


async def gets(holder: Holder) -> None:
    """Keep a place and take up its offer, until the lease is active."""

    async def active() -> bool:
        await holder.do("renew", wait_s=1.0)
        return holder.last["state"] == "active"

    await eventually(active, f"{holder.name} has it\n{holder.it.words()}")


async def begun(it: House, name: str) -> Span:
    """That work, once it has begun."""
    found: list[Span] = []

    def true() -> bool:
        found[:] = [span for span in spans(it.root) if span.name == name]
        return bool(found)

    await eventually(true, f"{name} works\n{it.words()}")
    return found[0]
