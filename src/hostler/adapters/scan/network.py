"""Tools that listen or carry ports from host to host: ssh, nc, socat (PORT-2).

Decides which side of a tunnel listens: `-L` and `-D` here, `-R` on the other host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hostler.adapters.scan.args import Value, Word, address_of, port_of
from hostler.adapters.scan.seen import Sight
from hostler.domain.ports import ANY, UNSAID, Role

_WITH_VALUE: Final = frozenset("bcDEeFIiJLlmOopQRSWw")
_NUMBERED: Final = frozenset({"-w", "-q", "-i", "-G", "-m", "-W", "-I", "-O"})
"""Options of nc whose value is a number and no port."""
_LOOPBACK: Final = "127.0.0.1"
_PARTS: Final = re.compile(r"\[[^\]]*\]|[^:\[\]]+|(?<=:)(?=:)|^(?=:)")


def ssh(args: Sequence[Word], sight: Sight, script: Callable[[str, str], None]) -> None:
    """`ssh -L 8026:127.0.0.1:8030 user@host`: where tunnels listen, and what is run there."""
    given, rest = _split(args)
    host = rest[0].text.rpartition("@")[2] if rest else ""
    for letter, word in given:
        for value in word.values:
            if letter in "LRD":
                _tunnel(letter, value, host, sight)
            elif letter == "p" and port_of(value.text) is not None and host:
                sight.found("ssh -p", port_of(value.text), value, role=Role.USED, host=host)
    if len(rest) > 1 and host:
        script(" ".join(word.text for word in rest[1:]), host)


def _split(args: Sequence[Word]) -> tuple[list[tuple[str, Word]], Sequence[Word]]:
    """Options with a value, and the words from the destination on."""
    given: list[tuple[str, Word]] = []
    at = 0
    while at < len(args) and args[at].text.startswith("-") and len(args[at].text) > 1:
        flags = args[at].text[1:]
        letter = next((flag for flag in flags if flag in _WITH_VALUE), None)
        if letter is not None:
            before = flags[: flags.index(letter) + 1]
            own = args[at].after(f"-{before}")
            if not own.text and at + 1 < len(args):
                at += 1
                own = args[at]
            given.append((letter, own))
        at += 1
    return given, args[at:]


def _tunnel(letter: str, value: Value, host: str, sight: Sight) -> None:
    parts = _PARTS.findall(value.text)
    tail = 0 if letter == "D" else 2
    if len(parts) not in (1 + tail, 2 + tail):
        return
    bind = parts[0] if len(parts) == 2 + tail else None
    port = port_of(parts[-1 - tail])
    if port is None:
        return
    address = _LOOPBACK if bind is None else address_of(bind) or UNSAID
    on = host if letter == "R" else ""
    sight.found(f"ssh -{letter}", port, value, address=address, host=on, note=f"ssh -{letter}")
    there = port_of(parts[-1])
    if tail and there is not None:
        target = parts[-2].strip("[]")
        near = address_of(target) is not None
        far = "" if letter == "R" else host
        sight.found("tunnel target", there, value, role=Role.USED, host=far if near else target, note=target)


def netcat(args: Sequence[Word], sight: Sight) -> None:
    """`nc -l 8033`, `nc -lu -p 8033`, else `nc HOST 8033`, which connects."""
    flags = "".join(word.text[1:] for word in args if re.fullmatch(r"-[A-Za-z0-9]+", word.text))
    loose = [
        word
        for before, word in zip((None, *args), args, strict=False)
        if not word.text.startswith("-") and (before is None or before.text not in _NUMBERED)
    ]
    ports = [value for word in loose for value in word.values if port_of(value.text) is not None]
    listens = "l" in flags or any(word.text == "--listen" for word in args)
    protocol = "udp" if "u" in flags else "tcp"
    hosts = [word.text for word in loose if port_of(word.text) is None]
    if listens:
        for value in ports:
            address = next((found for host in hosts if (found := address_of(host)) is not None), ANY)
            sight.found("nc -l", port_of(value.text), value, address=address, protocol=protocol)
        return
    for value in ports[-1:]:
        host = hosts[0] if hosts else ""
        known = address_of(host) if host else None
        sight.found(
            "nc target",
            port_of(value.text),
            value,
            address=known or UNSAID,
            protocol=protocol,
            role=Role.USED,
            host="" if known else host,
        )


def socat(args: Sequence[Word], sight: Sight) -> None:
    """`socat TCP-LISTEN:8034,fork TCP:127.0.0.1:8030`."""
    for word in args:
        for value in word.values:
            for listens, protocol, host, port, more in _addresses(value.text):
                bind = re.search(r"bind=([^,]+)", more)
                if listens:
                    address = ANY if bind is None else address_of(bind[1]) or UNSAID
                    sight.found("socat LISTEN", port, value, address=address, protocol=protocol)
                else:
                    known = address_of(host)
                    sight.found(
                        "socat target",
                        port,
                        value,
                        address=known or UNSAID,
                        protocol=protocol,
                        role=Role.USED,
                        host="" if known else host,
                    )


_SOCAT: Final = re.compile(
    r"(?P<kind>TCP|UDP|OPENSSL)[46]?(?P<listen>-LISTEN|-RECVFROM|-RECV|-L)?(?:-[A-Z]+)?"
    r":(?:(?P<host>\[[^\]]*\]|[^:,\[\]]+):)?(?P<port>[0-9]{1,5})(?P<more>,.*)?",
    re.IGNORECASE | re.DOTALL,
)


def _addresses(text: str) -> Iterator[tuple[bool, str, str, int, str]]:
    """Whether it listens, protocol, host, port and the rest of a socat address."""
    match = _SOCAT.fullmatch(text)
    port = port_of(match["port"]) if match is not None else None
    if match is not None and port is not None:
        protocol = "udp" if match["kind"].upper() == "UDP" else "tcp"
        host = (match["host"] or "").strip("[]")
        yield match["listen"] is not None, protocol, host, port, match["more"] or ""
