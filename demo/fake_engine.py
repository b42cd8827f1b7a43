"""A stand-in for llama-server where there is no wheel of it, and for tests that need it to misbehave.

    python demo/fake_engine.py -m tiny.gguf --alias NAME --host H --port P [--fake NAME[=VALUE]]…

Takes llama-server's arguments (those that it does not know it ignores) and speaks its HTTP: `/health`
(503 while loading), `/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`,
`/slots`, `/metrics`. It says what the tiny model in `-m` says. `GET /fake/requests` shows the last
requests as they came.

Each `--fake` is one misbehaviour:

    load=S        503 for S seconds               load-until=FILE  503 until FILE is there
    crash=STATUS  ends at once                    crash-when=FILE  ends with status 3 when FILE is there
    deaf          ignores SIGTERM                 clings           does not end while a stream is read
    silent        accepts, never answers          no-health        404 on /health
    model=ID      says that it is ID              fragile          ends when a client hangs up
    status=N      answers inference with N        delay=S          waits before it answers
    flaps=FILE    503 to every second look then   broken=FILE      500 to inference while FILE is there
    gap=S         pause between pieces            hold=FILE        only one piece until FILE is there
    endless       never ends a stream             hog=MIB          takes that much memory
    pids=FILE     appends its pid                 chatter=N        writes N lines first
    brood=FILE    has a child in a session of its own, whose pid is in FILE
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

DEFAULT_TEXT: Final = "I am fake."
POLL_S: Final = 0.02
KEPT_REQUESTS: Final = 100
_FIRST_PIECE: Final = 261
"""Five special and 256 byte tokens stand before the text in a tiny model's list."""


@dataclass(slots=True)
class State:
    """What all connections share; numbers are changed under `lock`."""

    alias: str
    text: str
    fakes: dict[str, str]
    embeddings: bool
    ready: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    streams: int = 0
    busy: int = 0
    tasks: int = 0
    predicted: int = 0
    terms: int = 0
    looks: int = 0
    requests: deque[Mapping[str, object]] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))

    def seconds(self, name: str) -> float:
        """The value of a timed misbehaviour, 0 when it was not asked for."""
        return float(self.fakes.get(name, "0"))


def text_of(model: Path) -> str:
    """What the tiny model at `model` says; the default for any other file."""
    data = model.read_bytes()[:65536]
    key = b"tokenizer.ggml.tokens"
    place = data.find(key)
    if place < 0:
        return DEFAULT_TEXT
    place += len(key) + 8  # The type of the field and of its items.
    (count,) = struct.unpack_from("<Q", data, place)
    place += 8
    tokens = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, place)
        tokens.append(data[place + 8 : place + 8 + length].decode())
        place += 8 + length
    return "".join(tokens[_FIRST_PIECE:]).replace("▁", " ") or DEFAULT_TEXT


