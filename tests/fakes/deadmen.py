"""The deadmen of a host in memory: the need `Deadmen`, with what a test lets happen to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hostler.domain.deadman import DeadmanReport
from hostler.domain.errors import DeadmanFailed
from hostler.services.deadman_needs import DeadmanState, Orders, PhaseName


@dataclass(slots=True)
class FakeDeadmen:
    """`states` by window. `full`: nothing can be written. `stillborn`: no process lives after its start.

    `started` has each start, `now` where it was to restore at once; `taken` windows are restored by their
    deadman just now; `deaf` ones cannot be ended. `restores` is what a restore at once reports.
    """

    states: dict[str, DeadmanState] = field(default_factory=dict)
    orders: list[Orders] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    full: bool = False
    stillborn: bool = False
    taken: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    restores: DeadmanReport | None = None

    def windows(self) -> Sequence[DeadmanState]:
        return [self.states[name] for name in sorted(self.states)]

    def state(self, window: str) -> DeadmanState | None:
        return self.states.get(window)

    def write(self, orders: Orders) -> None:
        self._room()
        self.orders.append(orders)
        self.states[orders.window] = DeadmanState(
            window=orders.window,
            mode=orders.mode,
            alive=False,
            pid=None,
            phase="opening",
            left_s=orders.cap_s,
            ours=True,
            daemon_lives=True,
            restoring=False,
            this_boot=True,
            start=tuple(it.launch.engine for it in orders.start),
            end=tuple(it.launch.engine for it in orders.end),
        )

    async def start(self, window: str, *, at_once: bool = False) -> None:
        self.started.append(f"{window} now" if at_once else window)
        if self.stillborn:
            raise DeadmanFailed(window=window, host="crow", why="it ended at once")
        if at_once:
            running = self.restores is None
            self.change(window, report=self.restores, restoring=running, alive=running)
        else:
            self.change(window, alive=True, pid=4711)

    def note(self, window: str, phase: PhaseName) -> None:
        self._room()
        self.phases.append(phase)
        self.change(window, phase=phase, ours=True)

    def claim(self, window: str) -> Callable[[], None] | None:
        self._room()
        if window in self.taken:
            return None
        self.held.add(window)
        return lambda: self.held.discard(window)

    async def end(self, window: str) -> str | None:
        if window not in self.states:
            return None
        self.note(window, "over")
        if window in self.deaf:
            return "pid 4711 did not end"
        self.change(window, alive=False, pid=None)
        return None

    def change(self, window: str, **more: object) -> None:
        """What becomes of a window's deadman."""
        self.states[window] = replace(self.states[window], **more)  # type: ignore[arg-type]  # a test's own fields

    def _room(self) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
