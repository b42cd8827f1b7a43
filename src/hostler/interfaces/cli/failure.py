"""How a command fails: one error line and one hint line, or the error object, on stderr; and its exit code.

Decides exit codes that are not a refusal's own (INTERFACE-4); the others are `hostler.wire.refusals`'.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from hostler.domain.errors import InvalidConfig, Refusal
from hostler.domain.values import shorten
from hostler.interfaces.cli.output import with_local_times
from hostler.wire.refusals import USAGE_EXIT, error_object, face

WAIT_TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As a shell shows SIGPIPE: whoever read our output has what it wanted."""
LONGEST: Final = 600


def fail(refusal: Refusal, *, as_json: bool, code: int | None = None) -> int:
    """Tell the refusal on stderr and give its exit code, or `code` where the command knows better."""
    if as_json:
        print(json.dumps(error_object(refusal), separators=(",", ":")), file=sys.stderr)
    else:
        _tell(str(refusal), refusal.advice())
        if isinstance(refusal, InvalidConfig):
            for problem in refusal.problems:
                print(shorten(problem, LONGEST), file=sys.stderr)
    return face(refusal).exit if code is None else code


def usage(message: str, hint: str, *, as_json: bool) -> int:
    """Tell that the command was not written as it must be."""
    if as_json:
        error: dict[str, object] = {
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": "usage",
            "hint": hint,
            "facts": {},
            "retry_after": None,
        }
        print(json.dumps({"error": error}, separators=(",", ":")), file=sys.stderr)
    else:
        _tell(message, hint)
    return USAGE_EXIT


def _tell(message: str, hint: str) -> None:
    print(f"error: {with_local_times(shorten(message, LONGEST))}", file=sys.stderr)
    if hint:
        print(f"hint: {with_local_times(shorten(hint, LONGEST))}", file=sys.stderr)
