"""Services of compose projects (`driver: compose`): brought up by the compose command, which has no API.

Decides what the command is told and what its "no" means. The container that it makes is found by compose's
labels, and looked after like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.drivers import run_record
from hostler.adapters.drivers.container_api import ContainerApi
from hostler.adapters.drivers.container_find import ByService
from hostler.adapters.drivers.container_made import RESTORE_STOP_S
from hostler.adapters.drivers.container_seen import Container
from hostler.domain import fleet
from hostler.domain.engine import Launch, Restore
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.values import format_duration, shorten

UP_S: Final = 240.0
"""For one compose command, as long as a container's start may take (ENG-5)."""
MOST_WORDS: Final = 400
"""What is kept of a command's complaint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeServices:
    """The Maker of `driver: compose`. `environment` is ours, of which five names are passed on."""

    api: ContainerApi
    environment: Mapping[str, str]

    def where(self, launch: Launch) -> ByService:
        """By the labels of its project and service."""
        keys = _keys(launch)
        return ByService(project=keys.project, service=keys.service)

    def named(self, launch: Launch) -> bool:
        """With `compose`."""
        return launch.compose is not None

    def owns(self, launch: Launch, seen: Container) -> bool:
        """The labels said so."""
        return True

    async def bring_up(self, launch: Launch, seen: Container | None) -> None:
        """`up -d --no-deps SERVICE`: compose decides whether its container is made anew."""
        keys = _keys(launch)
        if not await asyncio.to_thread(Path(keys.file).is_file):
            why, fix = f"there is no file {keys.file}", "Put it there, or correct compose.file in the config."
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix)
        status, said = await self._run(launch, _up(keys))
        if status == 0:
            return
        known, services = await self._run(launch, (*_project(keys), "config", "--services"))
        if known != 0 or keys.service not in services.split():
            fix = f"Correct {keys.file}, or compose.service in the config."
            raise NotLaunchable(engine=launch.engine, why=f"{keys.command[0]} says: {said}", fix=fix)
        raise EngineFailed(engine=launch.engine, why=f"{keys.command[0]} says: {said}")

    async def _run(self, launch: Launch, argv: Sequence[str]) -> tuple[int, str]:
        """Exit status of a compose command, and its last words. Refuses where it cannot be run or hangs."""
        try:
            child = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            why, fix = f"{argv[0]}: {error.strerror}", "Install it, or correct compose.command in the config."
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix) from error
        try:
            async with asyncio.timeout(UP_S):
                said, _ = await child.communicate()
        except TimeoutError:
            why = f"{argv[0]} did not end within {format_duration(UP_S)}"
            raise EngineFailed(engine=launch.engine, why=why) from None
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # Its own session: its children go with it.
                await child.wait()
        words = " ".join(said.decode(errors="replace").split())
        return child.returncode or 0, shorten(words[-MOST_WORDS:], MOST_WORDS)

    def _environment(self) -> dict[str, str]:
        return run_record.clean_environment(
            self.environment, {"DOCKER_HOST": f"unix://{self.api.socket}"} if self.api.socket else {}
        )

    def restore(self, launch: Launch, seen: Container | None) -> Restore:
        """The same command; its `stop` waits long before it kills."""
        keys = _keys(launch)
        return Restore(
            argv=_up(keys),
            env=self._environment(),
            cwd="/",
            probe_url=launch.url + (launch.health if launch.health.startswith("/") else ""),
            model=launch.model,
            stop_argv=(*_project(keys), "stop", "-t", str(RESTORE_STOP_S), keys.service),
        )


def _project(keys: fleet.Compose) -> tuple[str, ...]:
    return (*keys.command, "-f", keys.file, "-p", keys.project)


def _up(keys: fleet.Compose) -> tuple[str, ...]:
    return (*_project(keys), "up", "-d", "--no-deps", keys.service)


def _keys(launch: Launch) -> fleet.Compose:
    if launch.compose is None:
        raise NotLaunchable(
            engine=launch.engine, why="it has no compose service", fix="Give it `compose` in the config."
        )
    return launch.compose
