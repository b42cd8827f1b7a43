"""What memory there is, and whether an engine fits (MEM-2). Pure arithmetic; reads nothing.

Decides the sum that a start must pass, per pool, and whether memory came back after a stop. Does not
decide who makes room (`eviction`). Sizes are bytes; the sentences are in GiB, so that anyone can redo them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.fleet import HOST_POOL, Host, Pool, frozen
from hostler.domain.values import EngineId, gib

GPU: Final = "gpu"
"""Pools of a card's own memory are `gpu0`, `gpu1`, …; every other pool is a host's."""
HOST_RESERVE: Final = 8 << 30
GPU_RESERVE: Final = 512 << 20
FLOOR_STAYS_S: Final = 10.0
"""How long a host stays under its floor before it is a notice (MEM-7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One pool at one instant, in bytes (MEM-1). `pinned`: what GPU drivers hold of a unified pool (GTT)."""

    total: int
    available: int
    pinned: int | None = None

    @property
    def used(self) -> int:
        """What is not available."""
        return self.total - self.available


Pools = Mapping[str, Reading]
"""Every pool of a host by name: `host` (RAM, or the one unified pool), `gpu0`, …"""

Sizes = Mapping[str, int]
"""Bytes by pool."""

Holders = Mapping[EngineId, Sizes]
"""What each engine that is up holds, in bytes by pool."""


def effective_need(claim: Sizes, measured: Sizes, catalog_peak: Sizes | None = None) -> Sizes | None:
    """What an engine needs by pool; None when nothing is known of it (MEM-2).

    The larger, pool by pool, of the claim (the config's, else the catalog's measured peak) and the last
    measured peak.
    """
    claimed = claim or catalog_peak or {}
    if not claimed and not measured:
        return None
    return frozen({pool: max(claimed.get(pool, 0), measured.get(pool, 0)) for pool in (*claimed, *measured)})


def pool_of(host: Host, name: str) -> Pool:
    """The settings of a pool; defaults where the config names none."""
    return next((pool for pool in host.pools if pool.name == name), Pool(name=name))


def reserve_of(pool: Pool, reading: Reading) -> int:
    """What a start must leave free: as configured, else 8 GiB or a tenth of the pool, the smaller.

    512 MiB of a GPU's own memory (MEM-2).
    """
    if pool.reserve is not None:
        return pool.reserve
    if pool.name.startswith(GPU):
        return GPU_RESERVE
    return min(HOST_RESERVE, total_of(pool, reading) // 10)


def floor_of(pool: Pool, reading: Reading) -> int:
    """What must never be undercut: as configured, else half of the reserve (MEM-3)."""
    return pool.floor if pool.floor is not None else reserve_of(pool, reading) // 2


def total_of(pool: Pool, reading: Reading) -> int:
    """The pool's size: as configured, never more than the machine has."""
    return reading.total if pool.total is None else min(pool.total, reading.total)


def available_of(pool: Pool, reading: Reading) -> int:
    """What of the pool's size is available: less by what the config keeps out of it, never negative."""
    return max(0, reading.available - (reading.total - total_of(pool, reading)))


def never_fits(need: Sizes, host: Host, pools: Pools) -> str | None:
    """The sum that shows that `need` can never fit on `host`, None when it can (MEM-2, `memory_never`).

    A need that leaves less than the reserve of the whole pool never fits either: waiting does not help.
    A pool that cannot be read now is left to `fits`.
    """
    over: list[str] = []
    for name, size in need.items():
        reading = pools.get(name)
        if reading is None or size <= 0:
            continue
        pool = pool_of(host, name)
        total, reserve = total_of(pool, reading), reserve_of(pool, reading)
        if size + reserve > total:
            over.append(f"{_needs(name, size, reserve)}; the host has {gib(total)}")
    return ", and ".join(over) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether a need fits now. `short` is what each pool lacks, `arithmetic` the sum of those pools.

    Where no pool is short, `arithmetic` is the sum that was passed.
    """

    short: Sizes = field(default_factory=lambda: frozen({}))
    arithmetic: str = ""

    @property
    def ok(self) -> bool:
        """Whether no pool is short."""
        return not self.short


def fits(need: Sizes, host: Host, pools: Pools, gives_back: Sizes, holders: Holders) -> Fit:
    """Whether `need + reserve <= available + what the planned stops give back`, pool by pool (MEM-2).

    A pool of which nothing is needed is not looked at; one that cannot be read is short by all of it.
    """
    short: dict[str, int] = {}
    sums: dict[str, str] = {}
    for name, size in need.items():
        if size <= 0:
            continue
        reading = pools.get(name)
        if reading is None:
            short[name] = size
            sums[name] = f"{_needs(name, size, 0)}; {name} cannot be read now"
            continue
        pool, back = pool_of(host, name), gives_back.get(name, 0)
        reserve = reserve_of(pool, reading)
        missing = size + reserve - available_of(pool, reading) - back
        if missing > 0:
            short[name] = missing
        sums[name] = f"{_needs(name, size, reserve)}; {_offer(pool, reading, back, holders)}"
    told = [text for name, text in sums.items() if name in short or not short]
    return Fit(short=frozen(short), arithmetic=", and ".join(told))


def _needs(pool: str, size: int, reserve: int) -> str:
    where = "" if pool == HOST_POOL else f" of {pool}"
    return f"needs {gib(size)} GiB{where} + {gib(reserve)} reserve"


def _offer(pool: Pool, reading: Reading, back: int, holders: Holders) -> str:
    """`available 17.7; flash-next holds 106.3 of 124.0`."""
    parts = [f"available {gib(available_of(pool, reading))}"]
    if back > 0:
        parts.append(f"stops give back {gib(back)}")
    held = sorted(
        ((sizes[pool.name], engine) for engine, sizes in holders.items() if sizes.get(pool.name, 0) > 0),
        key=lambda it: (-it[0], it[1]),
    )
    who = ", ".join(f"{engine} holds {gib(size)}" for size, engine in held) or "no engine of ours holds any"
    return "; ".join([*parts, f"{who} of {gib(total_of(pool, reading))}"])


def residue(baseline: Pools, now: Pools, gave_back: Sizes, max_residue: int) -> int | None:
    """Bytes that did not come back after a stop, None when at most `max_residue` is missing (MEM-4).

    `baseline` was read before the stop, `gave_back` is what the engine held. The pool that lacks most
    counts; one that cannot be read now is still awaited.
    """
    missing = 0
    for name, size in gave_back.items():
        before = baseline.get(name)
        if before is None:
            continue
        after = now.get(name)
        # What the pool's size does not hold cannot come back: a claim above it is no residue.
        due = min(before.available + size, before.total)
        missing = max(missing, due - (after.available if after is not None else 0))
    return missing if missing > max_residue else None


def unexplained(pools: Pools, holders: Holders) -> tuple[int, str]:
    """The most that GPU memory holds beyond our engines in any pool, in bytes, and that pool (WIN-3).

    A dead process can pin 86 GiB. Of main memory that no GPU driver holds nobody can tell whose it is.
    """
    most, where = 0, ""
    for name, reading in pools.items():
        used = reading.used if name.startswith(GPU) else reading.pinned
        if used is None:
            continue
        beyond = used - sum(sizes.get(name, 0) for sizes in holders.values())
        if beyond > most:
            most, where = beyond, name
    return most, where


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorWatch:
    """The standing watch of one pool (MEM-7): since when (elapsed seconds) it is under its floor."""

    since: float | None = None
    told: bool = False

    def step(self, *, available: int, floor: int, now: float) -> FloorWatch:
        """The watch after one look at `now` (elapsed seconds); `told` turns True once per stay below."""
        if available >= floor:
            return FloorWatch()
        since = now if self.since is None else self.since
        return FloorWatch(since=since, told=self.told or now - since >= FLOOR_STAYS_S)


def who_grew(before: Holders, now: Holders, pool: str) -> Sequence[tuple[EngineId, int]]:
    """Engines that hold more of `pool` than `before`, with how many bytes more, the largest first (MEM-7)."""
    grown = [
        (engine, sizes.get(pool, 0) - before.get(engine, {}).get(pool, 0)) for engine, sizes in now.items()
    ]
    return sorted((it for it in grown if it[1] > 0), key=lambda it: (-it[1], it[0]))
