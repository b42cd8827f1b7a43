"""Which URLs a config may name (CONF-1, NODE-2, GW-16). Opens none."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import View

METADATA: Final = frozenset(
    {"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "metadata.google.internal", "metadata"}
)
"""Where clouds hand out credentials: never a target (GW-16)."""
_SECRET_WORDS: Final = ("key", "token", "secret", "password", "passwd", "auth", "sig")


def check_url(view: View, path: Path, url: str, *, plain: bool = True, bare: bool = False) -> None:
    """Note what is wrong with a URL. `plain`: http:// beyond loopback is fine; `bare`: no path of its own.

    A URL with credentials must be a reference, and then its text is in no message.
    """
    shown = "it" if path in view.references else url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        view.error(path, "expected a URL such as https://crow.lan:7070")
        return
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        view.error(path, "expected a URL such as https://crow.lan:7070")
        return
    if path not in view.references and has_credentials(url):
        view.error(path, "a URL with credentials in clear", "write it as ${env:NAME} or ${file:PATH}")
        return
    if is_metadata(parts.hostname):
        view.error(path, f"{shown} is a metadata address of a cloud: never a target")
    if bare and (parts.path not in ("", "/") or parts.query or parts.fragment):
        view.error(path, "expected scheme, host and port alone", f"{parts.scheme}://{parts.netloc}")
    if parts.scheme == "http" and not plain and not is_loopback(parts.hostname):
        view.error(path, "plain http:// beyond loopback", "use https://, or allow_plain_http: true")


def has_credentials(url: str) -> bool:
    """Whether a URL carries a user, a password, or a query key that is named like a secret."""
    try:
        parts: SplitResult = urlsplit(url)
        if parts.scheme.startswith("postgres"):
            return parts.password is not None or "password" in parts.query
        named = [name.lower() for name, value in parse_qsl(parts.query) if value]
        return parts.username is not None or any(word in name for name in named for word in _SECRET_WORDS)
    except ValueError:
        return "@" in url


def is_loopback(host: str) -> bool:
    """Whether a URL's host is this machine, in any spelling (SYNC-2)."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    found = _address(name)
    return found is not None and (found.is_loopback or found.is_unspecified)


def is_metadata(host: str) -> bool:
    """Whether a URL's host is a cloud's metadata service."""
    found = _address(host)
    return (host.rstrip(".").lower() if found is None else str(found)) in METADATA


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
