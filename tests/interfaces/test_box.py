import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.interfaces.box_calls import Calls, calls, soon

RECORD = {"owner": "w1", "reason": "bench", "started_at": soon(-60), "expires_at": soon(), "allow": []}


@pytest.fixture
def box(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Calls:
    return calls(tmp_path, capsys, monkeypatch)


def test_a_free_box_says_free(box: Calls) -> None:
    """HOLD-8: without a hold `status` prints `free`, in JSON the whole form, and exits 0."""
    said = box("status")
    assert (said.code, said.out, said.err) == (0, "free\n", "")
    assert box("status", "--json").json() == {
        "held": False,
        "path": str(box.path),
        "record": None,
        "unreadable": None,
        "allow": [],
        "seconds_left": None,
    }


def test_a_hold_is_taken_shown_and_released(box: Calls) -> None:
    """HOLD-8: `hold`, `status` and `release` need no daemon; eight hours without a length."""
    held = box(
        "hold", "--owner", "w1", "--reason", "bench window", "--allow", "fast,embed", "--allow", "fast"
    )
    assert held.code == 0
    assert held.out.startswith("Held by w1, ends in 8 h (")
    assert held.err == ""
    assert abs(box.span_s() - 480 * 60) < 1
    assert box.record()["allow"] == ["fast", "embed"]
    shown = box("status")
    assert shown.code == 0
    rows = dict(line.split(None, 1) for line in shown.out.splitlines())
    assert (rows["held"], rows["reason"], rows["allow"]) == ("by w1", "bench window", "embed, fast")
    assert rows["until"].startswith("in 8 h (")
    assert rows["refused"] == "no start"
    document = box("status", "--json").json()
    assert document["held"] is True
    assert document["record"] == box.record()
    assert document["allow"] == ["embed", "fast"]
    assert 28790 < int(str(document["seconds_left"])) <= 28800
    assert box("release").out == "Released the hold of w1.\n"
    assert not box.path.exists()
    again = box("release")
    assert (again.code, again.out) == (0, "Nothing to release.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--owner", ""],
        ["--owner", "  "],
        ["--owner"],
        ["--owner", "w1", "--minutes", "nan"],
        ["--owner", "w1", "--minutes", "inf", "--force"],
        ["--owner", "w1", "--minutes", "0"],
        ["--owner", "w1", "--minutes", "-5"],
        ["--owner", "w1", "--minutes", "soon"],
        ["--owner", "w1", "--until", "tomorrow"],
        ["--owner", "w1", "--until", "25:00"],
        ["--owner", "w1", "--until", "2026-02-30 10:00"],
        ["--owner", "w1", "--until", soon(), "--minutes", "5"],
        ["--owner", "w1", "--bogus"],
        ["--owner", "w1", "bench", "window"],
    ],
)
def test_a_wrong_use_writes_nothing(box: Calls, arguments: list[str]) -> None:
    """HOLD-8: no owner, or minutes that are no finite number above 0, is exit 2 and nothing is written."""
    said = box("hold", *arguments)
    assert (said.code, said.out) == (2, "")
    first, second = said.err.splitlines()
    assert first.startswith("error: ")
    assert second == "hint: `hostler box hold --help` shows how it is used."
    assert list(box.path.parent.iterdir()) == []


LATE = "in 481 minutes, counted when the test runs"


@pytest.mark.parametrize("arguments", [["--minutes", "480.01"], ["--minutes", "1e300"], ["--until", LATE]])
def test_a_long_hold_needs_force(box: Calls, arguments: list[str]) -> None:
    """HOLD-8: over 480 minutes without --force is exit 65 and nothing is written; exactly 480 passes."""
    arguments = [soon(481) if it == LATE else it for it in arguments]
    said = box("hold", "--owner", "w1", *arguments)
    assert said.code == 65
    assert said.err.startswith(
        "error: A hold of more than 480 minutes is not written without --force.\nhint: "
    )
    assert list(box.path.parent.glob("h.json")) == []
    assert box("hold", "--owner", "w1", "--minutes", "480").code == 0
    assert box("hold", "--owner", "w1", "--force", *arguments).code == 0
    assert box.record()["forced"] is True
    assert box("status").code == 0


