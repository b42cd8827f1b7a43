"""A real systemd user manager for tests: `user_manager.sh` beside this file, and how it is talked to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hostler.adapters.drivers.journal import Journal

PROGRAMS: Final = ("unshare", "mount", "dbus-daemon", "systemctl", "systemd-run", "journalctl")
PARTS: Final = (Path("/lib/systemd/systemd"), Path("/lib/systemd/systemd-journald"))
UP_S: Final = 20.0
DOWN_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserManager:
    """One that runs. `runtime` is its XDG_RUNTIME_DIR, `root` its own view of the machine's files."""

    runtime: Path
    root: Path

    @property
    def home(self) -> Path:
        """The home of its user: units are in .config/systemd/user."""
        return self.runtime / "home"

    @property
    def units(self) -> Path:
        """Where its user's units are."""
        return self.home / ".config/systemd/user"

    @property
    def cgroups(self) -> Path:
        """Its control groups, seen from here."""
        return self.root / "sys/fs/cgroup"

    @property
    def environment(self) -> Mapping[str, str]:
        """Of whoever talks to it: nothing of this machine's own but the PATH."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime)}

    @property
    def journal(self) -> Journal:
        """Its journal."""
        return Journal(
            environment=self.environment,
            program=("journalctl", f"--directory={self.root / 'run/log/journal'}"),
        )

    def systemctl(self, *words: str) -> str:
        """What `systemctl --user` prints; the call must succeed."""
        return self.call("systemctl", "--user", *words)

    def call(self, *argv: str) -> str:
        """What a command prints that talks to it; the call must succeed."""
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, unit: str, text: str) -> None:
        """A unit file, and the manager told of it."""
        self.units.mkdir(parents=True, exist_ok=True)
        (self.units / unit).write_text(text)
        self.systemctl("daemon-reload")


@contextmanager
def user_manager() -> Iterator[UserManager]:
    """One manager. Where there can be none the test is skipped with the reason; with CI=true it fails."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [str(path) for path in PARTS if not path.exists()]
    if os.geteuid() != 0 or missing:
        _cannot(f"needs root, and {', '.join(missing) or 'what it has'}: a systemd user manager")
    runtime = Path(tempfile.mkdtemp(prefix="hostler-um-"))
    log = runtime / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", str(Path(__file__).with_suffix(".sh"))],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "RUNTIME": str(runtime), "GROUP": runtime.name},
            start_new_session=True,
        )
    try:
        if not _up(process, runtime):
            _cannot(f"no systemd user manager can be started here: {log.read_text(errors='replace')}")
        manager = (runtime / "pids").read_text().split()[0]
        yield UserManager(runtime=runtime, root=Path("/proc", manager, "root"))
    finally:
        if process.stdin is not None:
            process.stdin.close()  # The manager ends, and all its units with it.
        try:
            process.wait(DOWN_S)
        finally:
            sys.stderr.write("" if process.poll() == 0 else log.read_text(errors="replace"))
            shutil.rmtree(runtime, ignore_errors=True)


def _up(process: subprocess.Popen[bytes], runtime: Path) -> bool:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline and process.poll() is None:
        if (runtime / "pids").exists():
            return True
        time.sleep(0.02)
    return False


def _cannot(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
