"""Sums of memory: every set that a residency or a mode asks for, against what a host has (MEM-6, MODE-1).

Only totals that the config gives are judged: what the machine has is known when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import View, needs_of, pools_of
from hostler.domain.fleet import HOST_POOL, Pool
from hostler.domain.port_memory import Claim, Room, crowds
from hostler.domain.values import gib

_HOST_RESERVE = 8 << 30
_GPU_RESERVE = 512 << 20


def check_memory(view: View) -> None:
    """Residents of each host, engines of each mode, and each engine alone."""
    for host in view.hosts:
        residents = [
            part
            for name, each in view.doc.engines.items()
            if each.resident
            for part in view.parts_of(name, host)
        ]
        _exclusive(view, host, [name for name in residents if view.doc.engines[name].resident])
        _fits(view, host, residents, "the residents", ("hosts", host))
    for name, mode in view.doc.modes.items():
        for host, engines in mode.hosts.items():
            parts = [part for engine in engines for part in view.parts_of(engine, host)]
            _fits(view, host, parts, f"mode {name}", ("modes", name, "hosts", host))
    for name in view.doc.engines:
        _alone(view, name)
    _rows(view)


def reserve_of(pool: Pool) -> int:
    """What is kept free of a pool with a known total (MEM-2)."""
    if pool.reserve is not None:
        return pool.reserve
    return min(_HOST_RESERVE, (pool.total or 0) // 10) if pool.name == HOST_POOL else _GPU_RESERVE


def _fits(view: View, host: str, engines: Iterable[str], what: str, path: Path) -> None:
    if host not in view.hosts:
        return
    wanted = {name: needs_of(view.doc.engines[name]) for name in dict.fromkeys(engines)}
    for name, pool in pools_of(view.hosts[host].memory).items():
        parts = {engine: needs[name] for engine, needs in wanted.items() if name in needs}
        reserve = reserve_of(pool)
        if parts and pool.total is not None and sum(parts.values()) + reserve > pool.total:
            of = host if name == HOST_POOL else f"{host}'s {name}"
            terms = " + ".join(f"{engine} {gib(need)}" for engine, need in parts.items())
            total = gib(sum(parts.values()) + reserve)
            view.error(
                path,
                f"{what} do not fit: {terms} + reserve {gib(reserve)} = {total} GiB"
                f" of {of}'s {gib(pool.total)}",
                at_key=True,
            )


def _rows(view: View) -> None:
    """A warning for rows of the registry whose ports are free and whose memory is not there."""
    rows = list(enumerate(view.doc.ports.rows))
    for host, keys in view.hosts.items():
        pool = pools_of(keys.memory).get(HOST_POOL)
        if pool is None or pool.total is None:
            continue
        claims = [
            Claim(
                service=row.service,
                port=row.port[0],
                ports=str(row.port[0]) if row.port[0] == row.port[1] else f"{row.port[0]}-{row.port[1]}",
                needs=row.needs,
                gated=row.by == "hostler",
                place=str(number),
            )
            for number, row in rows
            if row.host == host and row.needs and row.status not in ("freed", "avoid", "external")
        ]
        for crowd in crowds(host, claims, Room(total=pool.total, reserve=reserve_of(pool))):
            view.warn(view.index(("ports", "rows"), int(crowd.second.place)), crowd.sentence)


def _alone(view: View, name: str) -> None:
    engine = view.doc.engines[name]
    host = view.hosts.get(engine.host or "")
    if host is None or engine.resident:
        return
    pools = pools_of(host.memory)
    for pool, need in needs_of(engine).items():
        total = pools[pool].total if pool in pools else None
        if total is not None and need > total:
            path: Path = ("engines", name, "memory")
            view.warn(path, f"can never start: it needs {gib(need)} GiB of {engine.host}'s {gib(total)}")


def _exclusive(view: View, host: str, residents: list[str]) -> None:
    """Two that exclude each other cannot both be kept up (EVICT-1)."""
    by_group: dict[str, str] = {}
    groups = view.hosts[host].groups
    for name in residents:
        group = view.doc.engines[name].group
        if group is None:
            continue
        path: Path = ("engines", name, "resident")
        if group in by_group:
            first = view.line(("engines", by_group[group]))
            view.error(path, f"{by_group[group]} is resident too ({first}), and {group} holds one at a time")
        by_group.setdefault(group, name)
    for group, name in by_group.items():
        for other in groups[group].evicts if group in groups else ():
            if other in by_group:
                victim = by_group[other]
                view.error(
                    ("engines", victim, "resident"), f"each start of {name} stops it: {group} evicts {other}"
                )
