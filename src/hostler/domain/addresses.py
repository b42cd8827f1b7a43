"""What an address in a URL means, in every spelling that a resolver understands (SYNC-2, GW-16).

Decides which hosts are this machine, a link's, or a cloud's metadata service. Looks no name up: a name is
only known by itself.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from hostler.domain.values import shorten

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA: Final = frozenset(
    {
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "metadata.google.internal",
        "metadata",
    }
)
"""Where clouds hand out a machine's credentials: never an engine, always a prize (GW-16)."""
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain"})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_PLACES: Final = (1 << 32, 1 << 24, 1 << 16, 1 << 8)
"""How large the last of one, two, three and four parts of an IPv4 address may be."""

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<user>[^/?#]*)@)?"
    r"(?P<host>\[[^\]/?#@]+\]|[^:/?#@\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#].*)?",
    re.ASCII,
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}", re.ASCII)
LONGEST_SHOWN: Final = 400
_PLAIN: Final = re.compile(r"\[[^%]*(?:%25[A-Za-z0-9._~-]+)?\]|[^%]+", re.ASCII)
"""A host that needs no decoding; what does is read in another way by each who does it."""
_PERCENT: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_ODD: Final = re.compile(r"[\s\\\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a URL leads: its scheme and host in lower case, without brackets; `user` None: it names none."""

    scheme: str
    host: str
    user: str | None = None


def place_of(url: str) -> Place | None:
    """Where `url` leads. None for what two readers could understand in two ways.

    So is a host with letters beyond ASCII, full-width digits for instance, which one folds and another does
    not, and one that is percent-encoded.
    """
    found = _URL.fullmatch(url)
    if found is None or _ODD.search(url) or int(found["port"] or 0) > 65535:
        return None
    if not found["host"].isascii() or _PLAIN.fullmatch(found["host"]) is None:
        return None
    return Place(scheme=found["scheme"].lower(), host=found["host"].strip("[]").lower(), user=found["user"])


def shown_url(url: str) -> str:
    """`url` as it may be shown: without user and password, query and fragment, however odd it is.

    An `@` ends what may be a password wherever it stands, also behind a slash that one reader takes for the
    path's; what stands in a port's place and is none is left out as well. Escaped, and short.
    """
    scheme, found, rest = url.strip().partition("://")
    if not found or _SCHEME.fullmatch(scheme) is None:
        scheme, found, rest = "", "", url.strip()
    authority, slash, path = re.split(r"[?#]", rest.rpartition("@")[2])[0].partition("/")
    host, colon, port = authority.rpartition(":")
    if colon and "]" not in port and not port.isdigit():
        authority = f"{host}:…"
    return shorten(f"{scheme}{found}{f'{authority}{slash}{path}'.rstrip('/')}", LONGEST_SHOWN)


def is_this_machine(host: str) -> bool:
    """Whether `host` is loopback or a wildcard in any spelling: `127.1`, `0x7f000001`, `::ffff:127.1.1.1`."""
    name = _bare(host)
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return True
    return any(found.is_loopback or found.is_unspecified for found in meanings(name))


def is_metadata(host: str) -> bool:
    """Whether `host` is a cloud's metadata service."""
    name = _bare(host)
    return name in METADATA or any(str(found) in METADATA for found in meanings(name))


def is_link_local(host: str) -> bool:
    """Whether `host` means something only on one link of one machine."""
    return any(found.is_link_local for found in meanings(_bare(host)))


def meanings(host: str) -> tuple[Ip, ...]:
    """The address that `host` is, and those that it stands for; none for a name.

    An IPv6 address may carry an IPv4 one: mapped, compatible, 6to4, Teredo, NAT64.
    """
    found = _address(_bare(host))
    if found is None:
        return ()
    if isinstance(found, ipaddress.IPv4Address):
        return (found,)
    inner = [it for it in (found.ipv4_mapped, found.sixtofour, *(found.teredo or ())) if it is not None]
    if found in _NAT64 or (int(found) >> 32 == 0 and int(found) > 1):
        inner.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
    return (found, *inner)


def _bare(host: str) -> str:
    """Without brackets, zone, closing dots and upper case; folded as a resolver folds it (IDNA)."""
    text = host.strip("[]")
    if ":" not in text:
        text = _decoded(text)
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).replace("\u3002", ".")
        text = "".join(it for it in folded if unicodedata.category(it) != "Cf")
    return text.strip("[]").partition("%")[0].rstrip(".").lower()


def _decoded(text: str) -> str:
    """What percent signs stand for, in UTF-8; what is none of it stays as it is."""
    octets = _PERCENT.sub(lambda it: bytes.fromhex(it[1].decode()), text.encode("utf-8", "replace"))
    return octets.decode("utf-8", "replace")


def _address(name: str) -> Ip | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return _by_parts(name)


def _by_parts(name: str) -> ipaddress.IPv4Address | None:
    """An IPv4 address as C reads it: one to four numbers, decimal, 0x hexadecimal or 0 octal."""
    parts = [_number(part) for part in name.split(".")]
    if len(parts) > 4:
        return None
    value = 0
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part is None or part >= (_PLACES[index] if last else 256):
            return None
        value = value * (_PLACES[index] if last else 256) + part
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int | None:
    if not text.isascii() or not text.isalnum():
        return None
    base = 16 if text.startswith("0x") else 8 if text.startswith("0") and text != "0" else 10
    try:
        return int(text, base)
    except ValueError:
        return None
