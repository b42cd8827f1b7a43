"""Relations of resources and their actions (LEASE-1 to LEASE-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from hostler.adapters.config.resources import (
    EngineAction,
    actions_of,
    covers,
    engine_named,
    engines_meant,
    engines_of,
)
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
from hostler.adapters.config.schema.routes import RouteKeys, UpstreamRef
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
            _action(view, view.index((*path, "actions"), index), action, resource.hosts)
        _twice(view, path, resource)
        _leads_somewhere(view, path, name)
    for first, second in combinations(resources, 2):
        if first not in inside(view, second) and second not in inside(view, first):
            _shared(view, first, second)


def inside(view: View, name: str) -> frozenset[str]:
    """Every resource that `name` contains, itself and those of its inner ones with it."""
    return frozenset(covers(view.doc.reservations.resources, name))


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
            verb, name = engine_named(action)
            _engine(view, (*path, verb), name, hosts)
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


def _engine(view: View, path: Path, name: str, hosts: list[str]) -> None:
    engine = _meant(view, path, name)
    if engine is None or engine not in view.doc.engines:
        return
    if view.doc.engines[engine].driver == "external":
        view.error(path, f"{engine} is external: it is never started or stopped")
    owner = view.owner_of(engine)
    if owner is not None:
        view.error(path, f"{engine} is a member of {owner}", f"nearest valid name: {owner}")
    _covered(view, path, view.hosts_of(engine), hosts)


def _meant(view: View, path: Path, name: str) -> str | None:
    """The engine of that name, or the only one that the route of that name leads to (R7)."""
    found = engines_meant(view.doc, name)
    if len(found) == 1:
        return found[0]
    if name in view.doc.routes:
        leads = f"to {', '.join(found)}" if found else "to no engine"
        view.error(path, f"{name} is a route that leads {leads}", "name the engine")
        return None
    view.refer(path, "engine", name, view.engine_names())
    return None


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
                _, name = engine_named(action)
                for engine in engines_meant(view.doc, name) or (name,):
                    keys = view.doc.engines.get(engine)
                    yield "engine", engine
                    yield from (("engine", member) for member in (keys.members or () if keys else ()))


def _twice(view: View, path: Path, resource: ResourceKeys) -> None:
    """One resource acts once on each thing; on a route twice, when the second waits for a start (LEASE-4)."""
    met: set[tuple[str, str]] = set()
    for index, action in enumerate(resource.actions):
        alone = ResourceKeys.model_construct(hosts=[], contains=[], actions=[action])
        for kind, name in controls(view, alone):
            if (kind, name) in met and not (isinstance(action, RouteAction) and _waits(view, resource, name)):
                view.error(
                    view.index((*path, "actions"), index), f"{kind} {name} is acted on twice", at_key=True
                )
        met |= set(controls(view, alone))


def _waits(view: View, resource: ResourceKeys, name: str) -> bool:
    """Whether two actions move the route: away, and to an engine that the resource starts."""
    moves = [it for it in resource.actions if isinstance(it, RouteAction) and it.route == name]
    route = view.doc.routes.get(name)
    started = _engines(view, resource.actions, StartAction)
    late = [it for it in moves if route is not None and _to(route, it.to) & started]
    return len(moves) == 2 and len(late) == 1


def _leads_somewhere(view: View, path: Path, name: str) -> None:
    """A route is moved to what serves: never only to engines that the lease stops (LEASE-4)."""
    if any(view.is_cut((*ROOT, it, "actions")) for it in inside(view, name)):
        return
    resource = view.doc.reservations.resources[name]
    actions = actions_of(view.doc.reservations.resources, name)
    stopped = _engines(view, actions, SuspendAction, StopAction)
    for index, action in enumerate(actions):
        route = view.doc.routes.get(action.route) if isinstance(action, RouteAction) else None
        if not isinstance(action, RouteAction) or route is None or action.to not in route.profiles:
            continue
        here: Path = (*path, "actions", index, "to") if resource.actions else (*path, "contains")
        engines = _to(route, action.to)
        if engines and engines <= stopped and not _upstreams(route, action.to):
            gone = ", ".join(sorted(engines))
            view.error(here, f"route {action.route} would lead to {gone}, which {name} stops")
        elif engines & _engines(view, actions, StartAction) and not _can_wait(view, actions, action):
            text = f"route {action.route} has no profile to be on until {action.to} is started"
            view.error(here, text, "a profile that leads to nothing that the resource touches")


def _can_wait(view: View, actions: Sequence[Action], move: RouteAction) -> bool:
    """Whether the route has somewhere to be while its engine starts, or need not go away (LEASE-4)."""
    route = view.doc.routes[move.route]
    others = [it for it in route.profiles if it != move.to]
    stopped = _engines(view, actions, SuspendAction, StopAction)
    touched = stopped | _engines(view, actions, StartAction)
    moved = any(isinstance(it, RouteAction) and it.route == move.route and it is not move for it in actions)
    leads_to_stopped = any(_to(route, it) & stopped for it in others)
    return moved or not leads_to_stopped or any(not _to(route, it) & touched for it in others)


def _engines(view: View, actions: Iterable[Action], *kinds: type[EngineAction]) -> frozenset[str]:
    """The engines of the actions of these kinds."""
    named = (engine_named(it)[1] for it in actions if isinstance(it, kinds))
    return frozenset(engine for name in named for engine in engines_meant(view.doc, name))


def _to(route: RouteKeys, profile: str) -> frozenset[str]:
    keys = route.profiles.get(profile)
    return frozenset(() if keys is None else engines_of(keys))


def _upstreams(route: RouteKeys, profile: str) -> bool:
    keys = route.profiles[profile]
    return any(isinstance(it, UpstreamRef) for it in (keys if isinstance(keys, list) else [keys]))


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
