"""The whole config, and its JSON Schema.

Decides which keys there are. That names lead somewhere is checked by the `check_*` modules.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hostler.adapters.config.schema.access import KeyKeys, Notices, Sync
from hostler.adapters.config.schema.base import AbsolutePath, Line, Name, Strict, kind_of
from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.schema.hosts import HostKeys
from hostler.adapters.config.schema.modes import ModeKeys, Policy
from hostler.adapters.config.schema.node import FleetKeys, NodeKeys, Schedule
from hostler.adapters.config.schema.ports import PortKeys
from hostler.adapters.config.schema.reservations import Reservations
from hostler.adapters.config.schema.routes import ClassKeys, GatewayKeys, RouteKeys, RouteText, UpstreamKeys

VERSION = 1


def _version(value: object) -> int:
    if isinstance(value, bool) or value != VERSION or not isinstance(value, int):
        raise ValueError(f"expected {VERSION}, not {kind_of(value)}")
    return value


class Document(Strict):
    """hostler.yaml: the boxes, engines and routes of a fleet, and what can be done with them."""

    version: Annotated[Literal[1], PlainValidator(_version), WithJsonSchema({"const": VERSION})]
    """Format of this file; a newer one is refused."""
    fleet: FleetKeys = FleetKeys()
    """The fleet as a whole."""
    schedule: Schedule = Schedule()
    """Who owns the schedule."""
    store: Line = "sqlite"
    """sqlite, or postgresql://…, of the schedule only; with a password it is ${env:…} or ${file:…}."""
    node: NodeKeys = NodeKeys()
    """This daemon; hosts.<name>.node wins."""
    hosts: dict[Name, HostKeys] | None = None
    """The boxes, by name; default: this machine is the host `local`."""
    engines: dict[Name, EngineKeys] = Field(default_factory=dict)
    """Servable model processes, by name."""
    upstreams: dict[Name, UpstreamKeys] = Field(default_factory=dict)
    """Targets that are not on our boxes, by name."""
    gateway: GatewayKeys = GatewayKeys()
    """Bounds and texts of the inference gateway."""
    classes: dict[Name, ClassKeys] = Field(default_factory=dict)
    """Classes of requests; interactive, chat and batch are there unless given anew."""
    routes: dict[RouteText, RouteKeys] = Field(default_factory=dict)
    """Model names that clients ask for."""
    reservations: Reservations = Reservations()
    """What can be leased."""
    modes: dict[Name, ModeKeys] = Field(default_factory=dict)
    """Named states of the fleet."""
    catalog: AbsolutePath | None = None
    """A directory of catalog entries on top of those shipped."""
    policy: Policy = Policy()
    """What the catalog is asked for."""
    ports: PortKeys = PortKeys()
    """The registry of ports."""
    sync: Sync = Sync()
    """Other fleets."""
    keys: list[KeyKeys] = Field(default_factory=list)
    """Who may do what; keys made by `hostler keys create` are kept in the state directory."""
    notices: Notices = Notices()
    """Who is told of what."""


class PlainSchema(GenerateJsonSchema):
    """Without null: a key without a value is an error, so an optional key is just absent."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        # A mapping's default is that of its keys, which say it themselves.
        if found.get("default") is None or isinstance(found["default"], dict):
            found.pop("default", None)
        return found


def json_schema() -> dict[str, object]:
    """The JSON Schema of hostler.yaml, draft 2020-12."""
    schema = Document.model_json_schema(schema_generator=PlainSchema, mode="validation")
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "hostler.yaml"}


def schema_text() -> str:
    """The JSON Schema as it is shipped: stable, two blanks of indent, one newline at its end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