def test_a_hold_may_name_its_end(box: Calls) -> None:
    """HOLD-8: --until takes a time with a zone; one that has passed is bad input."""
    end = soon(90)
    assert box("hold", "--owner", "w1", "--until", end).code == 0
    assert box.record()["expires_at"] == end.replace("Z", ".000Z")
    assert box("hold", "--owner", "w1", "--until", soon(-1)).code == 65
    assert box.record()["expires_at"] == end.replace("Z", ".000Z")


def test_another_s_hold_is_refused(box: Calls) -> None:
    """HOLD-9: over a live hold of another owner `hold` is exit 75, with one line naming it and a hint."""
    box("hold", "--owner", "w1", "--minutes", "30")
    before = box.record()
    said = box("hold", "--owner", "w2", "--force")
    assert (said.code, said.out) == (75, "")
    first, second = said.err.splitlines()
    assert first.startswith("error: The box is held by w1 until ")
    assert first.endswith(" (in 30 min).")
    assert second == "hint: Wait, ask, or give `--take-over w1` to end that hold."
    assert box.record() == before
    error = box("hold", "--owner", "w2", "--json").error()
    assert (error["code"], error["retry_after"]) == ("held", 1800)
    assert isinstance(error["facts"], dict)
    assert (error["facts"]["owner"], error["facts"]["until"]) == ("w1", before["expires_at"])


def test_a_take_over_says_so(box: Calls) -> None:
    """HOLD-9: a take-over names whose hold went, and is kept for the daemon to tell."""
    box("hold", "--owner", "w1")
    said = box("hold", "--owner", "w2", "--take-over", "w1")
    assert said.code == 0
    assert said.out.splitlines()[1] == "Took over from w1, who is told."
    assert json.loads((box.path.parent / "box.ndjson").read_text(encoding="utf-8"))["owner"] == "w1"


def test_an_extension_keeps_its_start(box: Calls) -> None:
    """HOLD-9: the same owner extends its own; it began when it began."""
    box("hold", "--owner", "w1", "--reason", "bench", "--minutes", "10")
    start = box.record()["started_at"]
    said = box("hold", "--owner", "w1", "--minutes", "60", "--json")
    assert said.json()["extended"] is True
    assert (box.record()["started_at"], box.record()["reason"]) == (start, "bench")


def test_a_script_s_hold_is_released_by_its_owner(box: Calls) -> None:
    """HOLD-8: a bare release ends what `box hold` wrote; any other needs its owner, or --force."""
    box.put(RECORD)
    said = box("release")
    assert said.code == 75
    assert "--owner w1" in said.err
    assert box("release", "--owner", "w2").code == 75
    assert box.path.exists()
    assert box("release", "--owner", "w1").code == 0
    assert not box.path.exists()


def test_a_forced_release_is_kept_for_the_daemon(box: Calls) -> None:
    """HOLD-9: --force ends another's hold, says so, and leaves a line for the daemon."""
    box.put(RECORD)
    said = box("release", "--force", "--json").json()
    assert (said["released"], said["owner"], said["forced"]) == (True, "w1", True)
    row = json.loads((box.path.parent / "box.ndjson").read_text(encoding="utf-8"))
    assert (row["change"], row["owner"]) == ("released", "w1")
    assert row["by"].startswith("user ")


def test_a_lease_s_hold_needs_force(box: Calls) -> None:
    """HOLD-9: a release of a lease's hold says what it belongs to and is exit 75."""
    box.put({**RECORD, "owner": "lease:7f3", "lease": "7f3"})
    said = box("release", "--owner", "lease:7f3")
    assert said.code == 75
    assert "It belongs to lease 7f3." in said.err
    assert box("release", "--force").code == 0


