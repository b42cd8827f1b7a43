"""The model's name in an answer: what was asked for, where a target knows it by another one (GW-11).

Decides which bytes of an answer are that name, while they pass: the string value of a key `model` that is
what we sent, whole. In JSON a quote within a string is escaped, so no text of a model looks like it. Every
other byte stays, and none waits but a tail that may be the beginning of the name.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from hostler.gateway.headers import is_json

KEPT_NAMES = 512
"""Of so many pairs of names what they look like in an answer is kept."""


class Renaming:
    """One answer. `feed` each piece of its body, and write what it returns; at the end `rest`."""

    __slots__ = ("_begins", "_spellings", "_tail")

    def __init__(self, sent: str, asked: str) -> None:
        self._spellings, self._begins = _spellings(sent, asked)
        self._tail = b""

    def feed(self, piece: bytes) -> bytes:
        """What may be written now: the piece with the asked name, less a tail that may begin one."""
        data = self._tail + piece if self._tail else piece
        for there, wanted in self._spellings:
            data = data.replace(there, wanted)
        # An event or an object ends with neither a quote nor a letter: nothing of it waits.
        if data.endswith((b"\n", b"}")):
            self._tail = b""
            return data
        begun = self._begins.search(data)
        at = len(data) if begun is None else begun.start()
        self._tail = data[at:]
        return data[:at]

    def rest(self) -> bytes:
        """What waited for a piece that did not come."""
        tail, self._tail = self._tail, b""
        return tail


def renaming(names: tuple[str, str], content_type: bytes) -> Renaming | None:
    """What puts the asked name into an answer of that type; None where there is no other name in it."""
    sent, asked = names
    return Renaming(sent, asked) if sent != asked and is_json(content_type) else None


@lru_cache(maxsize=KEPT_NAMES)
def _spellings(sent: str, asked: str) -> tuple[tuple[tuple[bytes, bytes], ...], re.Pattern[bytes]]:
    """How the name may stand there, each with what takes its place; and its beginning at a piece's end."""
    keys = (b'"model":', b'"model": ')
    pairs = tuple((key + msgspec.json.encode(sent), key + msgspec.json.encode(asked)) for key in keys)
    return pairs, re.compile(rb"(?:%b)\Z" % b"|".join(_begun(there) for there, _ in pairs))


def _begun(text: bytes) -> bytes:
    """An expression of every beginning of `text` but the whole."""
    expression = b""
    for byte in reversed(text[:-1]):
        expression = re.escape(bytes([byte])) + (b"(?:%b)?" % expression if expression else b"")
    return expression
