"""Engines that are not ours to run (`driver: external`): probed, never started, never stopped (ENG-2).

Decides only how one is looked at. Its process is not known, so its port's owner is `unknown` and the
served model id alone says whether it is the expected one (ENG-4).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hostler.adapters.drivers import http_look
from hostler.domain.engine import ExitReport, Launch, Probe, Restore, Run, StopReport
from hostler.domain.errors import NotLaunchable
from hostler.domain.fleet import Secret
from hostler.domain.values import EngineId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalDriver:
    """The Driver of `driver: external`. `key` tells what an engine is sent as its key, None for none."""

    key: Callable[[EngineId], Secret | None] = lambda _: None

    async def start(self, launch: Launch) -> Run:
        """Refuses: not_launchable."""
        raise _not_ours(launch)

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look over HTTP; `alive` means that it answered."""
        key = self.key(launch.engine)
        headers = {"Authorization": f"Bearer {key.value}"} if key else {}
        seen = await http_look.look(launch.url, launch.health, headers)
        return Probe(
            alive=seen.health != "unreachable",
            port_owner="unknown",
            health=seen.health,
            http_status=seen.status,
            model_ids=seen.ids,
            detail=seen.detail,
        )

    async def adopt(self, launch: Launch) -> Run | None:
        """None: there is no process of ours to find again."""
        return None

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """Refuses: not_launchable."""
        raise _not_ours(launch)

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Refuses: not_launchable."""
        raise _not_ours(launch)

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """Empty: its log is elsewhere."""
        return []

    async def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Ends at once: its log is elsewhere."""
        for line in self.tail(launch, 0):
            yield line

    def restore(self, launch: Launch) -> Restore:
        """Refuses: not_launchable. Nothing of ours could bring it back."""
        raise _not_ours(launch)

    def rss(self, run: Run) -> int | None:
        """None: its memory is not seen from here."""
        return None

    async def revival(self, launch: Launch) -> str | None:
        """None. Whoever runs it elsewhere is not asked."""
        return None

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Nothing: there is no such setting."""


def _not_ours(launch: Launch) -> NotLaunchable:
    return NotLaunchable(
        engine=launch.engine,
        why="it is external: probed, never started or stopped",
        fix="Start or stop it where it runs, or give it a driver of its own in the config.",
    )
