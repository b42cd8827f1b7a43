"""Small values that every layer shares: names, times, sizes, who asks and why.

Decides how durations, sizes and times are read and written (TIME-1). Reads no clock.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Final, NewType

EngineId = NewType("EngineId", str)
RouteName = NewType("RouteName", str)
HostName = NewType("HostName", str)
GroupName = NewType("GroupName", str)

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""The one pattern of hosts, engines, groups, resources, modes, keys and channels (SEC-2)."""

_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)")
_BYTES: Final = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}


LONGEST_DAYS: Final = 36_525
LONGEST_S: Final = LONGEST_DAYS * 86_400.0
"""A hundred years: no time that is meant is longer, and every clock and calendar can still add it."""
LARGEST: Final = 1 << 60
"""An EiB: no size that is meant is larger."""
MOST_BYTES: Final = 1 << 50
"""1 PiB: no machine has so much memory, and a number beyond it was measured by nobody."""


def whole(value: object, least: int, most: int) -> int | None:
    """`value` if it is a whole number of that range; None for anything else that a file may hold."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return None
    return value


def sizes(found: object) -> dict[str, int]:
    """The sizes in bytes by pool that an object holds; what is no size is left out."""
    if not isinstance(found, Mapping):
        return {}
    given = {str(pool): whole(size, 0, MOST_BYTES) for pool, size in found.items()}
    return {pool: size for pool, size in given.items() if size is not None}


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `15m`, `2h30m`, `7d` or `250ms`. ValueError for anything else (CONF-1), and for more
    than a hundred years.
    """
    rest, total = text.strip(), 0.0
    if rest == "0":
        return 0.0
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None:
            raise ValueError(f"{text!r} is no duration such as 90s, 15m or 2h30m")
        total += float(part[1]) * _SECONDS[part[2]]
        rest = rest[part.end() :]
    if not text.strip():
        raise ValueError("an empty text is no duration such as 90s, 15m or 2h30m")
    if total > LONGEST_S:
        raise ValueError(f"{text!r} is longer than {LONGEST_DAYS}d, a hundred years")
    return total


def format_duration(seconds: float) -> str:
    """Seconds in words for people: `42 s`, `3 min`, `2 h 5 min`, `3 d 2 h`. Never negative."""
    left = max(0, round(seconds))
    if left < 120:
        return f"{left} s"
    if left < 7200:
        return f"{left // 60} min"
    if left < 172_800:
        hours, minutes = left // 3600, left % 3600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = left // 86_400, left % 86_400 // 3600
    return f"{days} d {hours} h" if hours else f"{days} d"


def exact_duration(seconds: float) -> str:
    """Seconds in words with nothing rounded away, for what just misses a bound: `4 d 3 h`, `1 h 1 s`."""
    if not 60 <= seconds <= LONGEST_S:
        return f"{seconds:g} s"
    parts, left = list[str](), seconds
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        count, left = divmod(left, size)
        parts += [f"{count:.0f} {unit}"] if count else []
    return " ".join([*parts, f"{left:g} s"] if left else parts)


