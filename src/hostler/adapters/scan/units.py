"""Units of systemd: sockets, and what their commands and environments say (PORT-2).

Decides which lines of a unit name ports. `%` specifiers and environment files are known only when it runs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from hostler.adapters.scan.args import HOLE, Value, Word, port_of
from hostler.adapters.scan.expand import Known, expand
from hostler.adapters.scan.lexer import tokens
from hostler.adapters.scan.programs import Reader, command
from hostler.adapters.scan.seen import Owner, Sight
from hostler.adapters.scan.shell import shell, tidy
from hostler.domain.ports import ANY, Certainty, Finding, Role

LISTENING: Final = {"ListenStream": "tcp", "ListenDatagram": "udp"}
COMMANDS: Final = frozenset({"ExecStart", "ExecStartPre", "ExecStartPost"})
_LINE: Final = re.compile(r"\s*([A-Za-z]+)\s*=\s*(.*)", re.DOTALL)
_PORT_NAME: Final = re.compile(r"(?:.*_)?PORTS?[0-9]*(?:_.*)?", re.IGNORECASE)


def unit(file: str, text: str) -> list[Finding]:
    """Every port that a unit, or a drop-in of one, shows."""
    name = unit_name(file)
    owner = Owner(file=file, thing=f"unit {name}", name=name, names=(name.rpartition(".")[0],))
    sight = Sight(owner=owner)
    known: dict[str, tuple[Value, ...]] = {}
    lines = list(_settings(text))
    for key, value, line in lines:
        if key == "Environment":
            sight.line = line
            _environment(value, known, sight)
    for key, value, line in lines:
        sight.line = line
        if key in LISTENING:
            _listen(value, LISTENING[key], key, sight)
        elif key in COMMANDS:
            _run(value, known, sight)
    return tidy(sight.findings)


def unit_name(file: str) -> str:
    """`web.service`, also of its drop-in `web.service.d/port.conf`."""
    path = PurePath(file)
    return path.parent.name.removesuffix(".d") if path.suffix == ".conf" else path.name


def _settings(text: str) -> Iterator[tuple[str, str, int]]:
    """Key, value and line of each setting; a backslash at its end goes on with the next line."""
    whole, began = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        if not whole:
            began = number
            if line.lstrip().startswith(("#", ";")):
                continue
        elif line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        match = _LINE.fullmatch(whole + line)
        if match is not None:
            yield match[1], match[2].strip(), began
        whole = ""


def _listen(value: str, protocol: str, form: str, sight: Sight) -> None:
    address, colon, port = value.rpartition(":")
    number = port_of(port)
    if number is None:
        return
    bare = address.strip("[]")
    try:
        bound = str(ipaddress.ip_address(bare)) if colon and bare else ANY
    except ValueError:
        return
    sight.found(form, number, Value(port), address=bound, protocol=protocol)


def _environment(value: str, known: dict[str, tuple[Value, ...]], sight: Sight) -> None:
    """`Environment="PORT=8080" OTHER=1`: several assignments on a line."""
    for token in tokens(value):
        text = expand(token, known).text if token.is_word else ""
        name, equals, given = text.partition("=")
        if not equals:
            continue
        known[name] = (Value(given),)
        if _PORT_NAME.fullmatch(name) and port_of(given) is not None:
            sight.found("Environment", port_of(given), Value(given), role=Role.ASSIGNED, note=name)


def _run(value: str, known: Known, sight: Sight) -> None:
    """`ExecStart=-/usr/bin/llama-server --port ${PORT}`."""
    text = value.lstrip("@-:+!|").replace("%%", "%")
    args = [_told(expand(token, known)) for token in tokens(text) if token.is_word]
    scripts: list[str] = []
    command(args, sight, Reader(script=lambda script, _: scripts.append(script)))
    for script in scripts:
        for each in shell(sight.owner.file, script, sight.owner.name):
            own = replace(
                each, line=sight.line + each.line - 1, thing=sight.owner.thing, names=sight.owner.names
            )
            sight.findings.append(own)


def _told(word: Word) -> Word:
    """A word whose specifiers, as in `%i`, are known only when the unit runs."""
    return Word(
        tuple(
            Value(re.sub(r"%[A-Za-z]", HOLE, each.text), Certainty.VARIABLE) if "%" in each.text else each
            for each in word.values
        )
    )
