"""Who listens where on this host (GATE-1 step 10, ENG-4): listening TCP sockets and their owners.

Decides which listeners are in the way of an address and port. Never touches them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import Address, Socket, every
from hostler.domain.values import escape_controls


def in_the_way(address: str, port: int, root: Path = process_table.PROC) -> tuple[Socket, ...]:
    """Listeners that overlap `address`:`port`: a wildcard overlaps all, two specific ones only if equal."""
    wanted = _addresses(address)
    return tuple(one for one in every(port, root) if _overlaps(wanted, one.address))


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


def holder_of(listener: Socket, root: Path = process_table.PROC) -> str:
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
