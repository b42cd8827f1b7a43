"""The ports of hostler's own config: engines, also those with `port: auto`, and listeners (PORT-2, PORT-5).

Decides where each stands in the config. A port that was given to an engine is kept in the state of its host
only: of other hosts the range is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hostler.adapters.config.tree import START, Node, locate
from hostler.adapters.config.tree import Path as Place
from hostler.adapters.config.yaml import Unreadable, compose, decode
from hostler.adapters.scan.args import address_of
from hostler.domain.fleet import DriverKind, Engine, Fleet
from hostler.domain.port_verdicts import OURS
from hostler.domain.ports import UNSAID, Certainty, Finding
from hostler.services.ports import group_name

ENGINE: Final = f"{OURS}engine"
LISTENER: Final = f"{OURS}listen"
_GIVING: Final = (DriverKind.PROCESS, DriverKind.CONTAINER)
"""Drivers whose engines get a port from the host's range."""


def own(fleet: Fleet, config: Path, kept: Mapping[str, object]) -> tuple[Finding, ...]:
    """Every port that the config gives. `kept` are those given to engines of this host."""
    root = _tree(config)
    return (*_engines(fleet, config, root, kept), *_listeners(fleet, config, root))


def _tree(config: Path) -> Node | None:
    """The config's tree, for its lines; it was read and checked before."""
    try:
        return compose(decode(config.read_bytes()))[0]
    except (OSError, Unreadable):
        return None


def _line(root: Node | None, place: Place) -> int:
    return (START if root is None else locate(root, place, at_key=True)).line


def _engines(fleet: Fleet, config: Path, root: Node | None, kept: Mapping[str, object]) -> Iterator[Finding]:
    for engine in fleet.engines.values():
        if engine.driver in (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED):
            continue
        port, certainty = engine.port, Certainty.LITERAL
        given = kept.get(engine.id) if engine.host == fleet.here else None
        if port is None and isinstance(given, int):
            port, certainty = given, Certainty.VARIABLE
        if port is None and engine.driver not in _GIVING:
            continue
        yield Finding(
            port=port,
            file=str(config),
            line=_line(root, ("engines", str(engine.id))),
            form=ENGINE,
            host=str(engine.host),
            address=_bound(engine, fleet),
            certainty=certainty if port is not None else Certainty.VARIABLE,
            thing=f"{OURS}engine {engine.id}",
            owner=str(engine.id),
            names=_names(engine),
            group=group_name(engine),
            among=None if port is not None else fleet.hosts[engine.host].port_range,
            note="port: auto" if engine.port is None else "",
        )


def _names(engine: Engine) -> tuple[str, ...]:
    names = (
        engine.container.name if engine.container is not None else None,
        engine.compose.service if engine.compose is not None else None,
        engine.unit,
        engine.model,
    )
    return tuple(name for name in names if name and name != engine.id)


def _bound(engine: Engine, fleet: Fleet) -> str:
    return address_of(engine.address or fleet.hosts[engine.host].address) or UNSAID


def _listeners(fleet: Fleet, config: Path, root: Node | None) -> Iterator[Finding]:
    """Where the daemon of this host listens; of others where they are reached."""
    for listen in fleet.node.listen:
        address, _, port = listen.rpartition(":")
        if port != "0":
            yield _daemon(str(fleet.here), address, int(port), f"{config}", _line(root, ("node", "listen")))
    for name, host in fleet.hosts.items():
        port = (host.url or "").partition("://")[2].partition("/")[0].rpartition(":")[2]
        if name != fleet.here and port.isdigit():
            line = _line(root, ("hosts", str(name), "url"))
            yield _daemon(str(name), "", int(port), f"{config}", line)


def _daemon(host: str, address: str, port: int, file: str, line: int) -> Finding:
    return Finding(
        port=port,
        file=file,
        line=line,
        form=LISTENER,
        host=host,
        address=(address_of(address) or UNSAID) if address else UNSAID,
        thing=f"{OURS}daemon",
        owner="the daemon",
    )
