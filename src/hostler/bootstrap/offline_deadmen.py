"""The deadmen of this host for a command that needs no daemon (INTERFACE-3).

Decides where their windows are, by the config. A config that is broken does not hide them: then they are
looked for where they are without one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hostler.adapters.config.paths import state_dir
from hostler.adapters.deadmen import SystemDeadmen
from hostler.bootstrap.offline import offline_config
from hostler.domain.errors import InvalidConfig, NoConfig


def offline_deadmen(env: Mapping[str, str]) -> SystemDeadmen:
    """Those below the state directory of this user, environment and config."""
    try:
        state = Path(offline_config(env).paths(None, None)["state_dir"])
    except (InvalidConfig, NoConfig):
        state = state_dir(env)
    return SystemDeadmen(root=state, host=os.uname().nodename, hold_path=Path("/"), environment=env)
