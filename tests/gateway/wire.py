"""Requests and answers as tests of the gateway see them, and targets that speak bytes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.fakes.raw_upstream import Wire

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\n"
SSE = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN_CHAT = JSON + b"Content-Length: 2\r\n\r\n{}"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request as a target got it."""

    head: bytes
    body: bytes

    @property
    def target(self) -> bytes:
        """Of the request line."""
        return self.head.split(b" ")[1]

    def all(self, name: str) -> list[bytes]:
        """Every value of a header, in order."""
        lines = (line.partition(b": ") for line in self.head.split(b"\r\n")[1:])
        return [value for found, _, value in lines if found.lower() == name.encode()]


@dataclass(slots=True, kw_only=True)
class Target:
    """An engine or upstream of bytes. `says` is called for each request, else `answer` is sent."""

    answer: bytes = PLAIN_CHAT
    says: Callable[[Wire, Heard], Awaitable[None]] | None = None
    heard: list[Heard] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0

    async def script(self, wire: Wire) -> None:
        """One connection."""
        self.connections += 1
        try:
            while True:
                head = await wire.head()
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await wire.reader.readexactly(int(length[1])) if length else b""
                heard = Heard(head=head, body=body)
                self.heard.append(heard)
                if self.says is None:
                    await wire.send(self.answer)
                else:
                    await self.says(wire, heard)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the gateway's, read to its end. `whole`: the end was a clean one."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    whole: bool

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for found, value in self.headers if found == name]

    def __getitem__(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    @property
    def json(self) -> dict[str, object]:
        """The body."""
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, object]:
        """What stands under `error`."""
        found = self.json["error"]
        assert isinstance(found, dict)
        return found


def chat_body(model: str, text: str = "hi", **more: object) -> bytes:
    """A chat request's body."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}], **more}).encode()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    sent = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body or method == "POST":
        sent.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def parsed(data: bytes, *, head_only: bool = False) -> Answer:
    """An answer from all bytes of its connection."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines[1:])]
    known = dict(headers)
    if head_only:
        body, whole = rest, rest == b""
    elif known.get("transfer-encoding") == "chunked":
        body, whole = unchunked(rest)
    else:
        body, whole = rest, len(rest) == int(known.get("content-length", "0"))
    return Answer(status=int(lines[0].split()[1]), headers=headers, body=body, whole=whole)


def unchunked(rest: bytes) -> tuple[bytes, bool]:
    """A chunked body, and whether it has its end."""
    parts, at = list[bytes](), 0
    while True:
        end = rest.find(b"\r\n", at)
        if end < 0:
            return b"".join(parts), False
        length = int(rest[at:end], 16)
        if length == 0:
            return b"".join(parts), rest[end + 2 :] == b"\r\n"
        parts.append(rest[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
