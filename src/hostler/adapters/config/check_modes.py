"""Relations of modes (MODE-1): hosts, engines, routes, resource and class. Memory is in `check_memory`."""

from __future__ import annotations

from itertools import combinations

from hostler.adapters.config.schema.modes import ModeKeys
from hostler.adapters.config.tree import Path, keys_at
from hostler.adapters.config.view import View
from hostler.domain.values import ServingClass

OF_A_WINDOW = ("resource", "cap", "drain_before", "gates", "verify", "not_between", "tool")
"""Keys that only a mode has which a window enters."""


def check_modes(view: View) -> None:
    """Everything about modes but their memory."""
    modes = view.doc.modes
    standing = [name for name, mode in modes.items() if mode.standing]
    if modes and not view.is_broken(("modes",)) and not standing and not _any_broken(view):
        view.error(("modes",), "one mode is the standing one: standing: true is missing", at_key=True)
    for name in standing[1:]:
        there = view.line(("modes", standing[0]))
        view.error(("modes", name, "standing"), f"{standing[0]} is the standing mode already ({there})")
    for name, mode in modes.items():
        path: Path = ("modes", name)
        _engines(view, path, mode)
        _routes(view, path, mode)
        _window(view, path, mode)
        _ports(view, path, mode)
        if mode.standing:
            _standing(view, path, mode)
        else:
            _restorable(view, path, mode)


def _any_broken(view: View) -> bool:
    return any(part[0] == "modes" for part in view.broken)


def _engines(view: View, path: Path, mode: ModeKeys) -> None:
    for host, engines in mode.hosts.items():
        here = (*path, "hosts", host)
        if not view.refer(here, "host", host, view.host_names(), at_key=True):
            continue
        for index, engine in enumerate(engines):
            _engine(view, (*here, index), engine, host)
        _exclusive(view, here, host, engines)
        for name, keys in view.doc.engines.items():
            if keys.essential and keys.host == host and name not in engines:
                view.error(
                    here, f"{name} is essential on {host}: every mode lists it", f"add {name}", at_key=True
                )


def _engine(view: View, path: Path, engine: str, host: str) -> None:
    if not view.refer(path, "engine", engine, view.engine_names()) or engine not in view.doc.engines:
        return
    owner, driver = view.owner_of(engine), view.doc.engines[engine].driver
    if owner is not None:
        view.error(path, f"{engine} is a member of {owner}", f"nearest valid name: {owner}")
    elif driver == "external":
        view.error(path, f"{engine} is external: no mode starts or stops it")
    elif view.hosts_of(engine) and host not in view.hosts_of(engine):
        view.error(path, f"{engine} runs on {', '.join(sorted(view.hosts_of(engine)))}, not on {host}")


def _exclusive(view: View, path: Path, host: str, engines: list[str]) -> None:
    parts = [part for engine in engines for part in view.parts_of(engine, host)]
    for first, second in combinations(dict.fromkeys(parts), 2):
        group = view.doc.engines[first].group
        if group is not None and group == view.doc.engines[second].group:
            view.error(
                path, f"{first} and {second} exclude each other: both are in group {group}", at_key=True
            )


def _routes(view: View, path: Path, mode: ModeKeys) -> None:
    for name, profile in mode.routes.items():
        here = (*path, "routes", name)
        route = view.doc.routes.get(name)
        known = view.refer(here, "route", name, keys_at(view.tree, ("routes",)), at_key=True)
        if known and route is not None:
            view.refer(here, "profile", profile, route.profiles)


def _window(view: View, path: Path, mode: ModeKeys) -> None:
    if mode.resource is not None:
        _resource(view, (*path, "resource"), mode.resource, mode)
    if mode.cap.default > mode.cap.max:
        view.error((*path, "cap"), "default is longer than max", at_key=True)
    if not mode.standing and mode.drain_before >= mode.cap.max:
        view.error((*path, "drain_before"), "begins before the longest window opens")
    for host in mode.gates.available:
        view.refer((*path, "gates", "available", host), "host of this mode", host, mode.hosts, at_key=True)
    for index, verify in enumerate(mode.verify):
        view.refer((*path, "verify", index, "on"), "host", verify.on, view.host_names())
    _class(view, path, mode)


def _ports(view: View, path: Path, mode: ModeKeys) -> None:
    """Engines of one mode are up at once: no two of a host on one port (MODE-1)."""
    for host, engines in mode.hosts.items():
        met: dict[int, str] = {}
        for part in dict.fromkeys(part for engine in engines for part in view.parts_of(engine, host)):
            port = view.doc.engines[part].port
            if not isinstance(port, int):
                continue
            if port in met:
                view.error(
                    (*path, "hosts", host), f"{met[port]} and {part} are both on port {port}", at_key=True
                )
            met.setdefault(port, part)


def _restorable(view: View, path: Path, mode: ModeKeys) -> None:
    """A host gets standing engines only if a window can evict them and start them again (WIN-9)."""
    usual = next((it for it in view.doc.modes.values() if it.standing), None)
    for host in mode.hosts:
        here = (*path, "hosts", host)
        keys = view.hosts.get(host)
        if keys is not None and not keys.orchestration:
            view.error(here, f"{host} has orchestration: false: nothing is evicted there", at_key=True)
        for engine in () if usual is None else usual.hosts.get(host, ()):
            for part in view.parts_of(engine, host):
                if part not in mode.hosts[host] and not view.doc.engines[part].enabled:
                    view.error(
                        here, f"{part} is evicted, and enabled: false keeps it from coming back", at_key=True
                    )


def _resource(view: View, path: Path, name: str, mode: ModeKeys) -> None:
    view.refer(path, "resource", name, keys_at(view.tree, ("reservations", "resources")))
    resource = view.doc.reservations.resources.get(name)
    outside = [host for host in mode.hosts if resource is not None and host not in resource.hosts]
    if outside:
        view.error(path, f"{name} does not cover {', '.join(outside)}")


def _class(view: View, path: Path, mode: ModeKeys) -> None:
    declared = ServingClass(mode.serving_class or ServingClass.RESIDENT)
    for host, engines in mode.hosts.items():
        for index, engine in enumerate(engines):
            if engine not in view.doc.engines or view.owner_of(engine) is not None:
                continue
            needed = view.class_of(engine)
            if needed.danger > declared.danger:
                view.error(
                    (*path, "hosts", host, index),
                    f"{engine} is {needed}, more than the mode's {declared}",
                    f"serving_class: {needed}",
                )


def _standing(view: View, path: Path, mode: ModeKeys) -> None:
    for key in sorted(view.given(path) & set(OF_A_WINDOW)):
        view.error((*path, key), "is for a mode that a window enters; this one is standing", at_key=True)
    for host, engines in mode.hosts.items():
        for index, engine in enumerate(engines):
            keys = view.doc.engines.get(engine)
            if keys is not None and not keys.resident:
                here = (*path, "hosts", host, index)
                view.error(
                    here, f"{engine} is not resident: the standing mode keeps up what is", "resident: true"
                )
    for name, keys in view.doc.engines.items():
        if keys.resident and keys.host is not None and name not in mode.hosts.get(keys.host, ()):
            where = (*path, "hosts", keys.host) if keys.host in mode.hosts else (*path, "hosts")
            view.error(where, f"{name} is resident on {keys.host}, and not in the standing mode", at_key=True)
