"""Hosts around one switch, each in a network namespace, each with a cable of its own (root, iproute2)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

from hostler.domain.fleet import frozen
from tests.testbed.cable import NoNamespaces, ip

_NUMBERS: Final = count()
SWITCH: Final = "switch"
TRIO: Final[Mapping[str, str]] = frozen({"crow": "10.99.0.1", "raven": "10.99.0.2", "annex": "10.99.0.3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The namespaces `<tag>-<host>` and the switch between them; `cut` and `heal` are one host's cable."""

    tag: str

    def space(self, host: str) -> str:
        """The namespace of a host."""
        return f"{self.tag}-{host}"

    def inside(self, host: str) -> tuple[str, ...]:
        """What a command begins with that runs on that host."""
        return ("ip", "netns", "exec", self.space(host))

    def cut(self, host: str) -> None:
        """Pull that host's cable out of the switch."""
        ip("-n", self.space(SWITCH), "link", "set", host, "down")

    def heal(self, host: str) -> None:
        """Put it in again."""
        ip("-n", self.space(SWITCH), "link", "set", host, "up")


@contextmanager
def hub() -> Iterator[Hub]:
    """The hosts and their switch, gone at the end. Raises NoNamespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise NoNamespaces("not root, or no ip command")
    it = Hub(tag=f"t{os.getpid()}x{next(_NUMBERS)}")
    made: list[str] = []
    try:
        for name in (SWITCH, *TRIO):
            ip("netns", "add", it.space(name))
            made.append(it.space(name))
            ip("-n", it.space(name), "link", "set", "lo", "up")
        switch = it.space(SWITCH)
        ip("-n", switch, "link", "add", "middle", "type", "bridge")
        ip("-n", switch, "link", "set", "middle", "up")
        for name, address in TRIO.items():
            space = it.space(name)
            ip("link", "add", name, "netns", switch, "type", "veth", "peer", "name", "cable", "netns", space)
            ip("-n", switch, "link", "set", name, "master", "middle")
            ip("-n", switch, "link", "set", name, "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", space, "link", "set", "cable", "up")
        yield it
    finally:
        for space in made:
            with suppress(NoNamespaces):
                ip("netns", "delete", space)
