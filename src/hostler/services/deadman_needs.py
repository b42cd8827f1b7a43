"""What a node needs to arm deadmen and to know of them. An adapter provides it; tests fake it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from hostler.domain.deadman import DeadmanReport
from hostler.domain.engine import Launch, Restore

GRACE_S: Final = 60.0
"""How long a deadman waits after the death of a daemon in the middle of opening or closing (WIN-1)."""

PhaseName = Literal["opening", "open", "closing", "over", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One engine of a written restore. `task` is the work it proves itself by, `need` its memory in bytes."""

    launch: Launch
    restore: Restore
    stop_timeout_s: float
    budget_s: float
    task: str
    key: str = ""
    need: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A verify command of the mode on this host (WIN-4)."""

    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a deadman is armed with. `essential` engines may start under every hold.

    `look_s` is how often it looks, `memory_s` how long memory may take to come back.
    """

    window: str
    mode: str
    host: str
    cap_s: float
    end: tuple[Words, ...]
    start: tuple[Words, ...]
    verify: tuple[Check, ...] = ()
    essential: tuple[str, ...] = ()
    grace_s: float = GRACE_S
    look_s: float = 1.0
    memory_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadmanState:
    """One window's deadman as its files and the process table tell it now.

    `left_s`: seconds to its cap. `ours`: the phase was written by this very process. `daemon_lives`: by one
    that exists. `restoring`: the deadman has begun; `report` is what it did. `this_boot` False: the machine
    was restarted since, and its deadman with it.
    """

    window: str
    mode: str
    alive: bool
    pid: int | None
    phase: PhaseName
    left_s: float
    ours: bool
    daemon_lives: bool
    restoring: bool
    this_boot: bool
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    report: DeadmanReport | None = None

    @property
    def over(self) -> bool:
        """Whether the window is put back and its deadman disarmed."""
        return self.phase == "over"

    @property
    def waits(self) -> bool:
        """Whether a deadman should live: armed in this boot, nothing restored yet."""
        return not self.over and self.report is None and self.this_boot


class Deadmen(Protocol):
    """The deadmen of this host, by the id of their window."""

    def windows(self) -> Sequence[DeadmanState]:
        """All that are known here, also those that are over. Never raises: what is torn is left out."""
        ...

    def state(self, window: str) -> DeadmanState | None:
        """That one, None when this host has none of that window."""
        ...

    def write(self, orders: Orders) -> None:
        """Write the restore, the program and the phase `opening`; what is there already stays.

        Raises OSError: then nothing is promised.
        """
        ...

    async def start(self, window: str, *, at_once: bool = False) -> None:
        """Start its process and see it alive; with `at_once` it restores now. Refuses `deadman_failed`."""
        ...

    def note(self, window: str, phase: PhaseName) -> None:
        """Write the phase, with this process and the boot clock's time in it. Raises OSError."""
        ...

    def claim(self, window: str) -> Callable[[], None] | None:
        """Be the one restore of the window until the answer is called; None while the deadman is (WIN-7).

        Raises OSError.
        """
        ...

    async def end(self, window: str) -> str | None:
        """Write that it is over, end its process by pid and start time: None, or what is still there.

        The written restore goes too: it may hold keys. Raises OSError.
        """
        ...
