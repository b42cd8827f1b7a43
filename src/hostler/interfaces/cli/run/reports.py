"""What the child says, on its way to its job: in a thread, so that no line waits for the head (JOB-5).

Decides what goes together in one update. Each is in the spool before it is sent (JOB-6); a head that is away
costs the child nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import sleep
from typing import Final

from hostler.client import Client
from hostler.client.drive import drive
from hostler.client.job import FINISH_S, Jobs, Result
from hostler.client.saved import SavedJob
from hostler.domain.errors import Ended, JobNotFound, Refusal
from hostler.interfaces.cli.run.lines import Said
from hostler.wire.jobs import ReceiptBody

MOST: Final = 10_000
"""Lines that wait for the thread; more are counted and told, and not reported."""
AGAIN_S: Final = 2.0
"""How long until a head that was away is tried again."""


@dataclass(eq=False, slots=True, kw_only=True)
class Reports:
    """The reports of one job. `client` makes the thread a connection of its own.

    `lost` counts lines that came too fast, `trouble` is what was last refused, `patience_s` how long the end
    waits for a head that is away.
    """

    client: Callable[[], Client]
    jobs: Jobs
    job: SavedJob
    patience_s: float = FINISH_S
    lost: int = 0
    trouble: str | None = None
    _lines: queue.Queue[Said | None] = field(default_factory=lambda: queue.Queue(maxsize=MOST))
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tell(self, said: Said) -> None:
        """Report what the child said; never waits."""
        try:
            self._lines.put_nowait(said)
        except queue.Full:
            self.lost += 1

    def close(self, timeout_s: float) -> None:
        """Send what waits, for so long at most; the rest is in the spool."""
        try:
            self._lines.put(None, timeout=timeout_s)
        except queue.Full:
            return
        if self._thread is not None:
            self._thread.join(timeout_s)

    def finish(self, result: Result, *, note: str, receipt: ReceiptBody) -> None:
        """The last note, the receipt and the end. Raises refusals; `ended` when it is over already."""
        self.jobs.put(self.job, note=note or None, receipts=(receipt,))
        with self.client() as client:
            drive(client, self.jobs.finish(self.job, result, patience_s=self.patience_s), sleep)

    def _run(self) -> None:
        waits, more = False, True
        with self.client() as client:
            while more:
                more, said = self._next(AGAIN_S if waits else None)
                try:
                    for one in joined(said):
                        self._put(one)
                    if said or waits:
                        waits = drive(client, self.jobs.flush(self.job), sleep) is None
                except (Ended, JobNotFound) as over:
                    self.trouble = str(over)
                    return
                except Refusal as refusal:
                    self.trouble = str(refusal)

    def _put(self, said: Said) -> None:
        self.jobs.put(
            self.job,
            note=said.note,
            progress=said.progress,
            metrics=dict(said.metrics),
            source="child",
        )

    def _next(self, timeout_s: float | None) -> tuple[bool, list[Said]]:
        """All that waits now, once something does or the time is up; False with the last of it."""
        found: list[Said] = []
        try:
            first = self._lines.get(timeout=timeout_s)
            while first is not None:
                found.append(first)
                first = self._lines.get_nowait()
        except queue.Empty:
            return True, found
        return False, found


def joined(said: Sequence[Said]) -> list[Said]:
    """As few updates as lose nothing but a progress that a later one outdates."""
    found: list[Said] = []
    for one in said:
        both = found[-1].with_next(one) if found else None
        if both is None:
            found.append(one)
        else:
            found[-1] = both
    return found
