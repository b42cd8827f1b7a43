"""Keys of `modes` and `policy`: named states of the fleet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hostler.adapters.config.schema.base import Name, QuietHours, Size, Strict, Time
from hostler.adapters.config.schema.engines import Class
from hostler.adapters.config.schema.reservations import Argv
from hostler.adapters.config.schema.routes import RouteText


class Cap(Strict):
    """How long a window of this mode may be."""

    default: Time = 3600.0
    """When the operator does not say."""
    max: Time = 8 * 3600.0
    """At most."""


class ModeGates(Strict):
    """What must be seen after eviction, before anything of the mode starts."""

    available: dict[Name, Size] = Field(default_factory=dict)
    """Memory available, by host."""
    max_residue: Size = 2 << 30
    """Memory that evicted engines may have left behind."""


class Verify(Strict):
    """A command that must succeed before the window closes."""

    on: Name
    """The host that runs it."""
    exec: Argv
    """Program and arguments; exit 0 is success."""
    timeout: Time = 60.0
    """How long it may take."""


class ToolCommand(Strict):
    """One command of a window script."""

    exec: Argv
    """Program and arguments."""
    timeout: Time = 60.0
    """How long it may take."""


class Tool(Strict):
    """An existing window script that does the evicting and restoring."""

    open: ToolCommand
    """Evicts."""
    close: ToolCommand
    """Restores."""
    status: ToolCommand
    """Says where it stands."""


class ModeKeys(Strict):
    """A named state of the fleet: which engines run where, and each route's profile."""

    standing: bool = False
    """Whether this is the mode that the fleet is in when no window is open; one is."""
    resource: Name | None = None
    """What a window of this mode leases."""
    serving_class: Class | None = None
    """The most dangerous class that it holds; opening a window must name it. Default resident."""
    hosts: dict[Name, list[Name]]
    """Per host, exactly which engines run."""
    routes: dict[RouteText, Name] = Field(default_factory=dict)
    """Profile of each route in this mode."""
    cap: Cap = Cap()
    """How long a window may be."""
    drain_before: Time = 600.0
    """How long before the cap no new requests are taken."""
    gates: ModeGates = ModeGates()
    """What must be seen after eviction."""
    verify: list[Verify] = Field(default_factory=list)
    """Commands that must succeed before the window closes."""
    not_between: list[QuietHours] = Field(default_factory=list)
    """Hours of the day in which no window is open, in the fleet's zone; --force opens one all the same."""
    tool: Tool | None = None
    """An existing window script instead of the built-in steps."""


class Policy(Strict):
    """What the catalog is asked for."""

    uncurated: Literal["allow", "refuse"] = "allow"
    """Whether an engine without a catalog entry may start."""
