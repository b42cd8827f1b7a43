import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from hostler.adapters.telemetry import Logs, RotatedFile, set_up
from hostler.wire.redaction import Redactor

SECRET = "hk_9QpX-ZrT4vKq_8mWn2LsB7yDc5uFhJ"


class Screen(io.StringIO):
    """A console that may be a terminal."""

    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


SetUp = Callable[..., Logs]


@pytest.fixture
def begin() -> Iterator[SetUp]:
    """Logging that is taken down after the test."""
    made: list[Logs] = []

    def start(**settings: object) -> Logs:
        made.append(set_up(redact=Redactor([SECRET]), **settings))  # type: ignore[arg-type] # as the test says
        return made[-1]

    yield start
    for logs in made:
        logs.close()


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[RotatedFile]:
    made = RotatedFile(directory=tmp_path / "logs", size=400, files=3)
    yield made
    made.close()


def test_lines_are_json_with_their_facts(begin: SetUp) -> None:
    """METRIC-1: each line, ours or a library's, is one JSON object with time, level, logger and facts."""
    screen = Screen()
    begin(console=screen)
    structlog.get_logger("hostler.gate").warning("refused", engine="large", lease=None)
    logging.getLogger("libx").info("listens on %s", "127.0.0.1", extra={"port": 7070})
    logging.getLogger("quiet").debug("not told")
    ours, theirs = screen.lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(ours.pop("time")))
    assert ours == {
        "event": "refused",
        "engine": "large",
        "lease": None,
        "level": "warning",
        "logger": "hostler.gate",
    }
    del theirs["time"]
    assert theirs == {
        "event": "listens on 127.0.0.1",
        "level": "info",
        "logger": "libx",
        "port": 7070,
    }


@pytest.mark.parametrize(("level", "said"), [("info", ["broke"]), ("debug", ["called", "broke"])])
def test_calls_of_nodes_are_for_debugging(begin: SetUp, level: str, said: list[str]) -> None:
    """METRIC-1: a line for each call to another node is there at the level `debug` alone."""
    screen = Screen()
    begin(console=screen, level=level)
    logging.getLogger("httpx2").info("called")
    logging.getLogger("httpx2").warning("broke")
    assert [line["event"] for line in screen.lines()] == said


def test_a_request_id_is_on_every_line_below_it(begin: SetUp) -> None:
    """METRIC-1: what is bound for a request stands on every line that is written while it is served."""
    screen = Screen()
    begin(console=screen)
    with structlog.contextvars.bound_contextvars(request="rq_1"):
        structlog.get_logger().info("one")
        logging.getLogger("library").info("two")
    structlog.get_logger().info("three")
    assert [line.get("request") for line in screen.lines()] == ["rq_1", "rq_1", None]


@pytest.mark.parametrize("terminal", [False, True])
def test_no_secret_reaches_a_line(begin: SetUp, log_file: RotatedFile, terminal: bool) -> None:
    """SEC-1: a secret in an event, fact, argument, traceback or library's line is taken out."""
    screen = Screen(terminal)
    log_file.size = 1 << 20
    begin(console=screen, file=log_file)
    log = structlog.get_logger("hostler")
    log.info("the key is %s", SECRET, key=SECRET, deep={"key": [SECRET]})
    logging.getLogger("library").warning("sent %s", SECRET, extra={"header": f"Bearer {SECRET}"})
    try:
        raise ValueError(f"bad key {SECRET}")
    except ValueError:
        log.exception("failed")
        logging.getLogger("library").exception("failed too")
    written = (log_file.directory / "hostler.log").read_text()
    for text in (screen.getvalue(), written):
        assert SECRET not in text
        assert text.count("****") >= 6
        assert "ValueError" in text


def test_a_traceback_tells_no_values(begin: SetUp) -> None:
    """SEC-1: a traceback has files and lines, and no values of variables: they may be prompts."""
    for terminal in (False, True):
        screen = Screen(terminal)
        logs = begin(console=screen)
        prompt = "tell me of my illness"
        try:
            raise ValueError("broken")
        except ValueError:
            structlog.get_logger().exception("failed")
        assert "test_telemetry.py" in screen.getvalue()
        assert prompt not in screen.getvalue()
        logs.close()


def test_a_terminal_is_not_steered(begin: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-1: control characters in a line are shown as text on a terminal; only our own colours are not."""
    for plain in (False, True):
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        screen = Screen(terminal=True)
        logs = begin(console=screen)
        structlog.get_logger().info("bad \x1b[2J\x1b]0;title\x07 end", name="\u202egnp")
        text = screen.getvalue()
        assert "\x1b[2J" not in text
        assert "\x1b]" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
        assert ("\x1b[0m" in text) != plain
        logs.close()


def test_a_level_that_there_is_not_is_told(begin: SetUp) -> None:
    """METRIC-1: an unknown log level is an error that lists those that there are; the known ones decide."""
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        begin(level="loud")
    screen = Screen()
    begin(console=screen, level="error")
    structlog.get_logger("hostler").warning("no")
    structlog.get_logger("hostler").error("yes")
    assert [line["event"] for line in screen.lines()] == ["yes"]


def test_the_log_taken_down_is_silent(begin: SetUp) -> None:
    """METRIC-1: after `close` no line goes to the old place."""
    screen = Screen()
    begin(console=screen).close()
    logging.getLogger("library").warning("nobody hears")
    assert screen.getvalue() == ""


# ---------------------------------------------------------------- the file


def content(file: RotatedFile) -> list[str]:
    """What each file has, the current one first."""
    names = ("hostler.log", *(f"hostler.log.{number}" for number in range(1, 10)))
    return [path.read_text() for name in names if (path := file.directory / name).exists()]


def test_the_file_rotates_by_size(log_file: RotatedFile) -> None:
    """SEC-1: log files are 0600 in a directory of 0700, bounded in size and number, and no line is cut."""
    for number in range(40):
        log_file.write(f"{number:03} {'x' * 95}\n")
    found = content(log_file)
    assert [len(text) for text in found] == [400, 400, 400]
    assert [text.splitlines()[0][:3] for text in found] == ["036", "032", "028"]
    assert log_file.directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in log_file.directory.iterdir()} == {0o600}


def test_a_file_goes_on_after_a_restart(log_file: RotatedFile) -> None:
    """METRIC-1: a new daemon appends to the old one's file and counts what is in it."""
    log_file.write("x" * 299 + "\n")
    log_file.close()
    again = RotatedFile(directory=log_file.directory, size=400, files=3)
    again.write("y" * 49 + "\n")
    again.write("z" * 99 + "\n")
    again.close()
    assert content(log_file) == ["z" * 99 + "\n", "x" * 299 + "\n" + "y" * 49 + "\n"]


def test_one_file_is_enough(tmp_path: Path) -> None:
    """METRIC-1: with one file old lines go when it is full, and a line longer than it is written whole."""
    file = RotatedFile(directory=tmp_path, size=10, files=1)
    for text in ("one\n", "x" * 50 + "\n", "two\n"):
        file.write(text)
    file.close()
    assert content(file) == ["two\n"]


def test_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    """REL-1: a line that cannot be written is dropped and counted, and nobody who logs notices."""
    (tmp_path / "file").write_text("")
    file = RotatedFile(directory=tmp_path / "file", size=10, files=1)
    file.write("lost\n")
    assert file.dropped == 1
    (tmp_path / "file").unlink()
    file.write("\ud800 kept\n")
    file.close()
    assert content(file) == ["\\ud800 kept\n"]
