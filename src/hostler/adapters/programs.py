"""Programs that engines name: whether one is there to be run, and which build it says it is (CAT-8).

Decides how a build is asked for: `--version`, once per binary as it lies on the disk. What it means is the
domain's decision.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.adapters.commands import SystemCommands

REPORT_S: Final = 20.0
"""A binary that loads its GPU libraries first takes some seconds to say its version."""

Looks = tuple[str, int, int, int, int]
"""A file's path, device, inode, size and mtime: another binary at the same path looks otherwise."""


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """Executables of this machine: the need `Programs`. `reports` has what each said when it was asked."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    reports: dict[str, tuple[Looks, str]] = field(default_factory=dict)

    def exists(self, program: str, env: Mapping[str, str], cwd: str) -> bool:
        """Whether `program` is an executable file: by its path, else on the engine's PATH or ours."""
        return self._find(program, env, cwd) is not None

    def report(self, program: str, env: Mapping[str, str], cwd: str) -> str | None:
        """What the binary said of its build; None where this one was not asked yet."""
        found = self._looks(program, env, cwd)
        said = None if found is None else self.reports.get(found[0])
        return said[1] if said is not None and said[0] == found else None

    async def ask(self, program: str, env: Mapping[str, str], cwd: str) -> None:
        """Ask the binary for its build, unless this very one has said it. One that fails says nothing."""
        found = self._looks(program, env, cwd)
        if found is None or self.report(program, env, cwd) is not None:
            return
        commands = SystemCommands(environment=self.environment, more=env)
        try:
            ran = await commands.run((found[0], "--version"), timeout_s=REPORT_S)
            said = ran.last if ran.status == 0 else ""
        except OSError:
            said = ""  # It cannot be run: then it does not say which build it is, and that is told.
        self.reports[found[0]] = (found, said)

    def _find(self, program: str, env: Mapping[str, str], cwd: str) -> Path | None:
        if "/" in program:
            path = Path(cwd, program)
            return path if path.is_file() and os.access(path, os.X_OK) else None
        found = shutil.which(program, path=env.get("PATH", self.environment.get("PATH")))
        return None if found is None else Path(found)

    def _looks(self, program: str, env: Mapping[str, str], cwd: str) -> Looks | None:
        path = self._find(program, env, cwd)
        if path is None:
            return None
        try:
            found = path.stat()
        except OSError:
            return None  # It went away between the two looks: as if it had never been there.
        return (str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
