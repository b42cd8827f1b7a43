"""Free ports, one machine's memory: whether what has ports of its own fits on one box together (MEM-6).

Decides the sums of sets and of pairs. A free port is necessary, never sufficient: `8030 and 8036 are both
free, and each wants 92.6 GiB of raven's 124`. Sizes are bytes. What is up now is `memory`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from hostler.domain.fleet import HOST_POOL
from hostler.domain.memory import Sizes
from hostler.domain.values import gib


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What wants `needs` bytes of a host's main memory and has `ports` there.

    `group` is that of an engine, empty for who excludes nobody. `gated`: every start of it passes our gate,
    which does this sum then. `place` is where it is written.
    """

    service: str
    port: int
    ports: str
    needs: int
    group: str = ""
    gated: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Two whose ports are free and whose memory is not there: one sentence."""

    first: Claim
    second: Claim
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One pool of a host, as far as is known without asking it. `total` None is not known."""

    total: int | None
    reserve: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One pool's sum. `fits` None: a need, or the pool's size, is not known."""

    pool: str
    arithmetic: str
    fits: bool | None


def crowds(host: str, claims: Sequence[Claim], room: Room) -> tuple[Crowd, ...]:
    """Every two that may run at once and do not fit together, each fitting alone.

    None where the total is not known. One that cannot run alone is another's finding; engines of one group
    never run together, and of two that are gated the gate starts one.
    """
    total = room.total
    if total is None:
        return ()
    alone = [each for each in claims if each.needs + room.reserve <= total]
    return tuple(
        Crowd(first=first, second=second, sentence=_crowded(host, first, second, room.reserve, total))
        for first, second in combinations(alone, 2)
        if not (first.gated and second.gated)
        and not (first.group and first.group == second.group)
        and first.port != second.port
        and first.needs + second.needs + room.reserve > total
    )


def _crowded(host: str, first: Claim, second: Claim, reserve: int, total: int) -> str:
    of = f"of {host}'s {short_gib(total)}"
    if first.needs == second.needs:
        wants = f"each wants {short_gib(first.needs)} GiB {of}"
    else:
        wants = f"they want {short_gib(first.needs)} and {short_gib(second.needs)} GiB {of}"
    terms = f"{short_gib(first.needs)} + {short_gib(second.needs)} + {short_gib(reserve)} reserve"
    both = short_gib(first.needs + second.needs + reserve)
    return f"{first.ports} and {second.ports} are both free, and {wants} ({terms} = {both})"


def short_gib(size: int) -> str:
    """GiB with one decimal, none where it is 0: `124`, `92.6`."""
    return gib(size).removesuffix(".0")


def together(needs: Mapping[str, Sizes | None], rooms: Mapping[str, Room], host: str) -> tuple[Sum, ...]:
    """The sum of a set of engines on `host`, pool by pool; None is a need that nobody knows (MEM-6).

    A pool that none of them wants is left out. Without any known need the main pool's sum is told.
    """
    known = {name: sizes for name, sizes in needs.items() if sizes is not None}
    unknown = sorted(name for name, sizes in needs.items() if sizes is None)
    pools = list(dict.fromkeys(pool for sizes in known.values() for pool, size in sizes.items() if size > 0))
    return tuple(
        _sum(
            pool, {name: sizes.get(pool, 0) for name, sizes in known.items()}, unknown, rooms.get(pool), host
        )
        for pool in pools or [HOST_POOL]
    )


def _sum(pool: str, parts: Mapping[str, int], unknown: Sequence[str], room: Room | None, host: str) -> Sum:
    reserve = room.reserve if room is not None else 0
    wanted = [f"{name} {short_gib(size)}" for name, size in parts.items() if size > 0]
    terms = " + ".join([*wanted, *(f"{name} unknown" for name in unknown), f"reserve {short_gib(reserve)}"])
    total = sum(parts.values()) + reserve
    known = f"{terms} = {'at least ' if unknown else ''}{short_gib(total)} GiB"
    of = f"{host}'s" if pool == HOST_POOL else f"{host}'s {pool}'s"
    if room is None or room.total is None:
        size = "size, which the config does not say"
        return Sum(pool=pool, arithmetic=f"{known} of {of} {size}", fits=None)
    fits: bool | None = total <= room.total
    if fits and unknown:
        fits = None
    return Sum(pool=pool, arithmetic=f"{known} of {of} {short_gib(room.total)}", fits=fits)
