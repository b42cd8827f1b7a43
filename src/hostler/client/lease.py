"""Leases from the holder's side: asked for once, waited for, kept, given back (LEASE-9, 22, 24, 25).

Decides in which order a holder speaks to the head, when it gives up, and what it gives back then. Written as
steps (`hostler.client.drive`), for the synchronous and the asynchronous client alike. Whether a lease can be
trusted without the head is `hostler.client.trust`'s.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Unpack
from urllib.parse import quote

from hostler.client.call import fitted, plain
from hostler.client.drive import Ask, Pause, Steps, never_sent
from hostler.client.machine import Machine
from hostler.client.patience import Got, passes, patiently
from hostler.client.saved import Drawer, SavedLease
from hostler.client.trust import ending, hash_of, proof, trusted
from hostler.client.wishes import LEASES, WindowWish, Wish, asked_at, kept
from hostler.domain.addresses import shown_url
from hostler.domain.errors import (
    Ended,
    IllegalTransition,
    LeaseLost,
    LeaseNotFound,
    NotYours,
    Refusal,
    StaleGeneration,
    StateUnusable,
    StoreFull,
    Stuck,
    WaitTimedOut,
)
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease, ReserveBody
from hostler.wire.windows import OpenBody

POLL_S: Final = 25.0
"""How long the head is asked to keep an answer back until something changes."""
STEPS_S: Final = 2.0
"""The same of a lease that is being given: how far its steps are is no change of its state."""
SLACK_S: Final = 15.0
SHORT_S: Final = 5.0
"""How long somebody who does not wait for the resource waits for a head that is away."""
GIVE_BACK_S: Final = 5.0
"""How long giving back may take after an interrupt: whoever presses Ctrl-C wants to leave."""
RELEASE_S: Final = 60.0
STALE_S: Final = 86_400.0
"""A request whose answer never came is forgotten after a day: no place is kept so long without renewal."""

Told = Callable[[OneLease], None]
_OVER: Final = (Ended, IllegalTransition, LeaseLost, StaleGeneration, Stuck)
"""Refusals that say only that the lease has moved on: where to, is asked."""


@dataclass(eq=False, slots=True)
class _Sending:
    """Whether the head may have got a request."""

    begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """This user's leases at one head. `url` is the head's; a secret goes to where it was made for only."""

    files: Drawer[SavedLease]
    url: str
    machine: Machine = field(default_factory=Machine)

    # ------------------------------------------------------------ asking

    def prepare(self, resource: str, **wish: Unpack[Wish]) -> SavedLease:
        """A request with a secret of its own, on the disk before anything is sent (LEASE-9).

        Raises `state_unusable`.
        """
        secret = self.machine.secret()
        body = ReserveBody(resource=resource, secret_hash=hash_of(secret), **wish)
        return self._kept(resource, secret, plain(body), body.ttl_s)

    def prepare_window(self, mode: str, **wish: Unpack[WindowWish]) -> SavedLease:
        """As `prepare`, for a window that enters `mode`. A cap is never extended: nothing is renewed."""
        secret = self.machine.secret()
        body = OpenBody(mode=mode, secret_hash=hash_of(secret), **wish)
        return self._kept(mode, secret, plain(body), None)

    def _kept(
        self, resource: str, secret: str, body: Mapping[str, object], ttl_s: float | None
    ) -> SavedLease:
        return kept(
            self.files, self.machine, self.url, secret=secret, resource=resource, body=body, ttl_s=ttl_s
        )

    def ask(self, saved: SavedLease, patience_s: float = SHORT_S) -> Steps[OneLease]:
        """The lease of that request: the same request id every time, so one lease, however often (R23).

        Raises the head's refusals; nothing is left behind then.
        """
        return (yield from self._asking(saved, patience_s, _Sending()))

    def _asking(self, saved: SavedLease, patience_s: float, sending: _Sending) -> Steps[OneLease]:
        ask = Ask(path=asked_at(saved), body=saved.body, idempotency_key=saved.request_id)
        try:
            got = yield from _noting(patiently(ask, self.machine, patience_s), sending)
        except Refusal as refusal:
            if not passes(refusal) or not sending.begun:
                self.files.forget(saved.request_id)
            raise
        one = self._one(got)
        if saved.body.get("dry_run"):
            self.files.forget(saved.request_id)
        else:
            self._keep(saved, one, got.began)
        return one

    # ------------------------------------------------------------ waiting

    def take(
        self, saved: SavedLease, *, wait_s: float | None = 0.0, told: Told | None = None
    ) -> Steps[OneLease]:
        """The lease once it is active. `wait_s`: how long to wait in the queue, None for ever, 0 not at all.

        Rides out a head that is away for as long as it may wait (R94). `told` gets each answer. Raises
        `held` and other refusals of the head, `wait_timed_out`, `lapsed`, `activation_failed`, `stuck`,
        `lease_lost`; gives the place back when its time is up and when it is interrupted (R95).
        """
        sending = _Sending()
        deadline = self._deadline(wait_s)
        try:
            patience = math.inf if wait_s is None else (wait_s or SHORT_S)
            one = yield from self._asking(saved, patience, sending)
            return (yield from self._active(saved, one, deadline, wait_s, told))
        except Refusal as refusal:
            if isinstance(refusal, WaitTimedOut) or (passes(refusal) and sending.begun):
                yield from self._left_behind(saved, refusal)
            raise
        except BaseException as error:
            if sending.begun:
                yield from self._left_behind(saved, error)
            else:
                self.files.forget(saved.request_id)
            raise

    def follow(
        self, saved: SavedLease, one: OneLease, *, wait_s: float | None = None, told: Told | None = None
    ) -> Steps[OneLease]:
        """As `take`, from a lease that there is: a claim, or a place that was kept detached."""
        try:
            return (yield from self._active(saved, one, self._deadline(wait_s), wait_s, told))
        except BaseException as error:
            if isinstance(error, WaitTimedOut) or not isinstance(error, Refusal):
                yield from self._left_behind(saved, error)
            raise

    def _deadline(self, wait_s: float | None) -> float:
        return math.inf if wait_s is None else self.machine.elapsed() + wait_s

    def _active(
        self, saved: SavedLease, one: OneLease, deadline: float, wait_s: float | None, told: Told | None
    ) -> Steps[OneLease]:
        while True:
            if told is not None:
                told(one)
            state = State(one.lease.state)
            if state is State.ACTIVE:
                return one
            if state.ended or state is State.STUCK:
                if state.ended:
                    self.files.forget(saved.request_id)
                raise ending(one)
            left = deadline - self.machine.elapsed()
            if state.waits and left <= 0:
                raise WaitTimedOut(
                    resource=saved.resource, waited_s=round(wait_s or 0), why=one.lease.why or state.value
                )
            one = yield from self._next(saved, one, min(POLL_S, left) if state.waits else STEPS_S, left)

    def _next(self, saved: SavedLease, one: OneLease, poll_s: float, left: float) -> Steps[OneLease]:
        """The lease after its next change, or after a while. What holds it is given time to act."""
        began = self.machine.elapsed()
        patience = max(left, RELEASE_S)
        try:
            if one.lease.state == State.RELEASING:
                later = yield from self.look(saved, patience)
            else:
                ttl_s = saved.ttl_s  # It may have become active meanwhile: then this extends it.
                later = yield from self.renew(saved, ttl_s=ttl_s, wait_s=poll_s, patience_s=patience)
        except _OVER:
            later = yield from self.look(saved, patience)
        if later.lease.state == one.lease.state and self.machine.elapsed() - began < 1.0:
            yield Pause(seconds=min(1.0 + self.machine.jitter(), max(left, 0.1)))
        return later

    # ------------------------------------------------------------ holding

    def look(self, saved: SavedLease, patience_s: float = 0.0) -> Steps[OneLease]:
        """The lease as it is. Refuses `lease_not_found`."""
        known = self._known(saved)
        return self._one((yield from patiently(Ask(path=_path(known)), self.machine, patience_s)))

    def renew(
        self,
        saved: SavedLease,
        *,
        ttl_s: float | None = None,
        wait_s: float = 0.0,
        claim: bool = True,
        patience_s: float = 0.0,
    ) -> Steps[OneLease]:
        """Keep a place, take up an offer, or extend an active lease; `granted_s` says what was given."""
        more = {"ttl_s": ttl_s, "wait_s": wait_s, "claim": claim}
        return (yield from self._change(saved, "renew", more, patience_s))[1]

    def extend(self, saved: SavedLease, timeout_s: float) -> Steps[tuple[SavedLease, OneLease]]:
        """One attempt to renew an active lease by the time that was asked for, and what is saved of it."""
        return (yield from self._change(saved, "renew", {"ttl_s": saved.ttl_s}, 0.0, timeout_s))

    def claim(self, saved: SavedLease, *, patience_s: float = SHORT_S) -> Steps[OneLease]:
        """Take up an offer (LEASE-24); `follow` waits until it is active."""
        return (yield from self._change(saved, "claim", {}, patience_s))[1]

    def cancel(self, saved: SavedLease, *, wait_s: float = 0.0, patience_s: float = 0.0) -> Steps[OneLease]:
        """Call it off, whatever its state (LEASE-16)."""
        return (yield from self._change(saved, "cancel", {"wait_s": wait_s}, patience_s))[1]

    def register(self, saved: SavedLease, pid: int, start_ticks: int) -> Steps[OneLease]:
        """Register the process group that works under it (JOB-5)."""
        more = {"pid": pid, "start_ticks": start_ticks}
        return (yield from self._change(saved, "processes", more, SHORT_S))[1]

    def release(
        self, saved: SavedLease, *, wait: bool = True, patience_s: float = RELEASE_S
    ) -> Steps[OneLease]:
        """Give it back, and return when that is verified (LEASE-13); at once without `wait`.

        What has ended already is given as it ended. Raises `stuck`, and `stale_generation` when the resource
        has gone on to somebody else.
        """
        while True:
            began = self.machine.elapsed()
            more = {"wait_s": POLL_S if wait else 0.0}
            try:
                _, one = yield from self._change(saved, "release", more, patience_s)
            except _OVER:
                one = yield from self.look(saved, patience_s)
                if not State(one.lease.state).ended:
                    raise
                self.files.forget(saved.request_id)
            if State(one.lease.state).ended or not wait:
                return one
            if one.lease.state == State.STUCK:
                raise ending(one)
            if self.machine.elapsed() - began < 1.0:
                yield Pause(seconds=0.5 + self.machine.jitter())

    # ------------------------------------------------------------ giving back, looking after files

    def give_back(self, saved: SavedLease) -> Steps[OneLease | None]:
        """Call it off, within a few seconds. None when there is nothing to give back.

        A request whose answer never came is sent once more: the same request id tells which lease it made.
        Raises the head's refusals; the file stays then.
        """
        known = self.files.get(saved.request_id) or saved
        if known.lease is None:
            ask = Ask(
                path=asked_at(known),
                body=known.body,
                idempotency_key=known.request_id,
                timeout_s=GIVE_BACK_S,
            )
            try:
                got = yield from patiently(ask, self.machine, GIVE_BACK_S)
            except Refusal as refusal:
                if passes(refusal):
                    raise
                self.files.forget(known.request_id)
                return None
            known = self._keep(known, self._one(got), got.began)
        try:
            return (yield from self.cancel(known, patience_s=GIVE_BACK_S))
        except (Ended, LeaseNotFound):
            self.files.forget(known.request_id)
            return None

    def _left_behind(self, saved: SavedLease, error: BaseException) -> Steps[None]:
        """Give back on the way out of `error`. What cannot be given back lapses by itself; its file stays."""
        try:
            yield from self.give_back(saved)
        except Refusal as refusal:
            error.add_note(f"{saved.resource} could not be given back: {refusal}")

    def mine(self) -> Steps[Sequence[tuple[SavedLease, OneLease]]]:
        """What this user asked for here that has not ended, the oldest first; files of the ended go."""
        live = []
        for saved in self.files.list():
            if saved.url != self.url:
                continue
            if saved.lease is None:
                if saved.boot != self.machine.boot() or self._age(saved) > STALE_S:
                    self.files.forget(saved.request_id)
                continue
            try:
                one = yield from self.look(saved, SHORT_S)
            except LeaseNotFound:
                self.files.forget(saved.request_id)
                continue
            if State(one.lease.state).ended:
                self.files.forget(saved.request_id)
            else:
                live.append((saved, one))
        return live

    def _age(self, saved: SavedLease) -> float:
        return self.machine.elapsed() - (saved.attempt or 0.0)

    # ------------------------------------------------------------ one call

    def _change(
        self,
        saved: SavedLease,
        verb: str,
        more: Mapping[str, object],
        patience_s: float,
        timeout_s: float = SLACK_S,
    ) -> Steps[tuple[SavedLease, OneLease]]:
        known, waits = self._known(saved), more.get("wait_s")
        ask = Ask(
            path=_path(known, verb),
            body={**proof(known), **more},
            timeout_s=timeout_s + (waits if isinstance(waits, float) else 0.0),
        )
        got = yield from patiently(ask, self.machine, patience_s)
        one = self._one(got)
        return self._keep(known, one, got.began), one

    def _known(self, saved: SavedLease) -> SavedLease:
        """What is known of it by now: the file's word, or the caller's where the file is gone."""
        known = self.files.get(saved.request_id) or saved
        if known.url != self.url:
            raise NotYours(
                what=f"The lease {known.lease}", expected=f"It was made at {shown_url(known.url)}."
            )
        if known.lease is None:
            raise LeaseNotFound(lease=known.resource)
        return known

    def _one(self, got: Got) -> OneLease:
        return fitted(got.value, OneLease, self.url)

    def _keep(self, saved: SavedLease, one: OneLease, began: float) -> SavedLease:
        """Note what the head told; forget what has ended."""
        lease = one.lease
        known = replace(
            saved,
            lease=lease.id,
            epoch=lease.epoch,
            generation=lease.generation,
            attempt=began,
            boot=self.machine.boot(),
            trusted_until=trusted(one, began),
        )
        if State(lease.state).ended:
            self.files.forget(saved.request_id)
            return known
        # The head's answer counts: a full disk ends no lease, and the same request id finds it again.
        with contextlib.suppress(StateUnusable, StoreFull):
            self.files.save(known)
        return known


def _path(known: SavedLease, verb: str = "") -> str:
    path = f"{LEASES}/{quote(known.lease or '', safe='')}"
    return f"{path}/{verb}" if verb else path


def _noting(steps: Steps[Got], sending: _Sending) -> Steps[Got]:
    """The same steps, noting before each call that the head may have got it, unless it cannot have."""
    sent: object = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(sent) if error is None else steps.throw(error)
        except StopIteration as end:
            got: Got = end.value
            return got
        before, error = sending.begun, None
        sending.begun = before or isinstance(step, Ask)
        try:
            sent = yield step
        except Refusal as refusal:
            if never_sent(refusal):
                sending.begun = before
            error = refusal
