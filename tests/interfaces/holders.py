"""Holders of leases in tests: a machine that is set by hand, a client of a fake head, steps done by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hostler.client.address import Address
from hostler.client.drive import Ask, Pause, Steps
from hostler.client.facade import AsyncHostler, Hostler
from hostler.client.machine import Machine
from hostler.domain.fleet import Secret
from tests.fakes.head import Head

KEY = "hk_" + "k/+" * 14 + "k"
T = TypeVar("T")


@dataclass
class Hand:
    """A clock that stands still until it is moved; dice that fall low."""

    at: float = 1000.0

    def machine(self) -> Machine:
        """The machine with this clock."""
        return Machine(elapsed=lambda: self.at, boot=lambda: "b1", jitter=lambda: 0.0)


def brisk() -> Machine:
    """The real clock, dice that fall low: the shortest waits."""
    return Machine(jitter=lambda: 0.0)


def hostler(head: Head, folder: Path) -> Hostler:
    """A synchronous client of that head, with its own state directory."""
    return Hostler(Address(url=head.url, key=Secret(KEY)), env={"USER": "ada"}, state=folder, machine=brisk())


def ahostler(head: Head, folder: Path) -> AsyncHostler:
    """An asynchronous one."""
    address = Address(url=head.url, key=Secret(KEY))
    return AsyncHostler(address, env={"USER": "ada"}, state=folder, machine=brisk())


def pause(step: Ask | Pause) -> float:
    """The seconds of a step that pauses."""
    assert isinstance(step, Pause), step
    return step.seconds


def ask(step: Ask | Pause) -> Ask:
    """The step that asks."""
    assert isinstance(step, Ask), step
    return step


def end(steps: Steps[T], sent: object) -> T:
    """What the steps return once they are sent the last answer."""
    try:
        step = steps.send(sent)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError(f"the steps go on with {step}")
