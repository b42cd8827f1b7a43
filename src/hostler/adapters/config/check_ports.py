"""Ports of engines and listeners: two share one only where they exclude each other (BG-09, PORT-3)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from hostler.adapters.config.check_hosts import listen_ports
from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One fixed port of one host. `group` None: it excludes nobody."""

    what: str
    path: Path
    address: str
    port: int
    group: str | None = None


def check_ports(view: View) -> None:
    """Every pair of fixed ports on each host, and whether the ports for `auto` suffice."""
    for host in view.hosts:
        claims = [*_engine_claims(view, host), *_listener_claims(view, host)]
        for first, second in combinations(claims, 2):
            if first.port == second.port and overlap(first.address, second.address):
                _pair(view, host, first, second)
        _automatic(view, host, claims)
    _driver_ports(view)
    _registry(view)


def _pair(view: View, host: str, first: Claim, second: Claim) -> None:
    if first.group is not None and first.group == second.group:
        return
    there = view.line(first.path, at_key=False)
    view.error(
        second.path,
        f"port {second.port} of {host} is {first.what}'s as well ({there}), and both may run at once",
        "give it another port, or put both into one group",
    )


def _engine_claims(view: View, host: str) -> Iterator[Claim]:
    for name, engine in view.doc.engines.items():
        if engine.host == host and isinstance(engine.port, int) and engine.driver != "external":
            yield Claim(
                what=name,
                path=("engines", name, "port"),
                address=engine.address or view.hosts[host].address,
                port=engine.port,
                group=engine.group,
            )


def _listener_claims(view: View, host: str) -> Iterator[Claim]:
    own = view.given(("hosts", host, "node"))
    path: Path = ("hosts", host, "node", "listen") if "listen" in own else ("node", "listen")
    for address, port in listen_ports(view.node(host)):
        if port:
            yield Claim(what="the daemon", path=path, address=_numeric(address), port=port)


def _numeric(address: str) -> str:
    return "127.0.0.1" if address == "localhost" else address


def overlap(first: str, second: str) -> bool:
    """Whether two listeners at these IPs of one port collide: equal, or one of them is a wildcard.

    The wildcard of IPv6 takes IPv4 as well.
    """
    one, two = ipaddress.ip_address(first), ipaddress.ip_address(second)
    if one == two:
        return True
    if one.is_unspecified or two.is_unspecified:
        wildcard, other = (one, two) if one.is_unspecified else (two, one)
        return wildcard.version == 6 or other.version == 4 or other.is_unspecified
    return False


def _automatic(view: View, host: str, claims: list[Claim]) -> None:
    low, high = view.hosts[host].ports.range
    taken = {claim.port for claim in claims if low <= claim.port <= high}
    free = high - low + 1 - len(taken)
    wanting = [
        name
        for name, each in view.doc.engines.items()
        if each.host == host and each.port == "auto" and each.driver in ("process", "container")
    ]
    if len(wanting) > free:
        path: Path = ("hosts", host, "ports", "range")
        view.error(path, f"{len(wanting)} engines want a port of {low}-{high}, {free} are free")


def _driver_ports(view: View) -> None:
    """A unit, a compose service and a container that exists decide their port themselves."""
    for name, engine in view.doc.engines.items():
        made = engine.driver == "container" and engine.container is not None and engine.container.image
        if engine.port == "auto" and engine.driver in ("compose", "systemd", "container") and not made:
            what = {"compose": "service", "systemd": "unit", "container": "container"}[engine.driver]
            view.error(("engines", name, "port"), f"is missing: the {what} listens where it always does")


def _registry(view: View) -> None:
    ports, hosts = view.doc.ports, view.host_names()
    for number, row in enumerate(ports.rows):
        view.refer((*view.index(("ports", "rows"), number), "host"), "host", row.host, hosts)
    if ports.rows and ports.file is not None:
        view.error(("ports", "file"), "rows stand here or in a file, not both")
    for number, table in enumerate(ports.tables):
        if table.host is not None:
            view.refer((*view.index(("ports", "tables"), number), "host"), "host", table.host, hosts)
    for host in ports.scan.hosts:
        view.refer(("ports", "scan", "hosts", host), "host", host, hosts, at_key=True)
    for number, allowed in enumerate(ports.scan.allow):
        view.refer(("ports", "scan", "allow", number, "host"), "host", allowed.host, hosts)
