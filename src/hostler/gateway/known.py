"""The headers of a request that the gateway itself looks at, read once for each head.

Decides which header is which, and `plain_host`: the Host of a request that no browser sent, since it names
neither an origin nor a site (API-4). A name is in lower case, as the server gives it; of two alike the first
counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.domain.values import Requester, requester, with_key, with_lease
from hostler.gateway import headers as head_rules
from hostler.gateway.exchange import Exchange
from hostler.gateway.upstream import Address, RequestHead
from hostler.services.keys import Principal, shown

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
        b"x-hostler-class",
        b"x-hostler-lease",
        b"x-hostler-no-degrade",
        head_rules.HOP_HEADER,
    }
)


class Known:
    """What the head of a request says to us, and who asks.

    It is made once for all requests in a row that have the same head on one connection, and so is what is
    kept here for the next of them: who a key belongs to is looked up for each, by the key's digest.
    """

    __slots__ = (
        "_asker",
        "_found",
        "_principal",
        "_sent",
        "fields",
        "hop",
        "key",
        "lease",
        "may_degrade",
        "method",
        "plain_host",
        "request_class",
        "who",
    )

    def __init__(self, method: str, fields: Fields, ip: str | None) -> None:
        found: dict[bytes, bytes] = {}
        for name, value in fields:
            if name in WANTED and name not in found:
                found[name] = value
        self.method = method
        self.fields = fields
        self._found = found
        self.hop = head_rules.hops(fields) if head_rules.HOP_HEADER in found else 0
        by_hand = b"origin" not in found and b"sec-fetch-site" not in found
        self.plain_host = found.get(b"host") if by_hand else None
        self.key = shown(self.text(b"authorization") or self.text(b"x-api-key"))
        self.lease = self.text(b"x-hostler-lease")
        self.request_class = self.text(b"x-hostler-class")
        self.may_degrade = found.get(b"x-hostler-no-degrade") != b"1"
        client = self.words(b"x-hostler-client") or self.words(b"x-crow-client")
        self.who = requester(ip=ip, ua=self.words(b"user-agent"), client=client)
        self._sent: _Sent | None = None
        self._principal: Principal | None = None
        self._asker = self.who

    def asker(self, principal: Principal) -> Requester:
        """Who asks, by the name of their key and the lease that they name as theirs (GW-9)."""
        if principal is not self._principal:
            named = self.who if principal.name == self.who.key else with_key(self.who, principal.name)
            self._principal, self._asker = principal, with_lease(named, self.lease)
        return self._asker

    def head_to(self, address: Address, target: bytes, added: Fields, silence_s: float) -> RequestHead:
        """What a target is sent before the body, with what is `added`: its key.

        The same target as for the request before gets the same one.
        """
        sent = self._sent
        if (
            sent is not None
            and sent.address is address
            and sent.added == added
            and sent.head.target == target
            and sent.head.silence_s == silence_s
        ):
            return sent.head
        head = RequestHead(
            method=self.method.encode("latin-1"),
            target=target,
            headers=head_rules.to_upstream(self.fields, hop=self.hop + 1, added=added),
            silence_s=silence_s,
        )
        self._sent = _Sent(address, added, head)
        return head

    def text(self, name: bytes) -> str | None:
        """A header's value as it is on the wire; None without one."""
        value = self._found.get(name)
        return None if value is None else value.decode("latin-1")

    def words(self, name: bytes) -> str | None:
        """A header's value for people: UTF-8 where it is."""
        value = self._found.get(name)
        return None if value is None else value.decode("utf-8", "replace")


@dataclass(eq=False, slots=True)
class _Sent:
    """The head that went to a target the time before, and what was added for it."""

    address: Address
    added: Fields
    head: RequestHead


def known_of(exchange: Exchange) -> Known:
    """What is known of a request's head: as it was noted, or noted now."""
    asked, client = exchange.asked, exchange.connection.client
    if not isinstance(asked.noted, Known):
        asked.noted = Known(asked.method, asked.headers, client[0] if client else None)
    return asked.noted
