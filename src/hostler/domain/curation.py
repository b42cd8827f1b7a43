"""What a catalog entry means for one engine: its need, its context, its build, its links (CAT-7, CAT-8).

Decides by what was reported and probed; looks at nothing itself. The class is `catalog.effective_class`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.domain.catalog import ALONE, Build, Entry, Variant

BARE_NUMBER: Final = re.compile(r"\b(?:version:?\s*|build[ :]+|b(?=\d{3}))(\d+)(?![\w.])", re.IGNORECASE)
"""A build number as llama.cpp reports it: `version: 5900 (3f2a1c9)`, `b5900`; `version 0.3.0` is none."""
_COMMIT: Final = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_SPEED: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])bit/s")
_BITS: Final = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """One link that an engine's shape goes over: this host's end of it, and the port at the other end.

    `speed` is in bits per second, `port` None where nothing listens there yet. `address` is ours, `peer`
    theirs.
    """

    to: str
    interface: str
    address: str
    peer: str
    speed: int | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSeen:
    """What a probe saw of a crossing; `speed` and `reached` None where it was not told, or not asked."""

    up: bool
    speed: int | None = None
    reached: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curation:
    """What is known of an engine by its entry. `peak` and `available` are bytes of its host's one pool.

    `crossings` None: the shape needs more boxes than the config has links to.
    """

    entry: str
    proven: bool = False
    peak: int | None = None
    available: int | None = None
    context_most: int | None = None
    build: Build | None = None
    crossings: tuple[Crossing, ...] | None = ()


def curation(
    entry: Entry, variant: Variant, *, role: str = ALONE, crossings: tuple[Crossing, ...] | None = ()
) -> Curation:
    """What that variant means for the engine that has `role` in it."""
    gates = entry.gates_of(variant)
    return Curation(
        entry=f"{entry.id}#{variant.id}",
        proven=variant.proven,
        peak=gates.peak.get(role),
        available=gates.available,
        context_most=variant.most_context or variant.context,
        build=variant.build or entry.build,
        crossings=crossings,
    )


def asked(need: Mapping[str, int], pool: str, available: int | None, reserve: int) -> Mapping[str, int]:
    """The need by pool that also leaves the gate's MemAvailable true: available = need + reserve (MEM-2)."""
    if available is None:
        return need
    return {**need, pool: max(need.get(pool, 0), available - reserve)}


# ---------------------------------------------------------------- the build


def build_problem(build: Build, report: str | None) -> str | None:
    """Why the reported build is not the one that is needed; None when it is (CAT-8).

    A binary that does not say which build it is, is not it.
    """
    if not report:
        return "its binary does not say which build it is"
    shown = report.strip().splitlines()[0][:80]
    if build.tree is not None and build.tree.lower() not in report.lower():
        return f"its build is not of the tree {build.tree}: it reports {shown!r}"
    if build.commits and not _has_commit(build.commits, report):
        wanted = ", ".join(build.commits)
        return f"its build is none of the commits {wanted}: it reports {shown!r}"
    if build.release is not None:
        found = BARE_NUMBER.search(report)
        if found is None:
            return f"its build has no number, and at least {build.release} is needed: it reports {shown!r}"
        if int(found[1]) < build.release:
            return f"its build is {found[1]}, and at least {build.release} is needed"
    return None


def _has_commit(wanted: Iterable[str], report: str) -> bool:
    """Whether one of the commits is reported: a report may have it shorter, or longer, than the catalog."""
    told = [it.lower() for it in _COMMIT.findall(report)]
    return any(
        each.startswith(one) or one.startswith(each) for one in map(str.lower, wanted) for each in told
    )


# ---------------------------------------------------------------- the links


def parse_speed(text: str) -> int:
    """Bits per second of `10 Gbit/s` or `900 Mbit/s`. ValueError for anything else."""
    match = _SPEED.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no speed such as 10 Gbit/s")
    return round(float(match[1]) * _BITS[match[2]])


def speed_text(bits: int) -> str:
    """Bits per second as a config writes them."""
    return f"{bits / 1e9:g} Gbit/s" if bits >= 10**9 else f"{bits / 1e6:g} Mbit/s"


def topology_problem(crossings: Sequence[Crossing] | None, seen: Sequence[LinkSeen]) -> str | None:
    """The first thing that is wrong with the links that a shape goes over; None when all are as they must be.

    `seen` has what was probed of each crossing, in their order. A speed that cannot be read is not enough.
    """
    if crossings is None:
        return "it runs over several boxes, and this host has no link to another (hosts.<name>.links)"
    for crossing, probe in zip(crossings, seen, strict=True):
        problem = _link_problem(crossing, probe)
        if problem is not None:
            return problem
    return None


def _link_problem(crossing: Crossing, probe: LinkSeen) -> str | None:
    name = f"the link {crossing.interface} to {crossing.to}"
    if not probe.up:
        return f"{name} is down{f': {probe.why}' if probe.why else ''}"
    if crossing.speed is not None and (probe.speed is None or probe.speed < crossing.speed):
        has = "has a speed that cannot be read" if probe.speed is None else f"has {speed_text(probe.speed)}"
        return f"{name} {has}, and {speed_text(crossing.speed)} is needed"
    if crossing.port is not None and not probe.reached:
        why = f": {probe.why}" if probe.why else ""
        return (
            f"{crossing.peer}:{crossing.port} on {crossing.to} is not reached over {crossing.interface}{why}"
        )
    return None