def test_an_unreadable_record_is_shown_and_cleared(box: Calls) -> None:
    """HOLD-4: `status` names the defect and the command that clears it; the release keeps the bytes."""
    box.put(b'{"owner": "w1", ')
    said = box("status")
    assert said.code == 0
    rows = dict(line.split(None, 1) for line in said.out.splitlines())
    assert rows["held"] == "by unknown"
    assert rows["record"] == "is not JSON: `hostler box release` clears it"
    assert rows["until"].startswith("ages out in ")
    document = box("status", "--json").json()
    assert (document["held"], document["record"], document["unreadable"]) == (True, None, "is not JSON")
    cleared = box("release", "--json").json()
    assert Path(str(cleared["kept_as"])).read_bytes() == b'{"owner": "w1", '
    assert box("status").out == "free\n"


def test_what_holds_no_more_is_told(box: Calls) -> None:
    """HOLD-2: `status` says of a record that it lapsed, is of another boot, or has aged out."""
    box.put({**RECORD, "expires_at": soon(-5)})
    assert box("status").out.startswith("free\nThe last hold, of w1, lapsed 5 min ago (")
    assert box("release").out.startswith("Nothing to release.\nThe last hold, of w1, lapsed")
    boot = box.root / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n", encoding="ascii")
    box.put({**RECORD, "boot_id": "b-0"})
    assert box("status").out == "free\nThe last hold, of w1, is of another boot.\n"
    box.put(b"")
    long_ago = (datetime.now(UTC) - timedelta(hours=9)).timestamp()
    os.utime(box.path, (long_ago, long_ago))
    assert (
        box("status").out == "free\nA record that is empty has aged out; `hostler box release` clears it.\n"
    )


def test_extra_keys_and_a_far_end_are_shown(box: Calls) -> None:
    """HOLD-3: an expiry more than 8 h away is flagged, and keys that are not ours are shown."""
    box.put({**RECORD, "expires_at": "9999-12-31T23:59:59Z", "ticket": {"id": 5}})
    said = box("status")
    assert 'also     ticket: {"id": 5}\n' in said.out
    assert "more than 8 h away and not forced\n" in said.out


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
@pytest.mark.parametrize("end", ["9999-12-31T23:59:59Z", "9999-12-31T24:00:00Z", "0001-01-01T00:00:00Z"])
def test_the_ends_of_the_calendar_are_shown(
    box: Calls, monkeypatch: pytest.MonkeyPatch, zone: str, end: str
) -> None:
    """HOLD-3: a time that has no local form anywhere breaks neither `status` nor `release`."""
    monkeypatch.setenv("TZ", zone)
    box.put({**RECORD, "started_at": "0001-01-01T00:00:00Z", "expires_at": end})
    assert box("status").code == 0
    assert box("release").code in {0, 75}
    assert box("release", "--owner", "w1").code == 0


