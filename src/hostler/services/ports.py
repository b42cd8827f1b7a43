"""The registry of ports as commands and the API see it: what was read, what follows, what is free (PORT-3).

Decides which claims on memory a host has, and what a report holds. Files are read by `hostler.adapters.scan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.fleet import HOST_POOL, DriverKind, Engine, Fleet, Host, frozen
from hostler.domain.memory import Reading, reserve_of
from hostler.domain.port_memory import Claim, Room, Sum
from hostler.domain.port_verdicts import OURS, Heap, Kind, Verdict, judge
from hostler.domain.ports import (
    ANY,
    NO_HOST,
    Allowed,
    Finding,
    Places,
    Role,
    Row,
    Status,
    Trouble,
    free_ports,
    overlap,
)

LOWER_BOUND: Final = "A scan is a lower bound: it finds what is written in forms that it knows, and no more."
NECESSARY: Final = "A free port is necessary, never sufficient: the machine has one memory."
CONFIG: Final = "config"
"""The kind of our own config: it is about every host, and shows what hostler starts only."""
CLAIMING: Final = frozenset({Status.PRODUCTION, Status.RESERVED, Status.TRANSIENT})
"""Statuses whose rows want the memory that they name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file that was read, as what, and for which hosts."""

    path: str
    kind: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What was not read, and why; `count` files."""

    what: str
    why: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What a scan saw, before hosts are told. `forms` are those that were tried."""

    findings: tuple[Finding, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    read: tuple[Source, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """What is written down: allocations, what is meant to be shared, and what was wrong with them."""

    rows: tuple[Row, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much is known of a host: its rows, the files read for it, the ports found on it."""

    host: str
    rows: int
    files: int
    findings: int

    @property
    def blind(self) -> bool:
        """Whether it has rows and no file was read that could show them."""
        return self.rows > 0 and self.files == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReport:
    """What `hostler ports check` says (PORT-3, PORT-4)."""

    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]
    read: tuple[Source, ...]
    skipped: tuple[Skipped, ...]
    forms: tuple[str, ...]
    found: Mapping[str, int]
    coverage: tuple[Coverage, ...]
    lower_bound: str = LOWER_BOUND

    @property
    def clean(self) -> bool:
        """Whether no verdict counts."""
        return not any(verdict.kind.counts for verdict in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A port that was found free, or with `port` None that none was. `looked` are the places asked.

    `unknown`: who listens there could not be asked. Then the port is one that nothing written down has.
    """

    host: str
    port: int | None
    low: int
    high: int
    looked: tuple[str, ...]
    missed: tuple[str, ...] = ()
    note: str = NECESSARY
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A row that was written and read back."""

    row: Row
    proposal: Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a row is asked for: its words, and where its port may lie."""

    host: str
    low: int
    high: int
    service: str = ""
    address: str = ANY
    protocol: str = "tcp"
    status: Status = Status.RESERVED
    by: str = ""
    needs: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """The sums of a set of engines on a host (MEM-6). `fits` None: something is not known."""

    host: str
    sums: tuple[Sum, ...]
    remarks: tuple[str, ...] = ()

    @property
    def fits(self) -> bool | None:
        """False when one pool is too small, True when every one is large enough."""
        if any(each.fits is False for each in self.sums):
            return False
        return True if all(each.fits for each in self.sums) else None


def report(scanned: Scanned, registry: Registry, places: Places, fleet: Fleet | None) -> PortReport:
    """Every verdict on what was scanned and what is written down."""
    rows = tuple(replace(row, host=places.named(row.host)) for row in registry.rows)
    placed = [each for finding in scanned.findings for each in places.place(finding)]
    findings = tuple(dict.fromkeys(_adopted(placed, fleet)))
    sources = tuple(
        source if source.kind == CONFIG else replace(source, hosts=places.of_file(source.path))
        for source in scanned.read
    )
    read = frozenset(host for source in sources for host in source.hosts)
    heap = Heap(
        findings=findings,
        rows=rows,
        allowed=registry.allowed,
        claims=claims(rows, fleet),
        rooms={host.name: room_of(host) for host in fleet.hosts.values()} if fleet is not None else {},
        read=read,
    )
    told = (_told(trouble) for trouble in (*registry.troubles, *scanned.troubles))
    verdicts = sorted((*told, *judge(heap)), key=lambda verdict: not verdict.kind.counts)
    return PortReport(
        verdicts=tuple(verdicts),
        findings=findings,
        rows=rows,
        read=sources,
        skipped=scanned.skipped,
        forms=scanned.forms,
        found=frozen(Counter(finding.form for finding in findings)),
        coverage=tuple(_coverage(fleet, rows, sources, findings)),
    )


def _told(trouble: Trouble) -> Verdict:
    return Verdict(
        kind=Kind.TROUBLE if trouble.counts else Kind.REMARK,
        host="",
        port=None,
        text=f"{trouble.file}:{trouble.line}: {trouble.message}",
        where=(f"{trouble.file}:{trouble.line}",),
        profiles=trouble.profiles,
    )


def _adopted(findings: Sequence[Finding], fleet: Fleet | None) -> list[Finding]:
    """Findings with what a compose file or a unit says of an engine of ours taken for that engine's."""
    engines = list(fleet.engines.values()) if fleet is not None else []
    found: list[Finding] = []
    for each in findings:
        engine = next((it for it in engines if _starts(it, each)), None)
        if engine is None:
            found.append(each)
            continue
        names = (*each.names, each.owner)
        thing, group = f"{OURS}engine {engine.id}", group_name(engine)
        found.append(replace(each, thing=thing, owner=str(engine.id), names=names, group=group))
    shown = {(it.host, it.thing, it.port) for it in found if not it.form.startswith(OURS)}
    return [it for it in found if not (it.form.startswith(OURS) and (it.host, it.thing, it.port) in shown)]


def _starts(engine: Engine, finding: Finding) -> bool:
    """Whether a finding is of the container, the service or the unit that an engine is."""
    if engine.host != finding.host or finding.thing.startswith(OURS):
        return False
    if engine.driver is DriverKind.COMPOSE and engine.compose is not None:
        return finding.thing == f"compose {engine.compose.file.rpartition('/')[0]} {engine.compose.service}"
    if engine.driver is DriverKind.CONTAINER and engine.container is not None:
        return finding.thing.startswith("compose ") and engine.container.name in (
            finding.owner,
            *finding.names,
        )
    if engine.driver is DriverKind.SYSTEMD and engine.unit is not None:
        return finding.thing == f"unit {engine.unit}"
    return False


def group_name(engine: Engine) -> str:
    """A group as a fleet knows it: its name counts on one host only (EVICT-1)."""
    return f"{engine.host}/{engine.group}" if engine.group is not None else ""


def claims(rows: Iterable[Row], fleet: Fleet | None) -> Mapping[str, Sequence[Claim]]:
    """What wants main memory, by host: rows that name a need, and engines that no such row is about."""
    found: dict[str, list[Claim]] = {}
    for row in rows:
        if row.needs and row.status in CLAIMING:
            found.setdefault(row.host, []).append(
                Claim(
                    service=row.service,
                    port=row.port,
                    ports=row.ports,
                    needs=row.needs,
                    gated=row.by == "hostler",
                    place=row.place,
                )
            )
    for engine in fleet.engines.values() if fleet is not None else ():
        need, there = engine.need.get(HOST_POOL, 0), found.setdefault(str(engine.host), [])
        known = any(engine.port == each.port or each.service == engine.id for each in there)
        if need and engine.port is not None and not known:
            there.append(
                Claim(
                    service=str(engine.id),
                    port=engine.port,
                    ports=str(engine.port),
                    needs=need,
                    group=group_name(engine),
                    gated=True,
                )
            )
    return found


def room_of(host: Host, pool: str = HOST_POOL) -> Room:
    """A pool's size as the config says it, and what is kept free of it (MEM-2)."""
    found = next((each for each in host.pools if each.name == pool), None)
    if found is None or found.total is None:
        return Room(total=None, reserve=(found.reserve if found is not None else None) or 0)
    return Room(
        total=found.total, reserve=reserve_of(found, Reading(total=found.total, available=found.total))
    )


def _coverage(
    fleet: Fleet | None, rows: Sequence[Row], sources: Sequence[Source], findings: Sequence[Finding]
) -> Iterable[Coverage]:
    configured = [str(host) for host in fleet.hosts] if fleet is not None else []
    seen = [*(row.host for row in rows), *(host for it in sources for host in it.hosts)]
    for host in dict.fromkeys([*configured, *seen]):
        yield Coverage(
            host=host,
            rows=sum(row.host == host for row in rows),
            files=sum(host in source.hosts for source in sources),
            findings=sum(it.host == host and it.role is not Role.USED for it in findings),
        )


def propose(
    wish: Wish, rows: Sequence[Row], findings: Sequence[Finding], listening: Sequence[tuple[str, int]]
) -> int | None:
    """The lowest port of the range that no row, no finding and no listener of the host has (PORT-5)."""
    taken = [
        (row.port, row.last)
        for row in rows
        if row.host == wish.host
        and row.protocol == wish.protocol
        and row.status.taken
        and overlap(row.address, wish.address)
    ]
    for each in findings:
        if each.host not in (wish.host, NO_HOST) or each.protocol != wish.protocol or each.role is Role.USED:
            continue
        if each.port is not None and overlap(each.address, wish.address):
            taken.append((each.port, each.port))
        elif each.among is not None:
            taken.append(each.among)
    taken += [(port, port) for address, port in listening if overlap(address, wish.address)]
    free = free_ports(wish.low, wish.high, taken)
    return free[0] if free else None
