"""What the catalog says of each engine of a document: its class, its need, its links (CAT-3, CAT-7).

Decides which entry speaks of an engine: its own, or that of the distributed engine that it is a member of.
The merge of classes is `hostler.domain.catalog.effective_class`.
"""

from __future__ import annotations

from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.schema.hosts import HostKeys, LinkKeys
from hostler.domain.catalog import Catalog, Entry, Topology, Variant, effective_class
from hostler.domain.curation import Crossing, Curation, curation, parse_speed
from hostler.domain.values import ServingClass


def owner_of(document: Document, member: str) -> str | None:
    """The distributed engine that `member` belongs to, or None."""
    owners = (name for name, each in document.engines.items() if member in (each.members or ()))
    return next(owners, None)


def reference_of(document: Document, name: str) -> str | None:
    """The entry that speaks of an engine, as ID#VARIANT; None where none does."""
    own = document.engines[name].entry
    owner = owner_of(document, name)
    return own if own is not None or owner is None else document.engines[owner].entry


def class_of(document: Document, catalog: Catalog, name: str) -> ServingClass:
    """The class of an engine: the maximum of all that speaks of it (CAT-3).

    Its own `serving_class`, its entry and variant, and each engine that it is a member of. A distributed one
    of which no entry speaks is windowed (CAT-7).
    """
    owners = (owner for owner, each in document.engines.items() if name in (each.members or ()))
    above = (_alone(document, catalog, owner) for owner in owners)
    return effective_class(_alone(document, catalog, name), *above)


def _alone(document: Document, catalog: Catalog, name: str) -> ServingClass:
    keys = document.engines[name]
    declared = None if keys.serving_class is None else ServingClass(keys.serving_class)
    found = None if keys.entry is None else catalog.find(keys.entry)
    if found is not None:
        entry, variant = found
        return effective_class(declared, entry.class_of(variant))
    return effective_class(declared, ServingClass.WINDOWED if keys.driver == "distributed" else None)


def curation_of(document: Document, catalog: Catalog, name: str) -> Curation | None:
    """What its entry means for an engine; None where none speaks of it, or nobody knows it."""
    reference = reference_of(document, name)
    found = None if reference is None or not catalog.known else catalog.find(reference)
    if found is None:
        return None
    entry, variant = found
    keys = document.engines[name]
    host = (document.hosts or {}).get(keys.host or "")
    made = curation(
        entry,
        variant,
        role=_role(document, name, entry.topology_of(variant)),
        crossings=_crossings(document, name, entry, variant),
    )
    if host is not None and host.memory.pools():
        # A figure of one size says nothing of a box whose memory is several pools.
        return Curation(
            entry=made.entry,
            proven=made.proven,
            context_most=made.context_most,
            build=made.build,
            crossings=made.crossings,
        )
    return made


def _role(document: Document, name: str, shape: Topology) -> str:
    """The role of an engine in its shape: that of its place among the members."""
    owner = owner_of(document, name)
    members = document.engines[owner].members or [] if owner is not None else [name]
    place = members.index(name)
    return shape.roles[place] if place < len(shape.roles) else ""


def _crossings(document: Document, name: str, entry: Entry, variant: Variant) -> tuple[Crossing, ...] | None:
    """The links that an engine of that shape goes over; None where the config has not enough of them."""
    shape, keys = entry.topology_of(variant), document.engines[name]
    host = (document.hosts or {}).get(keys.host or "")
    if shape.boxes == 1 or host is None or keys.driver == "distributed":
        return ()
    owner = owner_of(document, name)
    if owner is None:
        links = list(host.links.items())[: shape.boxes - 1]
        if len(links) < shape.boxes - 1:
            return None
        return tuple(_crossing(peer, link, shape, link.peer, shape.port) for peer, link in links)
    return _to_members(document, name, document.engines[owner].members or [], host, shape)


def _to_members(
    document: Document, name: str, members: list[str], host: HostKeys, shape: Topology
) -> tuple[Crossing, ...] | None:
    """Over the link to each host with another member; those that are started before it listen already."""
    found: list[Crossing] = []
    for index, member in enumerate(members):
        other = document.engines.get(member, EngineKeys())
        if member == name or other.host is None or other.host == document.engines[name].host:
            continue
        link = host.links.get(other.host)
        if link is None:
            return None
        port = other.port if isinstance(other.port, int) else shape.port
        listens = port if index < members.index(name) else None
        found.append(_crossing(other.host, link, shape, other.address or link.peer, listens))
    return tuple(found)


def _crossing(peer: str, link: LinkKeys, shape: Topology, address: str, port: int | None) -> Crossing:
    speeds = [shape.speed, None if link.speed is None else parse_speed(link.speed)]
    known = [speed for speed in speeds if speed is not None]
    return Crossing(
        to=peer,
        interface=link.interface,
        address=link.address,
        peer=address,
        speed=max(known, default=None),
        port=port,
    )
