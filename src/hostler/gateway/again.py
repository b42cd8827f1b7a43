"""A message that begins with a head which was parsed and accepted on the same connection before.

Decides only whether bytes are, one for one, that head and the body it declares; the digits of the length may
be others. Nothing is accepted here that the parser did not accept: what differs in any other byte goes to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_BYTES = 4096
"""The longest head that is kept: longer ones are rare, and a connection should not hold much."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,12})[ \t]*\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"
_DIGITS = 12


@dataclass(eq=False, slots=True)
class Seen:
    """A head, around the digits of its only length: the bytes `before` them and `after` them to its end."""

    before: bytes
    after: bytes

    def body_at(self, data: bytes) -> int:
        """Where the body begins in `data`, when that is this head and just the body it declares; else -1."""
        if not data.startswith(self.before):
            return -1
        start = len(self.before)
        stop = data.find(b"\r", start, start + _DIGITS + 1)
        if stop < 0 or not data.startswith(self.after, stop):
            return -1
        digits, body = data[start:stop], stop + len(self.after)
        return body if digits.isdigit() and int(digits) == len(data) - body else -1


def seen(data: bytes) -> Seen | None:
    """The head at the begin of `data`, which was parsed as one whole message; None when it is not kept."""
    end = data.find(_END, 0, MOST_BYTES)
    if end < 0:
        return None
    head = data[: end + len(_END)]
    at = _LENGTH.search(head)
    if at is None or head.lower().count(b"content-length") != 1:
        return None
    return Seen(head[: at.start(1)], head[at.end(1) :])
