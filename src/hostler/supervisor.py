"""One engine's parent: a process of its own that outlives the daemon (ENG-2).

    python -I -S supervisor.py SPEC.json

Starts the engine that the spec names, in a process group of its own; takes its output into rotated files;
writes who runs into `run.json`, and at the end how it ended. The engine dies with it, and whatever
the engine left behind is ended with the engine. SIGTERM is passed on to the engine's group.

Decides nothing: not whether to start, not when to stop, never a second try. Standard library only,
and nothing of Hostler's: it must start where only this one file is left.

Spec: {"engine", "argv", "argv_sha256", "env", "cwd", "directory", "port", "log_size", "log_files"}.
The command answers on its standard output with one JSON object, `run.json`'s or {"error", "errno"}, as
soon as the identity is durable, and exits 0 or 1; the supervisor itself stays behind it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import NoReturn

RING_LINES = 200
"""The last lines of output that the exit record keeps (ENG-3)."""
RING_LINE_BYTES = 2000
GRACE_S = 2.0
"""How long processes that the engine left behind have after SIGTERM, before SIGKILL."""
READ_BYTES, LAST_READS = 65536, 32
"""A pipe holds 64 KiB unless its writers made it larger; up to 2 MiB of last words are taken."""
LOCK_TRIES, LOCK_PAUSE_S = 10, 0.02
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
"""Operations of prctl(2)."""


class Log:
    """The engine's output: `engine.log`, `engine.log.1`, … and a ring of the last lines.

    A file is closed at the first line end past `size` bytes, or at twice that without one. What cannot be
    written is dropped and counted, with the last `error`: a full disk must not stop the engine.
    """

    def __init__(self, directory: Path, size: int, files: int) -> None:
        self.path = directory / "engine.log"
        self.size, self.files = max(1, size), max(1, files)
        self.ring: deque[bytes] = deque(maxlen=RING_LINES)
        self.dropped, self.error = 0, ""
        self._partial = b""
        self._fd = -1
        self._written = min(self.size, self.path.stat().st_size) if self.path.exists() else 0

    def write(self, data: bytes) -> None:
        """Take one piece of output, of any length."""
        self._remember(data)
        while data:
            room = self.size - self._written
            end = data.find(b"\n", max(0, room - 1)) + 1
            if len(data) < room or (not end and len(data) < room + self.size):
                self._append(data)
                return
            cut = end if 0 < end <= room + self.size else room + self.size
            self._append(data[:cut])
            self._rotate()
            data = data[cut:]

    def lines(self) -> list[str]:
        """The ring's lines, oldest first, an unfinished last one too."""
        last = [self._partial] if self._partial else []
        return [line.decode(errors="replace") for line in [*self.ring, *last]]

    def _remember(self, data: bytes) -> None:
        *whole, rest = (self._partial + data).split(b"\n")
        self.ring.extend(line[:RING_LINE_BYTES] for line in whole)
        self._partial = rest[:RING_LINE_BYTES]

    def _append(self, data: bytes) -> None:
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            while data:
                done = os.write(self._fd, data)
                self._written += done
                data = data[done:]
        except OSError as error:
            self.dropped += len(data)
            self.error = str(error)

    def _rotate(self) -> None:
        """Move each file to the next number, the last one away. A failure leaves the file to grow on."""
        names = [self.path, *(self.path.with_name(f"engine.log.{number}") for number in range(1, self.files))]
        try:
            os.close(self._fd)
            for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
                if newer.exists():
                    newer.replace(older)
            if self.files == 1:
                self.path.unlink()
        except OSError as error:
            self.error = str(error)
        self._fd = -1
        self._written = 0


def write_whole(path: Path, value: dict[str, object]) -> None:
    """`value` as JSON at `path`: temp file, fsync, rename, fsync of the directory. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def start_ticks(pid: int) -> int:
    """Clock ticks since boot at which `pid` was started: field 22 of its stat, after the last `)`."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory since boot; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def now() -> str:
    """The wall clock: RFC 3339, UTC, milliseconds (TIME-1)."""
    seconds = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def children() -> list[int]:
    """The pids whose parent is this process. They cannot be reused: only their parent reaps them."""
    me, found = os.getpid(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):  # It ended between the listing and the look.
            continue
        if parent == me:
            found.append(int(entry.name))
    return found


def spawn(spec: dict[str, object], output: int, libc: ctypes.CDLL) -> int:
    """Start the engine with its output into `output`; its pid. Raises OSError."""
    problem, teller = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec, output, libc, parent)
        except OSError as error:
            os.write(teller, f"{error.errno} {error.strerror}: {error.filename or spec['cwd']}".encode())
        except (TypeError, ValueError) as error:
            os.write(teller, f"0 {error}".encode())
        finally:
            os._exit(127)
    os.close(teller)
    with os.fdopen(problem, "rb") as file:  # Ends empty at exec, which closes the other side.
        told = file.read().decode(errors="replace")
    if told:
        os.waitpid(pid, 0)
        number, _, why = told.partition(" ")
        raise OSError(int(number), why)
    return pid


def _become(spec: dict[str, object], output: int, libc: ctypes.CDLL, parent: int) -> None:
    """In the child: its own group, bound to the parent's life, clean signals; then the engine."""
    argv, env = spec["argv"], spec["env"]
    if not isinstance(argv, list) or not isinstance(env, dict):
        raise TypeError("argv must be a list and env an object")
    os.setpgid(0, 0)
    libc.prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It died before the line above: no signal will come.
        os._exit(127)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # Python and shells ignore some.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(str(spec["cwd"]))
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - argv from the config, and never a shell, is the rule
    except (
        OSError
    ) as error:  # The last place of PATH that was tried tells less than the name that was asked for.
        raise OSError(error.errno, error.strerror, argv[0]) from error


