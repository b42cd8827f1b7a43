"""Keys of `keys`, `sync` and `notices`: who may do what, other fleets, and who is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from hostler.adapters.config.schema.base import Line, Moment, Name, Pin, SecretText, Strict, matching
from hostler.adapters.config.schema.routes import RouteText

Scope = Literal["infer", "board", "schedule:read", "schedule:write", "engines", "operator", "admin", "node"]
EventClass = Annotated[
    str, PlainValidator(matching(r"[a-z][a-z0-9_]{0,62}", "an event class such as hold_seen"))
]


class Limits(Strict):
    """Bounds of a key. Read and kept, not enforced yet."""

    per_minute: Annotated[int, Field(ge=1)] | None = None
    """Requests in any minute. Not enforced yet."""
    concurrent: Annotated[int, Field(ge=1)] | None = None
    """Requests at once. Not enforced yet."""


class KeyKeys(Strict):
    """A key that clients send; its hash alone is kept."""

    name: Name
    """Shown in logs and tables in the key's place."""
    key: SecretText
    """The key."""
    scope: Annotated[list[Scope], Field(min_length=1)]
    """What it may do."""
    routes: list[RouteText] | None = None
    """Routes that it may ask for; default: all."""
    request_class: Annotated[Name | None, Field(alias="class")] = None
    """Class of its requests; x-hostler-class comes first."""
    limits: Limits = Limits()
    """Bounds."""
    expires: Moment | None = None
    """When it stops being valid, with its zone, quoted."""


class Peer(Strict):
    """A node with a config of its own that exchanges routable rows with us."""

    url: Line
    """Its address."""
    key: SecretText
    """The key of this pair: the same on both sides, and good for the calls of `hostler sync` alone."""
    tls_pin: Pin | None = None
    """sha256/ and the base64 of the SHA-256 of its certificate's public key."""
    allow_plain_http: bool = False
    """Whether http:// beyond loopback is accepted for it."""


class Sync(Strict):
    """Other fleets."""

    peers: dict[Name, Peer] = Field(default_factory=dict)
    """Each by the name that its own config has for its host."""


class EventNotice(Strict):
    """How one class of events is told."""

    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    """How urgent."""
    to: list[Name] | None = None
    """Channels; default: all."""


class Notices(Strict):
    """Who is told of what."""

    channels: dict[Name, Line] = Field(default_factory=dict)
    """An apprise URL, `ntfy:` or `webhook:` and an address; one that holds a secret is ${file:…}."""
    link: Line | None = None
    """Where links in notices lead."""
    events: dict[EventClass, EventNotice] = Field(default_factory=dict)
    """Priority and channels by class of events; the others are normal, to all."""