def pieces(text: str) -> list[str]:
    """A text in the parts that are streamed: words, each with the space before it."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not logged: llama-server's own lines are not imitated."""

    def do_GET(self) -> None:
        """Everything that only looks."""
        state = self.server.state
        self._remember(b"")
        if "silent" in state.fakes:
            threading.Event().wait()
        path = self.path.partition("?")[0]
        if path == "/health" and "no-health" not in state.fakes:
            self._health()
        elif path in ("/v1/models", "/models"):
            name = state.fakes.get("model", state.alias)
            self._json(200, {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "fake"}]})
        elif path == "/slots":
            self._json(200, [{"id": 0, "is_processing": state.busy > 0, "id_task": state.tasks}])
        elif path == "/metrics":
            self._metrics()
        elif path == "/fake/requests":
            self._json(200, list(state.requests))
        else:
            self._error(404, "File Not Found", "not_found_error")

    def do_POST(self) -> None:
        """Inference."""
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self._remember(body)
        if "silent" in state.fakes:
            threading.Event().wait()
        time.sleep(state.seconds("delay"))
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            self._error(400, "the body is not JSON", "invalid_request_error")
            return
        path = self.path.partition("?")[0].removeprefix("/v1")
        if not state.ready.is_set():
            self._error(503, "Loading model", "unavailable_error")
        elif Path(state.fakes.get("broken", "-")).exists() or "status" in state.fakes:
            self._error(int(state.fakes.get("status", "500")), "as told", "server_error")
        elif path in ("/chat/completions", "/completions"):
            self._complete(asked, chat=path.startswith("/chat"))
        elif path == "/embeddings":
            self._embed(asked)
        else:
            self._error(404, "File Not Found", "not_found_error")

    def _remember(self, body: bytes) -> None:
        headers, text = list(self.headers.items()), body.decode(errors="replace")
        shown = {"method": self.command, "path": self.path, "headers": headers, "body": text}
        self.server.state.requests.append(shown)

    def _health(self) -> None:
        state = self.server.state
        state.looks += 1
        flapping = state.looks % 2 == 0 and Path(state.fakes.get("flaps", "-")).exists()
        if state.ready.is_set() and not flapping:
            self._json(200, {"status": "ok"})
        else:
            self._error(503, "Loading model", "unavailable_error")

    def _metrics(self) -> None:
        state = self.server.state
        counts = {"tokens_predicted_total": state.predicted, "requests_processing": state.busy}
        text = "".join(f"llamacpp:{name} {count}\n" for name, count in counts.items())
        self._send(200, "text/plain; version=0.0.4", text.encode())

    def _embed(self, asked: dict[str, object]) -> None:
        if not self.server.state.embeddings:
            self._error(501, "This server does not support embeddings.", "not_supported_error")
            return
        given = asked.get("input", "")
        texts = given if isinstance(given, list) else [given]
        vectors = [[float(len(str(text))), 1.0, 0.0, 0.0] for text in texts]
        data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        model = self.server.state.alias
        self._json(200, {"object": "list", "model": model, "data": data, "usage": usage})

    def _complete(self, asked: dict[str, object], *, chat: bool) -> None:
        state = self.server.state
        with state.lock:
            state.busy += 1
            state.tasks += 1
        try:
            if asked.get("stream"):
                self._stream(asked, chat=chat)
            else:
                limit = int(str(asked.get("max_tokens") or 1 << 30))
                said = pieces(state.text)[:limit]
                self._count(len(said))
                self._json(200, self._whole("".join(said), len(said), chat=chat))
        finally:
            with state.lock:
                state.busy -= 1

    def _whole(self, text: str, count: int, *, chat: bool) -> dict[str, object]:
        choice: dict[str, object] = {"index": 0, "finish_reason": "stop"}
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return {
            "id": f"fake-{self.server.state.tasks}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": self.server.state.alias,
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1},
        }

    def _stream(self, asked: dict[str, object], *, chat: bool) -> None:
        state = self.server.state
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with state.lock:
            state.streams += 1
        try:
            for event in self._events(asked, chat=chat):
                self._chunk(f"data: {event}\n\n".encode())
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            if "fragile" in state.fakes:
                print("a client hung up", flush=True)
                os._exit(9)
            self.close_connection = True
        finally:
            with state.lock:
                state.streams -= 1

    def _events(self, asked: dict[str, object], *, chat: bool) -> Iterator[str]:
        state = self.server.state
        limit = int(str(asked.get("max_tokens") or 1 << 30))
        count = 0
        for piece in self._said():
            if count >= limit:
                break
            count += 1
            self._count(1)
            yield json.dumps(self._part(piece, None, chat=chat))
            if count == 1 and "hold" in state.fakes:
                self._wait_for(Path(state.fakes["hold"]))
            time.sleep(state.seconds("gap"))
        last = self._part("", "stop", chat=chat)
        if isinstance(options := asked.get("stream_options"), dict) and options.get("include_usage"):
            last["usage"] = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
        yield json.dumps(last)
        yield "[DONE]"

    def _said(self) -> Iterator[str]:
        state = self.server.state
        yield from pieces(state.text)
        while "endless" in state.fakes:
            yield from pieces(f" {state.text}")

    def _wait_for(self, path: Path) -> None:
        """Until `path` is there; a client that hangs up meanwhile is seen, as a real engine sees it."""
        while not path.exists():
            self.connection.settimeout(POLL_S)
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise BrokenPipeError("the client hung up")
                time.sleep(POLL_S)
            except TimeoutError:
                continue
            finally:
                self.connection.settimeout(None)

    def _part(self, piece: str, finish: str | None, *, chat: bool) -> dict[str, object]:
        choice: dict[str, object] = {"index": 0, "finish_reason": finish}
        if chat:
            choice["delta"] = {"content": piece} if piece else {}
        else:
            choice["text"] = piece
        return {
            "id": f"fake-{self.server.state.tasks}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()),
            "model": self.server.state.alias,
            "choices": [choice],
        }

    def _count(self, tokens: int) -> None:
        with self.server.state.lock:
            self.server.state.predicted += tokens

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: object) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _error(self, status: int, message: str, kind: str) -> None:
        self._json(status, {"error": {"code": status, "message": message, "type": kind}})

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Listens from the first moment on, as llama-server does; it is ready when its model is loaded."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], state: State) -> None:
        self.state = state
        super().__init__(address, Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no error of an engine."""


def parse(argv: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options and fakes of a llama-server command line; an option without a value is `""`."""
    options: dict[str, str] = {}
    fakes: dict[str, str] = {}
    for name, value in zip(argv, [*argv[1:], "-"], strict=True):
        if name == "--fake":
            fakes[value.partition("=")[0]] = value.partition("=")[2]
        elif name.startswith("-"):
            options[name] = "" if value.startswith("-") else value
    return options, fakes


def load(state: State) -> None:
    """What happens before it is ready."""
    fakes = state.fakes
    time.sleep(state.seconds("load"))
    while "crash-when" in fakes and not Path(fakes["crash-when"]).exists():
        time.sleep(POLL_S)
    if "crash-when" in fakes:
        print("error: failed to load model", file=sys.stderr, flush=True)
        os._exit(3)
    while "load-until" in fakes and not Path(fakes["load-until"]).exists():
        time.sleep(POLL_S)
    print("the model is loaded", flush=True)
    state.ready.set()


def listen_to_signals(state: State) -> None:
    """SIGTERM ends it, unless it is deaf, or clings to a stream that is read: then the second one does."""

    def on_term(*_: object) -> None:
        state.terms += 1
        if "clings" not in state.fakes or state.streams == 0 or state.terms > 1:
            os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in state.fakes else on_term)


