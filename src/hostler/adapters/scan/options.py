"""Options of any program that name a port, and addresses with a port among its words (PORT-2).

Decides which are listened on, and which only say where to connect to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hostler.adapters.scan.args import HOLE, Value, Word, address_of, option, port_of, urls, where
from hostler.adapters.scan.seen import Sight
from hostler.domain.ports import PROGRAM, UNSAID, Role, is_wildcard

OPTION: Final = "--port N"
OPTION_IS: Final = "--port=N"
SHORT_OPTION: Final = "-p N"
AT: Final = "host:N"
TARGET: Final = "client target"
_PORT_OPTION: Final = re.compile(r"--?(?:[a-z0-9_.-]*[-_.])?port", re.IGNORECASE)
_PLAIN: Final = re.compile(r"--?port", re.IGNORECASE)
_HOST_OPTION: Final = re.compile(
    r"-H|-b|-a|-l|--?(?:[a-z0-9_.-]*[-_.])?(?:host|hostname|bind|bind-?addr(?:ess)?|addr|address|listen|ip)",
    re.IGNORECASE,
)
_ELSEWHERE: Final = re.compile(
    r"[-_.](?:remote|target|upstream|proxy|dest|peer|connect|db|redis)(?=[-_.]|$)", re.IGNORECASE
)
LOWEST_NAMED: Final = 80
"""The lowest port that a name with a number is taken for: `redis:7` is an image, `crow:50052` a place."""


def options(args: Sequence[Word], sight: Sight, bare: str = PROGRAM) -> None:
    """Ports in the options of any program; its address is the one that it is given, else `bare`."""
    address = _given_address(args)
    for name, values, form in pairs(args):
        if _ELSEWHERE.search(name):
            uses(values, sight)
        elif _PORT_OPTION.fullmatch(name) or name == "-p":
            own = address or (bare if _PLAIN.fullmatch(name) or name == "-p" else UNSAID)
            for value in values.values:
                if _is_port(value, name):
                    sight.found(form, port_of(value.text), value, address=own)
        elif name == "" or not _HOST_OPTION.fullmatch(name):
            _loose(values, sight)
        else:
            _bound(values, sight)


def _is_port(value: Value, name: str) -> bool:
    """Whether a port option's value is one, or is told when it runs only."""
    return port_of(value.text) is not None or (name != "-p" and HOLE in value.text)


def pairs(args: Sequence[Word]) -> Iterator[tuple[str, Word, str]]:
    """Each option with its value and how it is written; words that are no option's have an empty name."""
    at = 0
    while at < len(args):
        name, own = option(args[at])
        following = args[at + 1] if at + 1 < len(args) else None
        if own is not None:
            yield name, own, OPTION_IS
        elif name and following is not None and not option(following)[0]:
            yield name, following, SHORT_OPTION if name == "-p" else OPTION
            at += 1
        elif not name:
            yield "", args[at], AT
        at += 1


def _given_address(args: Sequence[Word]) -> str | None:
    """The address of `--host A`, `-H A` and their like, None where none is given."""
    for name, values, _ in pairs(args):
        if _HOST_OPTION.fullmatch(name) and not where(values.text) and not _ELSEWHERE.search(name):
            given = address_of(values.text)
            if given is not None and values.text:
                return given
    return None


def _bound(values: Word, sight: Sight) -> None:
    """`--listen 0.0.0.0:8000`: an option that names an address has a port with it."""
    for value in values.values:
        found = where(value.text)
        if found is not None:
            sight.found(AT, found[1], value, address=address_of(found[0]) or UNSAID)
        elif urls(value.text):
            _use(value, sight)


def _loose(values: Word, sight: Sight) -> None:
    """A word by itself: a wildcard with a port is listened on, another host is a target."""
    for value in values.values:
        found = where(value.text)
        address = address_of(found[0]) if found is not None and found[0] else None
        if found is not None and address is not None and is_wildcard(address):
            sight.found(AT, found[1], value, address=address)
        else:
            _use(value, sight)


def uses(values: Word, sight: Sight) -> None:
    """Hosts and ports that a word names to connect to."""
    for value in values.values:
        _use(value, sight)


def _is_host(host: str, port: int) -> bool:
    """Whether it names a place: `12:30` does not, and neither does `redis:7`."""
    named = port >= LOWEST_NAMED and any(char.isalpha() for char in host)
    return bool(host) and (named or address_of(host) is not None)


def _use(value: Value, sight: Sight) -> None:
    """Hosts and ports that a value names to connect to."""
    pair = where(value.text)
    for host, port in [pair] if pair is not None and _is_host(*pair) else urls(value.text):
        address = address_of(host)
        sight.found(
            TARGET,
            port,
            value,
            address=address or UNSAID,
            role=Role.USED,
            host="" if address is not None else host,
        )
