"""The rules of the catalog (CAT-2, CAT-3, CAT-4, CAT-9): what is wrong with an entry, with its arithmetic.

Decides by figures, not by memory of what happened. Knows no file: a finding names the path of keys at which
it stands, and whoever read the entry knows its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hostler.domain.catalog import (
    TWO_BOX,
    Build,
    Entry,
    Evidence,
    Gates,
    Quant,
    Topology,
    effective_class,
)
from hostler.domain.route import nearest
from hostler.domain.values import ServingClass, gib

FILLED: Final = frozenset({"file", "model", "address", "port", "context", "workers"})
"""What `{…}` in a launch stands for: the engine's placeholders, and what `engine from-catalog` fills in."""
_PLACE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that is wrong, at the path of keys in its entry."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


Rule = Callable[[Entry], Iterator[Found]]


def mib(size: int) -> str:
    """`126,976 MiB = 124.0 GiB`: as the arithmetic of the catalog is written."""
    return f"{size / (1 << 20):,.0f} MiB = {gib(size)} GiB"


def needs_more_than_a_box(entry: Entry, quant: Quant) -> str | None:
    """The sum that shows that a quant needs more than one box (CAT-4), None when it does not."""
    need = max(quant.min_ram or 0, quant.weights or 0)
    box = entry.topology.box_memory
    if need <= box:
        return None
    return f"needs {mib(need)}, and one box has {mib(box)}: {mib(need - box)} more"


def _one_box(entry: Entry) -> Iterator[Found]:
    """A resident entry runs on one box, whatever quant is taken (CAT-4)."""
    if entry.serving_class is not ServingClass.RESIDENT:
        return
    for quant in entry.quants.values():
        more = needs_more_than_a_box(entry, quant)
        if more is not None:
            yield _not_resident(("quants", quant.name, "min_ram"), f"{quant.name} {more}")
    if TWO_BOX in entry.tags:
        yield _not_resident(("tags",), f"the entry is tagged {TWO_BOX}")
    if entry.topology.boxes > 1:
        yield _not_resident(("topology", "roles"), f"the entry has {entry.topology.boxes} roles")
    for variant in entry.variants.values():
        own = variant.topology
        if own is not None and own.boxes > 1:
            path = ("variants", variant.id, "topology", "roles")
            yield _not_resident(path, f"{variant.id} runs on {own.boxes} boxes")


def _not_resident(path: tuple[str | int, ...], why: str) -> Found:
    return Found(path=path, message=f"{why}, so the entry cannot be resident", hint="serving.class: windowed")


def _classes(entry: Entry) -> Iterator[Found]:
    """A variant is of its entry's class: less is not believed, more raises the entry (CAT-3)."""
    own = entry.serving_class
    for variant in entry.variants.values():
        declared, path = variant.serving_class, ("variants", variant.id, "class")
        if declared is None or declared is own:
            continue
        if effective_class(own, declared) is own:
            message = f"{declared} is safer than its entry, which is {own}: a variant never is"
            yield Found(path=path, message=message, hint=f"class: {own}, or none")
        else:
            message = f"{declared} is more dangerous than its entry, which is {own}: raise the entry"
            yield Found(path=path, message=message, hint=f"serving.class: {declared}")


def _first_run(entry: Entry) -> Iterator[Found]:
    if not entry.first_run_default:
        return
    path = ("first_run_default",)
    if entry.serving_class is not ServingClass.RESIDENT:
        message = f"the first-run default must be resident, and this is {entry.serving_class}"
        yield Found(path=path, message=message)
    if entry.source.gated:
        yield Found(path=path, message="the first-run default must be ungated, and this needs an account")
    if not any(variant.default for variant in entry.variants.values()):
        message = "the first-run default needs a variant that is its default"
        yield Found(path=path, message=message, hint="variants.<id>.default: true, of a proven one")


def _defaults(entry: Entry) -> Iterator[Found]:
    """At most one default, and never an unproven one (CAT-9)."""
    defaults = [variant for variant in entry.variants.values() if variant.default]
    for variant in defaults:
        if not variant.proven:
            message = f"{variant.id} is unproven: it has no identity check with a quality run"
            hint = "evidence with identity: true and quality_runs: 1, or default: false"
            yield Found(path=("variants", variant.id, "default"), message=message, hint=hint)
    for variant in defaults[1:]:
        message = f"{defaults[0].id} is the default already"
        yield Found(path=("variants", variant.id, "default"), message=message)


def _shapes(entry: Entry) -> Iterator[Found]:
    """A variant's quant is one of the entry's, and its context within the model's."""
    for variant in entry.variants.values():
        path = ("variants", variant.id)
        if variant.quant not in entry.quants:
            hint = nearest(variant.quant, entry.quants)
            yield Found(path=(*path, "quant"), message=f"there is no quant {variant.quant}", hint=hint)
        for key, tokens in (("context", variant.context), ("most_context", variant.most_context)):
            if tokens is not None and entry.context is not None and tokens > entry.context:
                message = f"{tokens} is above the model's context: {tokens} > {entry.context}"
                yield Found(path=(*path, key), message=message)
        if variant.most_context is not None and variant.most_context < (variant.context or 0):
            message = f"the most is below its own context: {variant.most_context} < {variant.context}"
            yield Found(path=(*path, "most_context"), message=message)


