"""Keys of `reservations`: what can be leased, and what happens then."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from hostler.adapters.config.schema.base import Line, Name, Strict, Time
from hostler.adapters.config.schema.engines import Argument
from hostler.adapters.config.schema.routes import RouteText

VERBS = ("hold", "route", "suspend", "start", "stop", "exec", "webhook")
Argv = Annotated[list[Argument], Field(min_length=1)]


class ResourceTtl(Strict):
    """How long a lease lasts."""

    default: Time = 3600.0
    """When the holder does not say."""
    max: Time = 12 * 3600.0
    """At most, renewals included."""
    warn: list[Time] = Field(default=[900.0, 300.0])
    """How long before its end the holder is told."""


class ResourceQueue(Strict):
    """Who waits, and how long."""

    max: Annotated[int, Field(ge=0, le=10_000)] = 20
    """Places."""
    place: Time = 120.0
    """A place that is not renewed for this long lapses."""
    claim: Time = 900.0
    """How long an offer waits for a detached waiter."""


class HoldAction(Strict):
    """Write the host's hold record in the lease's name."""

    hold: Name
    """The host."""
    allow: list[Name] = Field(default_factory=list)
    """Engines that may start anyway."""


class RouteAction(Strict):
    """Switch a route to a profile."""

    route: RouteText
    """The route."""
    to: Name
    """Its profile meanwhile."""


class SuspendAction(Strict):
    """Drain an engine, stop it, keep it stopped."""

    suspend: Name
    """The engine."""
    memory_back: bool = False
    """Whether its memory must be seen back before the lease is active."""


class StartAction(Strict):
    """Start an engine."""

    start: Name
    """The engine."""


class StopAction(Strict):
    """Drain and stop an engine."""

    stop: Name
    """The engine."""
    memory_back: bool = False
    """Whether its memory must be seen back before the lease is active."""


class ExecAction(Strict):
    """Run a command, and another to undo it."""

    exec: Argv
    """Program and arguments; never a shell string."""
    undo: Argv | None = None
    """Undoes it."""
    check: Argv | None = None
    """Exit 0: already so, nothing is done or undone. Without it both must be repeatable."""
    on: Name | None = None
    """The host that runs it; default: the resource's only host."""
    timeout: Time = 60.0
    """How long each may take."""


class WebhookAction(Strict):
    """Call a URL, and another to undo it."""

    webhook: Line
    """Called when leased."""
    undo: Line | None = None
    """Called at the end."""
    timeout: Time = 10.0
    """How long each may take."""


def _verb(value: object) -> str:
    """The first verb of an action; one that has none gets a tag that no form has."""
    if isinstance(value, dict):
        return next((f"={verb}" for verb in VERBS if verb in value), "=none")
    return next((f"={verb}" for verb in VERBS if hasattr(value, verb)), "=none")


Action = Annotated[
    Annotated[HoldAction, Tag("=hold")]
    | Annotated[RouteAction, Tag("=route")]
    | Annotated[SuspendAction, Tag("=suspend")]
    | Annotated[StartAction, Tag("=start")]
    | Annotated[StopAction, Tag("=stop")]
    | Annotated[ExecAction, Tag("=exec")]
    | Annotated[WebhookAction, Tag("=webhook")],
    Discriminator(_verb),
]


class ResourceKeys(Strict):
    """Something that one party at a time can lease."""

    title: Line | None = None
    """Shown to people."""
    hosts: list[Name] = Field(default_factory=list)
    """Hosts that it covers; default: the only host."""
    ttl: ResourceTtl = ResourceTtl()
    """How long a lease lasts."""
    indefinite: bool = False
    """Whether it may be taken without an end."""
    drain: Time = 300.0
    """How long an engine may finish its requests before the activation fails."""
    queue: ResourceQueue = ResourceQueue()
    """Who waits, and how long."""
    contains: list[Name] = Field(default_factory=list)
    """Resources that are leased with it, all or nothing, and never at once with it otherwise."""
    actions: list[Action] = Field(default_factory=list)
    """What leasing it does, one verb each, in an order of its own; none: a fair, timed lock."""


class Reservations(Strict):
    """What can be leased."""

    resources: dict[Name, ResourceKeys] = Field(default_factory=dict)
    """By name."""
