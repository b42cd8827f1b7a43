"""A head on loopback that follows `wire/schedule.py`, for clients: its schedule is as simple as can be.

A lease is active as soon as the resource is free and its client claims it (`head_leases.py`). What
goes wrong is set by the test: `down`, `fail_next`, `redirect_to`, `echo`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, urlsplit

from hostler.domain.errors import InvalidRequest, NoKey, Refusal, ScheduleUnavailable
from hostler.domain.lease import State
from hostler.wire.refusals import control_answer
from hostler.wire.schedule import LeaseView
from hostler.wire.values import dump
from tests.fakes.head_jobs import Jobs
from tests.fakes.head_leases import Gone, Leases

Handled = tuple[int, list[tuple[str, str]], bytes]
JSON = [("content-type", "application/json")]
KEY = "hk_of-the-head"
"""What a head may ask for."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(kw_only=True, eq=False)
class Head:
    """The head. `key` None lets everybody in; `refuses` is what every call is refused with."""

    leases: Leases = field(default_factory=Leases)
    jobs: Jobs = field(default_factory=Jobs)
    key: str | None = None
    refuses: Refusal | None = None
    echo: bool = False
    redirect_to: str | None = None
    heard: list[Heard] = field(default_factory=list)
    port: int = 0
    _failures: list[str] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    # ------------------------------------------------------------ the test's side

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Listen; after `down` on the same port, with everything that was known."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def down(self) -> None:
        """Stop listening; calls that wait are reset."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        with self.leases.changed:
            self.leases.run += 1
            self.leases.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()

    def fail_next(self, *failures: str) -> None:
        """The next calls fail: `reset` before or `lost` after the effect, `500`, `502` (a page), `503`."""
        self._failures += failures

    def end(self, id_: str, state: State = State.RELEASED, why: str = "") -> None:
        """A lease ends, by whatever."""
        self.leases.turn(id_, state=state, why=why, expires_in_s=None)

    def end_job(self, id_: str) -> None:
        """An operator ends a job."""
        with self.leases.changed:
            self.jobs.end(id_)
            self.leases.changed.notify_all()

    def until(self, holds: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
        """Return once `holds` after some call or change."""
        with self.leases.changed:
            assert self.leases.changed.wait_for(holds, timeout_s), f"never: {what}"

    def asked(self, method: str, ending: str) -> list[Heard]:
        """The requests whose path ends so."""
        return [it for it in self.heard if it.method == method and it.path.endswith(ending)]

    def of(self, *states: State) -> list[LeaseView]:
        """The leases in these states."""
        return [row.view for row in self.leases.rows.values() if row.view.state in states]

    # ------------------------------------------------------------ HTTP

    def answer(self, heard: Heard) -> Handled | None:
        """The answer to one request; None: the connection is reset."""
        with self.leases.changed:
            self.heard.append(heard)
            self.leases.changed.notify_all()
            failure = self._failures.pop(0) if self._failures else ""
        if self.redirect_to is not None:
            return 307, [("location", self.redirect_to + heard.path)], b""
        if failure == "reset":
            return None
        if failure in ("500", "502"):
            return int(failure), [("content-type", "text/html")], b"<html>bad gateway</html>"
        try:
            if failure == "503":
                raise ScheduleUnavailable(why="the disk is away", file="schedule.db")
            done: Handled = (200, JSON, dump(self._do(heard)))
        except Gone:
            return None
        except Refusal as refusal:
            status, _, body = control_answer(refusal)
            done = (status, JSON, body)
        return None if failure == "lost" else done

    def _do(self, heard: Heard) -> object:
        key = heard.headers.get("authorization", "").removeprefix("Bearer ")
        if self.echo:
            raise InvalidRequest(what=f"bad\x1b[2J\n{echoes(key)}", expected=echoes(key) + "x" * 2000)
        if self.key is not None and key != self.key:
            raise NoKey
        if self.refuses is not None:
            raise self.refuses
        path = urlsplit(heard.path).path.removeprefix("/v1/hostler/")
        found = re.fullmatch(r"(leases|jobs)(?:/([^/]+))?(?:/(\w+))?", path)
        if found is None:
            raise InvalidRequest(what=f"There is no path {path}.")
        body = json.dumps(heard.body).encode() if heard.body is not None else b""
        part = self.leases if found[1] == "leases" else self.jobs
        with self.leases.changed:
            done = part.do(found[2], found[3], heard.method, body, heard.headers.get("idempotency-key", ""))
            self.leases.changed.notify_all()
            return done


def echoes(key: str) -> str:
    """The key in the six ways in which it may come back (R97)."""
    raw = key.encode()
    return " ".join(
        [
            key,
            "".join(f"%{byte:02x}" for byte in raw),
            quote(key, safe=""),
            base64.b64encode(raw).decode(),
            base64.urlsafe_b64encode(b"user:" + raw).decode(),
            raw.hex(),
            json.dumps(key),
        ]
    )


def _handler(head: Head) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(data) if data else None
            found = head.answer(Heard(method=self.command, path=self.path, headers=headers, body=body))
            if found is None:
                # No lingering: the peer sees a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            status, fields, out = found
            with contextlib.suppress(OSError):  # A client that left wants no answer.
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(out)

        do_GET = do_POST = answer  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None: ...

    return Handler


@contextmanager
def listening() -> Iterator[Head]:
    """A head that listens for the length of the block."""
    made = Head()
    made.up()
    try:
        yield made
    finally:
        made.down()
