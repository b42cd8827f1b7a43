"""What systemd's programs say, as recorded: how it is read, and what helps when they say no (ENG-2)."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.commands import SystemCommands
from hostler.adapters.drivers import units
from hostler.adapters.drivers.journal import Journal
from hostler.adapters.drivers.looking import Family, Looks
from hostler.adapters.host import process_table
from hostler.adapters.systemctl import Systemctl, Unanswered
from tests.fakes.fake_engine import fake_launch


def test_out_of_memory_is_told() -> None:
    """ENG-2: a unit whose process the kernel killed for memory says so in its exit."""
    told = {"Result": "oom-kill", "ExecMainCode": "2", "ExecMainStatus": "9", "ActiveState": "failed"}
    report = units.parse(told).ended()
    assert str(report) == "was killed by signal 9 (out of memory: the kernel killed it)"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"ExecMainCode": "1", "ExecMainStatus": "3", "Result": "exit-code"}, "exited with status 3"),
        ({"ExecMainCode": "3", "ExecMainStatus": "6", "Result": "core-dump"}, "was killed by signal 6"),
        (
            {"ExecMainCode": "2", "ExecMainStatus": "9", "Result": "timeout"},
            "was killed by signal 9 (its unit's own time was up)",
        ),
        ({"ExecMainCode": "0", "Result": "success"}, "ended, how is not known (its unit kept no more of it)"),
    ],
)
def test_an_end_is_read_from_the_units_properties(told: dict[str, str], expected: str) -> None:
    """ENG-2: exit status, signal and systemd's own reason are told; what was not kept is not made up."""
    assert str(units.parse(told).ended()) == expected


def test_a_unit_that_waits_for_its_restart_does_not_live() -> None:
    """ENG-7: between a crash and systemd's next try nothing runs that could be adopted."""
    waiting = units.parse({"ActiveState": "activating", "SubState": "auto-restart", "MainPID": "[not set]"})
    assert (waiting.lives, waiting.down, waiting.main_pid) == (False, False, 0)


@pytest.mark.parametrize("hierarchy", ["", "unified", "systemd"])
def test_members_are_the_control_groups(tmp_path: Path, hierarchy: str) -> None:
    """ENG-6: all processes of a unit's control group and of those below it are its own, in any hierarchy."""
    folder = tmp_path / hierarchy / "app.slice/a.service"
    (folder / "sub").mkdir(parents=True)
    (folder / "cgroup.procs").write_text("11\n12\n")
    (folder / "sub/cgroup.procs").write_text("13\n")
    assert units.members("/app.slice/a.service", None, tmp_path) == {11, 12, 13}


@pytest.mark.parametrize("group", ["", "/", "/gone.service"])
def test_without_a_group_the_main_process_and_its_children_count(tmp_path: Path, group: str) -> None:
    """ENG-6: where there is no group to read it is the main process's tree, and never the whole machine."""
    (tmp_path / "cgroup.procs").write_text("1\n")
    me = process_table.read(os.getpid())
    assert me is not None
    found = units.members(group, me, tmp_path)
    assert me.pid in found
    assert 1 not in found
    assert units.members(group, replace(me, start_ticks=me.start_ticks + 1), tmp_path) == frozenset()
    assert units.members(group, None, tmp_path) == frozenset()


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ("Interactive authentication required.", 4, "polkit"),
        ("System has not been booted with systemd as init system (PID 1).", 1, "no systemd"),
        ("Unit a.service has a bad unit file setting.", 1, "systemctl --system status"),
    ],
)
async def test_a_manager_that_says_no_is_told_with_what_helps(
    tmp_path: Path, said: str, status: int, words: str
) -> None:
    """ENG-2: what a manager refuses is told in its own last line, with the fix that belongs to it."""
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\necho first\necho '{said}'\nexit {status}\n")
    program.chmod(0o755)
    manager = Systemctl(scope="system", commands=SystemCommands(environment={"PATH": str(tmp_path)}))
    with pytest.raises(Unanswered) as refused:
        await manager.ask("start", "a.service")
    assert refused.value.why == f"the system manager says: {said.rstrip('.')}"
    assert words in refused.value.fix


async def test_a_manager_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """ENG-2: a manager that does not answer in time is told as that, and the call is ended."""
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    manager = Systemctl(scope="user", commands=SystemCommands(environment=env))
    with pytest.raises(Unanswered, match=r"did not answer in 0\.1 s"):
        await manager.properties("a.service", ("MainPID",), timeout_s=0.1)


async def test_a_port_of_processes_that_may_not_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-4: where a unit's processes are another user's, whose the port is is unknown: the id counts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        launch = replace(fake_launch(tmp_path, port=listener.getsockname()[1]), health="tcp")
        monkeypatch.setattr(process_table, "open_inodes", lambda *_: None)
        probe = await Looks().look(launch, lambda: Family(alive=True, pids=(1,)), lambda: "")
    assert (probe.port_owner, probe.health) == ("unknown", "ok")


def test_a_host_without_a_journal_says_so(tmp_path: Path) -> None:
    """ENG-12: without journalctl and systemctl the log is one line that says why."""
    journal = Journal(environment={"PATH": str(tmp_path)})
    assert journal.tail("system", "a.service", 5) == [
        "(the journal does not answer: No such file or directory; systemctl status shows:)"
    ]
