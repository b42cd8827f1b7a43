"""Lists and their pages: a bounded part, and where to go on (API-2).

Decides how long a page is and what its cursor means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hostler.domain.errors import CursorReset
from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import PageQuery

Row = TypeVar("Row")


def page(
    rows: Sequence[Row], asked: PageQuery, key: Callable[[Row], str], *, path: str
) -> tuple[Sequence[Row], str | None]:
    """The rows after the cursor, and the cursor of the next page; None on the last one.

    The cursor is the key of the last row seen. Rows whose keys rise (ids made in order of time) may have
    ended meanwhile; any other unknown cursor is refused `cursor_reset`.
    """
    first = 0
    if asked.cursor is not None:
        keys = [key(row) for row in rows]
        if asked.cursor in keys:
            first = keys.index(asked.cursor) + 1
        elif keys == sorted(keys):
            first = sum(it <= asked.cursor for it in keys)
        else:
            raise CursorReset(cursor=shorten(asked.cursor), snapshot=path)
    part = rows[first : first + asked.limit]
    more = first + asked.limit < len(rows)
    return part, key(part[-1]) if part and more else None
