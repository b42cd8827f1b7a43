"""One catalog entry as its file writes it, and the JSON Schema of that (CAT-1).

Decides which keys there are and how their values are written. What must hold between them is
`hostler.domain.catalog_check`'s. A key that describes a box is no key here: `group`, `evicts`, hosts.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from hostler.adapters.config.schema.base import FileName, Line, Name, Port, Size, Strict, kind_of, matching
from hostler.adapters.config.schema.document import PlainSchema
from hostler.adapters.config.schema.engines import Argument, Class, Health
from hostler.adapters.config.schema.hosts import Speed

VERSION = 1

Label = Annotated[
    str,
    PlainValidator(matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "letters, digits, dot, dash, underscore")),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"}),
]
Url = Annotated[
    str,
    PlainValidator(matching(r"(https?://[^\s/]+|file:///)\S*", "a URL of https://, http:// or file:///")),
    WithJsonSchema({"type": "string", "pattern": r"^(https?://|file:///)"}),
]
Sha256 = Annotated[
    str,
    PlainValidator(matching(r"[0-9a-f]{64}", "the 64 hexadecimal digits of a SHA-256")),
    WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
]
Commit = Annotated[
    str,
    PlainValidator(matching(r"[0-9a-f]{7,40}", "7 to 40 hexadecimal digits of a commit, quoted")),
    WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{7,40}$"}),
]
Day = Annotated[
    str,
    PlainValidator(matching(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]", "a day such as 2026-08-30")),
    WithJsonSchema({"type": "string", "format": "date"}),
]
Tokens = Annotated[int, Field(ge=1, le=1 << 30)]


def _version(value: object) -> int:
    if isinstance(value, bool) or value != VERSION or not isinstance(value, int):
        raise ValueError(f"expected {VERSION}, not {kind_of(value)}")
    return value


def _peak_form(value: object) -> str:
    return "=roles" if isinstance(value, dict) else "=size"


def _argv_form(value: object) -> str:
    return "=roles" if isinstance(value, dict) else "=one"


Peak = Annotated[
    Annotated[Size, Tag("=size")] | Annotated[dict[Label, Size], Tag("=roles")], Discriminator(_peak_form)
]
Argv = Annotated[list[Argument], Field(min_length=1)]
Argvs = Annotated[
    Annotated[Argv, Tag("=one")] | Annotated[dict[Label, Argv], Tag("=roles")], Discriminator(_argv_form)
]


class SourceKeys(Strict):
    """Where the model comes from."""

    repository: Line | None = None
    """Who publishes it, as a page or OWNER/NAME."""
    license: Line | None = None
    """Its licence; shown before every download. Absent: not known."""
    gated: bool = False
    """Whether its publisher asks for an account or a consent first."""
    base: Url | None = None
    """The URL that its files lie below."""


class FileKeys(Strict):
    """One file of a quant."""

    name: FileName
    """Its name below models_dir."""
    size: Size | None = None
    """Its size, as exactly as it is known; 639446688 B is exact."""
    sha256: Sha256 | None = None
    """Its SHA-256: without it a file is never more than unverified."""
    url: Url | None = None
    """Where it is had; default: source.base and its name."""


class QuantKeys(Strict):
    """One quantization of the model."""

    files: Annotated[list[FileKeys], Field(min_length=1)]
    """Its files, the one that is named to the engine first."""
    size: Size | None = None
    """Bytes of all its files, where those of each are not known."""
    min_ram: Size | None = None
    """The least memory that it needs, over all boxes that it runs on. Absent: unknown."""


class ServingKeys(Strict):
    """How dangerous the model is to its box."""

    serving_class: Annotated[Class, Field(alias="class")]
    """resident, windowed or wedge-risk: that of its most dangerous supported shape. There is no default."""
    why: Line = ""
    """What that is known from."""


class GateKeys(Strict):
    """What was measured of it as deployed."""

    peak: Peak | None = None
    """The most memory that its process took, or that of each role's."""
    available: Size | None = None
    """MemAvailable that each host must have before its start."""


class BuildKeys(Strict):
    """Which build of the engine's binary it needs, as `--version` reports it."""

    tree: Line | None = None
    """A word that only binaries of the right tree report."""
    release: Annotated[int, Field(ge=1)] | None = None
    """The least build number."""
    commits: list[Commit] = Field(default_factory=list)
    """The commits of which the binary's is one."""
    pull_requests: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    """Pull requests that it must have; proven by commits or tree, never by a release number."""


