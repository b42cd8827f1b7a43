"""Relations of routes, upstreams and request classes (GW-1, GW-2, GW-4, BG-11)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from hostler.adapters.config.explain import nearest
from hostler.adapters.config.schema.routes import Escalation, ProfileKeys, RouteKeys, TargetKeys, UpstreamRef
from hostler.adapters.config.tree import Path, keys_at
from hostler.adapters.config.urls import check_url
from hostler.adapters.config.view import View
from hostler.domain.addresses import is_this_machine
from hostler.domain.values import shorten

EXTERNAL = "external"


def check_routes(view: View) -> None:
    """Everything about what clients ask for."""
    _upstreams(view)
    _names(view)
    for name, route in view.doc.routes.items():
        path: Path = ("routes", name)
        _profiles(view, path, route)
        _escalation(view, path, route)
        _patches(view, path, route)
        if route.request_class is not None:
            view.refer((*path, "class"), "class", route.request_class, class_names(view))
        for index, host in enumerate(route.on):
            view.refer((*path, "on", index), "host", host, view.host_names())


def class_names(view: View) -> tuple[str, ...]:
    """All classes of requests, those with errors too."""
    return tuple(dict.fromkeys((*view.doc.classes, *keys_at(view.tree, ("classes",)))))


def _upstreams(view: View) -> None:
    for name, upstream in view.doc.upstreams.items():
        path: Path = ("upstreams", name)
        check_url(view, (*path, "url"), upstream.url)
        if upstream.host is not None:
            view.refer((*path, "host"), "host", upstream.host, (EXTERNAL, *view.host_names()))
        elif not is_this_machine(_host_of(upstream.url)):
            view.error((*path, "host"), "is missing: it is named, never guessed", "a host, or host: external")
        if (
            upstream.key is not None
            and upstream.url.startswith("http:")
            and not is_this_machine(_host_of(upstream.url))
        ):
            view.warn((*path, "url"), "its key is sent in clear over http://")
        for index, host in enumerate(upstream.on):
            view.refer((*path, "on", index), "host", host, view.host_names())


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _names(view: View) -> None:
    """A name leads to one place: aliases, routes and engines do not share any (BG-11)."""
    places: dict[str, Path] = {name: ("engines", name) for name in view.engine_names()}
    places |= {name: ("routes", name) for name in keys_at(view.tree, ("routes",))}
    for route, keys in view.doc.routes.items():
        for index, alias in enumerate(keys.aliases):
            path: Path = ("routes", route, "aliases", index)
            if alias in places:
                first = places[alias]
                what = "engine" if first[0] == "engines" else "route" if len(first) == 2 else "alias"
                there = view.line(first, at_key=len(first) == 2)
                view.error(path, f"{shorten(alias)} is taken by the {what} on {there}", "names are unique")
            else:
                places[alias] = path
    for route, keys in view.doc.routes.items():
        if route in view.engine_names() and route not in set(_engines_of(keys)):
            there = view.line(("engines", route))
            view.warn(("routes", route), f"hides the engine of that name on {there}", at_key=True)


def targets(profile: ProfileKeys) -> Iterator[tuple[Path, TargetKeys]]:
    """The targets of a profile, each with its path below the profile's."""
    if isinstance(profile, list):
        yield from (((index,), target) for index, target in enumerate(profile))
    elif isinstance(profile, Escalation):
        yield ("fast",), profile.fast
        yield ("large",), profile.large
    else:
        yield (), profile


def _engines_of(route: RouteKeys) -> Iterator[str]:
    for profile in route.profiles.values():
        yield from (target for _, target in targets(profile) if isinstance(target, str))


def _profiles(view: View, path: Path, route: RouteKeys) -> None:
    for name, profile in route.profiles.items():
        for below, target in targets(profile):
            _target(view, (*path, "profiles", name, *below), target)
        if isinstance(profile, Escalation) and profile.fast == profile.large:
            view.error((*path, "profiles", name, "large"), f"fast and large are both {profile.fast}")
    for key, wanted in (("active", route.active), ("fallback", route.fallback)):
        if wanted is not None:
            view.refer((*path, key), "profile", wanted, route.profiles)


def _target(view: View, path: Path, target: TargetKeys) -> None:
    if isinstance(target, UpstreamRef):
        names = keys_at(view.tree, ("upstreams",))
        view.refer((*path, "upstream"), "upstream", target.upstream, names)
        return
    if target not in view.engine_names():
        upstreams = keys_at(view.tree, ("upstreams",))
        hint = f"{{upstream: {target}}}" if target in upstreams else nearest(target, view.engine_names())
        view.error(path, f"there is no engine {shorten(target)}", hint)
        return
    owner = view.owner_of(target)
    if owner is not None:
        view.error(
            path, f"{target} is a member of {owner}: it answers nobody", f"nearest valid name: {owner}"
        )


def _escalation(view: View, path: Path, route: RouteKeys) -> None:
    escalating = any(isinstance(profile, Escalation) for profile in route.profiles.values())
    rules = route.escalate
    if rules is None:
        if escalating:
            view.warn(path, "without escalate: nothing ever goes to large", at_key=True)
        return
    here = (*path, "escalate")
    if not escalating:
        view.error(here, "needs a profile that is {fast: ENGINE, large: ENGINE}", at_key=True)
    if rules.when_tools and not rules.intent:
        view.error((*here, "when_tools"), "needs intent: what the latest user message must match")
    if rules.intent and not rules.when_tools:
        view.warn((*here, "intent"), "is read with when_tools: true only")
    if rules.token is None and not rules.when_tools:
        view.warn(here, "neither token nor when_tools: nothing ever goes to large", at_key=True)


def _patches(view: View, path: Path, route: RouteKeys) -> None:
    all_targets = [each for profile in route.profiles.values() for _, each in targets(profile)]
    names = [each.upstream if isinstance(each, UpstreamRef) else each for each in all_targets]
    for name, patch in route.patches.items():
        here = (*path, "patches", name)
        if name not in names:
            view.error(here, f"{name} is no target of this route", nearest(name, names), at_key=True)
        if "model" in patch:
            view.error((*here, "model"), "the model is the target's own", "{upstream: NAME, model: NAME}")
