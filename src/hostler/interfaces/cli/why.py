"""`hostler why`: why an engine would start or not, why a resource is to be had or not (GATE-2, LEASE-23).

Decides which of the two a name means: whatever is called so. Where both are, both are told.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.errors import (
    DaemonUnreachable,
    EngineNotFound,
    NotFound,
    Refusal,
    ResourceNotFound,
)
from hostler.domain.values import ServingClass, shorten
from hostler.interfaces.api.shapes import Why
from hostler.interfaces.cli.daemon import answer, at, connected, to_head
from hostler.interfaces.cli.engines import PATH as ENGINES
from hostler.interfaces.cli.failure import LONGEST
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import parse_moment, say, say_json, when, with_local_times
from hostler.interfaces.cli.schedule_text import resource_line
from hostler.interfaces.cli.tables import say_table
from hostler.wire.schedule import WhyResource

RESOURCES: Final = "/v1/hostler/resources"
NOWHERE: Final = (NotFound, ResourceNotFound)


def why(
    name: Annotated[str, Parameter(help="An engine or a resource.")],
    /,
    *,
    override: Annotated[
        ServingClass | None, Parameter(help="As which class the engine would be started.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Print each check of an engine's start, each condition of a resource's grant. Changes nothing."""
    engine, no_engine = _asked(lambda: _engine(name, override))
    resource, no_resource = (None, None) if override is not None else _asked(lambda: _resource(name))
    if engine is None and resource is None:
        raise _neither(name, no_engine, no_resource)
    if json:
        both = engine is not None and resource is not None
        say_json({"engine": engine, "resource": resource} if both else engine or resource)
        return 0
    if engine is not None:
        _say_engine(name, answer(engine, Why))
    if engine is not None and resource is not None:
        say()
    if resource is not None:
        _say_resource(answer(resource, WhyResource))
    return 0


def _engine(name: str, override: ServingClass | None) -> object:
    with connected() as client:
        return client.get(at(ENGINES, name, "why"), {} if override is None else {"override": override.value})


def _resource(name: str) -> object:
    with to_head() as client:
        return client.get(at(RESOURCES, name, "why"))


def _asked(ask: Callable[[], object]) -> tuple[object | None, Refusal | None]:
    """The answer, or why there is none."""
    try:
        return ask(), None
    except Refusal as refusal:
        return None, refusal


def _neither(name: str, no_engine: Refusal | None, no_resource: Refusal | None) -> Refusal:
    """What to tell when nothing is told of the name: a failure of one side before its not being there."""
    if isinstance(no_engine, DaemonUnreachable) and os.environ.get("HOSTLER_HEAD_URL") and no_resource:
        return no_resource
    if no_engine is not None and not isinstance(no_engine, EngineNotFound):
        return no_engine
    if isinstance(no_engine, EngineNotFound) and no_engine.elsewhere and isinstance(no_resource, NOWHERE):
        return no_engine
    if no_engine is not None and (no_resource is None or isinstance(no_resource, NotFound)):
        return no_engine
    if isinstance(no_resource, ResourceNotFound):
        hint = (it.advice() for it in (no_engine, no_resource) if it is not None)
        return NotFound(what="engine or resource", name=name, nearest=" ".join(filter(None, hint)))
    return no_resource or NotFound(what="engine or resource", name=name)


def _say_engine(name: str, shown: Why) -> None:
    verdict = "would start now" if shown.allowed else "would not start now"
    say(f"{shorten(name)} is {shown.state} and {verdict}.")
    say()
    checks = [(it.name, it.result.value, with_local_times(it.text)) for it in shown.checks]
    say_table(("CHECK", "RESULT", "WHY"), checks, empty="There are no checks.", longest=LONGEST)


def _say_resource(shown: WhyResource) -> None:
    missing = [it for it in shown.conditions if not it.met]
    verdict = "could be had now" if not missing else "cannot be had now"
    now = parse_moment(shown.at)
    line = resource_line(shown.resource, shown.at)
    if missing and shown.resource.holder is None:
        # Nobody has it, and that is not what stands in the way.
        line = with_local_times(missing[0].text, now)
    elif not missing and shown.booked_at is not None:
        line += f", until a booking begins {when(shown.booked_at, shown.at)}"
    say(f"{shorten(shown.resource.name)} {verdict}: {line}.")
    if missing and shown.earliest_at not in (None, shown.resource.until):
        say(f"earliest start {when(shown.earliest_at, shown.at)}")
    say()
    rows = [
        (it.name, "met" if it.met else "not met", with_local_times(it.text, now)) for it in shown.conditions
    ]
    say_table(("CONDITION", "RESULT", "WHY"), rows, empty="There are no conditions.", longest=LONGEST)