class TopologyKeys(Strict):
    """How it lies over boxes."""

    roles: Annotated[list[Label], Field(min_length=2)] | None = None
    """A role per box, in the order of their start; the last one answers. Absent: one box."""
    box_memory: Size = 126_976 << 20
    """Memory of each box; the reference box has 126,976 MiB."""
    speed: Speed | None = None
    """What the links between the boxes must have."""
    port: Port | None = None
    """Where the workers listen: reached before the one that answers is started."""


class LaunchKeys(Strict):
    """How its engine is started; `hostler engine from-catalog` makes a config of it."""

    argv: Argvs | None = None
    """Program and arguments, or those of each role; {context} and {workers} are filled in at the print."""
    health: Health = "/health"
    """Where the answering engine says that it is ready."""


class EvidenceKeys(Strict):
    """What was seen of it, and in which configuration."""

    configuration: Line | None = None
    """The configuration as deployed. Without it no throughput is believed."""
    date: Day | None = None
    """When, as 2026-08-30."""
    runs: Annotated[int, Field(ge=0)] = 0
    """How often it ran."""
    identity: bool = False
    """Whether it was checked that this very model answered."""
    quality_runs: Annotated[int, Field(ge=0)] = 0
    """How many runs judged its answers. Without one, and an identity check, a variant is unproven."""
    tokens_per_s: Annotated[float, Field(gt=0)] | None = None
    """Throughput."""
    note: Line = ""
    """What else was seen."""


class VariantKeys(Strict):
    """One shape of the model: a rung of context, a quant, its flags."""

    quant: Label
    """One of quants."""
    context: Tokens | None = None
    """Tokens of context that it is started with. Absent: not known."""
    most_context: Tokens | None = None
    """The largest context on this lineage; default: its own."""
    flags: list[Argument] = Field(default_factory=list)
    """Arguments behind those of launch.argv."""
    serving_class: Annotated[Class | None, Field(alias="class")] = None
    """Its class, where it says it: that of its entry."""
    gates: GateKeys = GateKeys()
    """What was measured of this shape."""
    build: BuildKeys | None = None
    """The build that this shape needs; default: the entry's."""
    topology: TopologyKeys | None = None
    """How this shape lies over boxes; default: the entry's."""
    default: bool = False
    """Whether it is the one that is taken when nobody names one. Never an unproven one."""
    evidence: list[EvidenceKeys] = Field(default_factory=list)
    """What was seen of it."""
    notes: list[Line] = Field(default_factory=list)
    """What people should know."""


class EntryKeys(Strict):
    """One model of the catalog: its source, its shapes, and how dangerous they are."""

    version: Annotated[Literal[1], PlainValidator(_version), WithJsonSchema({"const": VERSION})]
    """Format of this file; a newer one is refused."""
    id: Name
    """Its name in the catalog."""
    family: Line
    """The family of models that it is of."""
    source: SourceKeys = SourceKeys()
    """Where it comes from."""
    task: Literal["chat", "embed", "rerank", "asr", "tts", "image"] = "chat"
    """What it does."""
    context: Tokens | None = None
    """The model's own context length in tokens. Absent: not known."""
    tags: list[Label] = Field(default_factory=list)
    """Words to find it by; two-box says that it runs on two boxes."""
    serving: ServingKeys
    """How dangerous it is to its box."""
    first_run_default: bool = False
    """Whether a new box is offered this one first; exactly one of the catalog is."""
    quants: Annotated[dict[Label, QuantKeys], Field(min_length=1)]
    """Its quantizations, by name."""
    variants: Annotated[dict[Label, VariantKeys], Field(min_length=1)]
    """Its known shapes, by name."""
    gates: GateKeys = GateKeys()
    """What was measured, where a variant says nothing else."""
    build: BuildKeys | None = None
    """The build that it needs, where a variant says nothing else."""
    topology: TopologyKeys = TopologyKeys()
    """How it lies over boxes, where a variant says nothing else."""
    launch: LaunchKeys = LaunchKeys()
    """How its engine is started."""
    notes: list[Line] = Field(default_factory=list)
    """What people should know."""
    evidence: list[EvidenceKeys] = Field(default_factory=list)
    """What was seen of the model as a whole."""


def json_schema() -> dict[str, object]:
    """The JSON Schema of a catalog entry, draft 2020-12."""
    schema = EntryKeys.model_json_schema(schema_generator=PlainSchema, mode="validation")
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "a catalog entry of hostler"}


def schema_text() -> str:
    """The JSON Schema as it is shipped: stable, two blanks of indent, one newline at its end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
