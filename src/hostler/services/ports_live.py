"""What listens on this host, beside what is written down and what engines have (PORT-5).

Decides who a listener is: an engine of ours, the daemon, a row's, or nobody's that is known. One port that
is bound on the wildcards of both families by one owner is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hostler.domain.ports import ANY, Row, is_wildcard, overlap
from hostler.services.lanes import Lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """One listener. `pid` None: a process that this user may not look into."""

    address: str
    port: int
    protocol: str
    uid: int
    pid: int | None = None
    process: str = ""
    unit: str = ""
    container: str = ""


class Listeners(Protocol):
    """Who listens on this host."""

    def listening(self) -> tuple[Listening, ...]:
        """Every listener now. Raises OSError when the machine cannot be asked."""
        ...


class FarListeners(Protocol):
    """Who listens on another host of the fleet."""

    def listening_on(self, host: str) -> tuple[Listening, ...]:
        """Every listener there now. Refuses `daemon_unreachable`, `node_unreachable`, and as its daemon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePort:
    """One port as it is: who has it, and what is written of it. `known`: it is in a row, or ours."""

    address: str
    port: int
    protocol: str
    pid: int | None
    process: str
    unit: str
    container: str
    engine: str
    service: str
    status: str
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentRow:
    """An allocation in production on whose port nothing listens."""

    port: int
    last: int
    protocol: str
    service: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePorts:
    """The ports of this host at one instant. `port: auto` takes `auto_from` to `auto_to`."""

    host: str
    auto_from: int
    auto_to: int
    ports: tuple[LivePort, ...]
    silent: tuple[SilentRow, ...]
    note: str = ""

    @property
    def unread(self) -> bool:
        """Whether the listeners could not be read: `note` says why, and that none is shown says nothing."""
        return bool(self.note) and not self.ports


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWatch:
    """Looks at the ports of this host. `rows` reads the registry anew: people write it."""

    listeners: Listeners
    lanes: Lanes
    rows: Callable[[], Sequence[Row]]
    listen: Sequence[str]

    async def look(self) -> LivePorts:
        """Everything that listens, with its owner. Refusals: invalid_config of a broken file of rows."""
        host = self.lanes.config.fleet.host
        low, high = host.port_range
        rows = [row for row in await asyncio.to_thread(self.rows) if row.host == host.name]
        try:
            found = _joined(await asyncio.to_thread(self.listeners.listening))
        except OSError as error:
            why = f"The listeners of this machine cannot be read: {error.strerror or error}."
            return LivePorts(host=str(host.name), auto_from=low, auto_to=high, ports=(), silent=(), note=why)
        return LivePorts(
            host=str(host.name),
            auto_from=low,
            auto_to=high,
            ports=tuple(self._port(each, rows) for each in found),
            silent=tuple(
                SilentRow(
                    port=row.port, last=row.last, protocol=row.protocol, service=row.service, place=row.place
                )
                for row in rows
                if row.status == "production" and not any(_on(row, each) for each in found)
            ),
            note="Sockets of other users may show no process." if any(it.pid is None for it in found) else "",
        )

    def _port(self, each: Listening, rows: Sequence[Row]) -> LivePort:
        row = next((row for row in rows if row.status.taken and _on(row, each)), None)
        engine = self._engine(each)
        ours = engine or ("the daemon" if str(each.port) in self._daemon() and not row else "")
        return LivePort(
            address=each.address,
            port=each.port,
            protocol=each.protocol,
            pid=each.pid,
            process=each.process,
            unit=each.unit,
            container=each.container,
            engine=ours,
            service=row.service if row is not None else "",
            status=row.status.value if row is not None else "",
            known=row is not None or bool(ours),
        )

    def _daemon(self) -> set[str]:
        return {listen.rpartition(":")[2] for listen in self.listen}

    def _engine(self, each: Listening) -> str:
        """The engine of this host whose port it is, while it is one that runs."""
        for lane in self.lanes.by_id.values():
            if lane.launch.port == each.port and each.protocol == "tcp" and lane.run is not None:
                return str(lane.engine.id)
        return ""


def _on(row: Row, each: Listening) -> bool:
    return (
        row.port <= each.port <= row.last
        and row.protocol == each.protocol
        and overlap(row.address, each.address)
    )


def _joined(found: Iterable[Listening]) -> list[Listening]:
    """The listeners, those of one owner on both wildcards as one on every interface."""
    kept: dict[tuple[object, ...], Listening] = {}
    for each in found:
        if is_wildcard(each.address):
            key: tuple[object, ...] = (each.protocol, each.port, each.process, each.uid)
            kept[key] = replace(each, address=ANY) if key in kept else each
        else:
            kept[each.protocol, each.port, each.address] = each
    return list(kept.values())
