"""Cursors: where a reader stands in the log, and whether the log can go on from there (FEED-2).

Decides which cursors are refused. The same for every store, so that they cannot differ in it.
"""

from __future__ import annotations

from hostler.domain.errors import CursorReset

MAX_DIGITS = 18
"""10^18 - 1 is below 2^63: a longer number fits no counter of ours."""


def seq_of(cursor: str | None, *, epoch: str, seq: int, pruned: int) -> int:
    """The number of the last event that the holder of `cursor` has seen; None is the log's beginning.

    Refuses `cursor_reset` for a cursor of another store, of the future, or from before what was pruned.
    """
    if cursor is None:
        return pruned
    theirs, _, number = cursor.rpartition(":")
    good = number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS
    if theirs != epoch or not good or not pruned <= int(number) <= seq:
        raise CursorReset(cursor=cursor)
    return int(number)
