"""The processes and ports of a container as this host sees them (ENG-4, ENG-6, MEM-5).

Decides which processes are a container's: those in the control group of its main process, when that group
bears the container's id. A container in a virtual machine, or one without a group of its own, has none that
can be seen here; then nothing is claimed. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters.drivers import ports
from hostler.adapters.drivers.container_seen import Container
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import Socket
from hostler.adapters.host.process_table import PROC, Process
from hostler.domain.engine import PortOwner


def main_process(container_id: str, pid: int, root: Path = PROC) -> Process | None:
    """The container's main process, None where `pid` is not its here: another machine's, or gone."""
    process = process_table.read(pid, root) if pid > 0 else None
    if process is None or process.gone or container_id not in _group(pid, root):
        return None
    return process


def processes(container_id: str, pid: int, root: Path = PROC) -> tuple[Process, ...]:
    """All processes of the container, its main one among them; none where it cannot be seen."""
    if main_process(container_id, pid, root) is None:
        return ()
    group = _group(pid, root)
    table = process_table.everyone(root)
    below = process_table.descendants(table, pid)
    ours = (it for it in table.values() if it.pid == pid or it.pid in below or _group(it.pid, root) == group)
    return tuple(it for it in ours if not it.gone)


def _group(pid: int, root: Path) -> str:
    """The control groups of a process, as the kernel writes them; empty when it is gone."""
    try:
        return (root / str(pid) / "cgroup").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose a port is. `strangers` are the listeners that are provably not the container's."""

    owner: PortOwner
    strangers: tuple[Socket, ...] = ()

    @property
    def name(self) -> str:
        """`pid 123 (nginx)` of the stranger, empty when there is none."""
        return ports.holder_of(self.strangers[0]) if self.strangers else ""


def holder(seen: Container | None, ours: Iterable[Process], address: str, port: int) -> Holder:
    """Whose `address`:`port` is. `seen` is the container, None when there is none; `ours` its processes.

    With the host's network its listening socket is one of the container's; with a network of its own the
    port is published by the engine, which then holds it, or the container's own address.
    """
    try:
        found = ports.in_the_way(address, port)
    except OSError:
        return Holder(owner="unknown")
    if seen is None or not seen.up:
        return Holder(owner="stranger" if found else "nobody", strangers=found)
    if seen.network != "host":
        if _published(seen, address, port) or address in seen.addresses:
            return Holder(owner="ours")
        if seen.network.startswith(("container:", "ns:", "pod")):
            return Holder(owner="unknown")
        return Holder(owner="stranger" if found else "nobody", strangers=found)
    return _on_the_host(found, tuple(ours))


def unasked(ours: Iterable[Process], address: str, port: int) -> Holder:
    """`holder` while nothing is known of the container: that it is its own may be seen, nobody is blamed."""
    try:
        found = ports.in_the_way(address, port)
    except OSError:
        return Holder(owner="unknown")
    seen = _on_the_host(found, tuple(ours))
    return seen if seen.owner == "ours" else Holder(owner="unknown")


def _on_the_host(found: tuple[Socket, ...], ours: tuple[Process, ...]) -> Holder:
    if not found:
        return Holder(owner="nobody")
    inodes: set[int] = set()
    hidden = not ours
    for process in ours:
        opened = process_table.open_inodes(process.pid, "socket")
        hidden = hidden or opened is None
        inodes |= opened or frozenset()
    others = tuple(one for one in found if one.inode not in inodes)
    if not others:
        return Holder(owner="ours")
    if hidden:
        # Root's containers look so to a user who may only ask the engine: a stranger is one who can be seen.
        others = tuple(one for one in others if _elsewhere(one, ours))
    return Holder(owner="stranger" if others else "unknown", strangers=others)


def _elsewhere(one: Socket, ours: tuple[Process, ...]) -> bool:
    """Whether a process that may be looked into, and is not the container's, has that socket."""
    known = {process.pid for process in ours}
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) in known:
            continue
        if one.inode in (process_table.open_inodes(int(entry.name), "socket") or ()):
            return bool(known)
    return False


def _published(seen: Container, address: str, port: int) -> bool:
    return any(number == port and ports.overlaps(address, at) for at, number in seen.published)
