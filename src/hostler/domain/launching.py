"""From an engine's config to what a driver runs: ports given out, placeholders filled in (ENG-2).

Decides argv, address, port, URL and model id of each engine of a host. Reads no disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from hostler.domain.engine import Launch
from hostler.domain.errors import LimitReached
from hostler.domain.fleet import DriverKind, Engine, Host
from hostler.domain.values import EngineId

_WITHOUT: Final = (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)
"""Drivers of engines that listen on no port of their own here."""
_PLACE: Final = re.compile(r"\{\{|\}\}|\{(file|model|address|port)\}")


def assign_ports(
    engines: Iterable[Engine], host: Host, kept: Mapping[str, int], others: Collection[int] = ()
) -> Mapping[EngineId, int]:
    """A port for each engine with `port: auto`: the kept one while it is still good, else the next free.

    Host-unique, from the host's range, none of `others`: what the registry or a listener has (PORT-5). A kept
    one stays, as its own engine may listen there. Refuses `limit` when the range is used up.
    """
    every = list(engines)
    low, high = host.port_range
    taken = {engine.port for engine in every if engine.port is not None}
    given: dict[EngineId, int] = {}
    wanting = [engine for engine in every if engine.port is None and engine.driver not in _WITHOUT]
    for engine in wanting:
        port = kept.get(engine.id)
        if port is not None and low <= port <= high and port not in taken:
            given[engine.id] = port
            taken.add(port)
    for engine in wanting:
        if engine.id in given:
            continue
        port = next((it for it in range(low, high + 1) if it not in taken and it not in others), None)
        if port is None:
            raise LimitReached(what=f"ports in {low}-{high} of {host.name}", limit=high - low + 1)
        given[engine.id] = port
        taken.add(port)
    return given


def fill(text: str, *, file: str, model: str, address: str, port: int) -> str:
    """`text` with `{file}`, `{model}`, `{address}` and `{port}` filled in; `{{` and `}}` are braces."""
    values = {"file": file, "model": model, "address": address, "port": str(port)}

    def one(match: re.Match[str]) -> str:
        return values[match[1]] if match[1] else match[0][0]

    return _PLACE.sub(one, text)


def launch_of(
    engine: Engine, host: Host, *, port: int, file: str, directory: str, log_size: int, log_files: int
) -> Launch:
    """The engine's launch. `file` is the path of its first model file, empty without one."""
    address = engine.address or host.address
    model = engine.model or engine.id
    url = engine.url or f"http://{_reachable(address)}:{port}"
    return Launch(
        engine=engine.id,
        driver=engine.driver.value,
        argv=tuple(
            fill(part, file=file, model=model, address=address, port=port)
            for part in (*engine.argv, *engine.args)
        ),
        env=engine.env,
        cwd=engine.cwd or directory,
        address=address,
        port=port,
        url=url,
        health=engine.health,
        model=model,
        directory=directory,
        log_size=log_size,
        log_files=log_files,
        container=engine.container,
        compose=engine.compose,
        unit=engine.unit,
        scope=engine.scope,
    )


def _reachable(address: str) -> str:
    """Where an address that an engine listens on is reached from here: a wildcard by loopback."""
    if address in ("0.0.0.0", ""):  # noqa: S104 - compared, never bound
        return "127.0.0.1"
    if address in ("::", "[::]"):
        return "[::1]"
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
