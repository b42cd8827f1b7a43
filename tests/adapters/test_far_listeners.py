"""The listeners of another host, over the control API of a daemon on loopback."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hostler.adapters.nodes.far_listeners import DaemonListeners
from hostler.domain.errors import DaemonUnreachable, NodeUnreachable, NotFound
from hostler.interfaces.api.app import create_app
from hostler.services.ports_live import LivePort, LivePorts
from tests.interfaces.room import room
from tests.interfaces.terminal import served


@dataclass
class Raven:
    """The need `FarHost`, as far as ports go."""

    found: LivePorts

    async def ports(self) -> LivePorts:
        return self.found

    async def logs(self, engine: str, lines: int) -> tuple[str, ...]:
        raise AssertionError(f"nobody asks for {lines} lines of {engine}")

    async def acquire(self, engine: str, by: str) -> bool:
        raise AssertionError(f"{by} asks for no {engine}")


async def test_the_listeners_of_another_host_come_from_the_daemon(tmp_path: Path) -> None:
    """PORT-5: as `ports live --host` shows them; where they cannot be read there that is a refusal."""
    async with room() as it:
        raven = LivePorts(
            host="raven",
            auto_from=8100,
            auto_to=8109,
            ports=(
                LivePort(
                    address="127.0.0.1",
                    port=8031,
                    protocol="tcp",
                    pid=None,
                    process="",
                    unit="",
                    container="",
                    engine="",
                    service="",
                    status="",
                    known=False,
                ),
            ),
            silent=(),
            note="Sockets of other users may show no process.",
        )
        far = Raven(raven)
        app = create_app(replace(it.control, far={"raven": far}))
        async with served(app, tmp_path) as user:
            seen = DaemonListeners(env=user.env)
            (found,) = await asyncio.to_thread(seen.listening_on, "raven")
            assert (found.address, found.port, found.protocol) == ("127.0.0.1", 8031, "tcp")
            far.found = replace(raven, ports=(), note="The listeners of this machine cannot be read: no.")
            with pytest.raises(NodeUnreachable, match="cannot be read: no"):
                await asyncio.to_thread(seen.listening_on, "raven")
            with pytest.raises(NotFound):
                await asyncio.to_thread(seen.listening_on, "dawn")


def test_without_a_daemon(tmp_path: Path) -> None:
    """PORT-5, INTERFACE-3: no daemon of this user runs: that is the refusal."""
    with pytest.raises(DaemonUnreachable):
        DaemonListeners(env={"HOSTLER_STATE_DIR": str(tmp_path)}).listening_on("raven")
