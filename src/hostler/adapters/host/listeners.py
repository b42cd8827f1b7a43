"""Who listens where on this host, whole: every socket with its process, unit and container (PORT-5).

Decides which sockets count as listeners and what is known of their owners. Never touches them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.host import process_table
from hostler.domain.values import escape_controls
from hostler.services.ports_live import Listening

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TABLES: Final = (("tcp", "tcp", "0A"), ("tcp6", "tcp", "0A"), ("udp", "udp", "07"), ("udp6", "udp", "07"))
"""The kernel's tables, their protocol, and the state of a socket that waits for whoever comes."""
EPHEMERAL: Final = (32_768, 60_999)
"""Where the kernel takes ports from for who asks for none, unless it says otherwise."""
_CONTAINER: Final = re.compile(r"(?:docker|libpod|cri-containerd|crio)[-/]([0-9a-f]{12})[0-9a-f]*")
_UNIT: Final = re.compile(r"([^/]+\.(?:service|scope|socket))(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """One line of a table: where, whose user, and the inode that says which process has it."""

    address: Address
    port: int
    uid: int
    inode: int


def sockets(table: str, state: str, root: Path = process_table.PROC, port: int | None = None) -> list[Socket]:
    """The sockets of one of the kernel's tables that are in `state`, of one port if it is given.

    Raises OSError when the table cannot be read.
    """
    lines = (root / "net" / table).read_text().splitlines()[1:]
    wanted = None if port is None else f":{port:04X} "
    fields = (line.split() for line in lines if wanted is None or wanted in line)
    found = (_socket(each) for each in fields if each[3] == state)
    return [each for each in found if port is None or each.port == port]


def every_listener(root: Path = process_table.PROC) -> tuple[Socket, ...]:
    """Every listening TCP socket of this network namespace. Raises OSError when that cannot be read."""
    found = sockets("tcp", "0A", root)
    with contextlib.suppress(FileNotFoundError):  # A kernel without IPv6 has no such table.
        found += sockets("tcp6", "0A", root)
    return tuple(found)


def _socket(fields: list[str]) -> Socket:
    host, _, port = fields[1].partition(":")
    return Socket(address=_address(host), port=int(port, 16), uid=int(fields[7]), inode=int(fields[9]))


def _address(text: str) -> Address:
    """The kernel prints each 32-bit word in the machine's own byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return ipaddress.IPv4Address(packed)
    six = ipaddress.IPv6Address(packed)
    return six.ipv4_mapped or six


@dataclass(frozen=True, slots=True, kw_only=True)
class HostListeners:
    """The need `Listeners` of this host."""

    root: Path = process_table.PROC

    def listening(self) -> tuple[Listening, ...]:
        owners = _owners(self.root)
        low, high = self._ephemeral()
        found: dict[tuple[str, str, int], Listening] = {}
        for table, protocol, state in TABLES:
            with contextlib.suppress(FileNotFoundError):  # A kernel without IPv6 has no such table.
                for each in sockets(table, state, self.root):
                    # A client's UDP socket looks like a server's: a port that nobody chose is left out.
                    if protocol == "udp" and low <= each.port <= high:
                        continue
                    key = (protocol, str(each.address), each.port)
                    pid = owners.get(each.inode)
                    if key not in found or (found[key].pid is None and pid is not None):
                        found[key] = self._told(each, protocol, pid)
        return tuple(sorted(found.values(), key=lambda it: (it.port, it.protocol, it.address)))

    def _ephemeral(self) -> tuple[int, int]:
        try:
            low, high = (self.root / "sys/net/ipv4/ip_local_port_range").read_text().split()
        except (FileNotFoundError, ValueError):
            return EPHEMERAL
        return int(low), int(high)

    def _told(self, socket: Socket, protocol: str, pid: int | None) -> Listening:
        process = process_table.read(pid, self.root) if pid is not None else None
        unit, container = _group(pid, self.root) if pid is not None else ("", "")
        return Listening(
            address=str(socket.address),
            port=socket.port,
            protocol=protocol,
            uid=socket.uid,
            pid=pid,
            process=escape_controls(process.comm) if process is not None else "",
            unit=unit,
            container=container,
        )


def _owners(root: Path) -> Mapping[int, int]:
    """The process of each open socket, by inode: of several that share it the one with the lowest pid."""
    found: dict[int, int] = {}
    for pid in sorted(int(entry.name) for entry in root.iterdir() if entry.name.isdigit()):
        for inode in process_table.open_inodes(pid, "socket", root) or ():
            found.setdefault(inode, pid)
    return found


def _group(pid: int, root: Path) -> tuple[str, str]:
    """The unit and the container that a process is in, by its control groups; empty where it is in none."""
    try:
        text = (root / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return "", ""
    units = [match for line in text.splitlines() for match in _UNIT.findall(line.rpartition(":")[2])]
    container = _CONTAINER.search(text)
    return escape_controls(units[-1]) if units else "", container[1] if container is not None else ""


def every(port: int, root: Path = process_table.PROC) -> tuple[Socket, ...]:
    """Every listening TCP socket on a port, IPv4 and IPv6, in this network namespace.

    Raises OSError when the kernel's table cannot be read.
    """
    found = sockets("tcp", "0A", root, port)
    with contextlib.suppress(FileNotFoundError):  # A kernel without IPv6 has no such table.
        found += sockets("tcp6", "0A", root, port)
    return tuple(found)
