"""The catalog: what shapes of a model are known, and how dangerous each is (CAT-1, CAT-2, CAT-8).

Decides how classes merge and what is offered of one. Which entries are right is `catalog_check`'s, what an
entry means for an engine `curation`'s. Sizes are bytes, speeds bits per second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from hostler.domain.values import ServingClass

BOX_MEMORY: Final = 126_976 << 20
"""What the reference box has: 126,976 MiB = 124 GiB. `topology.box_memory` names another (CAT-4)."""
TWO_BOX: Final = "two-box"
"""The tag of an entry that runs on two boxes, whatever its figures say."""
ALONE: Final = ""
"""The role of the one process of a shape that runs on one box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a model comes from. `base` is the URL that its files lie below; `gated`: an account is needed."""

    repository: str | None = None
    license: str | None = None
    gated: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """One file of a quant. `url` None: below the source's base."""

    name: str
    size: int | None = None
    sha256: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quant:
    """One quantization: its files, and the memory that it needs at least."""

    name: str
    files: tuple[ModelFile, ...]
    size: int | None = None
    min_ram: int | None = None

    @property
    def weights(self) -> int | None:
        """Bytes of its files, None where one of them is not known."""
        sizes = [file.size for file in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What was measured: the peak of each role's process, and what a host must have available (CAT-8)."""

    peak: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Which build of the engine's binary a shape needs.

    `tree` is a word that its report has, `release` the least build number, `commits` those of which it is
    one.
    """

    tree: str | None = None
    release: int | None = None
    commits: tuple[str, ...] = ()
    pull_requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How a shape lies over boxes: a role per box, started in this order; the last one answers.

    `speed` is what the links between them must have, `box_memory` what each box has.
    """

    roles: tuple[str, ...] = (ALONE,)
    box_memory: int = BOX_MEMORY
    speed: int | None = None
    port: int | None = None

    @property
    def boxes(self) -> int:
        """How many boxes it takes."""
        return len(self.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen, and of what exactly: numbers without their configuration prove nothing (CAT-9)."""

    configuration: str | None = None
    date: str | None = None
    runs: int = 0
    identity: bool = False
    quality_runs: int = 0
    tokens_per_s: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How each role is started: argv with our placeholders, and those that `engine from-catalog` fills in."""

    argv: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    health: str = "/health"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One shape: a quant at a context, with its flags. What it does not say is its entry's.

    `context` None is not known, and then no context is too large.
    """

    id: str
    quant: str
    context: int | None = None
    most_context: int | None = None
    flags: tuple[str, ...] = ()
    serving_class: ServingClass | None = None
    gates: Gates = Gates()
    build: Build | None = None
    topology: Topology | None = None
    default: bool = False
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether its identity was checked and one run judged its answers; else it is `unproven` (CAT-9)."""
        return any(it.identity for it in self.evidence) and any(it.quality_runs > 0 for it in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One model. `serving_class` is a ceiling: that of its most dangerous supported shape (CAT-2)."""

    id: str
    family: str
    source: Source
    task: str
    context: int | None = None
    serving_class: ServingClass
    why: str = ""
    tags: tuple[str, ...] = ()
    first_run_default: bool = False
    quants: Mapping[str, Quant]
    variants: Mapping[str, Variant]
    gates: Gates = Gates()
    build: Build | None = None
    topology: Topology = Topology()
    launch: Launch = Launch()
    notes: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    def topology_of(self, variant: Variant) -> Topology:
        """How that variant lies over boxes."""
        return variant.topology or self.topology

    def gates_of(self, variant: Variant) -> Gates:
        """What was measured of that variant, else of the entry."""
        own = variant.gates
        available = self.gates.available if own.available is None else own.available
        return Gates(peak=own.peak or self.gates.peak, available=available)

    def class_of(self, variant: Variant) -> ServingClass:
        """The class of that variant: never less than the entry's (CAT-3)."""
        return effective_class(self.serving_class, variant.serving_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every entry by its id. `added` are the texts of the directory's files, kept as the last good ones.

    `trouble` says why the directory is not read as it lies there; `known` is False where no good catalog
    is in force: then nobody can say what an entry means (CAT-7).
    """

    entries: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    directory: str | None = None
    added: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    trouble: str = ""
    known: bool = True

    def find(self, reference: str) -> tuple[Entry, Variant] | None:
        """The entry and variant that `ID#VARIANT` names, or None."""
        name, _, variant = reference.partition("#")
        entry = self.entries.get(name)
        found = None if entry is None else entry.variants.get(variant)
        return None if entry is None or found is None else (entry, found)

    def references(self) -> Iterator[str]:
        """Every `ID#VARIANT`."""
        for entry in self.entries.values():
            yield from (f"{entry.id}#{variant}" for variant in entry.variants)


NO_CATALOG: Final = Catalog()


def effective_class(*declared: ServingClass | None) -> ServingClass:
    """The merge of classes: the most dangerous one (CAT-3). Whoever says nothing adds nothing."""
    said = (one for one in declared if one is not None)
    return max(said, key=lambda one: one.danger, default=ServingClass.RESIDENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affordance:
    """What is shown of a start: the button, or the sentence that stands in its place (CAT-6)."""

    start: bool
    badge: ServingClass
    text: str = ""


_INSTEAD: Final[Mapping[ServingClass, str]] = MappingProxyType(
    {
        ServingClass.RESIDENT: "",
        ServingClass.WINDOWED: "Operator window only: runs on two boxes or evicts production",
        ServingClass.WEDGE_RISK: "Known wedge risk: never started from the dashboard",
    }
)


def start_affordance(serving_class: ServingClass) -> Affordance:
    """Whether a start of that class is offered as one tap, and what is said instead (CAT-6).

    There is no button that names a class: a second tap is still a tap.
    """
    text = _INSTEAD[serving_class]
    return Affordance(start=not text, badge=serving_class, text=text)


def overlaid(shipped: Iterable[Entry], added: Iterable[Entry]) -> Mapping[str, Entry]:
    """The entries of the package with those of a directory on top, by their ids.

    One that stands over a shipped one is of the more dangerous class of both (CAT-3).
    """
    entries = {entry.id: entry for entry in shipped}
    for entry in added:
        below = entries.get(entry.id)
        merged = effective_class(entry.serving_class, below.serving_class if below is not None else None)
        entries[entry.id] = replace(entry, serving_class=merged)
    return MappingProxyType(entries)
