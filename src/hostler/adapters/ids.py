"""Fresh ids, keys and dice: the only place where randomness is drawn.

Decides how an id looks: `<prefix>_` and 26 characters of Crockford's base 32, which sort by the time of
their making. Does not decide what gets one.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no i, l, o, u, so that an id can be read out."""
TIME_CHARS: Final = 10
"""10 * 5 bits hold milliseconds up to the year 37,648."""
RANDOM_CHARS: Final = 16
"""16 * 5 = 80 random bits: within one millisecond nobody guesses an id."""
KEY_BYTES: Final = 32
"""256 random bits (SEC-1)."""


@dataclass(frozen=True, slots=True)
class SystemIds:
    """The need `Ids`, from the kernel's random source."""

    def new(self, prefix: str) -> str:
        stamp = base32(time.time_ns() // 1_000_000, TIME_CHARS)
        return f"{prefix}_{stamp}{base32(secrets.randbits(5 * RANDOM_CHARS), RANDOM_CHARS)}"

    def jitter(self) -> float:
        return secrets.randbits(53) / (1 << 53)


def new_key() -> str:
    """A key of 256 random bits as text that needs no escaping in a header or a URL (SEC-1)."""
    return f"hk_{secrets.token_urlsafe(KEY_BYTES)}"


def base32(number: int, width: int) -> str:
    """The lowest `5 * width` bits of `number`, most significant first."""
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(width)))
