"""Keys of `engines`: each servable model process."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from hostler.adapters.config.schema.base import (
    AbsolutePath,
    Duration,
    FileName,
    IpAddress,
    Line,
    Name,
    PortOrAuto,
    SecretText,
    Size,
    Strict,
    Time,
    kind_of,
    matching,
    need_text,
)

EnvName = Annotated[str, PlainValidator(matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable"))]
Label = Annotated[
    str, PlainValidator(matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "letters, digits, dot, dash, underscore"))
]
Unit = Annotated[
    str, PlainValidator(matching(r"[A-Za-z0-9:_.\\@-]+\.service", "a systemd unit such as vllm.service"))
]
Entry = Annotated[
    str, PlainValidator(matching(r"[A-Za-z0-9._-]+#[A-Za-z0-9._-]+", "a catalog entry such as qwen3-4b#32k"))
]
_MOUNT: Final = r"/[^:,]*:/[^:,]*(:ro)?"
Mount = Annotated[
    str,
    PlainValidator(matching(_MOUNT, "a mount as /HOST:/CONTAINER or /HOST:/CONTAINER:ro")),
    WithJsonSchema({"type": "string", "pattern": f"^{_MOUNT}$"}),
]
Image = Annotated[str, PlainValidator(matching(r"[A-Za-z0-9][^\s]*", "the name of an image"))]


def _argument(value: object) -> str:
    return need_text(value, "text")


Argument = Annotated[str, PlainValidator(_argument), WithJsonSchema({"type": "string"})]


def _health(value: object) -> str:
    if isinstance(value, str) and (value in ("tcp", "none") or value.startswith("/")):
        return value
    raise ValueError(f"expected a path such as /health, tcp, or none, not {kind_of(value)}")


Health = Annotated[
    str, PlainValidator(_health), WithJsonSchema({"type": "string", "pattern": "^(/.*|tcp|none)$"})
]


class ContainerKeys(Strict):
    """A container of Docker or Podman."""

    name: Label
    """Its name; without `image` it must exist."""
    image: Image | None = None
    """With it the container is created when missing."""
    network: Label = "host"
    """Its network."""
    devices: list[AbsolutePath] = Field(default_factory=list)
    """Devices passed in, such as /dev/dri."""
    mounts: list[Mount] = Field(default_factory=list)
    """Mounts as HOST:CONTAINER or HOST:CONTAINER:ro, both absolute."""
    memory_limit: Size | None = None
    """The container's own limit."""


class ComposeKeys(Strict):
    """A service of a compose project."""

    file: AbsolutePath
    """The compose file."""
    project: Label
    """Its project name."""
    service: Label
    """The service in it."""
    command: Annotated[list[Argument], Field(min_length=1)] = Field(default=["docker", "compose"])
    """The compose program."""


