"""Where everything of this daemon is (CONF-5): one function, asked by the daemon and by every command.

Decides places only; makes no directory and reads no file. The hold file is `hostler.adapters.hold_path`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.config.find import home
from hostler.domain.fleet import Node
from hostler.domain.values import NAME

SYSTEM_STATE: Final = Path("/var/lib/hostler")
SYSTEM_RUNTIME: Final = Path("/run/hostler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The places of one node. Small state is JSON written whole; the databases are the schedule's."""

    state_dir: Path
    runtime_dir: Path
    models_dir: Path
    hold_path: Path

    @property
    def schedule_db(self) -> Path:
        """Leases, jobs and events; the head's."""
        return self.state_dir / "schedule.db"

    @property
    def history(self) -> Path:
        """The history's files (HIST-1)."""
        return self.state_dir / "history"

    @property
    def requests_db(self) -> Path:
        """The request log."""
        return self.state_dir / "requests.db"

    @property
    def keys(self) -> Path:
        """Hashes of keys made by `hostler keys create`."""
        return self.state_dir / "keys.json"

    @property
    def local_key(self) -> Path:
        """The key that this user's commands send to the local daemon."""
        return self.state_dir / "local.key"

    @property
    def routes(self) -> Path:
        """The active profile of each route."""
        return self.state_dir / "routes.json"

    @property
    def fence(self) -> Path:
        """The fence, as last heard from the head."""
        return self.state_dir / "fence.json"

    @property
    def daemon(self) -> Path:
        """Where the daemon listens, for commands."""
        return self.state_dir / "daemon.json"

    @property
    def daemon_lock(self) -> Path:
        """Held by the one orchestrating daemon of this box: beside the hold, where all of them meet."""
        return self.hold_path.with_name("hostler-daemon.lock")

    @property
    def state_lock(self) -> Path:
        """Held by the daemon whose state this is, whatever its hold path."""
        return self.state_dir / "daemon.lock"

    @property
    def logs(self) -> Path:
        """The daemon's own log files."""
        return self.state_dir / "logs"

    @property
    def engines(self) -> Path:
        """One directory per engine."""
        return self.state_dir / "engines"

    def engine(self, name: str) -> Path:
        """The directory of an engine: run.json, suspended.json, its logs. ValueError for no engine's name."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an engine")
        return self.engines / name

    @property
    def receipts(self) -> Path:
        """Answers to operations of the node API, and the highest fence number per resource."""
        return self.state_dir / "receipts"

    @property
    def windows(self) -> Path:
        """One directory per window."""
        return self.state_dir / "windows"

    @property
    def client(self) -> Path:
        """This user's own leases and what could not be sent yet."""
        return self.state_dir / "client"

    def listing(self) -> dict[str, str]:
        """Every place by its name, as `hostler paths` prints it."""
        return {
            "state_dir": str(self.state_dir),
            "runtime_dir": str(self.runtime_dir),
            "models_dir": str(self.models_dir),
            "hold": str(self.hold_path),
            "daemon_lock": str(self.daemon_lock),
            "state_lock": str(self.state_lock),
            "daemon": str(self.daemon),
            "local_key": str(self.local_key),
            "keys": str(self.keys),
            "routes": str(self.routes),
            "fence": str(self.fence),
            "schedule_db": str(self.schedule_db),
            "history": str(self.history),
            "requests_db": str(self.requests_db),
            "logs": str(self.logs),
            "engines": str(self.engines),
            "receipts": str(self.receipts),
            "windows": str(self.windows),
            "client": str(self.client),
        }


def state_dir(env: Mapping[str, str], configured: str | None = None) -> Path:
    """The state directory: node.state_dir, $HOSTLER_STATE_DIR, what systemd gives, the XDG one.

    A process without a home is a system service: /var/lib/hostler.
    """
    if configured:
        return Path(configured)
    for name in ("HOSTLER_STATE_DIR", "STATE_DIRECTORY"):
        # systemd lists several directories with colons; ours is the first.
        given = env.get(name, "").partition(":")[0] if name == "STATE_DIRECTORY" else env.get(name, "")
        if given.startswith("/"):
            return Path(given)
    found = home(env, "XDG_STATE_HOME", ".local/state")
    return SYSTEM_STATE if found is None else found / "hostler"


def resolve_paths(env: Mapping[str, str], node: Node, hold_path: str) -> Paths:
    """The places of a daemon with this environment and this `node:`; `hold_path` is where the hold is."""
    state = state_dir(env, node.state_dir)
    runtime, given = env.get("XDG_RUNTIME_DIR", ""), env.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    data = home(env, "XDG_DATA_HOME", ".local/share")
    return Paths(
        state_dir=state,
        runtime_dir=_runtime(state, runtime, given, homeless=not env.get("HOME", "").startswith("/")),
        models_dir=_models(state, node.models_dir, data),
        hold_path=Path(hold_path),
    )


def _runtime(state: Path, xdg: str, given: str, *, homeless: bool) -> Path:
    if given.startswith("/"):
        return Path(given)
    if xdg.startswith("/"):
        return Path(xdg) / "hostler"
    return SYSTEM_RUNTIME if homeless else state / "run"


def _models(state: Path, configured: str | None, data: Path | None) -> Path:
    if configured:
        return Path(configured)
    return state / "models" if data is None else data / "hostler" / "models"
