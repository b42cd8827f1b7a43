import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostler.client.machine import elapsed
from hostler.interfaces.cli.run.beating import Beat, Beating
from hostler.interfaces.cli.run.child import Child, running, started
from hostler.interfaces.cli.run.lines import Said, Tail
from hostler.interfaces.cli.run.watch import OnLost, Ran, Watch, collected


@dataclass
class Silent:
    """A beating process that says what the test wants, and then nothing more."""

    says: list[Beat] = field(default_factory=list)
    pipe: tuple[int, int] = field(default_factory=os.pipe)

    def fileno(self) -> int:
        return self.pipe[0]

    def speak(self) -> None:
        """Let it be heard."""
        os.write(self.pipe[1], b"x")

    def read(self) -> list[Beat]:
        os.read(self.pipe[0], 1)
        return self.says

    def start(self) -> None: ...

    def end(self) -> None: ...


@pytest.fixture
def silent() -> Iterator[Silent]:
    it = Silent()
    yield it
    for handle in it.pipe:
        os.close(handle)


def watched(
    script: str,
    silent: Silent,
    *,
    until: float | None,
    on_lost: OnLost = "stop",
    grace_s: float = 30.0,
) -> tuple[Ran, Child, Tail]:
    """A shell's script under a lease that is trusted until then."""
    tail, told = Tail(), list[Said]()
    with collected() as heard, started((sys.executable, "-c", script), os.environ) as child:
        watch = Watch(
            child=child,
            beating=silent,  # type: ignore[arg-type]  # it has what a Watch asks of a Beating
            signals=heard,
            tell=told.append,
            tail=tail,
            on_lost=on_lost,
            until=until,
            grace_s=grace_s,
        )
        return watch.run(), child, tail


def test_who_ignores_sigterm_is_killed(silent: Silent) -> None:
    """JOB-5: a command that does not end on SIGTERM when its lease is lost is killed after a grace."""
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    ran, child, _ = watched(script, silent, until=elapsed(), grace_s=0.1)
    assert ran.code in (137, 143)  # SIGTERM may come before it is ignored.
    assert ran.lost == "it was not renewed in time"
    assert (ran.left, running(child.group)) == (0, 0)


def test_the_whole_group_is_ended(silent: Silent) -> None:
    """JOB-5: a grandchild that ignores SIGTERM is killed before the command counts as over."""
    script = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    time.sleep(1000)\n"
    )
    ran, child, _ = watched(script, silent, until=None, grace_s=0.1)
    assert (ran.code, ran.lost) == (0, None)
    assert running(child.group) == 0


def test_a_renewal_moves_the_end(silent: Silent) -> None:
    """LEASE-22: a renewal that the beating process tells of moves the time at which the command ends."""
    silent.says = [Beat(trusted=True, until=None)]
    silent.speak()
    ran, _, _ = watched("import time; time.sleep(0.3)", silent, until=elapsed() + 0.2)
    assert (ran.code, ran.lost) == (0, None)


@pytest.mark.parametrize(
    ("limited_by", "told"),
    [
        ("booking", "its time is up: a booking begins"),
        ("slot", "its time is up: its slot ends"),
        ("max", "its time is up: it had the longest that it may"),
        ("cap", "its time is up: it is at its cap"),
    ],
)
def test_an_end_that_no_renewal_moves_is_named(silent: Silent, limited_by: str, told: str) -> None:
    """LEASE-17, LEASE-26: of a lease that is limited its end is told, not that nobody renewed it."""
    silent.says = [Beat(trusted=True, until=elapsed(), limited_by=limited_by)]
    silent.speak()
    ran, _, _ = watched("import time; time.sleep(1000)", silent, until=None)
    assert ran.lost == told


def test_the_heads_word_ends_it(silent: Silent) -> None:
    """JOB-5: a lease that the head says is lost ends the command at once, whatever time is left."""
    silent.says = [Beat(lost="released by ada")]
    silent.speak()
    ran, _, _ = watched("import time; time.sleep(1000)", silent, until=None)
    assert (ran.code, ran.lost) == (143, "released by ada")


def test_a_lost_lease_that_only_warns_ends_nothing(silent: Silent) -> None:
    """JOB-5: with --on-lost warn the command goes on to its own end."""
    ran, _, _ = watched("import sys; sys.exit(9)", silent, until=elapsed(), on_lost="warn")
    assert ran.code == 9


def test_output_without_a_line_end_is_passed_through(
    silent: Silent, capfd: pytest.CaptureFixture[str]
) -> None:
    """JOB-5: every byte of the command's stderr is passed through, the last line without its end, too."""
    script = "import sys; sys.stderr.write('a' * 200000 + '\\n' + '\\rhalf\\rlast')"
    ran, _, tail = watched(script, silent, until=None)
    assert ran.code == 0
    assert capfd.readouterr().err == "a" * 200000 + "\n" + "\rhalf\rlast"
    assert tail.note().splitlines()[-1] == "last"


def test_signals_before_and_after_go_where_they_went() -> None:
    """JOB-5: what run did with signals is undone at its end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGTSTP)}
    with collected():
        assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1


def test_the_beating_process_stands_alone(tmp_path: Path) -> None:
    """JOB-5: the beating process says what is wrong with its file, and ends."""
    it = Beating(file=tmp_path / "nothing.json", job="jb_1")
    (tmp_path / ("0" * 32 + ".json")).write_text("{}")
    it.file = tmp_path / ("0" * 32 + ".json")
    it.start()
    said: list[Beat] = []
    while (more := it.read()) is not None:
        said += more
    it.end()
    assert [beat.trouble for beat in said] == [f"{it.file} is no private file of a lease"]
