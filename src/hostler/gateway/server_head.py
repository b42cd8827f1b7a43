"""The head of a request: what makes one refused, and what is answered of it (SEC-3).

Decides nothing about bodies and connections; pure functions of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

import httptools

from hostler.gateway.exchange import Asked
from hostler.gateway.limits import Trouble

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields in order, names in lower case."""

_UPGRADE = (b"upgrade", b"http2-settings")

_PLAIN = re.compile(rb"/[A-Za-z0-9._/-]*")
"""A target that is its own path: no query, nothing encoded, and so nothing to take apart."""

_NOT_IN_HOST = re.compile(rb'[ \t,/\\@?#"<>^`{|}]')


def judge(method: bytes, version: str, url: bytes, headers: Fields) -> Trouble | None:
    """What is wrong with a request's head; None when nothing is. Names are in lower case.

    Both Content-Length and Transfer-Encoding, a second or malformed Content-Length, folded lines, bare CR or
    LF and white space before a colon are refused by llhttp before this.
    """
    host: bytes | None = None
    for name, value in headers:
        if name == b"host":
            if host is not None:
                return Trouble.HOST
            host = value.strip()
        elif name == b"transfer-encoding" and (version != "1.1" or value.strip().lower() != b"chunked"):
            return Trouble.AMBIGUOUS
    if version not in ("1.1", "1.0"):
        return Trouble.BAD_REQUEST
    if method == b"CONNECT":
        return Trouble.CONNECT
    if (host is None and version == "1.1") or (host is not None and _NOT_IN_HOST.search(host)):
        return Trouble.HOST
    if url.startswith(b"/") or (url == b"*" and method == b"OPTIONS"):
        return None
    return None if host is not None and _authority(url) == host.lower() else Trouble.TARGET


def _authority(url: bytes) -> bytes | None:
    """The authority of a target in absolute form, in lower case; None for any other form."""
    scheme, separator, rest = url.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return None
    return rest.split(b"/", 1)[0].split(b"?", 1)[0].lower()


def asked_for(method: bytes, version: str, url: bytes, headers: list[tuple[bytes, bytes]]) -> Asked:
    """The head of a request as it is answered: the path decoded, and as it came in `raw_path`.

    Raises httptools' errors and UnicodeDecodeError on a target that is none.
    """
    if _PLAIN.fullmatch(url):
        return Asked(method, method.decode("ascii"), url, url.decode("ascii"), url, b"", version, headers)
    parsed = httptools.parse_url(url) if url != b"*" else None
    raw_path = (parsed.path or b"/") if parsed is not None else url
    path = raw_path.decode("ascii")
    query = (parsed.query or b"") if parsed is not None else b""
    decoded = unquote(path) if "%" in path else path
    return Asked(method, method.decode("ascii"), url, decoded, raw_path, query, version, headers)


def without_upgrade(method: bytes, version: str, url: bytes, headers: Fields) -> bytes:
    """The bytes of a request's head once more, without its offer to speak another protocol."""
    parts = [method, b" ", url, b" HTTP/", version.encode(), b"\r\n"]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            kept = [token for token in tokens if token.lower() not in _UPGRADE]
            parts += (name, b": ", b", ".join(kept), b"\r\n") if kept else ()
        elif name not in _UPGRADE:
            parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)
