"""Whether a shape of the catalog fits a box (CAT-11). Arithmetic on what is known; missing data is unknown.

Decides by what a box has at all, never by what is free now: that is the gate's (`memory`). Swap never
counts, for nothing here asks for it; unified memory is one pool and so counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hostler.domain.catalog import Entry, Variant
from hostler.domain.values import gib

FitResult = Literal["fits", "tight", "won't fit", "unknown"]

TIGHT_PERCENT: Final = 110
"""A need of up to 110 % of what a box has is tight; above that it does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One line of the answer: what was asked about, how it came out, and the sum."""

    what: str
    result: FitResult
    text: str


def fit(need: int | None, has: int | None) -> FitResult:
    """Whether a need fits into what a box has; `unknown` where either is not known."""
    if need is None or has is None or has <= 0:
        return "unknown"
    if need <= has:
        return "fits"
    return "tight" if need * 100 <= has * TIGHT_PERCENT else "won't fit"


def fits_of(entry: Entry, has: int | None) -> Iterator[Fit]:
    """Every quant and every variant of an entry, against a box that has `has` bytes of memory."""
    for quant in entry.quants.values():
        yield _told(quant.name, quant.min_ram, has, "its min_ram")
    for variant in entry.variants.values():
        need, why = need_of(entry, variant)
        boxes = entry.topology_of(variant).boxes
        each = f", on each of {boxes} boxes" if boxes > 1 else ""
        yield _told(f"{entry.id}#{variant.id}", need, has, f"{why}{each}")


def need_of(entry: Entry, variant: Variant) -> tuple[int | None, str]:
    """What a variant needs of one box, and where the figure is from.

    The largest of its measured peaks, else its quant's least memory divided by its boxes.
    """
    peaks = entry.gates_of(variant).peak
    if peaks:
        return max(peaks.values()), "its measured peak"
    quant, boxes = entry.quants.get(variant.quant), entry.topology_of(variant).boxes
    if quant is None or quant.min_ram is None:
        return None, "neither its peak nor its min_ram"
    return -(-quant.min_ram // boxes), "the min_ram of its quant"


def capacity(pools: Mapping[str, int | None]) -> int | None:
    """What a box has in all its pools; None where one of them is not known."""
    sizes = [size for size in pools.values() if size is not None]
    return sum(sizes) if sizes and len(sizes) == len(pools) else None


def _told(what: str, need: int | None, has: int | None, source: str) -> Fit:
    result = fit(need, has)
    if need is None:
        return Fit(what=what, result=result, text=f"not known: {source}")
    if has is None or has <= 0:
        return Fit(what=what, result=result, text=f"needs {gib(need)} GiB ({source}); the box's is not known")
    percent = -(-need * 100 // has)
    return Fit(
        what=what,
        result=result,
        text=f"needs {gib(need)} GiB ({source}) of the box's {gib(has)}: {percent} %",
    )
