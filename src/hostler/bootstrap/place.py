"""Where a daemon listens, and how others find it: sockets, daemon.json, this machine's names."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from hostler.adapters.config.paths import Paths
from hostler.adapters.daemon_file import DAEMON
from hostler.adapters.host.process_table import read
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.errors import InvalidConfig, NotListening
from hostler.domain.fleet import Tls
from hostler.wire.pinning import pin_of_file

BACKLOG: Final = 2048
_INFERENCE: Final = ("/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/models", "/llm/v1/", "/upstream/")


def listen_on(address: str) -> socket.socket:
    """A listening socket on `HOST:PORT`, exclusively. Refuses `not_listening` when it cannot be had."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        sock = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    except (OSError, ValueError) as error:
        raise NotListening(address=address, why=str(error)) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host in ("", "::") else 1)
        sock.bind(place)
        sock.listen(BACKLOG)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's own argument
    except OSError as error:
        sock.close()
        raise NotListening(address=address, why=error.strerror or str(error)) from error
    return sock


def bound(sock: socket.socket) -> str:
    """`HOST:PORT` as it is bound: port 0 has become a number."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached(listen: str, *, tls: bool = False) -> str:
    """The URL under which this machine reaches an address that is listened on."""
    host, _, port = listen.rpartition(":")
    local = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http{'s' if tls else ''}://{local}:{port}"


def check_tls(tls: Tls | None, file: str) -> None:
    """Refuses `invalid_config` for a certificate or key that cannot be served: before anything listens."""
    if tls is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(tls.cert, tls.key)
        pin_of_file(tls.cert)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        problem = f"{file}: node.tls: {tls.cert} with {tls.key} cannot be used: {why}"
        raise InvalidConfig(file=file, count=1, problems=(problem,)) from error


def announcing(
    files: DirectoryStateFiles, paths: Paths, listen: tuple[str, ...], tls: Tls | None = None
) -> Callable[[], None]:
    """Writes daemon.json: where commands find this daemon, and which hold it reads (HOLD-1).

    With TLS also the pin of its own certificate: that names another address than loopback.
    """
    process = read(os.getpid())
    pin = {} if tls is None else {"tls_pin": pin_of_file(tls.cert)}

    def announce() -> None:
        files.save(
            DAEMON,
            {
                "url": reached(listen[0], tls=tls is not None),
                **pin,
                "hold_path": str(paths.hold_path),
                "pid": os.getpid(),
                "start_ticks": process.start_ticks if process is not None else 0,
            },
        )

    return announce


def retracting(paths: Paths) -> Callable[[], None]:
    """Removes daemon.json, unless a successor has written its own already."""

    def retract() -> None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found = DirectoryStateFiles(root=paths.state_dir).load(DAEMON)
            if found is not None and found.get("pid") == os.getpid():
                paths.daemon.unlink()

    return retract


def machine_names() -> frozenset[str]:
    """What this machine is called."""
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]})


def is_control(path: str) -> bool:
    """Whether the reserve of connections is for this path: everything but inference."""
    return not path.startswith(_INFERENCE)
