"""One entry of a compose service's `ports`: the short and the long syntax (PORT-2).

Decides what is published where, what is wrong with an entry, and what an entry leaves to chance.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hostler.adapters.scan.tree import Keys, Text, Tree
from hostler.adapters.scan.variables import Filled, fill
from hostler.domain.ports import ANY, HIGHEST, LOWEST, Certainty, least_sure

PROTOCOLS: Final = ("tcp", "udp", "sctp")
SHORT: Final = "compose ports, short"
LONG: Final = "compose ports, long"
_SPAN: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_SEXAGESIMAL: Final = re.compile(r"[1-9][0-9]*(?::[0-5]?[0-9])+")
_BLANK: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One port of the host. `port` None: chosen when it starts, from `among` where that is given."""

    address: str
    port: int | None
    protocol: str
    form: str
    certainty: Certainty
    among: tuple[int, int] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something about an entry; `counts`: it is wrong."""

    message: str
    counts: bool = True


class Wrong(Exception):
    """An entry that compose would refuse: why."""


def entry(tree: Tree, known: Mapping[str, str]) -> Iterator[Published | Remark]:
    """What one entry publishes, and what is to be said of it."""
    try:
        if isinstance(tree, Keys):
            yield from _long(tree, known)
        elif isinstance(tree, Text):
            yield from _short(tree, known)
        else:
            yield Remark(message="a port that is a list")
    except Wrong as wrong:
        yield Remark(message=str(wrong))


def _short(tree: Text, known: Mapping[str, str]) -> Iterator[Published | Remark]:
    filled = fill(tree.value, known)
    _check_missing(filled)
    if not filled.text.strip():
        raise Wrong("an empty port")
    rest, _, protocol = filled.text.strip().partition("/")
    address, published, container = _parts(rest)
    yield from _quote(tree)
    blank = _BLANK.match(tree.value)
    if address == "" and blank is not None and blank[1] in filled.unset:
        yield Remark(message=f"blank address from unset {blank[1]}: {rest} is open on every interface")
    inner = _span(container, "the container's port")
    for port, among in _numbers(published, inner):
        yield Published(
            address=_address(address),
            port=port,
            protocol=_protocol(protocol or "tcp"),
            form=SHORT,
            certainty=filled.certainty,
            among=among,
            note="" if port or among else _by_chance(container, filled),
        )


def _by_chance(container: str, filled: Filled) -> str:
    unset = f"; {', '.join(filled.unset)} is not set" if filled.unset else ""
    return f"container {container}{unset}"


def _parts(text: str) -> tuple[str | None, str, str]:
    """Address (None: not given), published and container of `text` without its protocol."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise Wrong(f"{text}: an address in brackets, then :port:port")
        published, _, container = rest[1:].rpartition(":")
        return address, published, container
    parts = text.split(":")
    match parts:
        case [container]:
            return None, "", container
        case [published, container]:
            return None, published, container
        case [address, published, container]:
            return address, published, container
    raise Wrong(f"{text}: more than address:port:port")


def _address(text: str | None) -> str:
    if not text:
        return ANY
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise Wrong(f"{text} is no IP address") from None


def _protocol(text: str) -> str:
    if text.lower() not in PROTOCOLS:
        raise Wrong(f"{text} is no protocol: {', '.join(PROTOCOLS)}")
    return text.lower()


def _span(text: str, what: str) -> tuple[int, int]:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise Wrong(f"{what} is {text or 'missing'}")
    low, high = int(match[1]), int(match[2] or match[1])
    if high > HIGHEST:
        raise Wrong(f"{what} {text} is out of range: at most {HIGHEST}")
    if low > high:
        raise Wrong(f"{what} {text} is reversed")
    return low, high


def _numbers(published: str, inner: tuple[int, int]) -> Iterator[tuple[int | None, tuple[int, int] | None]]:
    """Each published port; one of a range where the container has one port only."""
    if published in ("", "0"):
        for _ in range(inner[0], inner[1] + 1):
            yield None, None
        return
    low, high = _span(published, "the published port")
    if low < LOWEST:
        raise Wrong(f"the published port {published} begins below {LOWEST}")
    if low == high and inner[0] == inner[1]:
        yield low, None
    elif inner[0] == inner[1]:
        yield None, (low, high)
    elif high - low == inner[1] - inner[0]:
        for port in range(low, high + 1):
            yield port, None
    else:
        raise Wrong(f"{published} and {inner[0]}-{inner[1]} are not of one length")


def _quote(tree: Text) -> Iterator[Remark]:
    """A warning for what a YAML 1.1 reader takes for a number of base 60."""
    if tree.plain and _SEXAGESIMAL.fullmatch(tree.value):
        number = 0
        for part in tree.value.split(":"):
            number = number * 60 + int(part)
        yield Remark(message=f"quote this: a YAML 1.1 reader takes {tree.value} for {number}", counts=False)


def _check_missing(*filled: Filled) -> None:
    for each in filled:
        if each.missing:
            raise Wrong(f"{each.missing[0]} is not set and must be")


def _long(tree: Keys, known: Mapping[str, str]) -> Iterator[Published | Remark]:
    target, published, address, protocol = (
        _filled(tree.get(key), known) for key in ("target", "published", "host_ip", "protocol")
    )
    _check_missing(target, published, address, protocol)
    inner = _span(target.text, "target")
    if address.text == "" and address.unset:
        yield Remark(message=f"blank address from unset {address.unset[0]}: open on every interface")
    for port, among in _numbers(published.text, inner):
        yield Published(
            address=_address(address.text.strip("[]")),
            port=port,
            protocol=_protocol(protocol.text or "tcp"),
            form=LONG,
            certainty=least_sure(published.certainty, address.certainty),
            among=among,
            note="" if port or among else _by_chance(target.text, published),
        )


def _filled(tree: Tree | None, known: Mapping[str, str]) -> Filled:
    if tree is None:
        return Filled(text="")
    if not isinstance(tree, Text):
        raise Wrong("a port whose key is a list or a mapping")
    return fill(tree.value, known)
