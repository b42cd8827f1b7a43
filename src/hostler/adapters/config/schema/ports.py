"""Keys of `ports`: the registry of ports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hostler.adapters.config.schema.base import AbsolutePath, IpAddress, Line, Name, Port, Ports, Size, Strict


class PortRow(Strict):
    """One allocation."""

    host: Name
    """Whose port it is: a number without a host is no allocation."""
    address: IpAddress | None = None
    """Address that it is bound to; default: all."""
    port: Ports
    """A port, or a range such as 8031-8033."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Protocol."""
    service: Line
    """What has it."""
    status: Literal["production", "reserved", "transient", "external", "freed", "avoid"] = "production"
    """What kind of allocation it is."""
    by: Literal["compose", "script", "hostler", "system"] | None = None
    """Who starts it."""
    needs: Size | None = None
    """Memory that it takes on its host when it runs."""
    note: str = ""
    """For people."""


class PortTable(Strict):
    """A Markdown table that is read as well."""

    file: Line
    """The document."""
    host: Name | None = None
    """Whose ports its bare numbers are."""


class AllowedPort(Strict):
    """A shared port that is meant: must match exactly, an error once stale."""

    host: Name
    """The host."""
    port: Port
    """The port."""
    services: Annotated[list[Line], Field(min_length=1)]
    """Exactly those that share it."""
    why: Line
    """Why that is right."""


class Scan(Strict):
    """Where ports are looked for."""

    dirs: list[AbsolutePath] = Field(default_factory=list)
    """Directories with compose files, scripts and units."""
    hosts: dict[Name, list[Line]] = Field(default_factory=dict)
    """Path patterns of files that run on a host, by host."""
    allow: list[AllowedPort] = Field(default_factory=list)
    """Shared ports that are meant."""


class PortKeys(Strict):
    """The registry of ports."""

    rows: list[PortRow] = Field(default_factory=list)
    """Allocations."""
    file: Line | None = None
    """A file with rows, instead of `rows`."""
    tables: list[PortTable] = Field(default_factory=list)
    """Markdown tables that are read as well."""
    scan: Scan = Scan()
    """Where ports are looked for."""
