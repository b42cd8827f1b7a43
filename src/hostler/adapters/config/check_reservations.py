"""Relations of resources and their actions (LEASE-1 to LEASE-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from hostler.adapters.config.schema.reservations import (
    Action,
    ExecAction,
    HoldAction,
    ResourceKeys,
    RouteAction,
    StartAction,
    StopAction,
    SuspendAction,
    WebhookAction,
)
from hostler.adapters.config.tree import Path, keys_at
from hostler.adapters.config.urls import check_url
from hostler.adapters.config.view import View

ROOT: Path = ("reservations", "resources")


def check_reservations(view: View) -> None:
    """Everything about what can be leased."""
    resources = view.doc.reservations.resources
    for name, resource in resources.items():
        path: Path = (*ROOT, name)
        _resource(view, path, name, resource)
        for index, action in enumerate(resource.actions):
            _action(view, (*path, "actions", index), action, resource.hosts)
    for first, second in combinations(resources, 2):
        if first not in inside(view, second) and second not in inside(view, first):
            _shared(view, first, second)


def inside(view: View, name: str) -> frozenset[str]:
    """Every resource that `name` contains, itself and those of its inner ones with it."""
    found: set[str] = set()
    todo = [name]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            resource = view.doc.reservations.resources.get(each)
            todo += resource.contains if resource is not None else []
    return frozenset(found)


def _resource(view: View, path: Path, name: str, resource: ResourceKeys) -> None:
    if not resource.hosts and not view.is_broken(("hosts",)):
        view.error((*path, "hosts"), "is missing: there are several hosts")
    for index, host in enumerate(resource.hosts):
        view.refer((*path, "hosts", index), "host", host, view.host_names())
    if resource.ttl.default > resource.ttl.max:
        at = (*path, "ttl", "default" if "default" in view.given((*path, "ttl")) else "max")
        view.error(at, "default is longer than max")
    for index, warn in enumerate(resource.ttl.warn):
        if warn >= resource.ttl.max and "warn" in view.given((*path, "ttl")):
            view.error(
                (*path, "ttl", "warn", index), "a warning earlier than the longest lease is never given"
            )
    known = keys_at(view.tree, ROOT)
    for index, inner in enumerate(resource.contains):
        here = (*path, "contains", index)
        if not view.refer(here, "resource", inner, known):
            continue
        if name in inside(view, inner):
            view.error(here, f"{name} and {inner} contain each other")
        other = view.doc.reservations.resources.get(inner)
        outside = [host for host in (other.hosts if other else ()) if host not in resource.hosts]
        if outside:
            view.error(here, f"{inner} covers {', '.join(outside)}, which {name} does not")


def _action(view: View, path: Path, action: Action, hosts: list[str]) -> None:
    match action:
        case HoldAction():
            _hold(view, path, action, hosts)
        case RouteAction():
            _route(view, path, action)
        case SuspendAction() | StartAction() | StopAction():
            verb, engine = _verb_and_engine(action)
            _engine(view, (*path, verb), engine, hosts)
        case ExecAction():
            _exec(view, path, action, hosts)
        case WebhookAction():
            check_url(view, (*path, "webhook"), action.webhook)
            if action.undo is not None:
                check_url(view, (*path, "undo"), action.undo)


def _hold(view: View, path: Path, action: HoldAction, hosts: list[str]) -> None:
    if view.refer((*path, "hold"), "host", action.hold, view.host_names()):
        _covered(view, (*path, "hold"), (action.hold,), hosts)
    for index, engine in enumerate(action.allow):
        view.refer((*path, "allow", index), "engine", engine, view.engine_names())


def _exec(view: View, path: Path, action: ExecAction, hosts: list[str]) -> None:
    if action.on is None:
        view.error((*path, "on"), "is missing: the resource covers several hosts")
    elif view.refer((*path, "on"), "host", action.on, view.host_names()):
        _covered(view, (*path, "on"), (action.on,), hosts)


def _route(view: View, path: Path, action: RouteAction) -> None:
    known = view.refer((*path, "route"), "route", action.route, keys_at(view.tree, ("routes",)))
    route = view.doc.routes.get(action.route)
    if known and route is not None:
        view.refer((*path, "to"), "profile", action.to, route.profiles)


def _engine(view: View, path: Path, engine: str, hosts: list[str]) -> None:
    if not view.refer(path, "engine", engine, view.engine_names()) or engine not in view.doc.engines:
        return
    if view.doc.engines[engine].driver == "external":
        view.error(path, f"{engine} is external: it is never started or stopped")
    owner = view.owner_of(engine)
    if owner is not None:
        view.error(path, f"{engine} is a member of {owner}", f"nearest valid name: {owner}")
    _covered(view, path, view.hosts_of(engine), hosts)


def _covered(view: View, path: Path, wanted: Iterable[str], hosts: list[str]) -> None:
    outside = sorted(host for host in wanted if host not in hosts)
    if outside and hosts:
        view.error(path, f"is on {', '.join(outside)}, which the resource does not cover", "add it to hosts")


def controls(view: View, resource: ResourceKeys) -> Iterator[tuple[str, str]]:
    """What a resource's own actions touch, each as its kind and name; members of an engine with it."""
    for action in resource.actions:
        match action:
            case HoldAction():
                yield "hold of host", action.hold
            case RouteAction():
                yield "route", action.route
            case SuspendAction() | StartAction() | StopAction():
                _, name = _verb_and_engine(action)
                keys = view.doc.engines.get(name)
                yield "engine", name
                yield from (("engine", member) for member in (keys.members or () if keys else ()))


def _verb_and_engine(action: SuspendAction | StartAction | StopAction) -> tuple[str, str]:
    match action:
        case SuspendAction():
            return "suspend", action.suspend
        case StartAction():
            return "start", action.start
        case StopAction():
            return "stop", action.stop


def _shared(view: View, first: str, second: str) -> None:
    resources = view.doc.reservations.resources
    ours, theirs = set(controls(view, resources[first])), set(controls(view, resources[second]))
    shared = sorted(f"{kind} {name}" for kind, name in ours & theirs)
    if shared:
        there = view.line((*ROOT, first))
        view.error(
            (*ROOT, second),
            f"{second} and {first} ({there}) both control {', '.join(shared)}",
            f"contains: [{first}] in {second}, or the other way round",
            at_key=True,
        )
