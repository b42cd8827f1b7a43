"""Fills in the defaults that follow from other keys: the only host, the only profile, the engine's name.

Decides what an absent key means. The result is the effective config that `hostler config show` prints
and that the checks and the fleet are made from. A name that leads nowhere stays as it is, for the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.schema.hosts import HostKeys
from hostler.adapters.config.schema.node import NodeKeys
from hostler.adapters.config.schema.reservations import ExecAction, ResourceKeys
from hostler.adapters.config.schema.routes import ClassKeys, RouteKeys
from hostler.domain.request_class import DEFAULT_CLASSES

LOCAL: Final = "local"
"""The host of a config without `hosts:`."""
DEFAULT_CLASS: Final = "chat"


def fill(document: Document, here: str) -> Document:
    """The effective document on host `here`: every relation's default given.

    `node` is as it is there, and each host's own `node` as it is on that host.
    """
    hosts = {
        name: each.model_copy(update={"node": node_of(document, name)})
        for name, each in (document.hosts or {LOCAL: HostKeys()}).items()
    }
    only = next(iter(hosts)) if len(hosts) == 1 else None
    owner = document.schedule.owner or only
    classes = {
        name: ClassKeys.model_construct(max_wait=each.max_wait_s, rank=each.rank)
        for name, each in DEFAULT_CLASSES.items()
    }
    resources = {name: _resource(each, only) for name, each in document.reservations.resources.items()}
    modes = {
        name: each.model_copy(update={"serving_class": each.serving_class or "resident"})
        for name, each in document.modes.items()
    }
    return document.model_copy(
        update={
            "hosts": hosts,
            "schedule": document.schedule.model_copy(update={"owner": owner}),
            "node": node_of(document, here),
            "engines": _engines(document.engines, only),
            "classes": {**classes, **document.classes},
            "routes": {name: _route(each) for name, each in document.routes.items()},
            "reservations": document.reservations.model_copy(update={"resources": resources}),
            "modes": modes,
        }
    )


def node_of(document: Document, host: str) -> NodeKeys:
    """`node` as it is on `host`: the keys of hosts.<host>.node win, those of its `log` one by one."""
    own = (document.hosts or {}).get(host, HostKeys()).node
    if own is None:
        return document.node
    given = {name: getattr(own, name) for name in own.model_fields_set}
    if "log" in given:
        log = own.log
        given["log"] = document.node.log.model_copy(
            update={name: getattr(log, name) for name in log.model_fields_set}
        )
    return document.node.model_copy(update=given)


def _engines(engines: Mapping[str, EngineKeys], only: str | None) -> dict[str, EngineKeys]:
    filled = {
        name: each.model_copy(update={"host": each.host or only, "model": each.model or name})
        for name, each in engines.items()
    }
    for name, each in engines.items():
        answering = filled.get(each.members[-1]) if each.members else None
        if answering is not None:
            model = each.model or answering.model
            filled[name] = each.model_copy(update={"host": answering.host, "model": model})
    return filled


def _route(route: RouteKeys) -> RouteKeys:
    single = next(iter(route.profiles)) if len(route.profiles) == 1 else None
    return route.model_copy(
        update={
            "active": route.active or single,
            "request_class": route.request_class or DEFAULT_CLASS,
        }
    )


def _resource(resource: ResourceKeys, only: str | None) -> ResourceKeys:
    hosts = resource.hosts or ([only] if only else [])
    single = hosts[0] if len(hosts) == 1 else None
    actions = [
        action.model_copy(update={"on": action.on or single}) if isinstance(action, ExecAction) else action
        for action in resource.actions
    ]
    return resource.model_copy(update={"hosts": hosts, "actions": actions})
