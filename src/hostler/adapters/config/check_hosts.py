"""Relations of hosts: the head, links, groups, memory totals, listeners (CONF-2, EVICT-1, NODE-1)."""

from __future__ import annotations

import ipaddress
from zoneinfo import ZoneInfo, available_timezones

from hostler.adapters.config.explain import nearest
from hostler.adapters.config.schema.base import size_text
from hostler.adapters.config.schema.hosts import FloorStop, HostKeys
from hostler.adapters.config.schema.node import NodeKeys
from hostler.adapters.config.tree import Path
from hostler.adapters.config.urls import check_url
from hostler.adapters.config.view import View, pools_of
from hostler.domain.fleet import HOST_POOL, Pool


def check_hosts(view: View) -> None:
    """Everything about hosts and this daemon."""
    if "hosts" in view.given(()) and not view.host_names():
        view.error(
            ("hosts",), "expected at least one host", "leave hosts out: this machine is the host local"
        )
    _schedule(view)
    _timezone(view)
    for name, host in view.hosts.items():
        path: Path = ("hosts", name)
        _address(view, path, host)
        _links(view, name, host)
        _groups(view, name, host)
        _memory(view, path, host)
        _listener(view, name)


def _schedule(view: View) -> None:
    owner, path = view.doc.schedule.owner, ("schedule", "owner")
    postgres = view.doc.store.startswith(("postgresql://", "postgres://"))
    if view.doc.store != "sqlite" and not postgres:
        view.error(("store",), "expected sqlite or postgresql://…")
    if owner is None and not view.is_broken(("hosts",)):
        view.error(
            ("schedule",), "of several hosts one is the head: owner is missing", "schedule: {owner: HOST}"
        )
    names = [owner] if isinstance(owner, str) else owner or []
    for index, name in enumerate(names if "owner" in view.given(("schedule",)) else ()):
        view.refer(path if isinstance(owner, str) else (*path, index), "host", name, view.host_names())
    if len(names) > 1 and not postgres:
        view.error(path, "several heads share one schedule: store must be postgresql://…")


def _timezone(view: View) -> None:
    zone = view.doc.fleet.timezone
    if zone is None:
        return
    try:
        ZoneInfo(zone)
    except (LookupError, ValueError, OSError):
        path = ("fleet", "timezone")
        view.error(path, f"there is no time zone {zone}", nearest(zone, available_timezones()))


def _address(view: View, path: Path, host: HostKeys) -> None:
    names = view.host_names()
    if host.url is None and len(names) > 1 and path[1] in names:
        view.error((*path, "url"), "is missing: other hosts reach this one by it", "url: https://HOST:7070")
    if host.url is not None:
        check_url(view, (*path, "url"), host.url, plain=host.allow_plain_http, bare=True)
        if host.tls_pin is not None and host.url.startswith("http:"):
            view.error((*path, "tls_pin"), "a pin without TLS: the url is http://")
        if host.key is None and (*path, "key") not in view.references:
            view.warn(
                path,
                "no key: other nodes cannot ask this host for anything",
                "key: ${file:PATH}",
                at_key=True,
            )


def _links(view: View, name: str, host: HostKeys) -> None:
    for peer, link in host.links.items():
        path: Path = ("hosts", name, "links", peer)
        if peer == name:
            view.error(path, "a host has no link to itself", at_key=True)
        elif view.refer(path, "host", peer, view.host_names(), at_key=True) and peer in view.hosts:
            back = view.hosts[peer].links.get(name)
            if back is not None and (back.address, back.peer) != (link.peer, link.address):
                there = view.line(("hosts", peer, "links", name))
                view.error(path, f"the addresses are not those of {peer}'s link back, {there}", at_key=True)


def _groups(view: View, name: str, host: HostKeys) -> None:
    for group, keys in host.groups.items():
        path: Path = ("hosts", name, "groups", group)
        for index, other in enumerate(keys.evicts):
            _evicted(view, (*path, "evicts", index), other, group, name)
        if keys.idle_revert is not None:
            _default(view, (*path, "idle_revert"), keys.idle_revert, group, name)


