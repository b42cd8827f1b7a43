"""Which URLs a config may name (CONF-1, NODE-2, GW-16). Opens none."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import View
from hostler.domain.addresses import is_metadata, is_this_machine

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
    if parts.scheme == "http" and not plain and not is_this_machine(parts.hostname):
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
