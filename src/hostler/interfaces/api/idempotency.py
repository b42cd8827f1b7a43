"""Idempotency-Key: a repeated call with the same key acts once (API-2).

Decides what a second call with a known key gets. Kept in memory and bounded: a restart forgets, which is
safe because every control call is safe to repeat in any state (ENG-1). Refusals are not kept: they changed
nothing, and asking again may find another answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from starlette.responses import Response

from hostler.domain.errors import IdempotencyConflict, InvalidRequest
from hostler.domain.values import shorten

HEADER: Final = "idempotency-key"
REPLAYED: Final = "x-hostler-replayed"
KEPT: Final = 1000
"""Answers kept, oldest dropped first."""
LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response as it was given, with everything needed to give it again."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def again(self) -> Response:
        """The same answer, marked as a repeat."""
        return Response(self.body, self.status, headers={**dict(self.headers), REPLAYED: "1"})


@dataclass(eq=False, slots=True, kw_only=True)
class Entry:
    """One key: what was asked with it, and its answer once there is one."""

    digest: bytes
    answer: asyncio.Future[Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """The answers of calls with a key, by (key, who, method and path)."""

    entries: OrderedDict[tuple[str, str, str], Entry] = field(default_factory=OrderedDict)

    async def once(
        self, key: str, who: str, what: str, body: bytes, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        """`act()`, or what it gave when `key` came before; a call under way is joined.

        Refuses `idempotency_conflict` when the key came with another body, and malformed keys.
        """
        check_key(key)
        digest = hashlib.sha256(body).digest()
        known = self.entries.get((key, who, what))
        if known is not None:
            if known.digest != digest:
                raise IdempotencyConflict(key=shorten(key))
            return (await asyncio.shield(known.answer)).again()
        return await self._first((key, who, what), digest, act)

    async def _first(
        self, name: tuple[str, str, str], digest: bytes, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        entry = Entry(digest=digest, answer=asyncio.get_running_loop().create_future())
        self.entries[name] = entry
        try:
            response = await act()
        except asyncio.CancelledError:
            del self.entries[name]
            entry.answer.cancel()
            raise
        except Exception as failure:
            del self.entries[name]
            entry.answer.set_exception(failure)
            # Fetched here, so that a failure that nobody joined leaves no warning.
            entry.answer.exception()
            raise
        headers = tuple(response.headers.items())
        entry.answer.set_result(
            Answer(status=response.status_code, headers=headers, body=bytes(response.body))
        )
        self._bound()
        return response

    def _bound(self) -> None:
        """Drop the oldest finished answers beyond the bound; a call under way is never forgotten."""
        excess = len(self.entries) - KEPT
        if excess > 0:
            done = (name for name, entry in self.entries.items() if entry.answer.done())
            for name in tuple(islice(done, excess)):
                del self.entries[name]


def check_key(key: str) -> None:
    """Refuses `invalid_request` for a key that is empty, long, or no plain text."""
    if not 1 <= len(key) <= LONGEST or not key.isascii() or not key.isprintable():
        raise InvalidRequest(
            what="The Idempotency-Key cannot be used.",
            expected=f"1 to {LONGEST} printable ASCII characters",
            where=HEADER,
        )


def request_id(headers: Mapping[str, str]) -> str:
    """The key of a call whose result keeps it (LEASE-9). Refuses `invalid_request` for a call without one."""
    key = headers.get(HEADER)
    if key is None:
        raise InvalidRequest(
            what="This call needs an Idempotency-Key.",
            expected="Make one, keep it, and send it again when you repeat the call: it acts once.",
            where=HEADER,
        )
    check_key(key)
    return key
