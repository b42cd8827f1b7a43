"""The process table and the table of listening sockets."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from hostler.adapters.drivers import ports
from hostler.adapters.drivers.ports import LocalPorts
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import every
from tests.fakes.fake_engine import free_port

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def stat(root: Path, pid: int, comm: str, *, state: str = "S", threads: int = 1) -> None:
    """A recorded /proc/<pid>/stat."""
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = f"{state} 1 {pid} {pid} 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 {threads} 0 4711 1 1\n"
    (folder / "stat").write_text(f"{pid} ({comm}) {numbers}")


@pytest.mark.parametrize("comm", ["llama-server", "a) S 1 (b", "with space", ""])
def test_a_name_cannot_forge_a_line(tmp_path: Path, comm: str) -> None:
    """ENG-6: start time and parent are read right whatever a process calls itself."""
    stat(tmp_path, 42, comm)
    found = process_table.read(42, tmp_path)
    assert found is not None
    assert (found.comm, found.ppid, found.session, found.start_ticks) == (comm, 1, 42, 4711)


def test_a_zombie_is_gone_unless_threads_run(tmp_path: Path) -> None:
    """ENG-6: a zombie is gone; one whose other threads still run holds memory and is not."""
    stat(tmp_path, 1, "dead", state="Z")
    stat(tmp_path, 2, "half", state="Z", threads=3)
    table = process_table.everyone(tmp_path)
    assert (table[1].gone, table[2].gone) == (True, False)
    assert process_table.alive(1, 4711, tmp_path) is False
    assert process_table.alive(2, 4711, tmp_path) is True
    assert process_table.alive(2, 4712, tmp_path) is False


def test_a_real_zombie_is_gone() -> None:
    """ENG-6: a process that has ended and was not reaped yet counts as gone."""
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        found = process_table.read(child.pid)
        assert found is not None
        assert (found.state, found.gone) == ("Z", True)


def test_nobody_is_none() -> None:
    """ENG-6: a pid that nobody has is no process, has no sockets and cannot be signalled."""
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert process_table.read(child.pid) is None
    assert process_table.open_inodes(child.pid, "socket") == frozenset()
    assert process_table.held_bytes([child.pid]) == 0


def test_descendants(tmp_path: Path) -> None:
    """ENG-6: descendants are found over any number of generations, and a loop does not hang."""
    for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1), (1, 4)):
        stat(tmp_path, pid, "x")
        path = tmp_path / str(pid) / "stat"
        path.write_text(path.read_text().replace("S 1 ", f"S {parent} ", 1))
    table = process_table.everyone(tmp_path)
    assert process_table.descendants(table, 2) == {1, 2, 3, 4, 5}
    assert process_table.descendants(table, 5) == set()


def test_own_memory_is_seen() -> None:
    """MEM-5: the memory of a process is read from its resident pages."""
    assert process_table.held_bytes([os.getpid()]) > 1 << 20


# ---------------------------------------------------------------- listening sockets


def tables(root: Path, four: str, six: str) -> Path:
    """Recorded /proc/net/tcp and tcp6."""
    (root / "net").mkdir()
    (root / "net/tcp").write_text(HEADER + four)
    (root / "net/tcp6").write_text(HEADER + six)
    return root


def line(address: str, port: int, *, state: str = "0A", inode: int = 99) -> str:
    """One line of the kernel's table on a little-endian machine."""
    rest = f"00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0 100 0\n"
    return f"   0: {address}:{port:04X} {rest}"


def test_the_kernels_table_is_read(tmp_path: Path) -> None:
    """ENG-4: addresses and ports of listening sockets are read from the kernel's table, both families."""
    mapped = "0000000000000000FFFF00000100007F"
    six = line("0" * 24 + "01000000", 8100, inode=2) + line(mapped, 8100, inode=3) + line("0" * 32, 8100)
    root = tables(tmp_path, line("0100007F", 8100, inode=1) + line("0100007F", 8100, state="01"), six)
    found = {one.inode: one.address for one in every(8100, root)}
    local = IPv4Address("127.0.0.1")
    assert found == {1: local, 2: IPv6Address("::1"), 3: local, 99: IPv6Address("::")}
    assert every(8101, root) == ()


@pytest.mark.parametrize(
    ("wanted", "listening", "overlaps"),
    [
        ("127.0.0.1", "0100007F", True),
        ("127.0.0.1", "00000000", True),
        ("0.0.0.0", "0100007F", True),  # noqa: S104 - the wildcard is what is asked about
        ("127.0.0.1", "0200007F", False),
        ("10.99.0.1", "0100007F", False),
        ("localhost", "0100007F", True),
        ("crow.lan", "0200007F", True),
    ],
)
def test_overlap(tmp_path: Path, wanted: str, listening: str, overlaps: bool) -> None:
    """GATE-1: a wildcard is in the way of all, two specific addresses only if equal, a name of all."""
    root = tables(tmp_path, line(listening, 8100), "")
    assert bool(ports.in_the_way(wanted, 8100, root)) is overlaps


def test_a_kernel_without_ipv6(tmp_path: Path) -> None:
    """GATE-1: without IPv6 the table of IPv4 is enough."""
    root = tables(tmp_path, line("0100007F", 8100), "")
    (root / "net/tcp6").unlink()
    assert len(every(8100, root)) == 1


@contextmanager
def listening(host: str) -> Iterator[int]:
    """A socket of this process that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104 - as above
def test_the_holder_is_named(host: str) -> None:
    """GATE-1: the process that has a port is named by pid and name, for every way of listening."""
    with listening(host) as port:
        asked = "::1" if host == "::1" else "127.0.0.1"
        holder = LocalPorts().holder(asked, port)
        assert holder is not None
        assert holder.startswith(f"pid {os.getpid()} (")


def test_a_free_port_has_no_holder() -> None:
    """GATE-1: a port that nobody listens on is free."""
    assert LocalPorts().holder("127.0.0.1", free_port()) is None


def test_an_owner_who_hides_is_told_by_user(tmp_path: Path) -> None:
    """GATE-1: a listener whose process cannot be looked into is named by its user."""
    root = tables(tmp_path, line("0100007F", 8100), "")
    assert LocalPorts(root=root).holder("127.0.0.1", 8100) == (
        "a process of uid 1000 that this user may not look into"
    )
