"""What a person or a program is shown of the catalog: the same for the API, the commands and the panel.

Values are ready for the wire, as in `services.picture`. Decides nothing: classes, affordances and what is
proven come from the domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.domain.catalog import Build, Entry, Evidence, Quant, Variant, start_affordance
from hostler.domain.curation import speed_text
from hostler.domain.values import ServingClass
from hostler.services.picture import AffordanceView


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantView:
    """One quantization. `weights` and `min_ram` are bytes, None where they are not known."""

    name: str
    files: tuple[str, ...]
    weights: int | None
    min_ram: int | None
    verifiable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """What was seen, and in which configuration."""

    configuration: str | None
    date: str | None
    runs: int
    identity: bool
    quality_runs: int
    tokens_per_s: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildView:
    """Which build of the engine's binary is needed."""

    tree: str | None
    release: int | None
    commits: tuple[str, ...]
    pull_requests: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantView:
    """One shape. `peak` is in bytes by role, the empty role for a shape of one process."""

    id: str
    reference: str
    quant: str
    context: int | None
    serving_class: str
    proven: bool
    default: bool
    boxes: int
    roles: tuple[str, ...]
    link_speed: str | None
    build: BuildView | None
    peak: Mapping[str, int]
    available: int | None
    flags: tuple[str, ...]
    evidence: tuple[EvidenceView, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry. Its download is always offered; a start only where `affordance` says so (CAT-6)."""

    id: str
    family: str
    task: str
    context: int | None
    tags: tuple[str, ...]
    repository: str | None
    license: str | None
    gated: bool
    serving_class: str
    why: str
    affordance: AffordanceView
    first_run_default: bool
    quants: tuple[QuantView, ...]
    variants: tuple[VariantView, ...]
    notes: tuple[str, ...]
    evidence: tuple[EvidenceView, ...]


def affordance_of(serving_class: ServingClass) -> AffordanceView:
    """What is shown of a start of that class: the one helper of panel, API and commands (CAT-6)."""
    found = start_affordance(serving_class)
    return AffordanceView(start=found.start, badge=found.badge.value, text=found.text)


def entry_view(entry: Entry) -> EntryView:
    """An entry as it is shown."""
    return EntryView(
        id=entry.id,
        family=entry.family,
        task=entry.task,
        context=entry.context,
        tags=entry.tags,
        repository=entry.source.repository,
        license=entry.source.license,
        gated=entry.source.gated,
        serving_class=entry.serving_class.value,
        why=entry.why,
        affordance=affordance_of(entry.serving_class),
        first_run_default=entry.first_run_default,
        quants=tuple(_quant(quant) for quant in entry.quants.values()),
        variants=tuple(_variant(entry, variant) for variant in entry.variants.values()),
        notes=entry.notes,
        evidence=tuple(_evidence(it) for it in entry.evidence),
    )


def _quant(quant: Quant) -> QuantView:
    return QuantView(
        name=quant.name,
        files=tuple(file.name for file in quant.files),
        weights=quant.weights,
        min_ram=quant.min_ram,
        verifiable=all(file.sha256 is not None for file in quant.files),
    )


def _variant(entry: Entry, variant: Variant) -> VariantView:
    gates, shape = entry.gates_of(variant), entry.topology_of(variant)
    return VariantView(
        id=variant.id,
        reference=f"{entry.id}#{variant.id}",
        quant=variant.quant,
        context=variant.context,
        serving_class=entry.class_of(variant).value,
        proven=variant.proven,
        default=variant.default,
        boxes=shape.boxes,
        roles=tuple(role for role in shape.roles if role),
        link_speed=None if shape.speed is None else speed_text(shape.speed),
        build=_build(variant.build or entry.build),
        peak=dict(gates.peak),
        available=gates.available,
        flags=variant.flags,
        evidence=tuple(_evidence(it) for it in variant.evidence),
        notes=variant.notes,
    )


def _build(build: Build | None) -> BuildView | None:
    if build is None:
        return None
    return BuildView(
        tree=build.tree,
        release=build.release,
        commits=build.commits,
        pull_requests=build.pull_requests,
    )


def _evidence(it: Evidence) -> EvidenceView:
    return EvidenceView(
        configuration=it.configuration,
        date=it.date,
        runs=it.runs,
        identity=it.identity,
        quality_runs=it.quality_runs,
        tokens_per_s=it.tokens_per_s,
        note=it.note,
    )