class Supervisor:
    """The life of one engine, from spawn to exit record."""

    def __init__(self, spec: dict[str, object]) -> None:
        self.directory = Path(str(spec["directory"]))
        self.log = Log(self.directory, int(str(spec["log_size"])), int(str(spec["log_files"])))
        self.kills_before = oom_kills()
        self.asked: set[int] = set()
        self.output, writer = os.pipe()
        os.set_blocking(self.output, False)
        self.wake, wake_writer = os.pipe()
        for end in (self.wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # The loop reads which one came from the wake-up pipe.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        libc = ctypes.CDLL(None)
        libc.prctl(SET_CHILD_SUBREAPER, 1)
        self.engine = spawn(spec, writer, libc)
        self.record: dict[str, object] = {
            "v": 1,
            "engine": spec["engine"],
            "pid": self.engine,
            "start_ticks": start_ticks(self.engine),
            "supervisor_pid": os.getpid(),
            "supervisor_ticks": start_ticks(os.getpid()),
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "port": spec["port"],
            "argv_sha256": spec["argv_sha256"],
            "served": spec.get("served"),
            "output": str(Path(f"/proc/self/fd/{writer}").readlink()),
            "started_at": now(),
            "exit": None,
        }
        os.close(writer)
        write_whole(self.directory / "run.json", self.record)

    def run(self) -> None:
        """Until the engine has ended, nothing of it is left, and that is on record."""
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        deadline: float | None = None
        while True:
            if self._ended():
                deadline = deadline or time.monotonic() + GRACE_S
                if not self._end_others(kill=time.monotonic() >= deadline):
                    break
            for fd, _ in poll.poll(50 if deadline else None):
                if fd == self.wake:
                    self._pass_on(os.read(self.wake, 512))
                elif not self._drain():
                    poll.unregister(self.output)
        for _ in range(LAST_READS):
            self._drain()
        self._write_exit()

    def _pass_on(self, signals: bytes) -> None:
        """SIGTERM to the engine's group. Its leader is not reaped before the end: the number is its own."""
        if signal.SIGTERM in signals or signal.SIGINT in signals:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.engine, signal.SIGTERM)

    def _drain(self) -> bool:
        """Take one piece of output, if there is any; False once nobody can write any more."""
        try:
            data = os.read(self.output, READ_BYTES)
        except BlockingIOError:
            return True
        self.log.write(data)
        return bool(data)

    def _ended(self) -> bool:
        """Whether the engine has ended. It stays a zombie: that keeps its pid and group from reuse."""
        return os.waitid(os.P_PID, self.engine, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end_others(self, *, kill: bool) -> bool:
        """Signal what the engine left behind; whether anything is left.

        This process is their subreaper: whoever loses its parent becomes our child, in whatever session.
        """
        others = [pid for pid in children() if pid != self.engine]
        for pid in others:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self.asked.discard(pid)
            elif kill or pid not in self.asked:
                self.asked.add(pid)
                os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        return bool(others)

    def _write_exit(self) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self.engine, 0)[1])
        self.record["exit"] = {
            "status": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "at": now(),
            "oom_kills": oom_kills() - self.kills_before,
            "log_bytes_dropped": self.log.dropped,
            "log_error": self.log.error,
            "lines": self.log.lines(),
        }
        write_whole(self.directory / "run.json", self.record)


def supervise(spec: dict[str, object], answer: int) -> None:
    """Be the supervisor: alone per directory, in a session of its own; tell `answer` once, then stay."""
    os.setsid()
    directory = Path(str(spec["directory"]))
    null = os.open(os.devnull, os.O_RDWR)
    trace = os.open(directory / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for fd, place in ((null, 0), (null, 1), (trace, 2)):
        os.dup2(fd, place)
    os.chdir("/")
    lock = os.open(directory / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not _locked(lock):
        _tell(answer, {"error": "another supervisor runs this engine already", "errno": 0})
        return
    try:
        supervisor = Supervisor(spec)
    except OSError as error:  # The engine, if it runs already, dies with this process.
        _tell(answer, {"error": error.strerror, "errno": error.errno})
        return
    _tell(answer, supervisor.record)
    supervisor.run()


def _locked(lock: int) -> bool:
    """Whether this process has the directory now. A daemon that only looks has the lock for microseconds."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False


def _tell(answer: int, value: dict[str, object]) -> None:
    """One JSON object to the command that waits; it may be gone, which changes nothing."""
    try:
        os.write(answer, json.dumps(value).encode())
    except BrokenPipeError:
        return
    finally:
        os.close(answer)


def main(path: str) -> int:
    """Start a supervisor for the spec at `path` and wait until it has told how that went: 0 or 1."""
    os.closerange(3, 4096)
    spec: dict[str, object] = json.loads(Path(path).read_bytes())
    listener, answer = os.pipe()
    if os.fork() == 0:
        os.close(listener)
        _stay(spec, answer)
    os.close(answer)
    with os.fdopen(listener, "rb") as file:
        told = file.read().decode()
    sys.stdout.write(told or json.dumps({"error": "the supervisor ended before it could tell", "errno": 0}))
    return 0 if told and "error" not in json.loads(told) else 1


def _stay(spec: dict[str, object], answer: int) -> NoReturn:
    """The second process: never returns into the first one's code; a bug leaves its trace in the log."""
    code = 70
    try:
        supervise(spec, answer)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it must be written before the process is gone
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
