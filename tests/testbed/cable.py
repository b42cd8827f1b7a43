"""Two network namespaces with a cable between them: two hosts that see only each other (root, iproute2)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

import pytest

_NUMBERS: Final = count()
HOSTS: Final = {"crow": "10.99.0.1", "raven": "10.99.0.2"}
LACKING: Final = "no network namespaces here (root and iproute2; .ci/run installs it)"


class NoNamespaces(Exception):
    """This machine makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """The namespaces `<tag>-crow` and `<tag>-raven`; `cut` and `heal` are the cable's."""

    tag: str

    def space(self, host: str) -> str:
        """The namespace of a host."""
        return f"{self.tag}-{host}"

    def inside(self, host: str) -> tuple[str, ...]:
        """What a command begins with that runs on that host."""
        return ("ip", "netns", "exec", self.space(host))

    def cut(self) -> None:
        """Pull the cable out: neither side hears of it."""
        ip("-n", self.space("crow"), "link", "set", "cable", "down")

    def heal(self) -> None:
        """Put it in again."""
        ip("-n", self.space("crow"), "link", "set", "cable", "up")


def ip(*argv: str) -> None:
    """One `ip` command. Raises NoNamespaces."""
    try:
        subprocess.run(("ip", *argv), check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoNamespaces("there is no ip command") from error
    except subprocess.CalledProcessError as error:
        raise NoNamespaces(f"ip {' '.join(argv)}: {error.stderr.strip()}") from error


@contextmanager
def cable() -> Iterator[Cable]:
    """Both hosts and their cable, gone at the end. Raises NoNamespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise NoNamespaces("not root, or no ip command")
    it = Cable(tag=f"h{os.getpid()}x{next(_NUMBERS)}")
    made: list[str] = []
    try:
        for host in HOSTS:
            ip("netns", "add", it.space(host))
            made.append(it.space(host))
            ip("-n", it.space(host), "link", "set", "lo", "up")
        crow, raven = (it.space(host) for host in HOSTS)
        ip("link", "add", "cable", "netns", crow, "type", "veth", "peer", "name", "cable", "netns", raven)
        for host, address in HOSTS.items():
            ip("-n", it.space(host), "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", it.space(host), "link", "set", "cable", "up")
        yield it
    finally:
        _remove(made)


def _remove(spaces: Sequence[str]) -> None:
    for space in spaces:
        with suppress(NoNamespaces):
            ip("netns", "delete", space)


def needed(error: NoNamespaces) -> None:
    """A test that cannot have them: skipped by hand, failed where all must run (CI=true)."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{LACKING}: {error}")
    pytest.skip(f"{LACKING}: {error}")
