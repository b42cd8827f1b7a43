"""Containers of this host as Docker's or Podman's own API lists them, over its socket. Asks, changes nothing.

Decides only whether one answers. A socket that this user may not open counts as none.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hostler.services.sight_parts import Container

PATIENCE_S: Final = 3.0
MAX_BYTES: Final = 1 << 20


def docker_socket(env: Mapping[str, str], root: Path) -> Path | None:
    """The socket that `docker` would use, if it is one and there."""
    named = env.get("DOCKER_HOST", "")
    if named and not named.startswith("unix://"):
        return None
    usual = (root / "var/run/docker.sock", root / "run/docker.sock")
    places = (Path(named.removeprefix("unix://")),) if named else usual
    return next((place for place in places if place.is_socket()), None)


def running(path: Path) -> tuple[Container, ...] | None:
    """The containers that run; None where nobody answers."""
    link = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(PATIENCE_S)
    link.sock = line
    try:
        line.connect(str(path))
        link.request("GET", "/containers/json")
        answer = link.getresponse()
        rows = json.loads(answer.read(MAX_BYTES)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        link.close()
    if not isinstance(rows, list):
        return None
    return tuple(_container(row) for row in rows if isinstance(row, dict))


def _container(row: Mapping[str, object]) -> Container:
    names, ports = row.get("Names"), row.get("Ports")
    public = {
        port["PublicPort"]
        for port in (ports if isinstance(ports, list) else [])
        if isinstance(port, dict) and isinstance(port.get("PublicPort"), int) and port.get("Type") == "tcp"
    }
    return Container(
        name=str(names[0]).lstrip("/") if isinstance(names, list) and names else "",
        image=str(row.get("Image", "")),
        ports=tuple(sorted(public)),
    )
