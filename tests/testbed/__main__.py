"""`make testbed`: the two-host example by hand, until Ctrl-C; how to talk to each host, how to cut the cable.

Its engines are tiny ones, its memory has the example's figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.testbed.bed import Bed, bed
from tests.testbed.box import KEY, PORT
from tests.testbed.cable import HOSTS, NoNamespaces
from tests.testbed.example import memory, stand_in


def said(it: Bed) -> str:
    """How to use what runs."""
    lines = [f"engines: {it.program.name}; state in {it.root}; the key of all: {KEY}", ""]
    for name, address in HOSTS.items():
        box = it.boxes[name]
        env = " ".join(
            f"{key}={value}" for key, value in box.environment().items() if key.startswith(("HOSTLER", "XDG"))
        )
        role = "the head, " if name == "crow" else ""
        lines.append(
            f"{name}: {role}{address}:{PORT}, its daemon is pid {box.daemon.pid if box.daemon else '-'}"
        )
        lines.append(f"  env {env} {' '.join(it.cable.inside(name))} {sys.executable} -m hostler nodes")
    space = it.cable.space("crow")
    head = f"HOSTLER_HEAD_URL=http://{HOSTS['crow']}:{PORT} HOSTLER_HEAD_API_KEY={KEY}"
    return "\n".join(
        [
            *lines,
            "",
            f"from raven the schedule is reached with {head}",
            f"cut:  ip -n {space} link set cable down",
            f"heal: ip -n {space} link set cable up",
            "",
            "in place of `nodes`: mode, `mode plan heavy-glm`, schedule, engines,",
            "`window open heavy-glm --override windowed --cap 20m`, `window close`, `window report`.",
            "`serve` starts a daemon again that was killed. The upstream cloud is nobody: in the heavy modes",
            "`chat` leads there and is answered by an error; ask for the model `glm-5.3-flash`.",
            "Ctrl-C ends everything.",
        ]
    )


async def main() -> int:
    """Until Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory(prefix="hostler-testbed.") as root:
        try:
            async with bed(Path(root), real=True) as it:
                stand_in(it)
                async with memory(it):
                    await it.start()
                    print(said(it), flush=True)
                    with contextlib.suppress(asyncio.CancelledError):
                        await stop.wait()
        except NoNamespaces as error:
            print(f"make testbed: needs root and iproute2: {error}", file=sys.stderr)
            return 1
    print("gone")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
