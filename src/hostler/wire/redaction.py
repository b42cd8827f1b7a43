"""Secrets taken out of text that leaves: log lines, events, answers, captures (SEC-1).

Decides in which forms a secret is looked for. The same one redactor for every place where text leaves.
Knows secrets that the config or the state directory hold; it cannot know others.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import quote

MARK: Final = "****"
FEW: Final = 64
"""So many forms are looked for one by one faster than their pattern is made."""
LEAST_PIECE: Final = 4
"""A piece of fewer characters stands in every text by chance; only a whole secret may be so short."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]+")
"""A text that neither URLs nor JSON write in any other way, as most secrets are."""


class Redactor:
    """Takes secrets out of text. Made anew when the secrets change; what it finds never changes.

    It is made for every call with the caller's own secrets, so their forms are worked out when a text first
    needs them: no form is shorter than the secret itself, and most texts are.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: Final = tuple(secret for secret in secrets if secret)
        self._least: Final = min(map(len, self._secrets), default=0)

    @cached_property
    def _ordered(self) -> Sequence[str]:
        """Every form, the longest first: none is left half."""
        return sorted({form for secret in self._secrets for form in forms(secret)}, key=len, reverse=True)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return re.compile("|".join(map(re.escape, self._ordered))) if self._ordered else None

    @property
    def longest(self) -> int:
        """Characters of the longest form; 0 when there is none."""
        return len(self._ordered[0]) if self._ordered else 0

    def __call__(self, text: str) -> str:
        """`text` with each known secret, in any of its forms, replaced by `****`."""
        if len(text) < self._least:
            return text
        few = len(self._ordered) <= FEW
        if few and not any(form in text for form in self._ordered):
            return text  # As most have none, the pattern is not made for those of one call.
        return text if self._pattern is None else self._pattern.sub(MARK, text)

    def stream(self) -> RedactedStream:
        """For a text that comes in pieces: a secret that is cut by their borders is found, too."""
        return RedactedStream(redactor=self)

    def split(self, text: str, edge: int) -> tuple[str, str]:
        """`text` up to about `edge`, redacted, and the rest as it is: no secret lies across the border."""
        out, place = [], 0
        for found in self._pattern.finditer(text) if self._pattern is not None else ():
            if found.start() >= edge:
                break
            out += [text[place : found.start()], MARK]
            place = found.end()
        end = max(edge, place)
        out.append(text[place:end])
        return "".join(out), text[end:]


@dataclass(eq=False, kw_only=True)
class RedactedStream:
    """One text that comes in pieces. Keeps back as much as the longest secret could still need."""

    redactor: Redactor
    _kept: str = ""

    def feed(self, piece: str) -> str:
        """What of the text so far can go out."""
        text = self._kept + piece
        out, self._kept = self.redactor.split(text, max(0, len(text) - max(0, self.redactor.longest - 1)))
        return out

    def end(self) -> str:
        """The rest, at the end of the text."""
        out, self._kept = self.redactor(self._kept), ""
        return out


def forms(secret: str) -> Iterator[str]:
    """The texts that give `secret` away: itself, percent, JSON, hex, base64 and base64url."""
    data = secret.encode("utf-8", "surrogatepass")
    yield secret
    if not _PLAIN.fullmatch(secret):
        yield from _escaped(secret)
    every = "".join(f"%{byte:02X}" for byte in data)
    yield from (every, every.lower())
    if 2 * len(data) >= LEAST_PIECE:
        yield from (data.hex(), data.hex().upper())
    for alphabet in (b"+/", b"-_"):
        yield from _base64(data, alphabet)


def _escaped(secret: str) -> Iterator[str]:
    """As URLs have it: what must be encoded, what some encode as well, both cases of hex. As JSON has it."""
    for safe in ("", "/", "/:@"):
        encoded = quote(secret, safe=safe, errors="surrogatepass")
        yield from (encoded, re.sub(r"%..", lambda found: found[0].lower(), encoded))
    for ascii_only in (True, False):
        inner = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield from (inner, inner.replace("/", "\\/"))


def _base64(data: bytes, alphabet: bytes) -> Iterator[str]:
    """The characters that are the secret's alone, at each of the three places that it can have in a text.

    `user:KEY` in a header is encoded as a whole: 0, 1 or 2 bytes before the key share a character with it,
    and so may what comes after.
    """
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data, alphabet).rstrip(b"=").decode()
        first = (0, 2, 3)[before]
        last = (before + len(data)) * 8 // 6
        piece = encoded[first:last]
        if len(piece) >= LEAST_PIECE:
            yield piece
