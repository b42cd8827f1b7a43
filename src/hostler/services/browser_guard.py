"""The browser guard: which requests a web page of somebody else could have made us receive (API-4).

Decides on the Host, Origin and Sec-Fetch-Site headers alone, for control and for inference paths alike.
Reads no key: that is `services.keys`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hostler.domain.errors import NotYours
from hostler.domain.fleet import Fleet

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (API-2)."""

_SAME: Final = frozenset({"same-origin", "none"})
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


@dataclass(eq=False, slots=True, kw_only=True)
class BrowserGuard:
    """The names this daemon answers to, lower case, and the origins of browser apps that may call it.

    A reload gives it other origins (CONF-3); its names are those of the listeners, which stay.
    `any_address`: it listens on every address, so a Host that is an address is one of ours. Rebinding
    needs a name, so an address in Host is never the work of a foreign page.
    """

    names: frozenset[str]
    any_address: bool = False
    cors: frozenset[str] = frozenset()

    def check(
        self, method: str, *, host: str | None, origin: str | None = None, fetch_site: str | None = None
    ) -> None:
        """Refuse `not_yours` for a foreign Host, and for a write that a page of another site sent."""
        name = name_in(host or "")
        if not self._ours(name):
            raise NotYours(
                what=f"This daemon is not {name!r}." if name else "The request has no usable Host header.",
                expected="Use the daemon's own address, such as 127.0.0.1, or name it in hosts.<name>.url.",
            )
        if method in READS or (origin is not None and origin.lower() in self.cors):
            return
        foreign = origin is not None and not _same(origin, host or "")
        if foreign or (fetch_site is not None and fetch_site.lower() not in _SAME):
            raise NotYours(
                what="A page of another site may not change anything here.",
                expected="List the page's origin in gateway.cors if it is yours.",
            )

    def _ours(self, name: str) -> bool:
        if name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.any_address


def guard_for(fleet: Fleet, names: Iterable[str] = ()) -> BrowserGuard:
    """The guard of this host: loopback names, its listen addresses, its own names, and `names`."""
    listening = [name_in(address) for address in fleet.node.listen]
    url = urlsplit(fleet.host.url or "").hostname
    ours = {"localhost", *listening, fleet.here.lower(), *(name.lower() for name in names)}
    if url:
        ours.add(url.lower())
    return BrowserGuard(
        names=frozenset(ours - {""}),
        any_address=bool(_EVERYWHERE & set(listening)),
        cors=origins(fleet),
    )


def origins(fleet: Fleet) -> frozenset[str]:
    """The origins of `gateway.cors`, as browsers send them."""
    return frozenset(origin.lower().rstrip("/") for origin in fleet.gateway.cors)


def name_in(authority: str) -> str:
    """The host part of `name:port`, lower case, without brackets or a closing dot; empty when unusable."""
    try:
        name = urlsplit(f"//{authority}").hostname
    except ValueError:
        return ""
    usable = name and "@" not in authority and "/" not in authority
    return name.rstrip(".") if name and usable else ""


def _same(origin: str, host: str) -> bool:
    """Whether `origin` is a page of our own, as this request's Host names us."""
    scheme, _, authority = origin.lower().partition("://")
    return scheme in ("http", "https") and authority == host.lower()
