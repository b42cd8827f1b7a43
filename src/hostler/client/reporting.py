"""A job under way: what its holder tells goes into the spool at once, and to the head in the background.

Decides that work never waits for the head, that a job beats while its process lives, and how the end of the
work becomes the end of the job (CLIENT-1). One class for the synchronous and the asynchronous client; both
drive its steps in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.client.drive import Pause, Steps
from hostler.client.job import Jobs, Result
from hostler.client.patience import between, passes
from hostler.client.saved import SavedJob
from hostler.domain.errors import Refusal
from hostler.domain.values import shorten
from hostler.wire.jobs import LONGEST_EVERY_S, JobView, OneJob, ProgressBody, ReceiptBody

MOST_NOTE: Final = 500
"""Characters of the note that says why a job failed."""
TERMINATED: Final = 143
INTERRUPTED: Final = 130


@dataclass(eq=False, slots=True, kw_only=True)
class Job:
    """A job of ours. Every method that tells something raises what the head has refused meanwhile.

    `beat`: while nothing is told, a heartbeat goes out every `every_s`. `wakers` are the driver's: they
    end a pause of the steps.
    """

    jobs: Jobs
    saved: SavedJob
    one: OneJob
    beat: bool = True
    release: bool = False
    closing: bool = False
    wakers: list[Callable[[], None]] = field(default_factory=list)
    refused: Refusal | None = field(init=False, default=None)
    _waiting: bool = field(init=False, default=False)
    _told_at: float = field(init=False, default=0.0)
    _not_before: float = field(init=False, default=0.0)
    _tries: int = field(init=False, default=0)
    _replayed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.saved = self.jobs.files.get(self.saved.request_id) or self.saved
        self._told_at = self.jobs.machine.elapsed()

    @property
    def view(self) -> JobView:
        """The job as the head last told it."""
        return self.one.job

    @property
    def id(self) -> str:
        """Its id."""
        return self.view.id

    # ------------------------------------------------------------ telling

    def note(self, text: str) -> None:
        """Say how it goes, in words: up to 16 KiB."""
        self.tell(note=text)

    def progress(self, n: float, total: float | None = None, *, label: str = "") -> None:
        """`n` of `total`; without a total, a value from 0 to 1."""
        counted = total is not None
        self.tell(
            progress=ProgressBody(
                value=None if counted else n, n=n if counted else None, total=total, label=label
            )
        )

    def metric(self, name: str, value: float) -> None:
        """One measured value."""
        self.tell(metrics={name: value})

    def metrics(self, **values: float) -> None:
        """Several measured values at once."""
        self.tell(metrics=values)

    def receipt(
        self,
        kind: str,
        name: str,
        *,
        path: str | None = None,
        url: str | None = None,
        sha256: str | None = None,
    ) -> None:
        """Something made: where it is, and how it can be told to be the same."""
        made = ReceiptBody(kind=kind, name=name, path=path, url=url, sha256=sha256)
        self.tell(receipts=(made,))

    def heartbeat(self) -> None:
        """Say that it goes on, and nothing else."""
        self.tell()

    def tell(
        self,
        *,
        note: str | None = None,
        progress: ProgressBody | None = None,
        metrics: Mapping[str, float] | None = None,
        receipts: tuple[ReceiptBody, ...] = (),
    ) -> None:
        """Any of these in one update, applied as a whole (R67). Returns as soon as it is in the spool.

        Raises `invalid_request` when it is out of bounds, `limit` when the spool is full, and once what the
        head has refused of earlier updates, such as `ended`.
        """
        self._raise_refused()
        self.jobs.put(self.saved, note=note, progress=progress, metrics=metrics, receipts=receipts)
        self._told_at = self.jobs.machine.elapsed()
        self._waiting = True
        for wake in self.wakers:
            wake()

    def _raise_refused(self) -> None:
        refused, self.refused = self.refused, None
        if refused is not None:
            raise refused

    # ------------------------------------------------------------ sending

    def upkeep(self) -> Steps[None]:
        """Send what is told, as soon as the head is there, and beat; until it is closed."""
        while not self.closing:
            now = self.jobs.machine.elapsed()
            beat_at = self._told_at + self.saved.every_s if self.beat else math.inf
            if now >= beat_at:
                self._told_at = now
                if not self._waiting:
                    self.jobs.put(self.saved)
                    self._waiting = True
            elif self._waiting and now >= self._not_before:
                yield from self._send()
            elif not self._replayed:
                yield from self._replay()
            else:
                until = min(beat_at, self._not_before) if self._waiting else beat_at
                yield Pause(seconds=min(max(until - now, 0.01), LONGEST_EVERY_S))

    def _replay(self) -> Steps[None]:
        """Send once what earlier processes of this user had to leave behind, other jobs' ends above all."""
        self._replayed = True
        # What is refused for now, or not answered, stays in its spool.
        with contextlib.suppress(Refusal):
            yield from self.jobs.replay()

    def _send(self) -> Steps[None]:
        self._waiting = False
        try:
            one = yield from self.jobs.flush(self.saved)
        except Refusal as refusal:
            self.refused = refusal
            one = None
        self.one = one or self.one
        if self.jobs.spool(self.saved).waiting():
            wait = between(self._tries, self.jobs.machine.jitter())
            self._waiting, self._tries = True, self._tries + 1
            self._not_before = self.jobs.machine.elapsed() + wait
        else:
            self._tries = 0

    def close(self, error: BaseException | None) -> Steps[None]:
        """End it as its work ended: by `error`, or well. What the head cannot be told now stays in the spool.

        Raises what the head refused; with an `error` that becomes its note.
        """
        result, note = outcome(error)
        try:
            self._raise_refused()
            one = yield from self.jobs.finish(self.saved, result, note=note, release=self.release)
            self.one = one or self.one
        except Refusal as refusal:
            if error is None and not passes(refusal):
                raise
            if error is not None:
                error.add_note(f"{type(refusal).__name__}: {refusal}")


def outcome(error: BaseException | None) -> tuple[Result, str | None]:
    """How a job ends whose work was ended by `error`, and what is noted (CLIENT-1).

    An exception is `failed`; SIGTERM, Ctrl-C and a cancelled task are `cancelled`; an exit with status 0 and
    none at all are `finished`.
    """
    if error is None:
        return "finished", None
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return "finished", None
        if error.code in (TERMINATED, INTERRUPTED):
            return "cancelled", f"ended by a signal (exit status {error.code})"
        return "failed", shorten(f"exit status {error.code}", MOST_NOTE)
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError | GeneratorExit):
        return "cancelled", f"interrupted ({type(error).__name__})"
    return "failed", shorten(f"{type(error).__name__}: {error}", MOST_NOTE)
