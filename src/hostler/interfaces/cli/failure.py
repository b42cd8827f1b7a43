"""How a command fails: one error line and one hint line, or the error object, on stderr; and its exit code.

Decides exit codes that are not a refusal's own (INTERFACE-4); the others are `hostler.wire.refusals`'.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TextIO

from hostler.domain.errors import BoxReserved, DraftBroken, InvalidConfig, NotImportable, Refusal
from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.interfaces.cli.output import parse_moment, with_local_times
from hostler.wire.refusals import USAGE_EXIT, error_object, face

OURS: Final = "invalid_request_error"
UNWRITTEN: Final = 70
UNEXPECTED: Final = 70
UNREADABLE: Final = 65
WAIT_TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a stream says that takes no more."""
BROKEN_PIPE: Final = 141
"""As a shell shows SIGPIPE: whoever read our output has what it wanted."""
LONGEST: Final = 600
FOR_PEOPLE: Final[Mapping[str, str]] = frozen(
    {
        "loading": "It goes on loading; `hostler status --watch` shows when it is ready.",
        "queue_full": "Try again when some have ended; `hostler requests` lists what is under way.",
        "cursor_reset": "`hostler schedule` shows what is there now, and the cursor to go on from.",
    }
)
"""Hints of refusals, by code, whose own hint speaks to a program."""


def fail(refusal: Refusal, *, as_json: bool, code: int | None = None) -> int:
    """Tell the refusal on stderr and give its exit code, or `code` where the command knows better."""
    if as_json:
        complain(json.dumps(error_object(refusal), separators=(",", ":")))
    else:
        now = _now(refusal)
        _tell(with_local_times(str(refusal), now), with_local_times(advice(refusal), now))
        if isinstance(refusal, InvalidConfig | NotImportable | DraftBroken):
            for problem in refusal.problems:
                complain(shorten(problem, LONGEST))
    return face(refusal).exit if code is None else code


def usage(message: str, hint: str, *, as_json: bool) -> int:
    """Tell that the command was not written as it must be."""
    _tell_own("usage", message, hint, as_json=as_json)
    return USAGE_EXIT


def unforeseen(error: Exception, *, as_json: bool) -> int:
    """What no command foresaw, as one clear error: its exit code (INTERFACE-2).

    In Python's development mode a bug's traceback is raised on.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return unreadable(error, as_json=as_json)
    # A file has a name; what is written to a stream has none.
    if isinstance(error, OSError) and error.errno in NOT_WRITTEN:
        return unwritten(error, as_json=as_json)
    if sys.flags.dev_mode:
        raise error
    return unexpected(error, as_json=as_json)


def unwritten(error: OSError, *, as_json: bool) -> int:
    """What a command was to say could not be written, to a full disk for instance: its exit code."""
    nowhere(sys.stdout)
    message = f"The answer could not be written: {error.strerror or error}."
    _tell_own("unwritten", message, "What the command did is done; ask again to see it.", as_json=as_json)
    return UNWRITTEN


def unreadable(error: OSError, *, as_json: bool) -> int:
    """A file that a command was given, or found, and could not use: its exit code."""
    message = f"{shorten(str(error.filename), 200)}: {error.strerror or error}."
    _tell_own("unusable_file", message, "Look at that file, or name another.", as_json=as_json)
    return UNREADABLE


def unexpected(error: Exception, *, as_json: bool) -> int:
    """What no command foresaw, as one line of ours: its exit code."""
    what = " ".join(str(error).split()) or "no more is known"
    message = f"This failed unexpectedly: {type(error).__name__}: {what}."
    hint = "Look at what was given. If that is right it is a bug: with PYTHONDEVMODE=1 it shows where."
    _tell_own("internal", message, hint, as_json=as_json, kind="server_error")
    return UNEXPECTED


def _tell_own(code: str, message: str, hint: str, *, as_json: bool, kind: str = OURS) -> None:
    """A failure of the command itself, which no daemon has."""
    if not as_json:
        _tell(message, hint)
        return
    error: dict[str, object] = {
        "message": message,
        "type": kind,
        "param": None,
        "code": code,
        "hint": hint,
        "facts": {},
        "retry_after": None,
    }
    complain(json.dumps({"error": error}, separators=(",", ":")))


def advice(refusal: Refusal) -> str:
    """The refusal's hint in words for people: who types a command sends no header and reads no path.

    What this side knows of who was asked, and with which key, takes the place of the daemon's own hint;
    any other note comes after it.
    """
    own = FOR_PEOPLE.get(refusal.code)
    hint = refusal.known_here or (refusal.advice() if own is None else refusal.filled(own))
    return " ".join(it for it in (hint, *getattr(refusal, "__notes__", ())) if it)


def _now(refusal: Refusal) -> datetime | None:
    """The daemon's time: so long before the end of a hold as the refusal says to wait (HOLD-13)."""
    end = refusal.expires_at if isinstance(refusal, BoxReserved) else None
    if end is None or refusal.retry_after is None:
        return None
    return parse_moment(end) - timedelta(seconds=refusal.retry_after)


def _tell(message: str, hint: str) -> None:
    complain(f"error: {shorten(message, LONGEST)}")
    if hint:
        complain(f"hint: {shorten(hint, LONGEST)}")


def complain(line: str) -> None:
    """One line on stderr. Where none can be written the exit code has to do: it must not become another."""
    mutter(f"{line}\n")


def mutter(text: str) -> None:
    """Text on stderr as it is, for lines that change. That nobody can read it ends nothing."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        nowhere(sys.stderr)


def nowhere(stream: TextIO) -> None:
    """Lead a stream that takes nothing to nowhere: Python would fail again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