def test_essential_and_unknown_engines_are_marked(box: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-5: the effective list has the essential engines, and marks names that the config does not know."""
    box.config("version: 1\nengines: {embed: {essential: true}, fast: {}}\n", monkeypatch)
    box.put({**RECORD, "allow": ["fast", "typo", 3, ""]})
    assert "allow    embed (essential), fast, typo (unknown)\n" in box("status").out
    assert box("status", "--json").json()["allow"] == ["embed", "fast", "typo"]
    box.put(b"torn")
    assert box("status", "--json").json()["allow"] == ["embed"]


def test_what_was_refused_since_is_shown(box: Calls) -> None:
    """HOLD-8: `status` shows the starts that the daemon refused under this very hold."""
    box("hold", "--owner", "w1")
    identity = f"w1@{box.record()['started_at']}"
    rows = [{"at": soon(-1), "engine": "large", "by": "10.99.0.7 ua=x client=bot"}, {"engine": "fast"}, 3]
    note = {"identity": identity, "count": 7, "refused": rows}
    box.state.mkdir()
    (box.state / "hold_refusals.json").write_text(json.dumps(note), encoding="utf-8")
    out = box("status").out
    assert "refused  7 starts\n" in out
    assert "  large  10.99.0.7 ua=x client=bot\n" in out
    (box.state / "hold_refusals.json").write_text(json.dumps({**note, "identity": "w0@x"}), encoding="utf-8")
    assert "refused  no start\n" in box("status").out
    (box.state / "hold_refusals.json").write_text("{", encoding="utf-8")
    assert "refused  no start\n" in box("status").out


def test_a_command_is_held_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-10: `-- CMD` runs it under the hold, its options untouched, and gives its exit code."""
    box = calls(tmp_path, capfd, monkeypatch)
    text = f"import sys; print(sys.argv[1:]); print(open({str(box.path)!r}).read()[:14]); sys.exit(5)"
    command = [sys.executable, "-c", text, "--json", "--help", "-h", "--", "--owner"]
    said = box("hold", "--owner", "w1", "--reason", "bench", "--", *command)
    assert said.code == 5
    assert said.out == "['--json', '--help', '-h', '--', '--owner']\n{\"owner\": \"w1\"\n"
    assert said.err.startswith("Held by w1, ends in 8 h (")
    assert not box.path.exists()


def test_a_command_that_is_not_there_is_exit_66(box: Calls) -> None:
    """HOLD-10: a command that cannot be found is one error, and the hold is gone."""
    said = box("hold", "--owner", "w1", "--", "no-such-command-here")
    assert said.code == 66
    assert "error: There is no command 'no-such-command-here' here.\n" in said.err
    assert not box.path.exists()


@pytest.mark.parametrize("call", [["hold"], ["status"], ["release"], ["path"]])
def test_help_has_an_example(box: Calls, call: list[str]) -> None:
    """INTERFACE-2: every command has --help with an example, plain on a pipe."""
    said = box(*call, "--help")
    assert said.code == 0
    assert "hostler box" in said.out
    assert "Example: hostler box " in said.out
    assert "\x1b" not in said.out
    assert not box.path.exists()


def test_a_directory_that_is_gone_is_one_error(box: Calls) -> None:
    """INTERFACE-4: a hold that cannot be written is exit 78 and one error with --json, alone on stderr."""
    box.path.parent.rmdir()
    error = box("hold", "--owner", "w1", "--json").error()
    assert error["code"] == "hold_path_unusable"
    assert box("hold", "--owner", "w1").code == 78
    assert box("release").code == 0


def test_status_loads_nothing_heavy(box: Calls) -> None:
    """INTERFACE-3: `box status` needs no daemon and loads no web server, no schema and no YAML reader."""
    heavy = "{'pydantic', 'starlette', 'uvicorn', 'ruamel', 'httpx2', 'structlog', 'rich', 'asyncio'}"
    text = (
        "import os, sys; from hostler.bootstrap.offline import offline_box;"
        "from hostler.interfaces.cli import box; box.status(parts=offline_box(os.environ));"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    env = {**os.environ, "HOME": str(box.root)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "free\n[]\n"


def test_a_shortened_hold_is_called_so(box: Calls) -> None:
    """HOLD-9: the same owner's earlier end is told as shortened, a later one as extended, reason kept."""
    box("hold", "--owner", "ada", "--reason", "bench", "--minutes", "90")
    assert box("hold", "--owner", "ada", "--minutes", "5").out.startswith("Shortened by ada, ends in 5 min (")
    said = box("hold", "--owner", "ada", "--minutes", "60")
    assert said.out.startswith("Extended by ada, ends in 60 min (")
    assert said.out.endswith("): bench\n")


def test_an_allowed_engine_that_the_config_does_not_name_is_warned_of(
    box: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-5: `hold` writes a list with unknown names and warns of each; without a config none is known."""
    words = ("hold", "--owner", "ada", "--allow", "fast,nope")
    assert box(*words).err.count("nope") == 0
    box.config("version: 1\nengines: {fast: {}}\n", monkeypatch)
    said = box(*words)
    assert said.code == 0
    assert "warning: --allow nope: no engine of the config is called so\n" in said.err
    assert "--allow fast:" not in said.err
    assert "no engine of the config is called so" in box(*words, "--json").out
    assert box.record()["allow"] == ["fast", "nope"]
