"""The engine API of Docker and Podman over its unix socket: the few calls that the drivers need.

Decides how a call is bounded and what a failure of it is called. Does not decide what an answer means for an
engine: `container` does. Every call has its own connection and an end: an engine that hangs delays nobody.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx2

CALL_S: Final = 2.5
"""For one call: a probe promises 3 s, and the engine is on this machine."""
NOW_S: Final = 1.0
"""For a call that the caller's loop waits for."""
CHANGE_S: Final = 60.0
"""For a call that makes or starts a container: layers are copied and devices set up meanwhile."""
DOCKER_SOCKET: Final = "/var/run/docker.sock"
PODMAN_SOCKET: Final = "podman/podman.sock"
MAX_FRAME: Final = 1 << 20
_SCHEME: Final = "unix://"
_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Never used on a unix socket; without it the client reads the machine's certificates for each call."""

Query = Mapping[str, str]
Method = Literal["GET", "POST", "DELETE"]


class Unanswered(Exception):
    """The container engine cannot be asked: nobody knows what its containers do."""


class Declined(Exception):
    """The container engine said no: `status` and its own words."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerApi:
    """Calls the engine behind `socket`; `defect` says why there is none to call."""

    socket: str
    defect: str = ""

    async def ask(
        self,
        method: Method,
        path: str,
        query: Query | None = None,
        body: object = None,
        *,
        within_s: float = CALL_S,
    ) -> object:
        """The decoded answer, None for an empty one. Raises Unanswered and Declined."""
        return _read(path, await self._answer(method, path, query, body, within_s))

    def ask_now(self, path: str, query: Query | None = None) -> bytes:
        """The raw answer of one GET for callers that cannot await; waits `NOW_S` at most.

        In a thread with a loop of its own: the caller's may be running. Raises Unanswered and Declined.
        """
        with ThreadPoolExecutor(max_workers=1) as pool:
            answer = pool.submit(asyncio.run, self._answer("GET", path, query, None, NOW_S)).result()
        _read(path, answer)
        return answer.content

    async def _answer(
        self, method: Method, path: str, query: Query | None, body: object, within_s: float
    ) -> httpx2.Response:
        self._there()
        try:
            async with asyncio.timeout(within_s), self._client(within_s) as client:
                return await client.request(method, path, params=query, json=body)
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            raise self._unanswered(error, within_s) from error

    async def stream(self, path: str, query: Query) -> AsyncIterator[bytes]:
        """The answer's bytes as they come, for as long as they come. Raises Unanswered and Declined."""
        self._there()
        try:
            # Only its beginning is bounded: a log may be silent for a day.
            async with (
                self._client(CALL_S, read_s=None) as client,
                client.stream("GET", path, params=query) as it,
            ):
                if it.status_code >= 400:
                    await it.aread()
                    _read(path, it)
                async for part in it.aiter_raw():
                    yield part
        except (httpx2.HTTPError, OSError) as error:
            raise self._unanswered(error, CALL_S) from error

    def _client(self, within_s: float, *, read_s: float | None = CALL_S) -> httpx2.AsyncClient:
        read = None if read_s is None else within_s
        return httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=self.socket, verify=_TLS),
            base_url="http://engine",
            timeout=httpx2.Timeout(within_s, read=read),
        )

    def _there(self) -> None:
        if self.defect:
            raise Unanswered(self.defect)

    def _unanswered(self, error: Exception, within_s: float) -> Unanswered:
        if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
            return Unanswered(f"no answer from {self.socket} within {within_s:g} s")
        return Unanswered(f"{self.socket} does not answer: {str(error) or type(error).__name__}")


def api_of(env: Mapping[str, str], *, docker_socket: str = DOCKER_SOCKET) -> ContainerApi:
    """The engine that `DOCKER_HOST` names, else Docker's usual socket, else the user's Podman.

    Where none is there the usual one is kept: it may come later.
    """
    named = env.get("DOCKER_HOST", "")
    if named.startswith(_SCHEME):
        return ContainerApi(socket=named.removeprefix(_SCHEME))
    if named:
        why = f"DOCKER_HOST is {named}, and only unix:// sockets of this host are used"
        return ContainerApi(socket="", defect=why)
    runtime = env.get("XDG_RUNTIME_DIR")
    podman = Path(runtime, PODMAN_SOCKET) if runtime else None
    if podman is not None and not Path(docker_socket).exists() and podman.exists():
        return ContainerApi(socket=str(podman))
    return ContainerApi(socket=docker_socket)


def _read(path: str, answer: httpx2.Response) -> object:
    """The value of an answer. Raises Declined with the engine's own words."""
    value: object = None
    if answer.content and "json" in answer.headers.get("content-type", ""):
        try:
            value = json.loads(answer.content)
        except (ValueError, RecursionError):
            raise Declined(answer.status_code, f"{path}: its answer is no JSON") from None
    if answer.status_code >= 400:
        said = value.get("message") if isinstance(value, dict) else None
        raise Declined(answer.status_code, str(said or f"{path}: status {answer.status_code}"))
    return value


class LogFrames:
    """Takes the log's frames apart: 8 bytes of head (stream, 0, 0, 0, length), then so many bytes.

    A container with a terminal has no frames: its bytes are the log (`plain`).
    """

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._raw = b""
        self._text = b""

    def feed(self, data: bytes) -> list[str]:
        """Whole lines that came with `data`, as the engine wrote them."""
        if self._plain:
            self._text += data
        else:
            self._unpack(data)
        *whole, self._text = self._text.split(b"\n")
        if len(self._text) > MAX_FRAME:
            whole.append(self._text)
            self._text = b""
        return [line.decode(errors="replace").removesuffix("\r") for line in whole]

    def rest(self) -> list[str]:
        """The last line, when it has no end."""
        left, self._text = self._text, b""
        return [left.decode(errors="replace")] if left else []

    def _unpack(self, data: bytes) -> None:
        self._raw += data
        while len(self._raw) >= 8:
            end = 8 + int.from_bytes(self._raw[4:8], "big")
            if len(self._raw) < end:
                return
            self._text += self._raw[8:end]
            self._raw = self._raw[end:]