def _evicted(view: View, path: Path, other: str, group: str, host: str) -> None:
    if other == group:
        view.error(path, "members of one group exclude each other without evicts")
    elif other not in view.group_names(host):
        elsewhere = [name for name in view.host_names() if other in view.group_names(name)]
        has = f"; {', '.join(elsewhere)} has one, and groups do not cross hosts" if elsewhere else ""
        view.error(path, f"there is no group {other} on {host}{has}", nearest(other, view.group_names(host)))


def _default(view: View, path: Path, engine: str, group: str, host: str) -> None:
    if not view.refer(path, "engine", engine, view.engine_names()) or engine not in view.doc.engines:
        return
    keys = view.doc.engines[engine]
    if keys.host != host or keys.group != group:
        members = [n for n, each in view.doc.engines.items() if each.host == host and each.group == group]
        view.error(path, f"{engine} is no member of the group {group} on {host}", nearest(engine, members))
    elif view.class_of(engine).danger:
        view.error(path, f"{engine} is {view.class_of(engine)}: no timer may start it")
    elif keys.memory is None and not view.is_cut(("engines", engine, "memory")):
        view.warn(path, f"{engine} says no memory: no timer starts it before it was measured")


def _memory(view: View, path: Path, host: HostKeys) -> None:
    memory, path = host.memory, (*path, "memory")
    named = memory.pools()
    single = [key for key in ("total", "reserve", "floor") if getattr(memory, key) is not None]
    if named and single:
        view.error((*path, single[0]), f"memory is one pool, or named pools ({', '.join(named)}), not both")
    for name, pool in pools_of(memory).items():
        key = "ram" if name == HOST_POOL else name
        _pool(view, (*path, key) if named else path, pool)
    if isinstance(memory.on_floor, FloorStop):
        for index, engine in enumerate(memory.on_floor.stop):
            here = (*path, "on_floor", "stop", index)
            if not view.refer(here, "engine", engine, view.engine_names()):
                continue
            if engine in view.doc.engines and str(path[1]) not in view.hosts_of(engine):
                view.error(here, f"{engine} does not run on {path[1]}")


def _pool(view: View, path: Path, pool: Pool) -> None:
    for key, value in (("reserve", pool.reserve), ("floor", pool.floor)):
        if value is not None and pool.total is not None and value >= pool.total:
            view.error(
                (*path, key), f"{size_text(value)} of a total of {size_text(pool.total)} leaves nothing"
            )
    if pool.floor is not None and pool.reserve is not None and pool.floor > pool.reserve:
        view.warn((*path, "floor"), "above reserve: every start that uses its memory would be killed")


def _listener(view: View, host: str) -> None:
    node = view.node(host)
    own = view.given(("hosts", host, "node"))
    path: Path = ("hosts", host, "node", "listen") if "listen" in own else ("node", "listen")
    listens = [node.listen] if isinstance(node.listen, str) else node.listen
    if not listens:
        view.error(path, "expected at least one address and port")
    outside = [each for each in listens if not loopback(each.rpartition(":")[0])]
    has_keys = bool(view.doc.keys) or view.is_broken(("keys",)) or ("keys",) in view.kept
    if outside and not has_keys and not (view.keyed and host == view.here):
        told = view.error if host == view.here or path[0] == "node" else view.warn
        told(
            path,
            f"{outside[0]} is not loopback and there are no keys: everybody there could do everything",
            "add keys:, or listen on 127.0.0.1",
        )
    tls_given = "tls" in own or "tls" in view.given(("node",))
    if outside and node.tls is None and not tls_given:
        view.warn(path, f"{outside[0]} is plain HTTP: keys and prompts can be read on the way", "node.tls")


def loopback(address: str) -> bool:
    """Whether only this machine reaches a listener at `address`: an IP, in brackets or not, or localhost."""
    bare = address.removeprefix("[").removesuffix("]")
    if bare == "localhost":
        return True
    found = ipaddress.ip_address(bare)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def listen_ports(node: NodeKeys) -> tuple[tuple[str, int], ...]:
    """Address and port of each listener."""
    listens = [node.listen] if isinstance(node.listen, str) else node.listen
    pairs = (each.rpartition(":") for each in listens)
    return tuple((host.removeprefix("[").removesuffix("]"), int(port)) for host, _, port in pairs)
