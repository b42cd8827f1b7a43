"""Asks a systemd manager by `systemctl`: argv only, bounded in time, never a question on a terminal.

Decides in which words a manager that does not do what it is asked is told, and what helps. What is asked
is decided by who asks: the `systemd` driver, and `hostler service`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Literal

from hostler.adapters.commands import SystemCommands
from hostler.domain.values import shorten

Scope = Literal["user", "system"]
ASK_S: Final = 10.0
"""How long one call may take. It takes milliseconds; a manager that reloads takes longer."""
LONGEST: Final = 300


class Unanswered(Exception):
    """The manager was not reached, or said no: `str()` says what, `fix` what helps."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Systemctl:
    """The manager of `scope`: the machine's, or that of this user."""

    scope: Scope
    commands: SystemCommands

    def argv(self, *words: str) -> tuple[str, ...]:
        """The command line of one call."""
        return ("systemctl", f"--{self.scope}", "--no-ask-password", "--no-pager", *words)

    async def ask(self, *words: str, timeout_s: float = ASK_S) -> str:
        """What it prints. Raises Unanswered when it cannot be run, fails, or is not done in time."""
        try:
            ran = await self.commands.run(self.argv(*words), timeout_s=timeout_s)
        except OSError as error:
            why = f"systemctl cannot be run: {error.strerror or error}"
            raise Unanswered(why, "Only a host with systemd has units.") from error
        if ran.status == 0:
            return ran.last
        if ran.status is None:
            raise Unanswered(f"the {self.scope} manager did not answer in {timeout_s:g} s", self._fix(""))
        told = shorten(ran.last.strip().splitlines()[-1] if ran.last.strip() else "it said nothing", LONGEST)
        raise Unanswered(f"the {self.scope} manager says: {told.rstrip('.')}", self._fix(ran.last))

    async def properties(
        self, unit: str, names: tuple[str, ...], *, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Properties of a unit by their names, as text; empty ones too. Raises as `ask`."""
        asked = ("show", f"--property={','.join(names)}", "--", unit)
        told = await self.ask(*asked, timeout_s=timeout_s or ASK_S)
        pairs = (line.partition("=") for line in told.splitlines())
        return {name: value for name, mark, value in pairs if mark}

    def _fix(self, told: str) -> str:
        if "not been booted" in told:
            return "This host's init is no systemd: start the engine in another way."
        if "authentication" in told or "denied" in told or "not permitted" in told.lower():
            right = "org.freedesktop.systemd1.manage-units"
            return f"Run Hostler as root, or let a polkit rule give this user {right}."
        if self.scope == "user" and ("bus" in told or not told):
            return (
                "A user's manager runs while the user is logged in, or always after `loginctl enable-linger`;"
                f" it is found by XDG_RUNTIME_DIR=/run/user/{os.geteuid()}."
            )
        return f"`systemctl --{self.scope} status` shows how it is."
