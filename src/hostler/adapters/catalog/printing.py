"""An engine of the catalog as a config writes it (CAT-11): `hostler engine from-catalog`.

Decides names, addresses and what is left to the catalog: a measured peak is not copied, for the config would
then stand over a better one of later. Writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

from ruamel.yaml import YAML

from hostler.adapters.config.schema.base import size_text
from hostler.domain.catalog import ALONE, Entry, Topology, Variant, start_affordance
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import Fleet, Host
from hostler.domain.values import HostName

_CONTEXT: Final = "{context}"
_WORKERS: Final = "{workers}"
_UNNAMED: Final = re.compile(r"[^a-z0-9._-]")

Document = dict[str, object]


def document_of(entry: Entry, variant: Variant, fleet: Fleet | None, hosts: Sequence[str]) -> Document:
    """The `engines:` of that variant on those hosts, one per role. Refuses `invalid_request`."""
    shape = entry.topology_of(variant)
    if not entry.launch.argv:
        raise InvalidRequest(what=f"{entry.id} does not say how it is started.", expected="launch.argv")
    if len(hosts) != shape.boxes:
        roles = ", ".join(role or "its process" for role in shape.roles)
        raise InvalidRequest(
            what=f"{entry.id}#{variant.id} runs on {shape.boxes} host(s), and {len(hosts)} are named.",
            expected=f"Name one --on HOST for each of: {roles}.",
        )
    name = _name(entry, variant, fleet)
    if shape.boxes == 1:
        return {"engines": {name: _engine(entry, variant, fleet, hosts[0])}}
    return {"engines": dict(_members(entry, variant, fleet, hosts, name))}


def _name(entry: Entry, variant: Variant, fleet: Fleet | None) -> str:
    """The entry's id, with the variant's where the config has an engine of that name."""
    taken = () if fleet is None else fleet.engines
    if entry.id not in taken:
        return entry.id
    return _UNNAMED.sub("-", f"{entry.id}-{variant.id}".lower())[:63]


def _engine(entry: Entry, variant: Variant, fleet: Fleet | None, host: str) -> Document:
    keys: Document = {}
    if fleet is not None and len(fleet.hosts) > 1:
        keys["host"] = host
    argv = (*entry.launch.argv.get(ALONE, ()), *variant.flags)
    keys["argv"] = [word.replace(_CONTEXT, str(variant.context)) for word in argv]
    keys["files"] = [file.name for file in entry.quants[variant.quant].files]
    if entry.task != "chat":
        keys["task"] = entry.task
    if entry.launch.health != "/health":
        keys["health"] = entry.launch.health
    least = entry.quants[variant.quant].min_ram
    if not entry.gates_of(variant).peak and least is not None:
        keys["memory"] = size_text(least)
    keys["entry"] = f"{entry.id}#{variant.id}"
    if variant.context is not None:
        keys["context"] = variant.context
    return keys


def _members(
    entry: Entry, variant: Variant, fleet: Fleet | None, hosts: Sequence[str], name: str
) -> Iterator[tuple[str, Document]]:
    """A member per role on its host, the workers listening on the link, then the engine that they make."""
    shape, last = entry.topology_of(variant), hosts[-1]
    places = [_address(fleet, host, last) for host in hosts[:-1]]
    workers = ",".join(f"{address}:{_port(entry, shape)}" for address in places)
    names = [f"{name}-{role}" for role in shape.roles]
    for index, (role, host) in enumerate(zip(shape.roles, hosts, strict=True)):
        main = index == len(hosts) - 1
        argv = (*entry.launch.argv.get(role, ()), *(variant.flags if main else ()))
        words = [it.replace(_CONTEXT, str(variant.context)).replace(_WORKERS, workers) for it in argv]
        keys: Document = {"host": host, "argv": words}
        if main:
            keys["files"] = [file.name for file in entry.quants[variant.quant].files]
            keys["model"] = name
        else:
            keys |= {"address": places[index], "port": _port(entry, shape), "health": "tcp"}
        yield names[index], keys
    yield name, {"driver": "distributed", "members": names, "entry": f"{entry.id}#{variant.id}"}


def _port(entry: Entry, shape: Topology) -> int:
    if shape.port is None:
        raise InvalidRequest(
            what=f"{entry.id} does not say where its workers listen.", expected="topology.port"
        )
    return shape.port


def _address(fleet: Fleet | None, host: str, to: str) -> str:
    """The address of `host` on its link to `to`."""
    known: Host | None = None if fleet is None else fleet.hosts.get(HostName(host))
    link = next((it for it in known.links if it.peer == to), None) if known is not None else None
    if link is None:
        raise InvalidRequest(
            what=f"{host} has no link to {to}.", expected=f"Describe it: hosts.{host}.links.{to}."
        )
    return link.address


def as_text(document: Document, entry: Entry, variant: Variant) -> str:
    """The document as YAML to paste, what a person should know of it above."""
    yaml = YAML(pure=True)
    yaml.default_flow_style = None  # A list of words stands on one line.
    yaml.width = 4096
    stream = StringIO()
    yaml.dump(document, stream)
    return "".join(f"# {line}\n" for line in _remarks(entry, variant)) + stream.getvalue()


def _remarks(entry: Entry, variant: Variant) -> Iterator[str]:
    found = entry.class_of(variant)
    instead = start_affordance(found).text
    yield f"{entry.id}#{variant.id}: {found}{f' - {instead}' if instead else ''}"
    if not variant.proven:
        yield "unproven: no identity check with a quality run is known of it"
    if entry.gates_of(variant).peak:
        yield "memory: the catalog's measured peak counts, unless you say more"
    elif entry.quants[variant.quant].min_ram is None or entry.topology_of(variant).boxes > 1:
        yield "memory is not known: say it for each process, or it is measured when somebody asks for it"
    else:
        yield "memory is the min_ram of its quant, not a measurement"
