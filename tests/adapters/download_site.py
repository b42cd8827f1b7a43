"""A server of one file on loopback, for tests of downloads."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hostler.domain.catalog import ModelFile
from hostler.services.catalog_parts import Wanted

BODY = bytes(range(256)) * 4096
SHA = hashlib.sha256(BODY).hexdigest()


@dataclass(kw_only=True)
class Site:
    """A server of one file. `cut` bytes are sent at most, then the line is dropped; `status` stands alone."""

    url: str = ""
    body: bytes = BODY
    ranges: bool = True
    cut: int | None = None
    cuts: int = 99
    status: int | None = None
    location: str = ""
    endless: bool = False
    odd: bool = False
    sent: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, it: BaseHTTPRequestHandler) -> None:
        self.asked.append((it.path, it.headers.get("range")))
        if self.status is not None:
            it.send_response(self.status)
            if self.location:
                it.send_header("location", self.location)
            it.send_header("content-length", "0")
            it.end_headers()
            return
        if self.endless:
            self.flood(it)
            return
        start, asked = 0, it.headers.get("range")
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.body) and not self.odd:
                it.send_response(416)
                it.send_header("content-range", f"bytes */{len(self.body)}")
                it.send_header("content-length", "0")
                it.end_headers()
                return
            it.send_response(206)
            it.send_header("content-range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        else:
            it.send_response(200)
        rest = self.body[start:]
        it.send_header("content-length", str(len(rest)))
        it.end_headers()
        if self.cut is not None and self.cuts > 0:
            self.cuts -= 1
            it.wfile.write(rest[: self.cut])
            it.close_connection = True
        else:
            it.wfile.write(rest)

    def flood(self, it: BaseHTTPRequestHandler) -> None:
        """Chunks without an end, as long as somebody takes them; 512 MiB at most."""
        it.send_response(200)
        it.send_header("transfer-encoding", "chunked")
        it.end_headers()
        it.close_connection = True
        with contextlib.suppress(OSError):
            for _ in range(1 << 13):
                it.wfile.write(b"10000\r\n" + b"z" * 65536 + b"\r\n")
                self.sent += 65536


class Quiet(ThreadingHTTPServer):
    """That somebody hangs up is nothing to print."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[Site]:
    """A server on loopback that a test may turn."""
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.answer(self)

        def do_CONNECT(self) -> None:
            made.asked.append((f"CONNECT {self.path}", None))
            self.send_error(502)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            """Nothing of it on the terminal."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}/tiny.gguf"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def wanted(
    folder: Path, url: str | None, *, sha256: str | None = SHA, size: int | None = len(BODY)
) -> Wanted:
    """The file `tiny.gguf` in a folder of models."""
    file = ModelFile(name="tiny.gguf", size=size, sha256=sha256)
    return Wanted(entry="tiny", file=file, url=url, path=str(folder / "models" / "tiny.gguf"))


def silent(what: str, file: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "models").iterdir())
