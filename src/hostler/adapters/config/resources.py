"""Makes the resources of the fleet from a document without errors (LEASE-1 to LEASE-3).

Decides what a resource covers, whose actions leasing it does, and on which host each of them is done. The
order in which they are done is `hostler.domain.plan`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.reservations import Action as ActionKeys
from hostler.adapters.config.schema.reservations import (
    ExecAction,
    HoldAction,
    ResourceKeys,
    RouteAction,
    StartAction,
    StopAction,
    SuspendAction,
    WebhookAction,
)
from hostler.adapters.config.schema.routes import Escalation, ProfileKeys, TargetKeys
from hostler.domain.fleet import frozen
from hostler.domain.resource import Action, Resource
from hostler.domain.values import HostName

EngineAction = SuspendAction | StartAction | StopAction


def resources_of(document: Document, here: str) -> Mapping[str, Resource]:
    """Every resource of a filled document without errors, in the config's order."""
    given = document.reservations.resources
    return frozen({name: _resource(document, name, each, here) for name, each in given.items()})


def _resource(document: Document, name: str, keys: ResourceKeys, here: str) -> Resource:
    given = document.reservations.resources
    host = keys.hosts[0] if keys.hosts else here
    return Resource(
        name=name,
        title=keys.title or "",
        hosts=tuple(HostName(it) for it in keys.hosts),
        covers=covers(given, name),
        actions=tuple(
            _defined(_action(document, keys, host), where) for where, keys in named_actions_of(given, name)
        ),
        ttl_s=keys.ttl.default,
        max_s=keys.ttl.max,
        warn=tuple(sorted(keys.ttl.warn, reverse=True)),
        indefinite=keys.indefinite,
        drain_s=keys.drain,
        queue_max=keys.queue.max,
        place_s=keys.queue.place,
        claim_s=keys.queue.claim,
    )


def _defined(action: Action, where: str) -> Action:
    """What only its own node may know in full is named for the others (CONF-6)."""
    return replace(action, definition=where) if action.verb in ("exec", "webhook") else action


def covers(given: Mapping[str, ResourceKeys], name: str) -> tuple[str, ...]:
    """The resource and everything that it contains, through others too; itself first, each once (LEASE-3)."""
    found: dict[str, None] = {}
    todo = [name]
    while todo:
        each = todo.pop(0)
        if each not in found and each in given:
            found[each] = None
            todo += given[each].contains
    return tuple(found)


def actions_of(given: Mapping[str, ResourceKeys], name: str) -> Sequence[ActionKeys]:
    """What leasing it does: its own actions, else those of the inner ones in order (LEASE-3).

    An inner one that another inner one contains is left to that one: its own actions replace it.
    """
    return [action for _, action in named_actions_of(given, name)]


def named_actions_of(given: Mapping[str, ResourceKeys], name: str) -> Sequence[tuple[str, ActionKeys]]:
    """As `actions_of`, each with where the config says it: `RESOURCE/N`, counted from 1 (CONF-6)."""
    acting = dict.fromkeys(_acting(given, name, frozenset()))
    return [
        (f"{each}/{n}", action) for each in acting for n, action in enumerate(given[each].actions, start=1)
    ]


def _acting(given: Mapping[str, ResourceKeys], name: str, above: frozenset[str]) -> Iterator[str]:
    """The resources whose actions are run. `above` contain it: a circle is a config error, and ends here."""
    keys = given.get(name)
    if keys is None or name in above:
        return
    if keys.actions:
        yield name
        return
    for inner in _outermost(given, keys.contains):
        yield from _acting(given, inner, above | {name})


def _outermost(given: Mapping[str, ResourceKeys], names: Sequence[str]) -> Iterator[str]:
    """Those of `names` that no other of them contains, each once."""
    for name in dict.fromkeys(names):
        if not any(name in covers(given, other) for other in names if other != name):
            yield name


def engine_named(action: EngineAction) -> tuple[str, str]:
    """The verb of the action, and the engine or the route that it names."""
    match action:
        case SuspendAction():
            return "suspend", action.suspend
        case StartAction():
            return "start", action.start
        case StopAction():
            return "stop", action.stop


def engines_meant(document: Document, name: str) -> tuple[str, ...]:
    """The engines that a name may mean in an action: that engine, else those that the route leads to (R7)."""
    if name in document.engines:
        return (name,)
    routes = document.routes
    route = routes.get(name) or next((it for it in routes.values() if name in it.aliases), None)
    if route is None:
        return ()
    found = (engine for profile in route.profiles.values() for engine in engines_of(profile))
    return tuple(dict.fromkeys(found))


def engines_of(profile: ProfileKeys) -> tuple[str, ...]:
    """The engines that a profile leads to, in order."""
    if isinstance(profile, Escalation):
        return profile.fast, profile.large
    targets: Sequence[TargetKeys] = profile if isinstance(profile, list) else [profile]
    return tuple(it for it in targets if isinstance(it, str))


def _action(document: Document, keys: ActionKeys, host: str) -> Action:
    match keys:
        case HoldAction():
            return Action(verb="hold", target=keys.hold, host=HostName(keys.hold), allow=tuple(keys.allow))
        case RouteAction():
            return Action(verb="route", target=keys.route, host=HostName(host), to=keys.to)
        case ExecAction():
            return Action(
                verb="exec",
                host=HostName(keys.on or host),
                argv=tuple(keys.exec),
                undo=None if keys.undo is None else tuple(keys.undo),
                check=None if keys.check is None else tuple(keys.check),
                timeout_s=keys.timeout,
            )
        case WebhookAction():
            return Action(
                verb="webhook",
                target=keys.webhook,
                host=HostName(host),
                undo_url=keys.undo,
                timeout_s=keys.timeout,
            )
        case _:
            return _of_engine(document, keys, host)


def _of_engine(document: Document, keys: EngineAction, host: str) -> Action:
    """An action on an engine; its node is the host of the engine, of a distributed one's answering member."""
    name = engines_meant(document, engine_named(keys)[1])[0]
    at = HostName(document.engines[name].host or host)
    match keys:
        case SuspendAction():
            return Action(verb="suspend", target=name, host=at, memory_back=keys.memory_back)
        case StopAction():
            return Action(verb="stop", target=name, host=at, memory_back=keys.memory_back)
        case StartAction():
            return Action(verb="start", target=name, host=at)
