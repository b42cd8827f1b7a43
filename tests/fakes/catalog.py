"""Catalog entries for tests: one that is right, and the fields that a test changes."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

from hostler.domain.catalog import (
    Catalog,
    Entry,
    Evidence,
    Launch,
    ModelFile,
    Quant,
    Source,
    Topology,
    Variant,
)
from hostler.domain.fleet import frozen
from hostler.domain.values import ServingClass

GIB = 1 << 30
MIB = 1 << 20
PROOF = Evidence(configuration="Q8, context 8192", identity=True, quality_runs=1)
TWO = Topology(roles=("worker", "main"), port=50052)

TEXT = """\
version: 1
id: tiny
family: tiny
source: {license: MIT, base: "https://models.example.net/tiny"}
context: 8192
serving: {class: resident}
quants:
  Q8:
    files: [{name: tiny.gguf, size: 1 GiB}]
    min_ram: 2 GiB
variants:
  4k: {quant: Q8, context: 4096}
launch:
  argv: [serve, -m, "{file}", -c, "{context}", --port, "{port}"]
"""
"""A file that is right, as somebody writes it."""


def variant(name: str = "4k", **more: object) -> Variant:
    """A variant of 4096 tokens of the quant Q8."""
    made = Variant(id=name, quant="Q8", context=4096)
    return replace(made, **more)  # type: ignore[arg-type]  # a test names the fields that matter to it


def entry(name: str = "tiny", /, *variants: Variant, **more: object) -> Entry:
    """An entry of the resident class with the quant Q8."""
    quant = Quant(name="Q8", files=(ModelFile(name=f"{name}.gguf", size=GIB),), min_ram=2 * GIB)
    made = Entry(
        id=name,
        family=name,
        source=Source(license="MIT"),
        task="chat",
        context=8192,
        serving_class=ServingClass.RESIDENT,
        quants=frozen({"Q8": quant}),
        variants=frozen({it.id: it for it in variants or (variant(),)}),
        launch=Launch(argv=frozen({"": ("serve", "-m", "{file}", "--port", "{port}")})),
    )
    return replace(made, **more)  # type: ignore[arg-type]  # see above


def quants(**sizes: int | None) -> dict[str, object]:
    """`quants` of an entry: Q8, with this min_ram, size and file size in bytes."""
    file = ModelFile(name="tiny.gguf", size=sizes.get("file"))
    quant = Quant(name="Q8", files=(file,), size=sizes.get("size"), min_ram=sizes.get("min_ram"))
    return {"quants": frozen({"Q8": quant})}


def catalog(*entries: Entry, **more: object) -> Catalog:
    """A catalog of these entries."""
    made = Catalog(entries=frozen({it.id: it for it in entries}))
    return replace(made, **more)  # type: ignore[arg-type]  # see above


def write_entry(folder: Path, text: str = TEXT, name: str = "tiny.yaml") -> Path:
    """A file of that text in a folder, which only its owner may write."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o600)
    return path
