"""How processes are started where systemd runs: the argv, and with a real user manager."""

import os
import sys
from pathlib import Path

import pytest

from hostler import supervisor
from hostler.adapters.drivers import transient
from hostler.adapters.drivers.process import ProcessDriver
from hostler.adapters.drivers.transient import Manager
from hostler.adapters.host import process_table
from tests.adapters.driver_conformance import gone
from tests.fakes.fake_engine import eventually, fake_launch
from tests.fakes.user_manager import UserManager


def test_without_systemd_there_is_no_manager(tmp_path: Path) -> None:
    """ENG-2: where systemd is not the init, supervisors are started as they are."""
    assert transient.manager(uid=0, runtime_dir=None, root=tmp_path) is None
    assert transient.wrapped(None, "x", ["a", "b"]) == ("a", "b")


@pytest.mark.parametrize(
    ("uid", "there", "expected"),
    [
        (0, ["system", "user"], Manager(scope="system")),
        (0, ["user"], Manager(scope="user")),
        (0, [], None),
        (1000, ["system", "user"], Manager(scope="user")),
        (1000, ["system"], None),
    ],
)
def test_the_manager_that_may_be_asked(
    tmp_path: Path, uid: int, there: list[str], expected: Manager | None
) -> None:
    """ENG-2: root asks the machine's manager, all others, and root without it, the own one, or nobody."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    sockets = {"system": "run/systemd/private", "user": f"run/user/{uid}/systemd/private"}
    for name in there:
        socket = tmp_path / sockets[name]
        socket.parent.mkdir(parents=True, exist_ok=True)
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


def control_group(pid: int) -> str:
    """The control group that a process is in."""
    return Path(f"/proc/{pid}/cgroup").read_text().rstrip()


async def test_an_engine_outlives_its_daemons_unit(systemd: UserManager, tmp_path: Path) -> None:
    """ENG-2, WIN-1: a stop of the daemon's unit, cgroup and all, leaves engine and deadman alive."""
    unit = f"{tmp_path.name}-daemon.service"
    path = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))
    run = ("systemd-run", "--user", "--quiet", f"--setenv=PYTHONPATH={path}", f"--unit={unit}")
    daemon = (sys.executable, "-m", "tests.fakes.transient_daemon", str(tmp_path))
    systemd.call(*run, *daemon, "start")
    started = tmp_path / "started"
    await eventually(lambda: started.exists() and bool(started.read_text()), "the engine was started")
    both = started.read_text()
    pid, deadman = map(int, both.split())
    assert control_group(pid).endswith("/hostler-engine-fast.scope")
    systemd.systemctl("stop", unit)
    assert process_table.read(pid) is not None
    assert process_table.read(deadman) is not None
    systemd.call(*run, "--wait", *daemon, "adopt")
    assert (tmp_path / "adopted").read_text() == both
    assert gone(pid)
    assert gone(deadman)
