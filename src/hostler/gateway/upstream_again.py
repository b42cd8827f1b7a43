"""What an upstream says before the body, when it says the same again and again.

Decides when an answer is read without a parser: whole in one read, behind a head that the parser accepted on
the same connection. An upstream whose heads differ each time is soon not tried any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.gateway.again import Seen, seen
from hostler.gateway.upstream_answer import Response

TRIES = 3
"""Heads in a row that were kept and not seen again, after which a connection keeps none."""


@dataclass(eq=False, slots=True)
class _Told:
    """A head, and where in its headers the length of the body stands."""

    head: Seen
    answer: Response
    length_at: int


class Memory:
    """The head that came last on one connection."""

    __slots__ = ("_told", "_tries")

    def __init__(self) -> None:
        self._told: _Told | None = None
        self._tries = TRIES

    def recall(self, answer: Response, data: bytes) -> bool:
        """Whether `data` was all of `answer`, with the head of the one before."""
        told = self._told
        if told is None or answer.head_only:
            return False
        start = told.head.body_at(data)
        if start < 0:
            self._told = None
            return False
        self._tries = TRIES
        headers = told.answer.headers.copy()
        headers[told.length_at] = (headers[told.length_at][0], b"%d" % (len(data) - start))
        answer.take_whole(told.answer, headers, data[start:])
        return True

    def keep(self, answer: Response, data: bytes) -> None:
        """Keep the head of an answer that came whole in `data`, if it may be told by its bytes."""
        if self._tries == 0 or not answer.is_simple:
            return
        head = seen(data)
        if head is None or head.body_at(data) < 0:
            return
        self._tries -= 1
        at = next(n for n, (name, _) in enumerate(answer.headers) if name.lower() == b"content-length")
        self._told = _Told(head, answer, at)
