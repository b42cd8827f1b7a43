"""Whether a program that an engine names is there to be run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """Executables of this machine: the need `Programs`."""

    def exists(self, program: str, env: Mapping[str, str], cwd: str) -> bool:
        """Whether `program` is an executable file: by its path, else on the engine's PATH or ours."""
        if "/" in program:
            path = Path(cwd, program)
            return path.is_file() and os.access(path, os.X_OK)
        return shutil.which(program, path=env.get("PATH", os.environ.get("PATH"))) is not None
