"""Waiting for a lease: shown while it lasts, and given back when it is interrupted (LEASE-25, R94, R95).

Decides what is shown and how each end is told (INTERFACE-4). In which order the head is asked, and how a head
that is away is ridden out, is `hostler.client.lease`'s.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import sleep
from typing import Final, TypeVar

from hostler.client import Client
from hostler.client.address import state_dir
from hostler.client.drive import Ask, Pause, Steps, drive
from hostler.client.lease import RELEASE_S, SLACK_S, Leases
from hostler.client.machine import Machine
from hostler.client.patience import passes, patiently
from hostler.client.saved import SavedLease, saved_leases
from hostler.domain.errors import Ended, IllegalTransition, Refusal, StaleGeneration, WaitTimedOut
from hostler.domain.lease import State
from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli import lease_text
from hostler.interfaces.cli.daemon import answer
from hostler.interfaces.cli.failure import WAIT_TIMED_OUT, complain, fail, mutter
from hostler.interfaces.cli.output import on_terminal
from hostler.interfaces.cli.signals import Interruptible, Signalled, interruptible
from hostler.wire.schedule import OneLease

T = TypeVar("T")

GIVING_BACK: Final = "\ninterrupted: giving back; once more to leave at once\n"
LOOK_S: Final = 2.0
"""What takes longer is shown (INTERFACE-2): so often it is asked how far it is."""
COUNT_S: Final = 1.0
SOON_S: Final = 2.0
"""A line that stands for less does not say so."""
_CLEAR_LINE: Final = "\r\x1b[K"


@dataclass(eq=False, slots=True)
class Shown:
    """What is shown while a command waits: one line that changes on a terminal, else a line per change.

    On stderr: stdout is the answer's. `quiet` shows nothing, as with --json. On a terminal the line says
    since when it stands, while `lasting`; `brief` is what it says where `said` does not fit its row.
    """

    quiet: bool = False
    said: str = ""
    brief: str = ""
    since: float = 0.0
    live: bool = field(default_factory=lambda: on_terminal(sys.stderr))
    machine: Machine = field(default_factory=Machine)
    lock: threading.Lock = field(default_factory=threading.Lock)
    heard: bool = False
    """Whether the head answered that it puts it back."""

    def told(self, one: OneLease) -> None:
        """Where the lease stands now, unless it is active: that is the answer itself."""
        if one.lease.state != "active":
            self.say(lease_text.standing(one.lease, one.at), lease_text.brief(one.lease, one.at))

    def going_back(self, one: OneLease) -> None:
        """How far the lease is on its way back."""
        self.heard = True
        self.say(lease_text.going_back(one.lease, one.at), lease_text.brief(one.lease, one.at))

    def trouble(self, refusal: Refusal) -> None:
        """The head is away; the place is kept and asked for again (R94)."""
        self.say(f"{shorten(str(refusal), 200)} Trying again.")

    def say(self, text: str, brief: str = "") -> None:
        """Show `text` when it is not what is shown already; in a row without room for it `brief`."""
        if self.quiet or text == self.said:
            return
        with self.lock:
            self.said, self.brief, self.since = text, brief, self.machine.elapsed()
            if self.live:
                self._draw()
            else:
                mutter(f"{text}\n")

    def clear(self) -> None:
        """Take the changing line away, before anything else is printed."""
        with self.lock:
            if self.live and self.said and not self.quiet:
                mutter(_CLEAR_LINE)
            self.said = ""

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """While this lasts the changing line counts its seconds; at the end it is taken away."""
        over = threading.Event()
        counting = threading.Thread(target=self._count, args=(over,), daemon=True)
        if self.live and not self.quiet:
            counting.start()
        try:
            yield
        finally:
            over.set()
            self.clear()

    def _count(self, over: threading.Event) -> None:
        while not over.wait(COUNT_S):
            with self.lock:
                if self.said and not over.is_set():
                    self._draw()

    def _draw(self) -> None:
        """The line and since when it stands, cut to one row: a longer one could not be taken away."""
        stands = self.machine.elapsed() - self.since
        tail = f" ({format_duration(stands)})" if stands >= SOON_S else ""
        room = shutil.get_terminal_size().columns - 1 - len(tail)
        text = self.brief if self.brief and len(self.said) > room else self.said
        mutter(f"{_CLEAR_LINE}{shorten(text, max(1, room))}{tail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """This user at the head: the connection, and the leases that this user keeps on disk."""

    client: Client
    leases: Leases
    shown: Shown

    def do(self, steps: Steps[T]) -> T:
        """Do the steps, showing when the head is away."""
        with self.shown.lasting():
            return drive(self.client, _watched(steps, self.shown), sleep)

    def give_back(self, saved: SavedLease) -> None:
        """Give back what that request may have made, if its steps have not done so themselves."""
        if self.leases.files.get(saved.request_id) is None:
            return
        try:
            self.do(self.leases.give_back(saved))
        except Refusal as refusal:
            self.shown.say(f"It could not be given back: {shorten(str(refusal), 200)}")


def holder(client: Client, *, quiet: bool = False) -> Holder:
    """This user, at the head that `client` speaks to."""
    leases = Leases(files=saved_leases(state_dir(os.environ)), url=client.address.url)
    return Holder(client=client, leases=leases, shown=Shown(quiet=quiet))


def taking(
    holder: Holder,
    saved: SavedLease,
    steps: Steps[OneLease],
    got: Callable[[OneLease, Interruptible], int],
    *,
    as_json: bool,
) -> int:
    """The exit code of a command that takes a lease: `got` tells what was had, everything else is told here.

    A signal before `got` is done with it gives back what was taken, unless it said that it keeps it.
    """
    with interruptible("" if as_json else GIVING_BACK) as signals:
        try:
            return got(holder.do(steps), signals)
        except WaitTimedOut as late:
            return fail(late, as_json=as_json, code=WAIT_TIMED_OUT)
        except Signalled as signalled:
            if signals.count == 1:
                # The steps gave back what they had; what came between them and here is given back now.
                holder.give_back(saved)
            _tell_interrupted(holder, saved, as_json=as_json)
            return signalled.code
        except OSError:
            # Nobody reads what was to be printed: who asked never heard of the lease.
            holder.give_back(saved)
            raise


def put_back(client: Client, end: End, *, as_json: bool, wait: bool = True) -> OneLease:
    """The lease once it is over or stuck, how far it is shown meanwhile; without `wait` as it is at once.

    Who interrupts this ends nothing: it is told that, and what shows how it goes on.
    """
    shown = Shown(quiet=as_json)
    try:
        with shown.lasting():
            return drive(client, _watched(_until_over(end, shown, wait=wait), shown), sleep)
    except KeyboardInterrupt:
        if shown.heard and not as_json:
            complain(f"interrupted: the head goes on putting it back; `{end.look}` shows how far it is")
        elif not as_json:
            complain(f"interrupted: the head may not have heard of it; `{end.look}` shows whether it did")
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A call that ends the lease at `path`. `again`: it may be repeated until the lease is over or stuck.

    `look` is the command that shows how far it is.
    """

    path: str
    verb: str
    body: Mapping[str, object]
    again: bool = True
    look: str = "hostler schedule"


