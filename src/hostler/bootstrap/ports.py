"""The ports of this host, joined: who listens, what is written down, and what `port: auto` must not take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from hostler.adapters.host.listeners import HostListeners
from hostler.adapters.scan.registry import registry
from hostler.domain.errors import InvalidConfig
from hostler.domain.fleet import Fleet
from hostler.domain.ports import Row
from hostler.services.lanes import Lanes
from hostler.services.ports_live import PortWatch


def port_watch(config: Path, lanes: Lanes, listen: Sequence[str]) -> PortWatch:
    """What `GET /v1/hostler/ports` looks at."""

    def rows() -> Sequence[Row]:
        return registry(lanes.config.fleet, config).rows

    return PortWatch(listeners=HostListeners(), lanes=lanes, rows=rows, listen=listen)


def taken_ports(fleet: Fleet, config: Path) -> frozenset[int]:
    """Ports of this host that are somebody's by the registry, or are listened on now (PORT-5).

    What cannot be asked takes none, and is logged: an engine then fails at its port, and says so.
    """
    low, high = fleet.host.port_range
    log = structlog.get_logger("hostler")
    taken: set[int] = set()
    try:
        for row in registry(fleet, config).rows:
            if row.host == fleet.here and row.status.taken:
                taken.update(range(max(low, row.port), min(high, row.last) + 1))
    except InvalidConfig as invalid:
        log.warning("registry of ports not read", why=invalid.problems[0])
    try:
        taken.update(each.port for each in HostListeners().listening() if each.protocol == "tcp")
    except OSError as error:
        log.warning("listeners not read", why=error.strerror)
    return frozenset(taken)
