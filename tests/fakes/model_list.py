"""A server of JSON over loopback, or over a socket in the file system, from a thread of its own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answers = Mapping[str, tuple[int, object]]


class UnixServer(ThreadingHTTPServer):
    """HTTP over a socket in the file system."""

    address_family = socket.AF_UNIX

    def listen(self, path: Path) -> None:
        self.socket.bind(str(path))
        self.server_activate()


def models(*ids: str) -> Answers:
    """The answers of a server that reports these model ids."""
    return {"/v1/models": (200, {"object": "list", "data": [{"id": one} for one in ids]})}


@contextmanager
def serving(answers: Answers, path: Path | None = None) -> Iterator[int]:
    """A server with these answers, 404 to all else; its port, 0 of one that is at `path`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, value = answers.get(self.path, (404, {}))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "-"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            return

    server: ThreadingHTTPServer
    if path is None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = int(server.server_address[1])
    else:
        server = UnixServer(("", 0), Handler, bind_and_activate=False)
        server.listen(path)
        port = 0
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
