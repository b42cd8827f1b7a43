import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import HoldTaken
from hostler.domain.hold_plan import Wanted
from tests.adapters.hold_writers import at, kept, wanted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run/h.json"


ROUNDS = 20


def _race(path: Path, owner: str, gate: Barrier, won: SimpleQueue[str]) -> None:
    """One writer of many: when the gate opens it writes, and says when it won."""
    for _ in range(ROUNDS):
        gate.wait(60)
        try:
            at(path).write(wanted(owner, reason=owner * 500))
            won.put(owner)
        except HoldTaken:
            pass
        gate.wait(60)


def test_of_two_writers_one_wins_whole(path: Path) -> None:
    """HOLD-9: of writers at once exactly one wins, and the record is wholly its own."""
    context = multiprocessing.get_context("spawn")
    gate, won = context.Barrier(4), context.SimpleQueue()
    racers = [context.Process(target=_race, args=(path, f"w{n}", gate, won), daemon=True) for n in range(3)]
    for racer in racers:
        racer.start()
    for _ in range(ROUNDS):
        gate.wait(60)
        gate.wait(60)
        winner = won.get()
        assert won.empty()
        view = at(path).reader.read()
        assert (view.owner, view.reason) == (winner, winner * 500)
        path.unlink()
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0


KILLED = """
import sys
from datetime import UTC, datetime, timedelta
from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.hold_plan import Wanted
writer = HoldWriter(reader=HoldFile(path=sys.argv[1]))
print("ready", flush=True)
for n in range(10**9):
    ends = datetime.now(UTC) + timedelta(minutes=30)
    writer.write(Wanted(owner="w1", reason=str(n) + " " + "x" * 20000, expires_at=ends))
"""


@pytest.fixture
def writing(path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts processes that write for ever; those that are left are ended."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", KILLED, str(path)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_killed_writer_leaves_a_whole_record(
    path: Path, writing: Callable[[], subprocess.Popen[str]]
) -> None:
    """HOLD-9: killed in the middle of many writes, it leaves the old record or the new one, whole."""
    reader = HoldFile(path=str(path))
    seen: set[str] = set()
    for _ in range(4):
        process = writing()
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        before = len(seen)
        while len(seen) < before + 15:
            view = reader.read_fresh()
            assert view.defect is None
            if view.record is not None:
                assert view.reason.endswith("x" * 20000)
                seen.add(view.reason)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert reader.read_fresh().held
        HoldWriter(reader=reader).write(
            Wanted(owner="w1", reason=None, expires_at=reader.now() + timedelta(1 / 24))
        )
    assert len(seen) >= 60


SHORT = """
import resource, signal, sys
from datetime import UTC, datetime, timedelta
from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import StoreFull
from hostler.domain.hold_plan import Wanted
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
writer = HoldWriter(reader=HoldFile(path=sys.argv[1]))
try:
    writer.write(Wanted(owner="w1", reason="x" * 5000, expires_at=datetime.now(UTC) + timedelta(minutes=5)))
except StoreFull as refused:
    print(refused)
"""


def test_a_file_that_may_not_grow_leaves_the_old_one(path: Path) -> None:
    """HOLD-9: when the system takes only half of the bytes, the old record stands whole."""
    real = HoldWriter(reader=HoldFile(path=str(path)))
    real.write(Wanted(owner="w1", reason="old", expires_at=real.reader.now() + timedelta(minutes=5)))
    before = path.read_bytes()
    argv = [sys.executable, "-c", SHORT, str(path)]
    told = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == f"{path} was not written: File too large.\n"
    assert path.read_bytes() == before
    assert kept(path) == []
