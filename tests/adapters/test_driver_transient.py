"""How processes are started where systemd runs: the argv, and (slow) a real user manager in a namespace."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from hostler import supervisor
from hostler.adapters.drivers import transient
from hostler.adapters.drivers.process import ProcessDriver
from hostler.adapters.drivers.transient import Manager
from tests.fakes.fake_engine import fake_launch


def test_without_systemd_there_is_no_manager(tmp_path: Path) -> None:
    """ENG-2: where systemd is not the init, supervisors are started as they are."""
    assert transient.manager(uid=0, runtime_dir=None, root=tmp_path) is None
    assert transient.wrapped(None, "x", ["a", "b"]) == ("a", "b")


@pytest.mark.parametrize(
    ("uid", "private", "expected"),
    [(0, False, Manager(scope="system")), (1000, True, Manager(scope="user")), (1000, False, None)],
)
def test_the_manager_that_may_be_asked(
    tmp_path: Path, uid: int, private: bool, expected: Manager | None
) -> None:
    """ENG-2: root asks the machine's manager, a user the own one where it runs, else nobody."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    if private:
        socket = tmp_path / f"run/user/{uid}/systemd/private"
        socket.parent.mkdir(parents=True)
        socket.touch()
    assert transient.manager(uid=uid, runtime_dir=f"/run/user/{uid}", root=tmp_path) == expected


def test_a_scope_of_its_own() -> None:
    """ENG-2: the supervisor runs in a transient scope, outside the daemon unit's cgroup."""
    argv = Manager(scope="user").wrap("hostler-engine-fast", ["python", "supervisor.py"])
    assert argv == (
        "systemd-run",
        "--user",
        "--scope",
        "--quiet",
        "--collect",
        "--unit=hostler-engine-fast.scope",
        "--description=Hostler: hostler-engine-fast",
        "--",
        "python",
        "supervisor.py",
    )


def test_the_restore_has_it_too(tmp_path: Path) -> None:
    """ENG-2: the restore in words starts its supervisor in the same scope as the driver does."""
    driver = ProcessDriver(environment=os.environ, units=Manager(scope="system"))
    restore = driver.restore(fake_launch(tmp_path))
    plain = (sys.executable, "-I", "-S", supervisor.__file__, f"{tmp_path}/engines/fast/restore.json")
    assert restore.argv[:2] == ("systemd-run", "--system")
    assert restore.argv[-5:] == plain


# ---------------------------------------------------------------- a real manager

NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--cgroup")
MANAGER = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export XDG_RUNTIME_DIR=/run/user/0
dbus-daemon --session --address=unix:path=/run/user/0/bus --fork --nopidfile
systemd --user &
manager=$!
until [ -S /run/user/0/systemd/private ]; do sleep 0.05; done
systemd-run --user --quiet --unit=daemon --setenv=PYTHONPATH="$PYTHONPATH" --setenv=PATH="$PATH" \\
    --setenv=XDG_RUNTIME_DIR=/run/user/0 "$PYTHON" -m tests.fakes.transient_daemon "$FOLDER" start
until [ -s "$FOLDER/started" ]; do sleep 0.05; done
systemctl --user stop daemon
"$PYTHON" -m tests.fakes.transient_daemon "$FOLDER" adopt
kill $manager
"""


@pytest.mark.slow
async def test_an_engine_outlives_its_daemons_unit(tmp_path: Path) -> None:
    """ENG-2, WIN-1: a stop of the daemon's unit, cgroup and all, leaves the engine running, to be re-adopted,
    and the deadman alive.
    """
    missing = [name for name in ("unshare", "systemd", "dbus-daemon") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and a systemd that can be started here: {', '.join(missing) or 'not root'}")
    child = await asyncio.create_subprocess_exec(
        *NAMESPACE,
        "sh",
        "-c",
        MANAGER,
        env={
            "PATH": os.environ["PATH"] + ":/lib/systemd",
            "PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path])),
            "FOLDER": str(tmp_path),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        told, _ = await child.communicate()
    assert (tmp_path / "adopted").exists(), told.decode(errors="replace")
    both = (tmp_path / "adopted").read_text()
    assert both == (tmp_path / "started").read_text()
    assert "None" not in both
