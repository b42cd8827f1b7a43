"""The daemon's log: where lines go, in which form, and the one place where secrets are taken out (SEC-1).

Decides form, size and redaction. Who writes a line and why is decided there. Everything that uses the
standard `logging` goes the same way, libraries too.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

import structlog

from hostler.adapters.state_files import DIRECTORY_MODE, FILE_MODE
from hostler.domain.values import escape_controls, rfc3339

FILE: Final = "hostler.log"
LEVELS: Final = ("debug", "info", "warning", "error")
CALLS: Final = "httpx2"
"""The library that logs each call of a node: thousands of lines a day, which `log.level: debug` shows."""


@dataclass(eq=False, kw_only=True)
class RotatedFile:
    """`hostler.log`, `.1`, … `.N`: a new one begins before a line that would make it larger than `size`.

    A line that cannot be written is dropped and counted: a full disk stops no daemon.
    """

    directory: Path
    size: int
    files: int
    dropped: int = 0
    _handle: int | None = None
    _written: int = 0

    def write(self, text: str) -> None:
        """Take one line, with its end."""
        data = text.encode("utf-8", "backslashreplace")
        try:
            if self._handle is not None and self._written + len(data) > self.size:
                self._rotate()
            if self._handle is None:
                self._open()
            self._written += os.write(self._handle or 0, data)
        except OSError:
            self.dropped += 1

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> None:
        self.directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(self.directory / FILE, flags, FILE_MODE)
        self._written = os.fstat(self._handle).st_size

    def _rotate(self) -> None:
        self.close()
        path = self.directory / FILE
        for number in range(self.files - 1, 0, -1):
            older = path if number == 1 else path.with_name(f"{FILE}.{number - 1}")
            if older.exists():
                older.replace(path.with_name(f"{FILE}.{number}"))
        if self.files <= 1:
            path.unlink(missing_ok=True)


class _Sink(logging.Handler):
    """A place that takes lines. The class that `logging` asks for."""

    def __init__(self, write: Callable[[str], object], formatter: logging.Formatter) -> None:
        super().__init__()
        self.write = write
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.write(f"{self.format(record)}\n")
        except (OSError, ValueError):
            self.handleError(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The log as it was set up. `close` takes it down again."""

    sinks: tuple[logging.Handler, ...]
    file: RotatedFile | None
    level_before: int

    def close(self) -> None:
        """Take the sinks away and close the file."""
        root = logging.getLogger()
        for sink in self.sinks:
            root.removeHandler(sink)
        root.setLevel(self.level_before)
        logging.getLogger(CALLS).setLevel(logging.NOTSET)
        structlog.reset_defaults()
        if self.file is not None:
            self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def set_up(
    *,
    redact: Callable[[str], str],
    level: str = "info",
    file: RotatedFile | None = None,
    console: TextIO | None = None,
) -> Logs:
    """Send every log line of this process to `console` (default stderr) and to `file`.

    JSON lines in the file; on the console words for people where it is a terminal, else JSON. `redact`
    is applied to each finished line, traceback and all. ValueError for a level that there is not.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; there are {', '.join(LEVELS)}")
    screen = sys.stderr if console is None else console
    people = screen.isatty()
    sinks = [_Sink(screen.write, _formatter(redact, people=people))]
    if file is not None:
        sinks.append(_Sink(file.write, _formatter(redact, people=False)))
    root = logging.getLogger()
    before = root.level
    for sink in sinks:
        root.addHandler(sink)
    root.setLevel(level.upper())
    logging.getLogger(CALLS).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return Logs(sinks=tuple(sinks), file=file, level_before=before)


def _shared() -> list[structlog.typing.Processor]:
    """What is done to a line of ours and of a library alike."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _said_once,
        _timed,
    ]


def _said_once(_logger: object, _name: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Without what another handler may have left on a library's record."""
    for name in ("message", "asctime"):
        line.pop(name, None)
    return line


def _timed(_logger: object, _name: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    line["time"] = rfc3339(datetime.now(UTC))
    return line


def _formatter(redact: Callable[[str], str], *, people: bool) -> logging.Formatter:
    last: list[structlog.typing.Processor]
    if people:
        last = [
            structlog.dev.ConsoleRenderer(
                colors="NO_COLOR" not in os.environ,
                timestamp_key="time",
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    else:
        # Without the values of variables: they are prompts and keys as often as not.
        frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        last = [
            structlog.processors.ExceptionRenderer(frames),
            structlog.processors.JSONRenderer(default=str),
        ]
    inner = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    return _Redacted(inner, redact, people=people)


class _Redacted(logging.Formatter):
    """The finished line without secrets: the one place where log text leaves (SEC-1)."""

    def __init__(self, inner: logging.Formatter, redact: Callable[[str], str], *, people: bool) -> None:
        super().__init__()
        self.inner, self.redact, self.people = inner, redact, people

    def format(self, record: logging.LogRecord) -> str:
        text = self.redact(self.inner.format(record))
        if not self.people:
            return text  # JSON has escaped what could move a cursor.
        return "\n".join(map(_harmless, text.split("\n")))


def _harmless(line: str) -> str:
    r"""A line for a terminal: controls shown as text, but for the colours that we set ourselves."""
    parts = line.split("\x1b[")
    shown = [escape_controls(parts[0])]
    for part in parts[1:]:
        codes, letter, rest = part.partition("m")
        ours = letter and all(code.isascii() and (code.isdigit() or not code) for code in codes.split(";"))
        shown.append(f"\x1b[{codes}m{escape_controls(rest)}" if ours else f"\\x1b[{escape_controls(part)}")
    return "".join(shown)
