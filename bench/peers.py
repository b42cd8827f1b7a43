"""Starts what is measured: the fake engine, nginx, and a Hostler daemon, each pinned to a core.

Decides ports, configs and cores. Measures nothing.
"""

from __future__ import annotations

import http
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PROXY_CORE, LOAD_CORE = "0", "1"
UP_S: Final = 20.0
MODEL: Final = "m1"
NGINX: Final = """
daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.err;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{ access_log off; client_body_temp_path {work}/nb; proxy_temp_path {work}/np;
 fastcgi_temp_path {work}/nf; uwsgi_temp_path {work}/nu; scgi_temp_path {work}/ns;
 keepalive_requests 10000000; tcp_nodelay on; client_max_body_size 64m; client_body_buffer_size 2m;
 upstream up {{ server 127.0.0.1:{engine}; keepalive 512; keepalive_requests 10000000; }}
 server {{ listen 127.0.0.1:{port} backlog=2048; location / {{ proxy_pass http://up;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }} }} }}
"""


class BenchError(Exception):
    """Something that the bench needs is not there, or did not start."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The two compiled programs and the directory of one bench."""

    work: Path
    engine: Path
    load: Path


def compile_tools(work: Path) -> Tools:
    """Compile the fake engine and the load client. BenchError without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchError("the bench needs a C compiler (gcc)")
    built = {}
    for name in ("upstream", "loadgen"):
        out = work / name
        subprocess.run([compiler, "-O2", "-w", "-o", out, HERE / f"{name}.c", "-lm"], check=True)
        built[name] = out
    return Tools(work=work, engine=built["upstream"], load=built["loadgen"])


def free_port() -> int:
    """A TCP port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def running(argv: list[str | Path], core: str, log: Path, env: dict[str, str] | None = None) -> Iterator[int]:
    """A program on one core, in its own session, ended by its own id; its pid."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["taskset", "-c", core, *argv],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def fake_engine(tools: Tools) -> Iterator[int]:
    """The fake engine; its port."""
    port = free_port()
    with running([tools.engine, str(port)], LOAD_CORE, tools.work / "engine.log"):
        _until_answers(port, "/health", None)
        yield port


@contextmanager
def nginx(tools: Tools, engine: int) -> Iterator[tuple[int, int]]:
    """One nginx worker in front of the engine; its port and pid. BenchError where there is no nginx."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise BenchError(
            "the bench compares with nginx, and there is none: install it (nginx-light is enough)"
        )
    port = free_port()
    config = tools.work / "nginx.conf"
    config.write_text(NGINX.format(work=tools.work, port=port, engine=engine))
    with running([program, "-c", config], PROXY_CORE, tools.work / "nginx.log") as pid:
        _until_answers(port, "/v1/chat/completions", _BODY)
        yield port, pid


@contextmanager
def hostler(tools: Tools, engine: int) -> Iterator[tuple[int, int]]:
    """A daemon with the engine as an external one; keys, metrics and the in-flight table are on."""
    port, root = free_port(), tools.work / f"hostler-{time.monotonic_ns()}"
    root.mkdir(mode=0o700)
    key = root / "bench.key"
    key.write_text("sk-local")
    key.chmod(0o600)
    config = root / "hostler.yaml"
    config.write_text(json.dumps(_config(port, engine, key)))
    config.chmod(0o600)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "HOSTLER_CONFIG": str(config),
        "HOSTLER_STATE_DIR": str(root / "state"),
        "HOSTLER_BOX_RESERVATION_PATH": str(root / "box-reservation.json"),
    }
    argv: list[str | Path] = [sys.executable, "-m", "hostler", "serve"]
    with running(argv, PROXY_CORE, tools.work / "hostler.log", env) as pid:
        _until_answers(port, "/v1/chat/completions", _BODY)
        yield port, pid


def _config(port: int, engine: int, key: Path) -> dict[str, object]:
    return {
        "version": 1,
        "node": {"listen": f"127.0.0.1:{port}"},
        "engines": {
            "engine": {
                "driver": "external",
                "url": f"http://127.0.0.1:{engine}",
                "model": MODEL,
                "health": "tcp",
            }
        },
        "routes": {MODEL: {"profiles": {"local": "engine"}}},
        "keys": [{"name": "bench", "key": f"${{file:{key}}}", "scope": ["infer"]}],
    }


_BODY: Final = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).encode()


def _until_answers(port: int, path: str, body: bytes | None) -> None:
    """Wait until a GET, or a POST of `body`, is answered 200."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-local"}
    begun = time.monotonic()
    last = ""
    while time.monotonic() - begun < UP_S:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            line.request("GET" if body is None else "POST", path, body, headers)
            status = line.getresponse().status
            if status == http.HTTPStatus.OK:
                return
            last = f"status {status}"
        except OSError as error:
            last = str(error)
        finally:
            line.close()
        time.sleep(0.05)
    raise BenchError(f"{path} on port {port} was not answered within {UP_S:.0f} s: {last}")
