"""What follows from rows and findings: collisions, gaps of the registry, shared slots (PORT-3, PORT-4).

Decides each verdict and whether it counts as a finding. Every scan is a lower bound: no verdict says that
there is no port, only that none was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from hostler.domain.port_memory import Claim, Room, crowds
from hostler.domain.ports import (
    NO_HOST,
    Allowed,
    Finding,
    Role,
    Row,
    Status,
    is_wildcard,
    overlap,
)

OPEN: Final = frozenset({Status.PRODUCTION, Status.TRANSIENT})
"""Statuses whose rows a file should show; the others need not be anywhere."""
OURS: Final = "hostler "
"""How the `thing` of what our own config has begins: the config is its registry."""
SCRIPT: Final = "script "
"""How the `thing` of a script begins: what is written in one script runs one after the other."""


class Kind(StrEnum):
    """What a verdict says."""

    COLLISION = "collision"
    UNDOCUMENTED = "undocumented"
    STALE = "stale?"
    ENTERED = "reserved range entered"
    MEMORY = "free ports, one machine's memory"
    NO_HOST = "host unknown"
    ALLOW_STALE = "allowed, not found"
    TROUBLE = "not understood"
    SLOT = "shared slot"
    EXCLUSIVE = "shared by turns"
    OWN = "hit in its own reservation"
    TWO_HOSTS = "one number, several hosts"
    REMARK = "remark"

    @property
    def counts(self) -> bool:
        """Whether it is a finding; the rest is information."""
        return self in _COUNTING


_COUNTING: Final = frozenset(
    {
        Kind.COLLISION,
        Kind.UNDOCUMENTED,
        Kind.STALE,
        Kind.ENTERED,
        Kind.MEMORY,
        Kind.NO_HOST,
        Kind.ALLOW_STALE,
        Kind.TROUBLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict. `where` are the places in files, `owners` who is meant, `profiles` what it depends on."""

    kind: Kind
    host: str
    port: int | None
    text: str
    protocol: str = "tcp"
    owners: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """All that is judged at once. `read` are the hosts of which files were read; `rooms` their memory."""

    findings: Sequence[Finding]
    rows: Sequence[Row]
    allowed: Sequence[Allowed] = ()
    claims: Mapping[str, Sequence[Claim]]
    rooms: Mapping[str, Room]
    read: frozenset[str] = frozenset()

    def listening(self) -> list[Finding]:
        """Where something listens at a known port of a known host."""
        return [
            each
            for each in self.findings
            if each.role is Role.LISTENS and each.port is not None and each.host != NO_HOST
        ]


def judge(heap: Heap) -> tuple[Verdict, ...]:
    """Every verdict: what counts first, then by host and port."""
    met = tuple(_meetings(heap))
    crowded = tuple(_memory(heap))
    found = [
        *met,
        *crowded,
        *_entered(heap),
        *_undocumented(heap),
        *_stale(heap),
        *_homeless(heap),
        *_several_hosts(heap),
        *_unused(heap, [*met, *crowded]),
    ]
    return tuple(sorted(found, key=lambda it: (not it.kind.counts, it.host, it.port or 0, it.kind.value)))


# --- two at one port ----------------------------------------------------------------------------------------


def meet(first: Finding, second: Finding) -> bool:
    """Whether both would listen at one port of one host, and are two things (PORT-3)."""
    return (
        (first.host, first.protocol, first.port) == (second.host, second.protocol, second.port)
        and overlap(first.address, second.address)
        and not _one(first, second)
    )


def _one(first: Finding, second: Finding) -> bool:
    """One thing at one place: a script, the same address twice, or the wildcards of both families.

    What two files say of one thing are two ways to start it, as `compose.yaml` and `compose.prod.yaml` are.
    """
    if not first.thing or first.thing != second.thing:
        return False
    wildcards = is_wildcard(first.address) and is_wildcard(second.address)
    once = first.thing.startswith(SCRIPT) or first.file != second.file
    return once or first.address == second.address or wildcards


