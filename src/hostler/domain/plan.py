"""Plans: what leasing a resource does to its hosts, and in which order (LEASE-4).

Decides the steps of a lease from the config at its grant; from then on the lease has them (LEASE-5). How a
step is compared and undone is `hostler.domain.undo`'s. Performs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Final, TypeVar

from hostler.domain.fleet import Escalating, Fleet, Profile, Route, UpstreamTarget, frozen
from hostler.domain.resource import Action, Resource
from hostler.domain.route import engines_of
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    DrainEngine,
    HoldHost,
    PointRoute,
    RemoveHold,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)
from hostler.domain.undo import drifted, holds_true, inverse, is_back
from hostler.domain.values import RouteName, shorten

__all__ = [
    "activation",
    "aim",
    "away",
    "command",
    "depends",
    "drifted",
    "holds_true",
    "inverse",
    "is_back",
    "route_steps",
    "stops",
    "text",
    "turns",
    "webhook",
]


T = TypeVar("T")

_SIDE_BY_SIDE: Final = (DrainEngine, SuspendEngine, StopEngine, VerifyRestore)
"""What several hosts do, and put back, at the same time; engines are started in the order of the plan."""


def turns(work: Iterable[T], step_of: Callable[[T], Step]) -> Iterator[tuple[tuple[T, ...], ...]]:
    """The turns in which `work` is done, each once the last one is over (MODE-2).

    A turn has a lane for each host, done in order there and side by side with the others: what follows each
    other in the plan and is of one kind. All drains are over before the first engine goes down.
    """
    for kind, alike in groupby(work, key=lambda it: type(step_of(it))):
        if kind not in _SIDE_BY_SIDE:
            yield from (((it,),) for it in alike)
            continue
        lanes: dict[str, list[T]] = {}
        for it in alike:
            lanes.setdefault(step_of(it).host, []).append(it)
        yield tuple(tuple(lane) for lane in lanes.values())


def activation(fleet: Fleet, resource: Resource) -> tuple[Step, ...]:
    """The steps that lease `resource`, in LEASE-4's order whatever the order of its actions.

    Holds; routes, on each host that offers them; all drains, then each suspend or stop; starts; routes that
    lead to what was started; commands; webhooks. A route that is to serve an engine which the lease starts
    goes away first where it may lead to one that the lease stops.
    """
    actions = resource.actions
    if not actions:
        return ()
    early, late = route_steps(fleet, actions)
    stopped = [it for it in actions if it.verb in ("suspend", "stop")]
    return (
        *(HoldHost(host=it.target, allow=it.allow) for it in actions if it.verb == "hold"),
        *early,
        *(DrainEngine(host=it.host, engine=it.target, drain_s=resource.drain_s) for it in stopped),
        *(_stop(it) for it in stopped),
        *(StartEngine(host=it.host, engine=it.target) for it in actions if it.verb == "start"),
        *late,
        *(command(it) for it in actions if it.verb == "exec"),
        *(webhook(it) for it in actions if it.verb == "webhook"),
    )


def _stop(action: Action) -> Step:
    made = SuspendEngine if action.verb == "suspend" else StopEngine
    return made(host=action.host, engine=action.target, memory_back=action.memory_back)


def command(action: Action) -> RunCommand:
    """The step of an `exec` action."""
    return RunCommand(
        host=action.host,
        argv=action.argv,
        undo=action.undo,
        check=action.check,
        timeout_s=action.timeout_s,
        definition=action.definition,
        digest=action.digest,
    )


def webhook(action: Action) -> CallWebhook:
    """The step of a `webhook` action."""
    return CallWebhook(
        host=action.host,
        url=action.target,
        undo=action.undo_url,
        timeout_s=action.timeout_s,
        definition=action.definition,
        digest=action.digest,
    )


def route_steps(fleet: Fleet, actions: Sequence[Action]) -> tuple[list[PointRoute], list[PointRoute]]:
    """Route steps before the engines are touched, and those after the starts."""
    early: list[PointRoute] = []
    late: list[PointRoute] = []
    started = _targets(actions, "start")
    for action in (it for it in actions if it.verb == "route"):
        route = fleet.routes[RouteName(action.target)]
        hosts = route.on or tuple(fleet.hosts)
        if not started.intersection(engines_of(route.profiles[action.to])):
            early += _on_each(hosts, route, action.to)
            continue
        late += _on_each(hosts, route, action.to)
        first = away(route, action.to, actions)
        if first is not None:
            early += _on_each(hosts, route, first)
    return early, late


def _on_each(hosts: Sequence[str], route: Route, profile: str) -> Iterator[PointRoute]:
    return (PointRoute(host=host, route=route.name, profile=profile) for host in hosts)


def away(route: Route, to: str, actions: Sequence[Action]) -> str | None:
    """The profile that `route` is on until the engine of profile `to` has been started (LEASE-4).

    None where it needs none: none of its other profiles leads to an engine that `actions` stop, or another
    of the actions moves it there already. None too where there is no such profile: a config error.
    """
    others = [it for it in route.profiles if it != to]
    moved = any(it.verb == "route" and it.target == route.name and it.to != to for it in actions)
    if moved or not any(stops(route.profiles[it], actions) for it in others):
        return None
    changed = _targets(actions, "suspend", "stop", "start")
    return next((it for it in others if not changed.intersection(engines_of(route.profiles[it]))), None)


def stops(profile: Profile, actions: Sequence[Action]) -> frozenset[str]:
    """The engines of `profile` that `actions` suspend or stop."""
    return _targets(actions, "suspend", "stop").intersection(engines_of(profile))


def _targets(actions: Sequence[Action], *verbs: str) -> frozenset[str]:
    return frozenset(it.target for it in actions if it.verb in verbs)


def upstreams_of(profile: Profile) -> tuple[str, ...]:
    """The upstreams that a profile leads to, in order."""
    targets = () if isinstance(profile, Escalating) else profile.targets
    return tuple(it.upstream for it in targets if isinstance(it, UpstreamTarget))


def depends(engines: Sequence[str], gone: AbstractSet[str]) -> str | None:
    """The first of the engines of a route's found profile that drifted: the route is left then (LEASE-11)."""
    return next((it for it in engines if it in gone), None)


