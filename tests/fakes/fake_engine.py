"""The fake llama-server of `demo/fake_engine.py` as tests start it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from demo import real_engine
from hostler.domain.engine import Launch
from hostler.domain.values import EngineId

PATIENCE_S = 20.0
"""How long a condition may take on a busy machine before its test fails; it is no measurement."""


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def program_launch(
    program: real_engine.EngineProgram,
    *more: str,
    root: Path,
    name: str = "fast",
    model: Path | None = None,
    port: int | None = None,
) -> Launch:
    """A launch of `program` with everything below `root`; `more` is added to its argv."""
    port = port or free_port()
    argv = program.argv(model or root / "none.gguf", name, *more)
    return Launch(
        engine=EngineId(name),
        driver="process",
        argv=tuple(one.format(address="127.0.0.1", port=port) for one in argv),
        env=program.env,
        cwd=str(root),
        address="127.0.0.1",
        port=port,
        url=f"http://127.0.0.1:{port}",
        model=name,
        directory=str(root / "engines" / name),
    )


def fake_launch(root: Path, *fakes: str, name: str = "fast", port: int | None = None) -> Launch:
    """A launch of the fake engine with these misbehaviours, such as `load-until=/a/file`."""
    more = [word for one in fakes for word in ("--fake", one)]
    return program_launch(real_engine.fake(), *more, root=root, name=name, port=port)


async def eventually(
    true: Callable[[], bool | Awaitable[bool]], what: str, *, patience_s: float = PATIENCE_S
) -> None:
    """Return once `true` is; fail with `what` when it does not come true."""
    try:
        async with asyncio.timeout(patience_s):
            while not await _value(true()):  # noqa: ASYNC110 - processes and files have no event to await
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never came true: {what}") from None


async def _value(found: bool | Awaitable[bool]) -> bool:
    return found if isinstance(found, bool) else await found
