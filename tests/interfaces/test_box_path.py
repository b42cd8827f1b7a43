import json
import os
from pathlib import Path

import pytest

from tests.interfaces.box_calls import Calls, calls, soon


@pytest.fixture
def box(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Calls:
    return calls(tmp_path, capsys, monkeypatch)


def daemon(box: Calls, hold_path: Path | str, *, start_ticks: int = 7, pid: int = 4242) -> None:
    """A note of a daemon, and a process table below the root that knows pid 4242, started at tick 7."""
    box.state.mkdir(exist_ok=True)
    note = {
        "url": "http://127.0.0.1:7070",
        "hold_path": str(hold_path),
        "pid": pid,
        "start_ticks": start_ticks,
    }
    (box.state / "daemon.json").write_text(json.dumps(note), encoding="utf-8")
    process = box.root / "proc/4242"
    process.mkdir(parents=True, exist_ok=True)
    fields = ["4242", "(a ) b)", "S", *("0" for _ in range(18)), "7", "0"]
    (process / "stat").write_text(" ".join(fields), encoding="utf-8")


def test_the_path_is_printed(box: Calls) -> None:
    """HOLD-1: `box path` prints the path alone, in JSON with its source."""
    assert box("path").out == f"{box.path}\n"
    document = box("path", "--json").json()
    assert (document["path"], document["source"]) == (str(box.path), "$HOSTLER_BOX_RESERVATION_PATH")


def test_a_fallback_is_told_by_every_command(box: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-1: where /run/user/<uid> is missing, every hold command says which path is used instead."""
    monkeypatch.delenv("HOSTLER_BOX_RESERVATION_PATH")
    (box.root / "run/hostler").mkdir()
    for call in (["path"], ["status"], ["hold", "--owner", "w1"], ["release"]):
        said = box(*call)
        assert said.code == 0
        assert said.err.startswith(f"note: The hold file is {box.root}/run/hostler/crow-box-reservation.json")
    for call in (["path"], ["hold", "--owner", "w1"], ["release"]):
        said = box(*call, "--json")
        assert said.err == ""
        assert len(list(said.json()["warnings"])) == 1  # type: ignore[call-overload] # a list of texts


def test_the_config_s_path_and_mode_are_honoured(box: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-1: node.hold_path overrides the default, not the environment; hold_mode is what is written."""
    other = box.root / "run/other.json"
    box.config(f'version: 1\nnode: {{hold_path: {other}, hold_mode: "0644"}}\n', monkeypatch)
    assert box("path").out == f"{box.path}\n"
    monkeypatch.delenv("HOSTLER_BOX_RESERVATION_PATH")
    assert box("path").out == f"{other}\n"
    box("hold", "--owner", "w1")
    assert other.stat().st_mode & 0o777 == 0o644


def test_a_broken_config_hides_no_hold(box: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-1: with a broken config the path is known only from the environment: else exit 78."""
    box.config("node: [", monkeypatch)
    said = box("hold", "--owner", "w1")
    assert said.code == 0
    assert said.err.startswith("warning: The config was passed over: ")
    monkeypatch.delenv("HOSTLER_BOX_RESERVATION_PATH")
    assert box("hold", "--owner", "w1").code == 78
    assert box("status").code == 78


def test_a_daemon_that_reads_another_file_is_named(box: Calls) -> None:
    """HOLD-1: where a daemon runs that reads another file, `hold` is exit 78, names both, writes nothing."""
    daemon(box, box.root / "theirs.json")
    said = box("hold", "--owner", "w1")
    assert said.code == 78
    assert f"This command would use {box.path}, the daemon reads {box.root}/theirs.json." in said.err
    assert not box.path.exists()
    system = box.root / "var/lib"
    system.mkdir(parents=True)
    box.state.rename(system / "hostler")
    assert box("hold", "--owner", "w1").code == 78


def test_a_daemon_that_is_gone_or_agrees_is_no_obstacle(box: Calls) -> None:
    """HOLD-1: a note of a daemon that ended, or of one that reads this very file, refuses nothing."""
    daemon(box, box.root / "theirs.json", start_ticks=8)
    assert box("hold", "--owner", "w1").code == 0
    daemon(box, box.root / "theirs.json", pid=4243)
    assert box("hold", "--owner", "w1").code == 0
    daemon(box, box.root / "run/../run/h.json")
    assert box("hold", "--owner", "w1").code == 0


def test_a_hold_that_may_go_with_a_session_is_warned_of(box: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-2: without lingering `box hold` in the user's run-time directory warns, and holds."""
    monkeypatch.delenv("HOSTLER_BOX_RESERVATION_PATH")
    (box.root / f"run/user/{os.geteuid()}").mkdir(parents=True)
    (box.root / "run/systemd/system").mkdir(parents=True)
    said = box("hold", "--owner", "w1")
    assert said.code == 0
    assert said.err.startswith("warning: ")
    assert "loginctl enable-linger" in said.err


def leased(box: Calls, **more: object) -> None:
    """A lease has this host by what its daemon was told last."""
    row = {"lease": "ls_1", "resource": "pair", "holder": "ada", "key": "ada", "until": None, **more}
    box.state.mkdir(exist_ok=True)
    (box.state / "held.json").write_text(json.dumps({"hold crow": row, "route chat": row}), encoding="utf-8")


def test_a_host_that_a_window_has_is_not_held_by_another_though_its_record_is_gone(box: Calls) -> None:
    """LEASE-15, WIN-5: `box hold` inside an open window is refused with whose it is and what ends it."""
    daemon(box, box.path)
    leased(box, mode="heavy")
    said = box("hold", "--owner", "bench", "--json")
    assert said.code == 75
    error = said.error()
    assert error["code"] == "held"
    assert error["message"] == "The box is held by lease:ls_1 until unknown."
    assert error["hint"] == (
        "ada has this host with window ls_1 (heavy), though its record is gone. Wait, ask, or end it:"
        " `hostler window close ls_1`. `--take-over lease:ls_1` holds inside it."
    )
    assert not box.path.exists()
    assert box("hold", "--owner", "bench", "--take-over", "lease:ls_1").code == 0


def test_a_dead_daemon_s_word_of_a_lease_counts_to_the_lease_s_end(box: Calls) -> None:
    """HOLD-3, LEASE-15: nobody wedges a host: without a daemon only an end that is still to come counts."""
    leased(box)
    assert box("hold", "--owner", "bench").code == 0
    box("release")
    leased(box, until="2020-01-01T00:00:00.000Z")
    assert box("hold", "--owner", "bench").code == 0
    box("release")
    leased(box, until="2999-01-01T00:00:00.000Z")
    said = box("hold", "--owner", "bench", "--json")
    assert said.code == 75
    error = said.error()
    assert "lease ls_1, though" in str(error["hint"])
    leased(box, until="2999-01-01T00:00:00.000Z", boot="another")
    assert box("hold", "--owner", "bench").code == 0


def test_a_lease_s_own_record_is_told_as_it_was(box: Calls) -> None:
    """HOLD-9: where the lease's record is there, that is what refuses; a torn note of the daemon is none."""
    daemon(box, box.path)
    leased(box)
    box.put({"owner": "lease:ls_1", "lease": "ls_1", "expires_at": soon()})
    said = box("hold", "--owner", "bench", "--json")
    assert (said.code, "record is gone" in str(said.error()["hint"])) == (75, False)
    box.path.unlink()
    (box.state / "held.json").write_text('{"hold crow": {}}', encoding="utf-8")
    assert box("hold", "--owner", "bench").code == 0
