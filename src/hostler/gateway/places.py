"""Where targets are on the network: addresses, base paths and keys (GW-11, GW-16).

Decides how a URL of the config becomes an address to dial. Nothing here comes from a request.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from hostler.domain.engine import Launch
from hostler.domain.fleet import Secret, Upstream
from hostler.gateway.upstream import Address
from hostler.wire.pinning import context_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Addresses by URL, made once each."""

    known: dict[str, Address] = field(default_factory=dict)

    def engine(self, launch: Launch) -> Address:
        """Where an engine of this host answers."""
        return self.at(launch.url)

    def upstream(self, upstream: Upstream) -> Address:
        """Where an upstream answers."""
        return self.at(upstream.url)

    def at(self, url: str) -> Address:
        """The address of a base URL: `http://host:port`, `https://host`, or `unix:/path`."""
        found = self.known.get(url)
        if found is None:
            found = self.known[url] = _address(url)
        return found

    def node(self, url: str, pin: str | None) -> Address:
        """Where the gateway of another host answers; with a pin, whoever has that key alone (NODE-2)."""
        if pin is None or not url.startswith("https://"):
            return self.at(url)
        found = self.known.get(f"{url} {pin}")
        if found is None:
            found = self.known[f"{url} {pin}"] = replace(_address(url), tls=context_for(pin))
        return found

    def foreign(self, url: str) -> Address:
        """Where a URL leads that another node told: never to this machine, whatever its name is (SYNC-6)."""
        found = self.known.get(f"{url} foreign")
        if found is None:
            found = self.known[f"{url} foreign"] = replace(_address(url), foreign=True)
        return found

    def path(self, upstream: Upstream, asked: str) -> bytes:
        """The path below the upstream's base."""
        return self.below(upstream.url, asked)

    def below(self, url: str, asked: str) -> bytes:
        """The path below a base: one of `…/v1` takes the place of `/v1`."""
        base = urlsplit(url).path.rstrip("/")
        if base.endswith("/v1") and asked.startswith("/v1/"):
            return (base + asked.removeprefix("/v1")).encode("latin-1")
        return (base + asked).encode("latin-1")


def keys(key: Secret | None) -> list[tuple[bytes, bytes]]:
    """The header with a target's own key (GW-11)."""
    return [] if key is None else [(b"authorization", f"Bearer {key.value}".encode("latin-1"))]


def _address(url: str) -> Address:
    if url.startswith("unix:"):
        return Address(unix=url.removeprefix("unix:"))
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return Address(
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        tls=ssl.create_default_context() if secure else None,
    )