def _meetings(heap: Heap) -> Iterator[Verdict]:
    by_port: dict[tuple[str, str, int], list[Finding]] = {}
    for each in heap.listening():
        by_port.setdefault((each.host, each.protocol, each.port or 0), []).append(each)
    for (host, _, port), there in by_port.items():
        for members in components(there, meet):
            if len(members) > 1:
                yield _meeting(heap, host, port, members)


def components(items: Sequence[Finding], joined: Callable[[Finding, Finding], bool]) -> list[list[Finding]]:
    """The items in heaps: two are in one when they are joined, or others join them."""
    heaps: list[list[Finding]] = []
    for each in items:
        touched = [heap for heap in heaps if any(joined(each, other) for other in heap)]
        heaps = [heap for heap in heaps if heap not in touched]
        heaps.append([*(other for heap in touched for other in heap), each])
    return heaps


def _meeting(heap: Heap, host: str, port: int, members: Sequence[Finding]) -> Verdict:
    pairs = [(a, b) for a, b in combinations(members, 2) if meet(a, b)]
    owners = tuple(dict.fromkeys(each.owner or each.place for each in members))
    addresses = "+".join(sorted({each.address for each in members}))
    always = any(not (a.profiles or b.profiles) for a, b in pairs)
    named = {name for each in members for name in each.profiles}
    profiles = () if always else tuple(sorted(named))
    what = f"{addresses}:{port}/{members[0].protocol}"
    slot = _allowance(heap.allowed, host, port, owners)
    if all(a.group and a.group == b.group for a, b in pairs):
        kind, said = Kind.EXCLUSIVE, f"{what} is shared by engines that exclude each other: fine"
    elif slot is not None:
        kind, said = Kind.SLOT, f"{what} has {len(owners)} claimants and needs one at a time: {slot.why}"
    else:
        only = f", only with profile {', '.join(profiles)}" if profiles else ""
        kind, said = Kind.COLLISION, f"{what} is wanted {len(members)} times{only}"
    return Verdict(
        kind=kind,
        host=host,
        port=port,
        protocol=members[0].protocol,
        text=f"{said}: {', '.join(each.who for each in members)}",
        owners=owners,
        where=tuple(each.place for each in members),
        profiles=profiles,
    )


def _allowance(allowed: Iterable[Allowed], host: str, port: int, owners: Iterable[str]) -> Allowed | None:
    """The entry that names exactly these, or None."""
    services = frozenset(owners)
    return next((it for it in allowed if (it.host, it.port, it.services) == (host, port, services)), None)


def _unused(heap: Heap, met: Sequence[Verdict]) -> Iterator[Verdict]:
    """Entries of the allowlist that name nothing that was found: an error once stale."""
    slots = {(it.host, it.port, frozenset(it.owners)) for it in met if it.kind is not Kind.COLLISION}
    for each in heap.allowed:
        if (each.host, each.port, each.services) in slots:
            continue
        there = [", ".join(it.owners) for it in met if (it.host, it.port) == (each.host, each.port)]
        now = f"there are {'; '.join(there)}" if there else "none was found there"
        text = f"the allowlist has {', '.join(sorted(each.services))} at {each.port}, {now}"
        owners = tuple(sorted(each.services))
        yield Verdict(kind=Kind.ALLOW_STALE, host=each.host, port=each.port, text=text, owners=owners)


# --- the registry and what was found ------------------------------------------------------------------------


def _named(heap: Heap) -> Iterator[Finding]:
    """Known ports on known hosts that a registry should have: what only connects is not among them."""
    seen = set()
    for each in heap.findings:
        key = (each.host, each.port, each.protocol, each.thing or each.place)
        if each.role is Role.USED or each.port is None or each.host == NO_HOST or key in seen:
            continue
        seen.add(key)
        yield each


