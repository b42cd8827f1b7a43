"""Who listens where on this host (GATE-1 step 10, ENG-4): listening TCP sockets and their owners.

Decides which listeners are in the way of an address and port. Never touches them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.host import process_table
from hostler.domain.values import escape_controls

_LISTEN: Final = "0A"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One listening TCP socket: where, whose user, and the inode that says which process has it."""

    address: Address
    port: int
    uid: int
    inode: int


def listeners(port: int, root: Path = process_table.PROC) -> tuple[Listener, ...]:
    """Every listening TCP socket on `port`, IPv4 and IPv6, in this network namespace.

    Raises OSError when the kernel's table cannot be read.
    """
    found = (_listener(line.split()) for line in _lines(root) if f":{port:04X} " in line)
    return tuple(one for one in found if one is not None and one.port == port)


def every_listener(root: Path = process_table.PROC) -> tuple[Listener, ...]:
    """Every listening TCP socket of this network namespace. Raises OSError as `listeners` does."""
    found = (_listener(line.split()) for line in _lines(root))
    return tuple(one for one in found if one is not None)


def _lines(root: Path) -> list[str]:
    lines = (root / "net/tcp").read_text().splitlines()[1:]
    with contextlib.suppress(FileNotFoundError):  # A kernel without IPv6 has no such table.
        lines += (root / "net/tcp6").read_text().splitlines()[1:]
    return lines


def _listener(fields: list[str]) -> Listener | None:
    if fields[3] != _LISTEN:
        return None
    host, _, port = fields[1].partition(":")
    return Listener(address=_address(host), port=int(port, 16), uid=int(fields[7]), inode=int(fields[9]))


def _address(text: str) -> Address:
    """The kernel prints each 32-bit word in the machine's own byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return ipaddress.IPv4Address(packed)
    six = ipaddress.IPv6Address(packed)
    return six.ipv4_mapped or six


def in_the_way(address: str, port: int, root: Path = process_table.PROC) -> tuple[Listener, ...]:
    """Listeners that overlap `address`:`port`: a wildcard overlaps all, two specific ones only if equal."""
    wanted = _addresses(address)
    return tuple(one for one in listeners(port, root) if _overlaps(wanted, one.address))


def overlaps(address: str, published: str) -> bool:
    """Whether a listener on `published` (empty: everywhere) is reached at `address`."""
    wanted = _addresses(address)
    return any(_overlaps(wanted, one) for one in _addresses(published or "::"))


def _addresses(address: str) -> tuple[Address, ...]:
    """What a name means; one that cannot be told means the wildcard, which overlaps everything."""
    if address == "localhost":
        return ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")
    try:
        return (ipaddress.ip_address(address),)
    except ValueError:
        return (ipaddress.IPv6Address("::"),)


def _overlaps(wanted: Iterable[Address], found: Address) -> bool:
    """The IPv6 wildcard takes IPv4 too: the table does not say where it was told not to."""
    return any(found.is_unspecified or one.is_unspecified or one == found for one in wanted)


def holder_of(listener: Listener, root: Path = process_table.PROC) -> str:
    """`pid 123 (nginx)`, or what is known where its owner may not be looked into."""
    for entry in root.iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        if listener.inode in (process_table.open_inodes(pid, "socket", root) or ()):
            process = process_table.read(pid, root)
            return f"pid {pid} ({escape_controls(process.comm if process else '?')})"
    return f"a process of uid {listener.uid} that this user may not look into"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPorts:
    """The PortTable of this host."""

    root: Path = process_table.PROC

    def holder(self, address: str, port: int) -> str | None:
        """`pid 123 (nginx)` of whoever listens there, overlapping wildcards too; None when free."""
        found = in_the_way(address, port, self.root)
        return holder_of(found[0], self.root) if found else None
