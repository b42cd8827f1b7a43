"""The addresses of this machine's interfaces: the need `Interfaces` (SYNC-3).

Decides which interfaces are a machine's own: loopback, bridges, and what containers and virtual machines are
given are not, since the same addresses are on every box that runs them. Asks getifaddrs of the C library.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.domain.addresses import is_this_machine

NET: Final = Path("/sys/class/net")
NOT_OURS: Final = (
    "br-",
    "cali",
    "cni",
    "docker",
    "flannel",
    "lxc",
    "lxd",
    "podman",
    "tap",
    "veth",
    "virbr",
    "vmnet",
    "vnet",
)
"""How the interfaces of containers and virtual machines are named by who makes them."""


ENTRY: Final = struct.Struct("@PPIP")
"""The head of struct ifaddrs: the next entry, a name, flags, and a struct sockaddr."""


@dataclass(frozen=True, slots=True)
class SystemInterfaces:
    """Interfaces of this machine. `root` stands for /sys/class/net in tests."""

    root: Path = NET

    def addresses(self) -> frozenset[str]:
        """See `Interfaces.addresses`."""
        return frozenset(address for name, address in pairs() if self._is_ours(name, address))

    def _is_ours(self, name: str, address: str) -> bool:
        bridge = (self.root / name / "bridge").is_dir()
        return not (bridge or name.startswith(NOT_OURS) or is_this_machine(address))


def pairs() -> Iterator[tuple[str, str]]:
    """Each interface's name with each of its addresses; none where the C library does not tell."""
    library = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    first = ctypes.c_void_p()
    if library.getifaddrs(ctypes.byref(first)) != 0:
        return
    try:
        at = first.value
        while at:
            at, name, _, place = ENTRY.unpack(ctypes.string_at(at, ENTRY.size))
            address = _address(place)
            if address is not None:
                yield ctypes.string_at(name).decode("utf-8", "replace"), address
    finally:
        library.freeifaddrs(first)


def _address(place: int | None) -> str | None:
    """The IP address of a struct sockaddr; None for any other kind."""
    if not place:
        return None
    # Linux has the family in two bytes, others a length and the family: its second byte is 0 or the family.
    head = ctypes.string_at(place, 2)
    family = head[1] or head[0]
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(ctypes.string_at(place + 4, 4)))
    if family == socket.AF_INET6:
        return str(ipaddress.IPv6Address(ctypes.string_at(place + 8, 16)))
    return None
