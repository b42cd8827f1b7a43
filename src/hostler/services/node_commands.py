"""What a lease does beyond engines and routes: commands and webhooks of the config (LEASE-2).

Decides when a command counts as done. Which argv and which URL there are is the config's; how one is run or
called is an adapter's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.domain.errors import NotFound, StepFailed
from hostler.domain.plan import text
from hostler.domain.step import (
    CallWebhook,
    FoundCommand,
    Operation,
    RunCommand,
    UndoCommand,
    UndoWebhook,
)
from hostler.domain.values import format_duration, shorten
from hostler.services.node_needs import Commands, Ran, Webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommands:
    """The exec and webhook steps of one host. `redact` takes our secrets out of what is told (SEC-1)."""

    commands: Commands
    webhooks: Webhooks
    hold_path: str = ""

    def preflight(self, step: RunCommand) -> None:
        """Refuses `not_found`, for good, when one of its programs is not there."""
        for argv in (step.argv, step.undo, step.check):
            if argv and not self.commands.exists(argv[0]):
                raise NotFound(what="command", name=shorten(argv[0], 256))

    async def observe(self, step: RunCommand | UndoCommand) -> FoundCommand:
        """What `check` says; nothing without one."""
        return FoundCommand(already=await self._already(step))

    async def run(self, step: RunCommand | UndoCommand) -> None:
        """Run it, unless `check` says that it is so already. Refuses `step_failed`."""
        wanted = isinstance(step, RunCommand)
        if await self._already(step) is wanted:
            return
        ran = await self._ran(step, step.argv)
        if ran.status != 0:
            raise StepFailed(step=text(step), why=_told(ran, step.timeout_s))

    async def verify(self, step: RunCommand | UndoCommand) -> str | None:
        """What `check` says now; without one the exit code was all there is to see."""
        already = await self._already(step)
        if already is None or already is isinstance(step, RunCommand):
            return None
        return "its check says that it is not so" if not already else "its check says that it is still so"

    async def call(self, operation: Operation, step: CallWebhook | UndoWebhook) -> None:
        """POST what happens, known by the operation's id when it is repeated. Refuses `step_failed`."""
        body = {
            "do": "undo" if isinstance(step, UndoWebhook) else "do",
            "operation": operation.id,
            "lease": operation.lease,
            "epoch": operation.fence.epoch,
            "generation": operation.fence.generation,
            "resources": list(operation.covers),
            "holder": operation.holder,
        }
        failed = await self.webhooks.call(step.url, body, timeout_s=step.timeout_s)
        if failed is not None:
            raise StepFailed(step=text(step), why=failed)

    async def _already(self, step: RunCommand | UndoCommand) -> bool | None:
        if step.check is None:
            return None
        return (await self._ran(step, step.check)).status == 0

    async def _ran(self, step: RunCommand | UndoCommand, argv: tuple[str, ...]) -> Ran:
        try:
            environment = None if step.cap_s is None else script_environment(self.hold_path, step.cap_s)
            return await self.commands.run(argv, timeout_s=step.timeout_s, env=environment)
        except OSError as error:
            why = f"{shorten(argv[0])} cannot be run: {error.strerror or error}"
            raise StepFailed(step=text(step), why=why) from error


def script_environment(hold_path: str, cap_s: float | None = None) -> Mapping[str, str]:
    """What a window's script is told: where the hold is, under the name that such scripts know (MODE-4)."""
    cap = {} if cap_s is None else {"HOSTLER_CAP_SECONDS": f"{cap_s:.0f}"}
    return {"HOSTLER_BOX_RESERVATION_PATH": hold_path, **cap}


def _told(ran: Ran, timeout_s: float) -> str:
    what = (
        f"exit code {ran.status}" if ran.status is not None else f"killed after {format_duration(timeout_s)}"
    )
    return f"{what}: {shorten(ran.last.strip(), 300)}" if ran.last.strip() else what
