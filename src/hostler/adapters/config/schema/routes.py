"""Keys of `upstreams`, `gateway`, `classes` and `routes`: the inference gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from hostler.adapters.config.schema.base import (
    Duration,
    Expression,
    Line,
    Name,
    SecretText,
    Size,
    Strict,
    Time,
    matching,
    need_text,
)
from hostler.domain.fleet import Gateway

MAX_ROUTE_BYTES = 256


def _route_name(value: object) -> str:
    text = need_text(value, "text")
    if not text or len(text.encode()) > MAX_ROUTE_BYTES:
        raise ValueError(f"expected 1 to {MAX_ROUTE_BYTES} bytes of text")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in text):
        raise ValueError("expected text without control characters")
    parts = text.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/").split("/")
    if "." in parts or ".." in parts:
        raise ValueError("expected a name without . or .. as a part of a path")
    return text


RouteText = Annotated[
    str, PlainValidator(_route_name), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 256})
]
Origin = Annotated[
    str,
    PlainValidator(matching(r"https?://[a-z0-9.-]+(:[0-9]+)?", "an origin such as https://app.example.net")),
]
Token = Annotated[str, PlainValidator(matching(r"\S{1,64}", "a word of up to 64 characters without blanks"))]


class UpstreamKeys(Strict):
    """A target that is not on our boxes."""

    url: Line
    """Base URL, as in https://llm.example.net/v1."""
    key: SecretText | None = None
    """Sent as the bearer key; the caller's own is never passed on."""
    host: Name | None = None
    """A host of the fleet, or `external`; named, never guessed: needed unless the URL is loopback."""
    local_only: bool = False
    """Whether it stays out of what nodes tell each other."""
    on: list[Name] = Field(default_factory=list)
    """Nodes that offer it; default: all."""


class GatewayKeys(Strict):
    """Bounds and texts of the inference gateway."""

    max_body: Size = 32 << 20
    """Largest request body; a route may say otherwise."""
    silence: Time = 600.0
    """No byte from the engine for this long ends a stream; a route may say otherwise."""
    capture: bool = False
    """Whether prompts and answers are kept, bounded, and shown to be."""
    capture_max: Size = 256 << 20
    """Most that capture keeps."""
    degrade_note: Line = Gateway().degrade_note
    """Text of the note of a degraded answer; {cause} is filled in."""
    cors: list[Origin] = Field(default_factory=list)
    """Origins of browser apps that may call inference."""


class ClassKeys(Strict):
    """A class of requests: how long one waits, and who is served first. No serving class."""

    max_wait: Duration
    """How long a request of this class waits for a cold engine."""
    rank: Annotated[int, Field(ge=1, le=1000)]
    """Lower is served first, with ageing."""


class UpstreamRef(Strict):
    """A target at an upstream."""

    upstream: Name
    """Name under `upstreams`."""
    model: Line | None = None
    """The model's name there; default: as the caller wrote it."""


class Escalation(Strict):
    """A target of two engines: fast unless the rules of `escalate` ask for large."""

    fast: Name
    """Engine that serves by default."""
    large: Name
    """Engine that serves what escalates."""


def _target_form(value: object) -> str:
    return "=upstream" if isinstance(value, dict | UpstreamRef) else "=engine"


TargetKeys = Annotated[
    Annotated[Name, Tag("=engine")] | Annotated[UpstreamRef, Tag("=upstream")], Discriminator(_target_form)
]


def _profile_form(value: object) -> str:
    if isinstance(value, list):
        return "=list"
    if isinstance(value, Escalation) or (isinstance(value, dict) and {"fast", "large"} & set(value)):
        return "=escalating"
    return _target_form(value)


ProfileKeys = Annotated[
    Annotated[Name, Tag("=engine")]
    | Annotated[UpstreamRef, Tag("=upstream")]
    | Annotated[Escalation, Tag("=escalating")]
    | Annotated[list[TargetKeys], Field(min_length=1), Tag("=list")],
    Discriminator(_profile_form),
]


class Spill(Strict):
    """Fill the first target up to a bound, then the next."""

    spill: Annotated[int, Field(ge=1, le=10_000)]
    """Requests that the first target takes before the next gets any."""


def _strategy_form(value: object) -> str:
    return "=spill" if isinstance(value, dict | Spill) else "=word"


StrategyKeys = Annotated[
    Annotated[Literal["pin", "first_ready", "least_loaded"], Tag("=word")] | Annotated[Spill, Tag("=spill")],
    Discriminator(_strategy_form),
]


class EscalateKeys(Strict):
    """When a request goes to the large engine."""

    token: Token | None = None
    """A leading word of the latest user message, removed before it is passed on."""
    when_tools: bool = False
    """Whether tools offered, with a latest user message that matches `intent`, escalate."""
    intent: list[Expression] = Field(default_factory=list)
    """Regular expressions for when_tools."""
    lookback: Annotated[int, Field(ge=0, le=1000)] = 8
    """For how many messages after tool activity the large one stays."""


class RouteKeys(Strict):
    """A model name that clients ask for."""

    description: str = ""
    """Shown in /v1/models and on the dashboard."""
    aliases: list[RouteText] = Field(default_factory=list)
    """Further names of this route; each is unique among routes, aliases and engines."""
    profiles: Annotated[dict[Name, ProfileKeys], Field(min_length=1)]
    """Target, or ordered targets, by the profile's name."""
    active: Name | None = None
    """The first active profile; a switch is kept in the state directory and wins. One profile is active."""
    strategy: StrategyKeys = "pin"
    """How one of several targets is picked."""
    fallback: Name | None = None
    """Profile used instead of a refusal, if it needs no start."""
    request_class: Annotated[Name | None, Field(alias="class")] = None
    """Class of its requests; x-hostler-class and the key's class come first. Default chat."""
    escalate: EscalateKeys | None = None
    """When a {fast, large} target goes to large."""
    patches: dict[Name, dict[str, object]] = Field(default_factory=dict)
    """Request changes per target: keys set in the request body sent to it."""
    on: list[Name] = Field(default_factory=list)
    """Gateways that offer it; default: all."""
    max_body: Size | None = None
    """Largest request body; default: the gateway's."""
    silence: Time | None = None
    """No byte for this long ends a stream; default: the gateway's."""