_DOES: Final = frozen(
    {
        "hold": "hold {host}",
        "unhold": "remove the hold of {host}",
        "route": "route {route} to {profile} on {host}",
        "drain": "drain {engine}",
        "undrain": "end the drain of {engine}",
        "suspend": "suspend {engine}",
        "resume": "resume {engine}",
        "stop": "stop {engine}",
        "start": "start {engine}",
        "exec": "run {program} on {host}",
        "unexec": "run the undo {program} on {host}",
        "webhook": "call {site}",
        "unwebhook": "call the undo at {site}",
        "arm": "arm the deadman of {host}",
        "disarm": "disarm the deadman of {host}",
        "memory": "look at the memory of {host}",
        "verify": "verify what is back on {host}",
    }
)
_AIMS: Final = frozen(
    {
        "hold": "{host} held by the lease",
        "unhold": "no hold of the lease on {host}",
        "route": "route {route} on {profile}",
        "drain": "{engine} without requests",
        "undrain": "{engine} not drained by the lease",
        "suspend": "{engine} suspended and gone",
        "resume": "{engine} not suspended by the lease, and serving as itself where it was up",
        "stop": "{engine} gone",
        "start": "{engine} serving as itself",
        "exec": "exit code 0",
        "unexec": "exit code 0",
        "webhook": "an answer of 2xx",
        "unwebhook": "an answer of 2xx",
        "arm": "a deadman that lives",
        "disarm": "no deadman of the window",
        "memory": "the memory of {host} back, and as much available as the mode asks for",
        "verify": "every verify command of {host} with exit code 0, and the standing engines there serving",
    }
)


def text(work: Step | Undo) -> str:
    """One phrase for people: what the step or the undo does. Never an argument or a path of a URL."""
    return _DOES[work.kind].format(**_shown(work))


def aim(work: Step | Undo) -> str:
    """What is to be seen when the step or the undo has worked, for people (LEASE-14)."""
    return _AIMS[work.kind].format(**_shown(work))


def _shown(work: Step | Undo) -> Mapping[str, str]:
    """What a phrase may name: a command by its program, a URL by its site."""
    shown = {"host": work.host}
    match work:
        case PointRoute(route=route, profile=profile):
            shown |= {"route": route, "profile": profile}
        case RunCommand(argv=argv) | UndoCommand(argv=argv):
            shown["program"] = shorten(argv[0])
        case CallWebhook(url=url) | UndoWebhook(url=url):
            shown["site"] = site(url)
        case HoldHost() | RemoveHold() | ArmDeadman() | DisarmDeadman() | CheckMemory() | VerifyRestore():
            pass
        case _:
            shown["engine"] = work.engine
    return shown


def site(url: str) -> str:
    """Scheme and host of a URL: its user, path and query may hold a secret (LEASE-2)."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{shorten(host)}"
