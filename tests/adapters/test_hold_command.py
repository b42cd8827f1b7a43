import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select

import pytest

from hostler.adapters.hold_file import HoldFile

HOLDING = """
import sys
from datetime import timedelta
from hostler.bootstrap.offline import offline_box
from hostler.domain.hold_plan import Wanted
import os
box = offline_box(os.environ)
wanted = Wanted(owner="w1", reason="r", expires_at=box.now() + timedelta(seconds=float(sys.argv[1])))
ran = box.run(sys.argv[2:], wanted, lambda held: None)
print(ran.released, *ran.warnings, file=sys.stderr)
sys.exit(ran.code)
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h.json"


@pytest.fixture
def start(path: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a holding process; what is left of its session is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str, seconds: float = 600) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "HOSTLER_BOX_RESERVATION_PATH": str(path),
            "HOSTLER_STATE_DIR": str(tmp_path / "state"),
            "HOME": str(tmp_path),
        }
        argv = [sys.executable, "-c", HOLDING, str(seconds), *command]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def code(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


def test_a_command_runs_under_its_hold(start: Start, path: Path) -> None:
    """HOLD-10: the hold is there while the command runs, in a group of its own, and gone when it ends."""
    shown = f"import os; print(open({str(path)!r}).read()); print(os.getpgrp() == os.getpid())"
    process = start(*code(shown))
    out, err = process.communicate(timeout=60)
    record, _, own_group = out.decode().splitlines()
    assert json.loads(record)["owner"] == "w1"
    assert own_group == "True"
    assert err == b"True\n"
    assert process.returncode == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("import sys; sys.exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137), ("1/0", 1)],
)
def test_its_exit_code_is_passed_through(start: Start, path: Path, text: str, expected: int) -> None:
    """HOLD-10: whatever the command's end, its code is ours and the hold is gone."""
    process = start(*code(text))
    process.communicate(timeout=60)
    assert process.returncode == expected
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(start: Start, path: Path, number: signal.Signals) -> None:
    """HOLD-10: a signal to us reaches the command's group, and the hold goes when the command does."""
    inner = f"{sys.executable} -c 'import signal; signal.signal(2, 0); print(1, flush=True); input()'"
    process = start("sh", "-c", f"trap : {number.name[3:]}; {inner}; echo $?; exit 5")
    _until(process, b"1\n")
    process.send_signal(number)
    _until(process, f"{128 + number}\n".encode())
    process.communicate(timeout=60)
    assert process.returncode == 5
    assert not path.exists()


def test_a_command_may_outlast_a_signal(start: Start, path: Path) -> None:
    """HOLD-10: a command that catches the signal decides itself how it ends, and holds until then."""
    caught = (
        "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print('up', flush=True);"
        "signal.sigwait([15]); print('caught', flush=True); sys.exit(3 if input() == 'go' else 4)"
    )
    process = start(*code(caught))
    _until(process, b"up\n")
    process.send_signal(signal.SIGTERM)
    _until(process, b"caught\n")
    assert path.exists()
    process.communicate(b"go\n", timeout=60)
    assert process.returncode == 3
    assert not path.exists()


def test_a_command_that_is_not_there_leaves_no_hold(start: Start, path: Path) -> None:
    """HOLD-10: when the command cannot be started the hold is taken away again."""
    process = start("no-such-command-here")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"There is no command 'no-such-command-here' here." in err
    assert not path.exists()
    process = start("/dev/null")
    _, err = process.communicate(timeout=60)
    assert b"The command /dev/null cannot be run: Permission denied." in err
    assert not path.exists()


def test_a_hold_is_never_extended(start: Start, path: Path) -> None:
    """HOLD-10: the expiry is the bound; a command that runs longer runs on without a hold."""
    process = start(*code("print(1, flush=True); input()"), seconds=0.2)
    _until(process, b"1\n")
    reader = HoldFile(path=str(path))
    while reader.read_fresh().held:
        pass
    assert process.poll() is None
    _, err = process.communicate(b"\n", timeout=60)
    assert err == b"True The hold lapsed before the command ended; it was not extended.\n"
    assert process.returncode == 0
    assert not path.exists()


def test_a_hold_that_somebody_took_over_is_left(start: Start, path: Path) -> None:
    """HOLD-10: at the end only the own hold is removed."""
    process = start(*code("print(1, flush=True); input()"))
    _until(process, b"1\n")
    other = path.with_name("other")
    other.write_text('{"owner": "w2", "expires_at": "2099-01-01T00:00:00Z"}', encoding="utf-8")
    other.rename(path)
    _, err = process.communicate(b"\n", timeout=60)
    assert err.startswith(b"False The hold was removed or replaced")
    assert json.loads(path.read_text(encoding="utf-8"))["owner"] == "w2"


TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def test_a_command_on_a_terminal_can_read_it(path: Path, tmp_path: Path) -> None:
    """HOLD-10: on a terminal the command is in the foreground, reads what is typed and gets ^C."""
    env = {**os.environ, "HOSTLER_BOX_RESERVATION_PATH": str(path), "HOME": str(tmp_path)}
    asking = "import signal; signal.signal(2, 0); print('said', input('ask' + chr(10)), flush=True); input()"
    argv = [sys.executable, "-c", TERMINAL, sys.executable, "-c", HOLDING, "600", *code(asking)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, bufsize=0) as terminal:
        try:
            _until(terminal, b"ask")
            _type(terminal, b"hello\n")
            _until(terminal, b"said hello")
            assert path.exists()
            _type(terminal, b"\x03")
            assert terminal.wait(60) == 130
        finally:
            terminal.kill()
    assert not path.exists()


def _type(terminal: subprocess.Popen[bytes], keys: bytes) -> None:
    assert terminal.stdin is not None
    terminal.stdin.write(keys)


def _until(process: subprocess.Popen[bytes], wanted: bytes) -> None:
    """Read what the process prints until `wanted` came, for a minute at most."""
    assert process.stdout is not None
    seen = b""
    while wanted not in seen:
        ready, _, _ = select([process.stdout], [], [], 60)
        part = process.stdout.read(4096) if ready else b""
        assert part, seen
        seen += part
