"""The leases of a fake head: one holder a resource, a queue, no steps; the refusals of the real one."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from hostler.client.trust import ending
from hostler.domain.errors import (
    Ended,
    HoldTaken,
    IdempotencyConflict,
    LeaseLost,
    LeaseNotFound,
    NotYours,
    ResourceNotFound,
    StaleGeneration,
)
from hostler.domain.lease import State
from hostler.wire.schedule import (
    CancelBody,
    ClaimBody,
    LeaseList,
    LeaseView,
    OneLease,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
    StepView,
    StuckView,
)
from hostler.wire.values import dump, request_from

NOW = "2026-06-01T12:00:00.000Z"
TTL_S = 3600.0


class Gone(Exception):
    """The head went away while a call waited."""


def blank(id_: str, resource: str, number: int) -> LeaseView:
    """A lease that waits, with nothing to say of it."""
    return LeaseView(
        id=id_,
        resource=resource,
        title="",
        covers=(resource,),
        holder="",
        key="local",
        reason="",
        state=State.QUEUED,
        number=number,
        priority=0,
        created_at=NOW,
        epoch=None,
        generation=None,
        ttl_s=TTL_S,
        indefinite=False,
        place=None,
        place_expires_in_s=None,
        offer_expires_in_s=None,
        earliest_at=None,
        held_by=None,
        held_until=None,
        start_at=None,
        end_at=None,
        activated_at=None,
        expires_at=None,
        expires_in_s=None,
        hard_at=None,
        hard_in_s=None,
        limited_by="",
        why="",
        notice="",
        ended_at=None,
        ending=None,
        drift=(),
        stuck=None,
        steps=(),
        jobs=(),
        seq=number,
    )


@dataclass(kw_only=True)
class Row:
    """A lease as this head keeps it. `secret` is the hash."""

    view: LeaseView
    secret: str = ""
    digest: str = ""


@dataclass(kw_only=True, eq=False)
class Leases:
    """All leases. `changed` guards them; `run` counts how often the head went away.

    `activates` False: a grant stays activating. `release_stuck`: a release ends as stuck. `putting_back`: the
    steps of what is released as each look after the other sees them, None once it is.
    """

    resources: tuple[str, ...] = ("pair", "box")
    activates: bool = True
    release_stuck: bool = False
    putting_back: list[tuple[StepView, ...] | None] = field(default_factory=list)
    ttl_s: float = TTL_S
    beat_s: float | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    run: int = 0
    _requests: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def do(self, id_: str | None, verb: str | None, method: str, body: bytes, request_id: str) -> object:
        """What a call under `/leases` answers."""
        run = self.run
        if id_ is None and method == "GET":
            views = tuple(row.view for row in self.rows.values() if not State(row.view.state).ended)
            return LeaseList(at=NOW, leases=views, next=None)
        if id_ is None:
            return self._reserve(request_from(ReserveBody, body), request_id, run)
        if id_ not in self.rows:
            raise LeaseNotFound(lease=id_)
        if verb is None:
            if self.putting_back:
                self._go_back(self.rows[id_])
            return OneLease(at=NOW, lease=self.rows[id_].view)
        return self._verb(id_, verb, body, run)

    def taken(self, resource: str, holder: str = "bob") -> str:
        """Somebody else has the resource. The lease's id."""
        with self.changed:
            id_ = self._new_id()
            view = replace(blank(id_, resource, self._number), holder=holder)
            self.rows[id_] = Row(view=view, secret="-")
            self._grant(id_)
        return id_

    def turn(self, id_: str, **changes: object) -> None:
        """Change what is told of a lease; its end lets the next one in."""
        with self.changed:
            row = self.rows[id_]
            changed: Any = {"seq": row.view.seq + 1, **changes}
            row.view = replace(row.view, **changed)
            self._advance(row.view.resource)
            self.changed.notify_all()

    def _new_id(self) -> str:
        self._number += 1
        return f"ls_{self._number:026d}"

    def _reserve(self, body: ReserveBody, request_id: str, run: int) -> OneLease:
        if body.resource not in self.resources:
            raise ResourceNotFound(resource=body.resource, known=f"There are {', '.join(self.resources)}.")
        digest = hashlib.sha256(dump(body)).hexdigest()
        known = self._requests.get(request_id)
        if known is not None:
            if self.rows[known].digest != digest:
                raise IdempotencyConflict(key=request_id)
            return OneLease(at=NOW, lease=self.rows[known].view)
        holder = self._holder(body.resource)
        if holder is not None and body.now:
            raise HoldTaken(
                owner=holder.holder, until="21:15", what=body.resource, lease=holder.id, waiting=1
            )
        id_ = self._new_id()
        view = replace(
            blank(id_, body.resource, self._number),
            holder=body.holder,
            reason=body.reason,
            ttl_s=None if body.indefinite else (body.ttl_s or self.ttl_s),
            indefinite=body.indefinite,
            beat_s=self.beat_s,
        )
        self.rows[id_] = Row(view=view, secret=body.secret_hash, digest=digest)
        self._requests[request_id] = id_
        self._advance(body.resource)
        if self.rows[id_].view.state == State.OFFERED:
            self._grant(id_)
        self._wait(id_, body.wait_s, run)
        return OneLease(at=NOW, lease=self.rows[id_].view)

    def _holder(self, resource: str) -> LeaseView | None:
        return next(
            (
                row.view
                for row in self.rows.values()
                if row.view.resource == resource and State(row.view.state).holds
            ),
            None,
        )

    def _advance(self, resource: str) -> None:
        """The first in line gets its offer; everybody is told their place."""
        waiting = [
            id_
            for id_, row in self.rows.items()
            if row.view.resource == resource and row.view.state == State.QUEUED
        ]
        holder = self._holder(resource)
        if holder is None and waiting:
            first = self.rows[waiting.pop(0)]
            first.view = replace(first.view, state=State.OFFERED, place=None, offer_expires_in_s=900)
        for place, id_ in enumerate(waiting, 1):
            row = self.rows[id_]
            row.view = replace(
                row.view, place=place, held_by=holder.holder if holder else None, why="bob has it until 21:15"
            )

    def _grant(self, id_: str) -> None:
        row = self.rows[id_]
        ttl = row.view.ttl_s
        self._number += 1
        row.view = replace(
            row.view,
            state=State.ACTIVE if self.activates else State.ACTIVATING,
            epoch="e1",
            generation=self._number,
            place=None,
            why="",
            expires_in_s=None if ttl is None else int(ttl),
            seq=row.view.seq + 1,
        )

    def _verb(self, id_: str, verb: str, body: bytes, run: int) -> OneLease:
        models = {
            "renew": RenewBody,
            "claim": ClaimBody,
            "cancel": CancelBody,
            "release": ReleaseBody,
            "processes": ProcessBody,
        }
        asked: Any = request_from(models[verb], body)
        row = self.rows[id_]
        if asked.secret is None or hashlib.sha256(asked.secret.encode()).hexdigest() != row.secret:
            raise NotYours(what=f"The lease {id_}", expected="Ask its holder.")
        present = row.view.generation
        if asked.generation is not None and asked.generation != present:
            raise StaleGeneration(resource=row.view.resource, given=asked.generation, present=present or 0)
        if State(row.view.state).ended:
            if verb in ("renew", "claim", "processes"):
                raise Ended(what="lease", name=id_, why=row.view.why)
            return OneLease(at=NOW, lease=row.view)
        if verb == "renew" and row.view.state == State.RELEASING:
            raise LeaseLost(lease=id_, resource=row.view.resource, why="it is being put back")
        if verb == "renew" and row.view.stuck is not None:
            raise ending(OneLease(at=NOW, lease=row.view))
        getattr(self, f"_{verb}")(id_, asked)
        self._advance(row.view.resource)
        self._wait(id_, getattr(asked, "wait_s", 0.0), run)
        if verb == "renew" and asked.claim and row.view.state == State.OFFERED:
            self._grant(id_)
        granted = row.view.expires_in_s if verb == "renew" else None
        return OneLease(at=NOW, lease=row.view, granted_s=granted)

    def _renew(self, id_: str, asked: RenewBody) -> None:
        row = self.rows[id_]
        if row.view.state == State.ACTIVE and not row.view.indefinite:
            ttl = asked.ttl_s or row.view.ttl_s or self.ttl_s
            row.view = replace(row.view, expires_in_s=max(row.view.expires_in_s or 0, int(ttl)))

    def _claim(self, id_: str, asked: ClaimBody) -> None:
        del asked
        if self.rows[id_].view.state == State.OFFERED:
            self._grant(id_)

    def _cancel(self, id_: str, asked: CancelBody) -> None:
        del asked
        row = self.rows[id_]
        row.view = replace(row.view, state=State.CANCELLED, why="it was called off", expires_in_s=None)

    def _release(self, id_: str, asked: ReleaseBody) -> None:
        del asked
        row = self.rows[id_]
        if self.release_stuck:
            stuck = StuckView(n=3, step="resume large", wanted="healthy", seen="not healthy")
            row.view = replace(row.view, state=State.STUCK, stuck=stuck)
        else:
            self._go_back(row)

    def _go_back(self, row: Row) -> None:
        """One look further on the way back."""
        steps = self.putting_back.pop(0) if self.putting_back else None
        if steps is None:
            row.view = replace(row.view, state=State.RELEASED, expires_in_s=None)
        else:
            row.view = replace(row.view, state=State.RELEASING, steps=steps)

    def _processes(self, id_: str, asked: ProcessBody) -> None: ...

    def _wait(self, id_: str, seconds: float, run: int) -> None:
        before = self.rows[id_].view
        if before.state not in (State.QUEUED, State.ACTIVATING, State.RELEASING):
            return
        deadline = time.monotonic() + seconds
        while self.rows[id_].view == before and run == self.run:
            if not self.changed.wait(max(0.0, deadline - time.monotonic())):
                return
        if run != self.run:
            raise Gone
