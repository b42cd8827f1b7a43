"""What the gateway itself writes into a stream of events, and where it may (GW-6, GW-13, GW-14).

Decides the bytes of comment and error frames, and whether the bytes so far end where a frame may follow. Does
not change a byte of what passes, and does not decide when a stream fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

TAIL_BYTES = 16 * 1024
"""The most bytes of a stream's end that are kept for its usage: 1,000 streams keep at most twice 16 MB."""

STREAM_HEAD = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
"""The head of a stream that begins with comments of ours."""


class Framing(StrEnum):
    """How a stream's pieces are told apart, and what an error looks like in it."""

    OPENAI = "openai"
    """Server-sent events without names; an error is `data: {"error": {…}}`."""
    ANTHROPIC = "anthropic"
    """Server-sent events with names; an error is `event: error` with `{"type": "error", "error": {…}}`."""
    OLLAMA = "ollama"
    """A JSON object a line; an error is `{"error": "…"}`."""


def comment(text: str) -> bytes:
    """A comment frame: every reader of server-sent events skips it, every proxy counts it as life (GW-6)."""
    return b": " + " ".join(text.split()).encode() + b"\n\n"


def error_frame(framing: Framing, error: Mapping[str, object]) -> bytes:
    """The frame that ends a stream which failed. `error` has `message`, and `type` and `code` where they are.

    It is never followed by the frame of a clean end (`[DONE]`, `message_stop`, `"done": true`).
    """
    match framing:
        case Framing.OPENAI:
            return b"data: " + msgspec.json.encode({"error": error}) + b"\n\n"
        case Framing.ANTHROPIC:
            payload = {"type": "error", "error": {"type": "api_error", **error}}
            return b"event: error\ndata: " + msgspec.json.encode(payload) + b"\n\n"
        case Framing.OLLAMA:
            return msgspec.json.encode({"error": error.get("message", "")}) + b"\n"


class Tracker:
    """Follows a stream that passes: how many bytes, whether it is between two events, and its end."""

    __slots__ = ("_limit", "_tail", "size")

    def __init__(self, tail_bytes: int = TAIL_BYTES) -> None:
        self.size = 0
        self._limit = tail_bytes
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Count a chunk that passed, and keep its end."""
        self.size += len(chunk)
        tail = self._tail
        tail += chunk if len(chunk) <= self._limit else chunk[-self._limit :]
        if len(tail) > 2 * self._limit:
            del tail[: -self._limit]

    @property
    def tail(self) -> bytes:
        """The last bytes that passed, at most the limit; all of them when there were no more."""
        return bytes(self._tail[-self._limit :])

    def is_between(self, framing: Framing) -> bool:
        """Whether what passed ends with a whole event (or line): nothing at all does."""
        if self.size == 0:
            return True
        if framing is Framing.OLLAMA:
            return self._tail.endswith(b"\n")
        return self._tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"))

    def closing(self, framing: Framing, error: Mapping[str, object]) -> bytes:
        """What ends this stream with `error`: the frame, after the end of an event that was cut.

        The reader gets the cut event as it stands; what matters is that it cannot take the frame for a part
        of it, nor the stream for whole.
        """
        frame = error_frame(framing, error)
        if self.is_between(framing):
            return frame
        return (b"\n" if framing is Framing.OLLAMA else b"\n\n") + frame
