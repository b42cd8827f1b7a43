"""Ports as people write them down and as files use them: rows, findings, and when two meet (PORT-1, PORT-3).

Decides what an allocation and a finding are, which host a finding is on, and when two addresses overlap.
What follows from a heap of them is `port_verdicts`. A port number without a host is not an allocation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from hostler.domain.fleet import frozen

LOWEST: Final = 1
HIGHEST: Final = 65_535
NO_HOST: Final = "unknown"
"""The host of a finding that nothing puts on a machine: a finding by itself."""

ANY: Final = "any"
"""Every interface, IPv4 and IPv6: what a published port without an address is bound to."""
PROGRAM: Final = "program default"
"""The program was given a port and no address."""
UNSAID: Final = "unknown"
"""Nothing says where it is bound."""
_UNCERTAIN: Final = frozenset({PROGRAM, UNSAID})


class Certainty(StrEnum):
    """How sure a number is: as it stands, the default of a variable, or whatever a variable holds."""

    LITERAL = "literal"
    DEFAULT = "default"
    VARIABLE = "variable"

    @property
    def doubt(self) -> int:
        """0 for literal, rising."""
        return (Certainty.LITERAL, Certainty.DEFAULT, Certainty.VARIABLE).index(self)


def least_sure(*parts: Certainty) -> Certainty:
    """What a text of several parts is: as unsure as its least sure part."""
    return max(parts, key=lambda each: each.doubt, default=Certainty.LITERAL)


class Role(StrEnum):
    """What a file does with a port: it listens there, only assigns it, or connects to it."""

    LISTENS = "listens"
    ASSIGNED = "assigned"
    USED = "used"


class Status(StrEnum):
    """What kind of allocation a row is (PORT-1)."""

    PRODUCTION = "production"
    RESERVED = "reserved"
    TRANSIENT = "transient"
    EXTERNAL = "external"
    FREED = "freed"
    AVOID = "avoid"

    @property
    def taken(self) -> bool:
        """Whether somebody has it; a freed one may be given again."""
        return self is not Status.FREED


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One allocation: `port` to `last` of one host. `needs` are bytes of its host's memory, None unsaid.

    `file` and `line` are where it is written.
    """

    host: str
    port: int
    last: int
    service: str
    address: str = ANY
    protocol: str = "tcp"
    status: Status = Status.PRODUCTION
    by: str = ""
    needs: int | None = None
    note: str = ""
    file: str = ""
    line: int = 0

    @property
    def ports(self) -> str:
        """`8030`, or `8031-8033`."""
        return str(self.port) if self.port == self.last else f"{self.port}-{self.last}"

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def covers(self, finding: Finding) -> bool:
        """Whether the finding lies in this allocation."""
        return (
            finding.port is not None
            and self.host == finding.host
            and self.protocol == finding.protocol
            and self.port <= finding.port <= self.last
            and overlap(self.address, finding.address)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A port in a file. `port` None is chosen at run time, from `among` where that is known.

    `thing` is what has it, told apart from all others; `owner` its name for people, `names` its other ones.
    `host` is empty until it is placed. `group`: engines of one group of a host never run together.
    `branch`: one of several values that the script may take.
    """

    port: int | None
    file: str
    line: int
    form: str
    host: str = ""
    address: str = ANY
    protocol: str = "tcp"
    role: Role = Role.LISTENS
    certainty: Certainty = Certainty.LITERAL
    thing: str = ""
    owner: str = ""
    names: tuple[str, ...] = ()
    group: str = ""
    profiles: tuple[str, ...] = ()
    among: tuple[int, int] | None = None
    branch: bool = False
    note: str = ""

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def who(self) -> str:
        """Its owner and where it says so, for people."""
        return f"{self.owner} ({self.place})" if self.owner else self.place

    def is_called(self, service: str) -> bool:
        """Whether a row's service is this finding's owner by one of its names."""
        return plain_name(service) in {plain_name(name) for name in (self.owner, *self.names) if name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something in a file that is wrong or could not be read; `counts`: it is a finding, else a remark."""

    file: str
    line: int
    message: str
    profiles: tuple[str, ...] = ()
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A port that exactly these services share, and why that is right (PORT-3)."""

    host: str
    port: int
    services: frozenset[str]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How a finding's host is told: by bound address, else by path rules, else `default` (PORT-2).

    `hosts` are the names of the fleet's.
    """

    hosts: frozenset[str] = frozenset()
    by_address: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    rules: Mapping[str, Sequence[str]] = field(default_factory=lambda: frozen({}))
    default: str = ""

    def of_file(self, path: str) -> tuple[str, ...]:
        """The hosts that a file runs on; a rule `bundles/*` is meant anywhere below a folder."""
        found = (host for host, rules in self.rules.items() if any(_matches(path, rule) for rule in rules))
        return tuple(found) or ((self.default,) if self.default else (NO_HOST,))

    def place(self, finding: Finding) -> tuple[Finding, ...]:
        """The finding on its host, or on each of them."""
        if finding.host:
            return (replace(finding, host=self.named(finding.host)),)
        by_address = self.by_address.get(finding.address)
        hosts = (by_address,) if by_address else self.of_file(finding.file)
        return tuple(replace(finding, host=host) for host in hosts)

    def named(self, name: str) -> str:
        """The host that an address or a longer name of it means, as `raven.lan`; else the name itself."""
        label = name.partition(".")[0]
        return self.by_address.get(name, label if label in self.hosts else name)


def _matches(path: str, rule: str) -> bool:
    return fnmatchcase(path, rule) or fnmatchcase(path, f"*/{rule}")


def plain_name(name: str) -> str:
    """A name without case and with one kind of hyphen: `Flash Next` and `flash_next` are one."""
    return "-".join(name.replace("_", " ").replace("-", " ").lower().split())


def is_wildcard(address: str) -> bool:
    """Whether it means every interface of a family."""
    return address == ANY or (address not in _UNCERTAIN and _ip(address).is_unspecified)


def overlap(first: str, second: str) -> bool:
    """Whether two listeners at these addresses of one port meet (PORT-3).

    Equal ones do, and a wildcard with every address of its family; IPv6's takes IPv4 as well. Two specific
    ones do not. Where an address is not known it may be any.
    """
    if first == second or not _UNCERTAIN.isdisjoint((first, second)):
        return True
    if ANY in (first, second):
        return True
    one, two = _ip(first), _ip(second)
    if one == two:
        return True
    if not (one.is_unspecified or two.is_unspecified):
        return False
    wildcard, other = (one, two) if one.is_unspecified else (two, one)
    return wildcard.version == 6 or other.version == 4 or other.is_unspecified


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address)


def free_ports(low: int, high: int, taken: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The ports of `low` to `high` that lie in none of the spans `taken`."""
    busy = {port for first, last in taken for port in range(max(first, low), min(last, high) + 1)}
    return tuple(port for port in range(low, high + 1) if port not in busy)