def parse_size(text: str) -> int:
    """Bytes of `512 MiB`, `43 GiB` (binary) or `157 GB` (decimal). ValueError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size such as 512 MiB or 43 GiB")
    size = float(match[1]) * _BYTES[match[2]]
    if size > LARGEST:
        raise ValueError(f"{text!r} is more than {LARGEST >> 40} TiB")
    return round(size)


def gib(size: int) -> str:
    """Bytes as GiB with one decimal, as the arithmetic of a refusal writes them: `92.6`."""
    return f"{size / (1 << 30):.1f}"


def format_size(size: int) -> str:
    """Bytes for people: `1.2 GiB`, `474 MiB`, `12 KiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(size) >= _BYTES[unit]:
            value = size / _BYTES[unit]
            return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
    return f"{size} B"


def rfc3339(moment: datetime) -> str:
    """An aware time in UTC with milliseconds and `Z` (TIME-1)."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ServingClass(StrEnum):
    """The most dangerous supported shape of a model (CAT-2)."""

    RESIDENT = "resident"
    WINDOWED = "windowed"
    WEDGE_RISK = "wedge-risk"

    @property
    def danger(self) -> int:
        """0 for resident, rising: the merge of two classes is the one of more danger (CAT-3)."""
        return (ServingClass.RESIDENT, ServingClass.WINDOWED, ServingClass.WEDGE_RISK).index(self)


class Cause(StrEnum):
    """Why a start was asked for. The first three name the engine; timers and plans do not (MEM-2)."""

    REQUEST = "request"
    ACQUIRE = "acquire"
    API = "api"
    RESIDENCY = "residency"
    IDLE_REVERT = "idle-revert"
    RETRY = "retry"
    WATCHDOG = "watchdog"
    STEP = "step"

    @property
    def timer(self) -> bool:
        """Whether a clock asked, not a caller: a fence stops these (GATE-1), GATE-2's log says which."""
        return self in (Cause.RESIDENCY, Cause.IDLE_REVERT, Cause.RETRY, Cause.WATCHDOG)


_CLIENT_OK: Final = re.compile(r"[^A-Za-z0-9._/-]")
_TAG_CHARS: Final = 40
_LONGEST: Final = 512
"""The most of a header that is looked at for a tag: 40 characters are kept, after white space is joined."""


def escape_controls(text: str) -> str:
    r"""`text` with every character that could move a cursor, hide or reorder shown as `\x1b`, `\u202e`.

    C0 and C1 controls, DEL, bidi and zero-width marks, line separators and lone surrogates
    (BG-22). Everything else stays as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    code = ord(char)
    if code < 0x20 or 0x7F <= code <= 0x9F:
        return f"\\x{code:02x}"
    hidden = (
        code in (0x00AD, 0x061C, 0x180E, 0xFEFF)
        or 0x200B <= code <= 0x200F
        or 0x2028 <= code <= 0x202E
        or 0x2060 <= code <= 0x206F
        or 0xD800 <= code <= 0xDFFF
        or 0xFFF9 <= code <= 0xFFFB
        or 0xE0000 <= code <= 0xE007F
    )
    if not hidden or code == 0x200D:
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shorten(text: str, limit: int = 80) -> str:
    """`text` escaped, and cut to `limit` characters with `…` as the mark of a cut."""
    # No character gets shorter by being shown, so what lies beyond the limit need not be looked at.
    shown = escape_controls(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asked, as far as they say: a hint for the log, never proof (HOLD-14, HOLD-15).

    `lease` is the one that they name as theirs (`x-hostler-lease`); it counts with its key only (LEASE-15).
    """

    ip: str = "-"
    ua: str = "-"
    client: str = "-"
    key: str = "-"
    lease: str = ""

    def tag(self) -> str:
        """`<ip> ua=… client=…`, safe for a log line (HOLD-14)."""
        return f"{self.ip} ua={self.ua} client={self.client}"


def requester(*, ip: str | None, ua: str | None, client: str | None, key: str = "-") -> Requester:
    """The requester of one call from its raw header values (HOLD-14).

    The address loses only an IPv4-mapped prefix; white space of `ua` is joined and its controls
    escaped; of `client`, characters outside `[A-Za-z0-9._/-]` become `_`; 40 characters each.
    """
    return _requester((ip or "-")[:_LONGEST], (ua or "")[:_LONGEST], (client or "")[:_LONGEST], key)


@functools.lru_cache(maxsize=1024)
def _requester(ip: str, ua: str, client: str, key: str) -> Requester:
    """As `requester`; the same few clients call again and again."""
    agent = escape_controls(" ".join(ua.split()))[:_TAG_CHARS] or "-"
    name = _CLIENT_OK.sub("_", client)[:_TAG_CHARS] or "-"
    return Requester(ip=ip.removeprefix("::ffff:"), ua=agent, client=name, key=key)


@functools.lru_cache(maxsize=1024)
def with_key(who: Requester, key: str) -> Requester:
    """The same requester, with the name of the key that opened the door."""
    return replace(who, key=key)


def with_lease(who: Requester, lease: str | None) -> Requester:
    """The same requester, who names a lease as theirs; what cannot be an id is none."""
    return replace(who, lease=lease) if lease and NAME.fullmatch(lease) else who


RESIDENCY: Final = Requester(client="residency")
"""The requester of our own timers: residency, retries, reverts, the watchdog (HOLD-14)."""


class Priority(IntEnum):
    """Priority of a notice."""

    LOW = 2
    NORMAL = 3
    HIGH = 4
    URGENT = 5
