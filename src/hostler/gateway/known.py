"""The headers of a request that the gateway itself looks at, read in one pass.

Decides which header is which. A name is in lower case, as the server gives it; of two alike the first counts.
"""

from __future__ import annotations

from typing import Final

from hostler.gateway import headers as head_rules

Fields = list[tuple[bytes, bytes]]

WANTED: Final = frozenset(
    {
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"user-agent",
        b"x-hostler-client",
        b"x-crow-client",
        b"authorization",
        b"x-api-key",
        b"content-length",
        b"x-hostler-class",
        b"x-hostler-lease",
        b"x-hostler-no-degrade",
        head_rules.HOP_HEADER,
    }
)


class Known:
    """What a request's headers say to us. `fields` are all of them, as they came."""

    __slots__ = ("_found", "fields", "hop")

    def __init__(self, fields: Fields) -> None:
        found: dict[bytes, bytes] = {}
        for name, value in fields:
            if name in WANTED and name not in found:
                found[name] = value
        self.fields = fields
        self._found = found
        self.hop = head_rules.hops(fields) if head_rules.HOP_HEADER in found else 0

    @property
    def plain_host(self) -> bytes | None:
        """The Host of a request that no browser sent: it names neither an origin nor a site (API-4)."""
        found = self._found
        return None if b"origin" in found or b"sec-fetch-site" in found else found.get(b"host")

    def text(self, name: bytes) -> str | None:
        """A header's value as it is on the wire; None without one."""
        value = self._found.get(name)
        return None if value is None else value.decode("latin-1")

    def words(self, name: bytes) -> str | None:
        """A header's value for people: UTF-8 where it is."""
        value = self._found.get(name)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def key(self) -> str | None:
        """The caller's key, as it was sent."""
        return self.text(b"authorization") or self.text(b"x-api-key")

    @property
    def client(self) -> str | None:
        """What the caller calls itself (HOLD-14)."""
        return self.words(b"x-hostler-client") or self.words(b"x-crow-client")

    @property
    def length(self) -> int | None:
        """The declared length of the body, bytes; the server has seen that it is a number."""
        value = self._found.get(b"content-length")
        return None if value is None else int(value)