def _figures(entry: Entry) -> Iterator[Found]:
    """Sizes agree with each other, and a peak is not above the box that it was measured on."""
    for quant in entry.quants.values():
        path, parts = ("quants", quant.name), quant.weights
        if quant.size is not None and parts is not None and parts != quant.size:
            yield Found(path=(*path, "size"), message=f"its files are {parts} bytes, not {quant.size}")
        if quant.min_ram is not None and parts is not None and quant.min_ram < parts:
            message = f"less than its weights: {mib(quant.min_ram)} < {mib(parts)}"
            yield Found(path=(*path, "min_ram"), message=message)
    yield from _peaks(("gates",), entry.gates, entry.topology)
    for variant in entry.variants.values():
        yield from _peaks(("variants", variant.id, "gates"), variant.gates, entry.topology_of(variant))


def _peaks(path: tuple[str | int, ...], gates: Gates, shape: Topology) -> Iterator[Found]:
    for role, peak in gates.peak.items():
        if role not in shape.roles:
            roles = ", ".join(name or "its only process, written as one size" for name in shape.roles)
            yield Found(path=(*path, "peak"), message=f"there is no role {role or 'of one size'}", hint=roles)
        if peak > shape.box_memory:
            message = f"a peak of {mib(peak)} on a box of {mib(shape.box_memory)}"
            yield Found(path=(*path, "peak"), message=message)
    available = gates.available
    if available is not None and available > shape.box_memory:
        message = f"asks for {mib(available)} available on a box of {mib(shape.box_memory)}"
        yield Found(path=(*path, "available"), message=message)


def _evidence(entry: Entry) -> Iterator[Found]:
    """Throughput says what it was measured in (CAT-9)."""
    yield from _numbers(("evidence",), entry.evidence)
    for variant in entry.variants.values():
        yield from _numbers(("variants", variant.id, "evidence"), variant.evidence)


def _numbers(path: tuple[str | int, ...], evidence: Iterable[Evidence]) -> Iterator[Found]:
    for index, it in enumerate(evidence):
        if it.tokens_per_s is not None and it.configuration is None:
            message = f"{it.tokens_per_s:g} tokens/s without the configuration that they were measured in"
            yield Found(path=(*path, index, "tokens_per_s"), message=message, hint="configuration: TEXT")


def _builds(entry: Entry) -> Iterator[Found]:
    """A build asks for something that a binary can report (CAT-8)."""
    for path, build in (
        (("build",), entry.build),
        *((("variants", it.id, "build"), it.build) for it in entry.variants.values()),
    ):
        if build is not None:
            yield from _reported(path, build)


def _reported(path: tuple[str | int, ...], build: Build) -> Iterator[Found]:
    if build.pull_requests and not build.commits and build.tree is None:
        message = "no release number proves a pull request: name the tree or the commits that have it"
        yield Found(path=(*path, "pull_requests"), message=message)
    elif not build.commits and build.tree is None and build.release is None:
        yield Found(path=path, message="asks for nothing that a binary reports: tree, release or commits")


def _launches(entry: Entry) -> Iterator[Found]:
    """Each role has its argv, with placeholders that somebody fills in."""
    if not entry.launch.argv:
        return
    for role in entry.topology.roles:
        if role not in entry.launch.argv:
            yield Found(path=("launch", "argv"), message=f"the role {role or 'of one process'} has no argv")
    for role, argv in entry.launch.argv.items():
        path = ("launch", "argv", role) if role else ("launch", "argv")
        if role not in entry.topology.roles:
            yield Found(path=path, message=f"there is no role {role or 'of one process'}")
        for index, word in enumerate(argv):
            for place in _PLACE.findall(word):
                if place and place not in FILLED:
                    hint = nearest(place, FILLED)
                    message = f"there is no placeholder {{{place}}}"
                    yield Found(path=(*path, index), message=message, hint=hint)
                elif place == "context" and any(it.context is None for it in entry.variants.values()):
                    message = "{context} is a variant's, and one of them has none"
                    yield Found(path=(*path, index), message=message)


RULES: Final[tuple[Rule, ...]] = (
    _one_box,
    _classes,
    _first_run,
    _defaults,
    _shapes,
    _figures,
    _evidence,
    _builds,
    _launches,
)
"""Every rule of one entry."""


def check_entry(entry: Entry) -> tuple[Found, ...]:
    """Everything that is wrong with one entry."""
    return tuple(found for rule in RULES for found in rule(entry))


def check_over(entry: Entry, below: Entry) -> tuple[Found, ...]:
    """What is wrong with an entry that stands over a shipped one of its id: it may be no safer (CAT-3)."""
    if effective_class(entry.serving_class, below.serving_class) is entry.serving_class:
        return ()
    message = (
        f"{entry.serving_class} is safer than the shipped {below.id}, which is {below.serving_class}:"
        " a directory raises a class, and never lowers it"
    )
    hint = f"class: {below.serving_class}"
    return (Found(path=("serving", "class"), message=message, hint=hint),)


def first_run_defaults(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The ids of those that are the first-run default: of a whole catalog exactly one (CAT-1)."""
    return tuple(entry.id for entry in entries if entry.first_run_default and not entry.source.gated)