class PoolNeeds(Strict):
    """What an engine needs of each pool, where memory is not one."""

    ram: Size | None = None
    """Of RAM."""
    gpu0: Size | None = None
    """Of the first GPU's own."""
    gpu1: Size | None = None
    """Of the second GPU's own."""
    gpu2: Size | None = None
    """Of the third GPU's own."""
    gpu3: Size | None = None
    """Of the fourth GPU's own."""
    gpu4: Size | None = None
    """Of the fifth GPU's own."""
    gpu5: Size | None = None
    """Of the sixth GPU's own."""
    gpu6: Size | None = None
    """Of the seventh GPU's own."""
    gpu7: Size | None = None
    """Of the eighth GPU's own."""

    def by_pool(self) -> dict[str, int]:
        """Bytes by pool, those that are given."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: need for name, need in given.items() if isinstance(need, int)}


def _memory_form(value: object) -> str:
    return "=pools" if isinstance(value, dict | PoolNeeds) else "=size"


Memory = Annotated[
    Annotated[Size, Tag("=size")] | Annotated[PoolNeeds, Tag("=pools")], Discriminator(_memory_form)
]
Driver = Literal["process", "container", "compose", "systemd", "external", "distributed"]
Class = Literal["resident", "windowed", "wedge-risk"]


class EngineKeys(Strict):
    """One servable model process on one host."""

    host: Name | None = None
    """Where it runs; default: the only host."""
    driver: Driver = "process"
    """How it is started and stopped."""
    argv: Annotated[list[Argument], Field(min_length=1)] | None = None
    """Program and arguments of a process. {file} {model} {address} {port} are filled in, {{ is a brace."""
    args: list[Argument] = Field(default_factory=list)
    """Arguments after a container's image; placeholders as in argv."""
    env: dict[EnvName, Argument] = Field(default_factory=dict)
    """Added to a clean environment (PATH HOME LANG TZ XDG_RUNTIME_DIR); an empty text sets it empty."""
    cwd: AbsolutePath | None = None
    """Working directory; default: the engine's state directory."""
    files: list[FileName] = Field(default_factory=list)
    """Model files below models_dir; their size gives the start budget, {file} is the first."""
    model: Line | None = None
    """The model id that the engine itself reports and expects; default: the engine's name."""
    task: Literal["chat", "embed", "rerank", "asr", "tts", "image"] = "chat"
    """What it does; decides what a real probe of it is."""
    address: IpAddress | None = None
    """Where it listens; default: the host's address."""
    port: PortOrAuto = "auto"
    """A port, or auto (default): one of the host's ports.range, kept."""
    health: Health = "/health"
    """Where it says that it is ready: a path, tcp, or none."""
    memory: Memory | None = None
    """What it needs at its peak, or {gpu0: …, ram: …}. Absent: unknown, so no timer starts it."""
    group: Name | None = None
    """The group of its host that it excludes others in."""
    essential: bool = False
    """Whether it may start under every hold."""
    resident: bool = False
    """Whether it is up at boot and kept up."""
    order: int = 100
    """Residents start in this order, one at a time."""
    pinned: bool = False
    """Whether it is never evicted for memory."""
    ttl: Duration = 0.0
    """Unloaded once idle this long; 0: never."""
    start_timeout: Time | None = None
    """How long a start may take; default 2m and 8 ms per MB of `files`, 4m for containers."""
    stop_timeout: Time = 10.0
    """How long a stop may take before it is forced; an unclean exit can pin memory until a reboot."""
    max_concurrent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Requests that it takes at once; default: no bound. Read and kept, not enforced yet."""
    queue: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Requests that wait for it, then 429; default 8 times max_concurrent. Not enforced yet."""
    note: Literal["merge", "first", "last"] = "merge"
    """Where the note of a degraded answer goes."""
    on_disconnect: Literal["cancel", "drain"] = "cancel"
    """What a client that hangs up does to its request."""
    websockets: Literal["count", "ignore"] = "count"
    """Whether open WebSockets count as use."""
    entry: Entry | None = None
    """Catalog entry and variant, as ID#VARIANT; absent: uncurated."""
    context: Annotated[int, Field(ge=1)] | None = None
    """Tokens of context that it is started with."""
    serving_class: Class | None = None
    """Narrows what the catalog says; never widens."""
    enabled: bool = True
    """false: known, never started."""
    hidden: bool = False
    """Whether it is left out of /v1/models."""
    ui: bool = False
    """Whether its own web pages may run scripts, on a listener of their own."""
    local_only: bool = False
    """Whether it stays out of what nodes tell each other."""
    url: Line | None = None
    """Where an external engine answers."""
    key: SecretText | None = None
    """Sent to an external engine as its bearer key."""
    container: ContainerKeys | None = None
    """The container of a container engine."""
    compose: ComposeKeys | None = None
    """The service of a compose engine."""
    unit: Unit | None = None
    """The unit of a systemd engine."""
    scope: Literal["user", "system"] = "user"
    """Whose systemd has the unit."""
    members: Annotated[list[Name], Field(min_length=2)] | None = None
    """Engines of a distributed one: started in this order, stopped in reverse; the last one answers."""