def _until_over(end: End, shown: Shown, *, wait: bool) -> Steps[OneLease]:
    """Asking again is harmless (R38); it is not done once the lease is stuck, which would try anew.

    A head that goes away meanwhile is ridden out for a minute, one that is away from the start is not.
    """
    machine, longest, patience_s = Machine(), LOOK_S if wait else 0.0, 0.0
    look = Ask(path=end.path)
    asked = Ask(
        path=f"{end.path}/{end.verb}", body={**end.body, "wait_s": longest}, timeout_s=longest + SLACK_S
    )
    while True:
        began = machine.elapsed()
        try:
            got = yield from patiently(asked, machine, patience_s)
        except (Ended, IllegalTransition, StaleGeneration):
            got = yield from patiently(look, machine, patience_s)
            if not State(answer(got.value, OneLease).lease.state).ended:
                raise
        one = answer(got.value, OneLease)
        if not wait or State(one.lease.state).ended or one.lease.state == State.STUCK:
            return one
        shown.going_back(one)
        patience_s = RELEASE_S
        asked = asked if end.again else look
        if machine.elapsed() - began < 1.0:
            yield Pause(seconds=1.0)


def _tell_interrupted(holder: Holder, saved: SavedLease, *, as_json: bool) -> None:
    if as_json:
        return
    left = holder.leases.files.get(saved.request_id) is not None
    rest = "`hostler mine` shows what is left of it" if left else "the place was given back"
    complain(f"interrupted: {rest}")


def _watched(steps: Steps[T], shown: Shown) -> Steps[T]:
    """The same steps, each passing failure of a call shown, where the steps then wait to try again."""
    sent: object = None
    error: BaseException | None = None
    while True:
        try:
            step: Ask | Pause = steps.send(sent) if error is None else steps.throw(error)
        except StopIteration as end:
            value: T = end.value
            return value
        if isinstance(error, Refusal) and passes(error) and isinstance(step, Pause):
            shown.trouble(error)
        sent, error = None, None
        try:
            sent = yield step
        except BaseException as raised:  # noqa: BLE001 - thrown into the steps, which give back
            error = raised