def _undocumented(heap: Heap) -> Iterator[Verdict]:
    """Ports in no row, or in one that says that nobody has them. Nothing is judged without any row."""
    if not heap.rows:
        return
    for each in _named(heap):
        rows = [row for row in heap.rows if row.covers(each)]
        unwanted = [row for row in rows if row.status in (Status.FREED, Status.AVOID)]
        if rows and len(unwanted) < len(rows):
            continue
        if unwanted:
            row = unwanted[0]
            why = f"{row.place} says {row.status} ({row.service})"
        elif each.thing.startswith(OURS):
            continue
        else:
            why = "no row has it"
        yield Verdict(
            kind=Kind.UNDOCUMENTED,
            host=each.host,
            port=each.port,
            protocol=each.protocol,
            text=f"{each.address}:{each.port}/{each.protocol} of {each.who}: {why}",
            owners=(each.owner,),
            where=(each.place,),
        )


def _entered(heap: Heap) -> Iterator[Verdict]:
    """Reserved rows that somebody uses: another's is a finding, one's own is a hit and no confirmation."""
    for each in _named(heap):
        for row in heap.rows:
            if row.status is not Status.RESERVED or not row.covers(each):
                continue
            own = each.is_called(row.service) or (row.by == "hostler" and each.thing.startswith(OURS))
            said = "is a hit, not a confirmation" if own else "is another's"
            yield Verdict(
                kind=Kind.OWN if own else Kind.ENTERED,
                host=each.host,
                port=each.port,
                protocol=each.protocol,
                text=f"{row.ports} is reserved for {row.service} ({row.place}); {each.who} {said}",
                owners=(each.owner,),
                where=(row.place, each.place),
            )


def _stale(heap: Heap) -> Iterator[Verdict]:
    """Rows that no file shows. A host of which no file was read is not judged: its coverage says so.

    What hostler starts stands in its config, which is always read.
    """
    for row in heap.rows:
        shown = row.by == "hostler" or row.host in heap.read
        if row.status not in OPEN or row.by == "system" or not shown:
            continue
        if any(row.covers(each) for each in heap.findings if each.role is not Role.USED):
            continue
        yield Verdict(
            kind=Kind.STALE,
            host=row.host,
            port=row.port,
            protocol=row.protocol,
            text=f"{row.ports} is {row.service}'s ({row.status}) and was found in no file that was read",
            owners=(row.service,),
            where=(row.place,),
        )


def _homeless(heap: Heap) -> Iterator[Verdict]:
    for each in heap.findings:
        if each.host == NO_HOST and each.port is not None and each.role is not Role.USED:
            yield Verdict(
                kind=Kind.NO_HOST,
                host=NO_HOST,
                port=each.port,
                protocol=each.protocol,
                text=f"{each.port} of {each.who}: nothing says which host it is on",
                owners=(each.owner,),
                where=(each.place,),
            )


def _several_hosts(heap: Heap) -> Iterator[Verdict]:
    hosts: dict[tuple[str, int], dict[str, str]] = {}
    for each in heap.listening():
        hosts.setdefault((each.protocol, each.port or 0), {}).setdefault(each.host, each.owner or each.place)
    for (protocol, port), there in hosts.items():
        if len(there) > 1:
            told = ", ".join(f"{host} ({who})" for host, who in sorted(there.items()))
            text = f"{port}/{protocol} is on {told}: two ports, one number"
            yield Verdict(
                kind=Kind.TWO_HOSTS, host=min(there), port=port, protocol=protocol, text=text, owners=()
            )


# --- memory -------------------------------------------------------------------------------------------------


def _memory(heap: Heap) -> Iterator[Verdict]:
    """Pairs whose ports are free and whose memory is not there; one that is allowed is a shared slot."""
    for host, claims in heap.claims.items():
        room = heap.rooms.get(host)
        for crowd in crowds(host, claims, room) if room is not None else ():
            owners = (crowd.first.service, crowd.second.service)
            slot = next(
                (
                    (port, found)
                    for port in (crowd.first.port, crowd.second.port)
                    if (found := _allowance(heap.allowed, host, port, owners))
                ),
                None,
            )
            yield Verdict(
                kind=Kind.MEMORY if slot is None else Kind.SLOT,
                host=host,
                port=crowd.first.port if slot is None else slot[0],
                text=crowd.sentence if slot is None else f"{crowd.sentence}: {slot[1].why}",
                owners=owners,
                where=(crowd.first.place, crowd.second.place),
            )
