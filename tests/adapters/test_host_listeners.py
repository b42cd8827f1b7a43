import os
import socket
from pathlib import Path

import pytest

from hostler.adapters.drivers.ports import holder_of
from hostler.adapters.host.listeners import HostListeners, every
from hostler.services.ports_live import Listening

HEADER = "  sl  local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"


def line(address: str, port: int, state: str, inode: int) -> str:
    """One line of the kernel's table on a little-endian machine."""
    zeros = "00000000:0000"
    return f" 0: {address}:{port:04X} {zeros} {state} 0:0 00:0 0 1000 0 {inode} 1 0 100 0\n"


def proc(root: Path, **tables: str) -> Path:
    """A /proc with these tables, and with process 7 (docker's) and 8 (a unit's) that have sockets 1 and 2."""
    (root / "net").mkdir()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        (root / "net" / name).write_text(HEADER + tables.get(name, ""))
    groups = {
        7: "0::/system.slice/docker-0123456789abcdef0123.scope\n",
        8: "0::/user.slice/user@1000.service/app.slice/web.service\n",
    }
    for pid, group in groups.items():
        folder = root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fd/3").symlink_to(f"socket:[{pid - 6}]")
        numbers = " ".join(["S", *["1"] * 30])
        (folder / "stat").write_text(f"{pid} (serve\x1b{pid}) {numbers}\n")
        (folder / "cgroup").write_text(group)
    return root


def test_every_listener_and_its_owner(tmp_path: Path) -> None:
    """PORT-5: TCP that listens and UDP that is bound are listed with process, unit and container."""
    root = proc(
        tmp_path,
        tcp=line("0100007F", 8080, "0A", 1)
        + line("0100007F", 8081, "01", 9)
        + line("00000000", 8082, "0A", 2),
        tcp6=line("0" * 32, 8083, "0A", 99),
        udp=line("00000000", 53, "07", 2) + line("00000000", 40_000, "07", 2),
    )
    found = HostListeners(root=root).listening()
    shown = [(it.port, it.protocol, it.address, it.pid, it.process, it.unit, it.container) for it in found]
    assert shown == [
        (53, "udp", "0.0.0.0", 8, "serve\\x1b8", "web.service", ""),  # noqa: S104 - read from the table
        (8080, "tcp", "127.0.0.1", 7, "serve\\x1b7", "docker-0123456789abcdef0123.scope", "0123456789ab"),
        (8082, "tcp", "0.0.0.0", 8, "serve\\x1b8", "web.service", ""),  # noqa: S104 - read from the table
        (8083, "tcp", "::", None, "", "", ""),
    ]
    assert {it.uid for it in found} == {1000}


def test_what_a_machine_does_not_have(tmp_path: Path) -> None:
    """PORT-5: without IPv6, or without control groups, the rest is told; ports of nobody's choice are not."""
    root = proc(tmp_path, tcp=line("00000000", 8080, "0A", 1), udp=line("00000000", 1000, "07", 1))
    (root / "net/tcp6").unlink()
    (root / "7/cgroup").unlink()
    (root / "sys/net/ipv4").mkdir(parents=True)
    (root / "sys/net/ipv4/ip_local_port_range").write_text("1000\t2000\n")
    (found,) = HostListeners(root=root).listening()
    assert (found.port, found.pid, found.unit, found.container) == (8080, 7, "", "")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_this_machine(family: socket.AddressFamily) -> None:
    """PORT-5: a socket of this very process is found with this process as its owner."""
    with socket.socket(family) as sock:
        sock.bind(("::1" if family is socket.AF_INET6 else "127.0.0.1", 0))
        sock.listen()
        address, port = sock.getsockname()[:2]
        (mine,) = [it for it in HostListeners().listening() if it.port == port and it.protocol == "tcp"]
        assert isinstance(mine, Listening)
        assert (mine.address, mine.pid, mine.uid) == (address, os.getpid(), os.getuid())
        (same,) = every(port)
        assert holder_of(same).startswith(f"pid {os.getpid()} (")
