"""Makes the modes of the fleet from a document without errors (MODE-1). Decides nothing: it copies."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.modes import ModeKeys
from hostler.adapters.config.schema.modes import Tool as ToolKeys
from hostler.adapters.config.schema.modes import ToolCommand as CommandKeys
from hostler.domain.fleet import frozen
from hostler.domain.mode import Mode, QuietHours, Tool, ToolCommand, VerifyCommand
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass


def modes_of(document: Document) -> Mapping[str, Mode]:
    """Every mode of a filled document without errors, in the config's order."""
    return frozen({name: _mode(document, name, keys) for name, keys in document.modes.items()})


def _mode(document: Document, name: str, keys: ModeKeys) -> Mode:
    return Mode(
        name=name,
        standing=keys.standing,
        hosts=frozen(
            {HostName(host): tuple(EngineId(it) for it in engines) for host, engines in keys.hosts.items()}
        ),
        routes=frozen({_route(document, route): profile for route, profile in keys.routes.items()}),
        resource=keys.resource,
        serving_class=ServingClass(keys.serving_class or ServingClass.RESIDENT),
        cap_s=keys.cap.default,
        cap_max_s=keys.cap.max,
        drain_before_s=keys.drain_before,
        available=frozen({HostName(host): size for host, size in keys.gates.available.items()}),
        max_residue=keys.gates.max_residue,
        verify=tuple(
            VerifyCommand(host=HostName(it.on), argv=tuple(it.exec), timeout_s=it.timeout)
            for it in keys.verify
        ),
        not_between=tuple(map(_hours, keys.not_between)),
        tool=None if keys.tool is None else _tool(keys.tool),
    )


def _route(document: Document, name: str) -> RouteName:
    """The route of that name or alias."""
    owner = next((it for it, keys in document.routes.items() if name in keys.aliases), name)
    return RouteName(name if name in document.routes else owner)


def _hours(text: str) -> QuietHours:
    start, _, end = text.partition("-")
    return QuietHours(start=_minutes(start), end=_minutes(end))


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _tool(keys: ToolKeys) -> Tool:
    return Tool(open=_command(keys.open), close=_command(keys.close), status=_command(keys.status))


def _command(keys: CommandKeys) -> ToolCommand:
    return ToolCommand(argv=tuple(keys.exec), timeout_s=keys.timeout)