def prepare(fakes: dict[str, str]) -> list[bytes]:
    """Misbehaviours of the first moment; the memory that was asked for, which must be kept."""
    for number in range(int(fakes.get("chatter", "0"))):
        print(f"line {number:06d} of the fake engine's own words", flush=True)
    if "pids" in fakes:
        with Path(fakes["pids"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if "brood" in fakes:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(fakes["brood"]).write_text(str(child.pid))
    if "crash" in fakes:
        print("error: told to crash", file=sys.stderr, flush=True)
        sys.exit(int(fakes["crash"]))
    return [b"x" * (1 << 20) for _ in range(int(fakes.get("hog", "0")))]


def main(argv: list[str]) -> None:
    """Serve until a signal ends it."""
    options, fakes = parse(argv)
    kept = prepare(fakes)
    model = Path(options.get("-m", ""))
    state = State(
        alias=options.get("--alias", "fake"),
        text=text_of(model) if model.is_file() else DEFAULT_TEXT,
        fakes=fakes,
        embeddings="--embeddings" in options,
    )
    listen_to_signals(state)
    address = (options.get("--host", "127.0.0.1"), int(options.get("--port", "8080")))
    server = Server(address, state)
    print(f"listening on {address[0]}:{address[1]}, {len(kept)} MiB taken", flush=True)
    threading.Thread(target=load, args=(state,), daemon=True).start()
    server.serve_forever(poll_interval=60)


if __name__ == "__main__":
    main(sys.argv[1:])
