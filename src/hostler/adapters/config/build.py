"""Makes the frozen fleet from a document without errors (CONF-2). Decides nothing: it copies and renames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

from hostler.adapters.config.curate import class_of, curation_of, owner_of, reference_of
from hostler.adapters.config.modes import modes_of
from hostler.adapters.config.resources import resources_of
from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.schema.hosts import FloorStop, HostKeys
from hostler.adapters.config.schema.node import NodeKeys
from hostler.adapters.config.schema.routes import (
    Escalation as EscalationKeys,
)
from hostler.adapters.config.schema.routes import (
    ProfileKeys,
    RouteKeys,
    Spill,
    TargetKeys,
    UpstreamRef,
)
from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import needs_of, pools_of
from hostler.domain.catalog import Catalog
from hostler.domain.fleet import (
    Compose,
    Container,
    DriverKind,
    Engine,
    EngineTarget,
    Escalating,
    Escalation,
    Fleet,
    Gateway,
    Group,
    Host,
    Key,
    Link,
    Node,
    Peer,
    Plain,
    Profile,
    Route,
    Secret,
    Strategy,
    Target,
    Task,
    Tls,
    Upstream,
    UpstreamTarget,
    frozen,
)
from hostler.domain.request_class import RequestClass
from hostler.domain.values import EngineId, HostName, RouteName

LATER = (
    "fleet",
    "schedule",
    "store",
    "reservations",
    "ports",
    "notices",
)
"""Keys of parts that read them for themselves: kept as plain data, seconds and bytes (`Fleet.later`)."""


def build(document: Document, here: str, secrets: Mapping[Path, Secret], catalog: Catalog) -> Fleet:
    """The fleet of a filled document that has no errors. In `later` what was a reference is a Secret."""
    owner = document.schedule.owner
    heads = [owner] if isinstance(owner, str) else owner or []
    hosts = document.hosts or {}
    whole = document.model_dump(by_alias=True, exclude_none=True, include=set(LATER))
    for path, secret in secrets.items():
        put(whole, path, secret)
    return Fleet(
        here=HostName(here),
        name=document.fleet.name,
        timezone=document.fleet.timezone,
        head=tuple(HostName(name) for name in heads),
        store=document.store,
        node=_node(document.node),
        hosts=frozen({HostName(name): _host(name, each) for name, each in hosts.items()}),
        engines=frozen({EngineId(name): _engine(name, document, catalog) for name in document.engines}),
        upstreams=frozen(_upstreams(document)),
        routes=frozen({RouteName(name): _route(name, each) for name, each in document.routes.items()}),
        classes=frozen(
            {
                name: RequestClass(name=name, max_wait_s=each.max_wait, rank=each.rank)
                for name, each in document.classes.items()
            }
        ),
        gateway=Gateway(
            max_body=document.gateway.max_body,
            silence_s=document.gateway.silence,
            capture=document.gateway.capture,
            capture_max=document.gateway.capture_max,
            degrade_note=document.gateway.degrade_note,
            cors=tuple(document.gateway.cors),
        ),
        keys=_keys(document),
        resources=resources_of(document, here),
        catalog=catalog,
        uncurated=document.policy.uncurated,
        modes=modes_of(document),
        peers=frozen(_peers(document)),
        ended_kept_s=document.fleet.retention.ended,
        later=frozen({key: deep_frozen(value) for key, value in whole.items()}),
    )


def put(data: object, path: Path, value: object) -> None:
    """Replace what stands at `path` of plain data; nothing where nothing stands there."""
    for step in path[:-1]:
        data = at_step(data, step)
    holder = cast("dict[object, object]", data)
    if at_step(holder, path[-1]) is not None:
        holder[path[-1]] = value


def at_step(data: object, step: str | int) -> object:
    """What stands one key or index below; None where nothing does."""
    if isinstance(data, dict):
        return data.get(step)
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    return None


def deep_frozen(value: object) -> object:
    """Plain data whose mappings and lists cannot be changed."""
    if isinstance(value, Mapping):
        return frozen({key: deep_frozen(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(deep_frozen(each) for each in value)
    return value


def _node(node: NodeKeys) -> Node:
    return Node(
        listen=(node.listen,) if isinstance(node.listen, str) else tuple(node.listen),
        tls=None if node.tls is None else Tls(cert=node.tls.cert, key=node.tls.key),
        state_dir=node.state_dir,
        models_dir=node.models_dir,
        hold_path=node.hold_path,
        hold_mode=int(node.hold_mode, 8),
        hold_writers=tuple(node.hold_writers),
        on_exit=node.on_exit,
        shutdown_s=node.shutdown,
        log_level=node.log.level,
        log_size=node.log.size,
        log_files=node.log.files,
    )


def _host(name: str, keys: HostKeys) -> Host:
    memory = keys.memory
    stop = memory.on_floor.stop if isinstance(memory.on_floor, FloorStop) else ()
    return Host(
        name=HostName(name),
        url=keys.url,
        key=keys.key,
        tls_pin=keys.tls_pin,
        allow_plain_http=keys.allow_plain_http,
        orchestration=keys.orchestration,
        address=keys.address,
        pools=tuple(pools_of(memory).values()),
        on_floor=tuple(EngineId(engine) for engine in stop),
        max_residue=memory.max_residue,
        reader=memory.reader,
        port_range=keys.ports.range,
        links=tuple(
            Link(
                peer=HostName(peer),
                interface=link.interface,
                address=link.address,
                peer_address=link.peer,
                speed=link.speed,
            )
            for peer, link in keys.links.items()
        ),
        groups=frozen({group: _group(group, name, keys) for group in keys.groups}),
    )


def _group(name: str, host: str, keys: HostKeys) -> Group:
    group = keys.groups[name]
    return Group(
        name=name,
        host=HostName(host),
        evicts=tuple(group.evicts),
        idle_revert=None if group.idle_revert is None else EngineId(group.idle_revert),
        idle_s=group.idle,
        min_resident_s=group.min_resident,
        yield_after_s=group.yield_after,
    )


def _engine(name: str, document: Document, catalog: Catalog) -> Engine:
    keys = document.engines[name]
    return Engine(
        id=EngineId(name),
        host=HostName(keys.host or ""),
        driver=DriverKind(keys.driver),
        argv=tuple(keys.argv or ()),
        args=tuple(keys.args),
        files=tuple(keys.files),
        env=frozen(keys.env),
        cwd=keys.cwd,
        model=keys.model or name,
        task=Task(keys.task),
        address=keys.address,
        port=None if keys.port == "auto" else keys.port,
        health=keys.health,
        need=frozen(needs_of(keys)),
        group=keys.group,
        essential=keys.essential,
        resident=keys.resident,
        order=keys.order,
        pinned=keys.pinned,
        ttl_s=keys.ttl,
        start_timeout_s=keys.start_timeout,
        stop_timeout_s=keys.stop_timeout,
        max_concurrent=keys.max_concurrent,
        queue=keys.queue,
        note=keys.note,
        on_disconnect=keys.on_disconnect,
        websockets=keys.websockets,
        entry=reference_of(document, name),
        curation=curation_of(document, catalog, name),
        context=keys.context,
        serving_class=class_of(document, catalog, name),
        enabled=keys.enabled,
        hidden=keys.hidden,
        ui=keys.ui,
        local_only=keys.local_only,
        url=keys.url,
        key=keys.key,
        container=_container(keys),
        compose=_compose(keys),
        unit=keys.unit,
        scope=keys.scope,
        members=tuple(EngineId(member) for member in keys.members or ()),
        of=EngineId(owner) if (owner := owner_of(document, name)) is not None else None,
    )


def _container(keys: EngineKeys) -> Container | None:
    container = keys.container
    if container is None:
        return None
    return Container(
        name=container.name,
        image=container.image,
        network=container.network,
        devices=tuple(container.devices),
        mounts=tuple(container.mounts),
        memory_limit=container.memory_limit,
    )


def _compose(keys: EngineKeys) -> Compose | None:
    compose = keys.compose
    if compose is None:
        return None
    return Compose(
        file=compose.file,
        project=compose.project,
        service=compose.service,
        command=tuple(compose.command),
    )


def _upstreams(document: Document) -> dict[str, Upstream]:
    return {
        name: Upstream(
            name=name,
            url=each.url,
            key=each.key,
            host=each.host or "external",
            local_only=each.local_only,
            on=tuple(HostName(host) for host in each.on),
        )
        for name, each in document.upstreams.items()
    }


def _peers(document: Document) -> dict[HostName, Peer]:
    return {
        HostName(name): Peer(
            name=HostName(name),
            url=each.url,
            key=each.key,
            tls_pin=each.tls_pin,
            allow_plain_http=each.allow_plain_http,
        )
        for name, each in document.sync.peers.items()
    }


def _target(keys: TargetKeys) -> Target:
    if isinstance(keys, UpstreamRef):
        return UpstreamTarget(upstream=keys.upstream, model=keys.model)
    return EngineTarget(engine=EngineId(keys))


def _profile(keys: ProfileKeys) -> Profile:
    if isinstance(keys, EscalationKeys):
        return Escalating(fast=EngineId(keys.fast), large=EngineId(keys.large))
    if isinstance(keys, list):
        return Plain(targets=tuple(_target(each) for each in keys))
    return Plain(targets=(_target(keys),))


def _route(name: str, keys: RouteKeys) -> Route:
    strategy = keys.strategy
    rules = keys.escalate
    return Route(
        name=RouteName(name),
        description=keys.description,
        aliases=tuple(keys.aliases),
        profiles=frozen({profile: _profile(each) for profile, each in keys.profiles.items()}),
        active=keys.active,
        strategy=Strategy(kind="spill", spill=strategy.spill)
        if isinstance(strategy, Spill)
        else Strategy(kind=strategy),
        fallback=keys.fallback,
        request_class=keys.request_class or "chat",
        escalate=None
        if rules is None
        else Escalation(
            token=rules.token,
            when_tools=rules.when_tools,
            intent=tuple(rules.intent),
            lookback=rules.lookback,
        ),
        patches=frozen({target: frozen(patch) for target, patch in keys.patches.items()}),
        on=tuple(HostName(host) for host in keys.on),
        max_body=keys.max_body,
        silence_s=keys.silence,
    )


def _keys(document: Document) -> tuple[Key, ...]:
    return tuple(
        Key(
            name=key.name,
            digest=hashlib.sha256(key.key.value.encode()).digest(),
            scopes=frozenset(key.scope),
            routes=None if key.routes is None else frozenset(key.routes),
            request_class=key.request_class,
            per_minute=key.limits.per_minute,
            concurrent=key.limits.concurrent,
            expires=key.expires,
        )
        for key in document.keys
    )
