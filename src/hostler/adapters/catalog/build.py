"""Makes the frozen entry from a file without errors. Decides nothing: it copies and renames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.adapters.catalog.schema import (
    BuildKeys,
    EntryKeys,
    EvidenceKeys,
    GateKeys,
    LaunchKeys,
    QuantKeys,
    TopologyKeys,
    VariantKeys,
)
from hostler.domain.catalog import (
    ALONE,
    Build,
    Entry,
    Evidence,
    Gates,
    Launch,
    ModelFile,
    Quant,
    Source,
    Topology,
    Variant,
)
from hostler.domain.curation import parse_speed
from hostler.domain.fleet import frozen
from hostler.domain.values import ServingClass


def entry_of(keys: EntryKeys) -> Entry:
    """The entry of a validated file."""
    return Entry(
        id=keys.id,
        family=keys.family,
        source=Source(
            repository=keys.source.repository,
            license=keys.source.license,
            gated=keys.source.gated,
            base=keys.source.base,
        ),
        task=keys.task,
        context=keys.context,
        serving_class=ServingClass(keys.serving.serving_class),
        why=keys.serving.why,
        tags=tuple(keys.tags),
        first_run_default=keys.first_run_default,
        quants=frozen({name: _quant(name, each) for name, each in keys.quants.items()}),
        variants=frozen({name: _variant(name, each) for name, each in keys.variants.items()}),
        gates=_gates(keys.gates),
        build=_build(keys.build),
        topology=_topology(keys.topology),
        launch=_launch(keys.launch),
        notes=tuple(keys.notes),
        evidence=_evidence(keys.evidence),
    )


def _quant(name: str, keys: QuantKeys) -> Quant:
    return Quant(
        name=name,
        files=tuple(
            ModelFile(name=each.name, size=each.size, sha256=each.sha256, url=each.url) for each in keys.files
        ),
        size=keys.size,
        min_ram=keys.min_ram,
    )


def _variant(name: str, keys: VariantKeys) -> Variant:
    return Variant(
        id=name,
        quant=keys.quant,
        context=keys.context,
        most_context=keys.most_context,
        flags=tuple(keys.flags),
        serving_class=None if keys.serving_class is None else ServingClass(keys.serving_class),
        gates=_gates(keys.gates),
        build=_build(keys.build),
        topology=None if keys.topology is None else _topology(keys.topology),
        default=keys.default,
        evidence=_evidence(keys.evidence),
        notes=tuple(keys.notes),
    )


def _gates(keys: GateKeys) -> Gates:
    peak: Mapping[str, int] = {}
    if isinstance(keys.peak, int):
        peak = {ALONE: keys.peak}
    elif keys.peak is not None:
        peak = keys.peak
    return Gates(peak=frozen(peak), available=keys.available)


def _build(keys: BuildKeys | None) -> Build | None:
    if keys is None:
        return None
    return Build(
        tree=keys.tree,
        release=keys.release,
        commits=tuple(keys.commits),
        pull_requests=tuple(keys.pull_requests),
    )


def _topology(keys: TopologyKeys) -> Topology:
    return Topology(
        roles=(ALONE,) if keys.roles is None else tuple(keys.roles),
        box_memory=keys.box_memory,
        speed=None if keys.speed is None else parse_speed(keys.speed),
        port=keys.port,
    )


def _launch(keys: LaunchKeys) -> Launch:
    argv: dict[str, tuple[str, ...]] = {}
    if isinstance(keys.argv, list):
        argv = {ALONE: tuple(keys.argv)}
    elif keys.argv is not None:
        argv = {role: tuple(words) for role, words in keys.argv.items()}
    return Launch(argv=frozen(argv), health=keys.health)


def _evidence(keys: Sequence[EvidenceKeys]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            configuration=each.configuration,
            date=each.date,
            runs=each.runs,
            identity=each.identity,
            quality_runs=each.quality_runs,
            tokens_per_s=each.tokens_per_s,
            note=each.note,
        )
        for each in keys
    )
