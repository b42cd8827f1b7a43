"""What callers may do to a lease, inside one write transaction: renew, claim, release, abandon.

Decides what each call means in each state. Who may call is `services.proof`'s decision, what becomes of the
lease `domain.lease_machine`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hostler.domain.errors import Ended, InvalidRequest, LeaseLost, Stuck, WrongScope
from hostler.domain.fence import counted
from hostler.domain.journal import unverified
from hostler.domain.lease import (
    Abandoned,
    CancelAsked,
    Decision,
    Dropped,
    Lease,
    LeaseEvent,
    Renewed,
    Restored,
    State,
    TurnedBack,
    UndoBegun,
)
from hostler.domain.lease_due import at_cap, renewal
from hostler.domain.moment import Moment, left
from hostler.domain.values import Requester
from hostler.services.going_back import is_remembered
from hostler.services.keys import Principal, Scope
from hostler.services.lease_changes import change, known
from hostler.services.needs import Clock
from hostler.services.present import Present
from hostler.services.promotion import Look, Promotion, next_booking
from hostler.services.proof import authorise, proven, stale
from hostler.services.schedule_needs import Tx
from hostler.wire.schedule import ClaimBody, ReleaseBody, RenewBody


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequests:
    """`clean` takes secrets and control characters out of what a caller wrote."""

    config: Present
    promotion: Promotion
    clock: Clock
    clean: Callable[[str], str]

    def renew(
        self, tx: Tx, id_: str, body: RenewBody, who: Principal, by: Requester
    ) -> tuple[Decision, int | None]:
        now, lease = self.clock.moment(), known(tx, id_)
        self._alive(tx, lease, now)
        if lease.mode and lease.hard is not None and not proven(body.secret, lease.secret):
            # No reason that anybody could give renews it.
            raise at_cap(lease, lease.hard, now)
        actor = authorise(lease, body, who, by, now)
        resource = self.config.fleet.resources.get(lease.resource)
        counts = counted(tx.fence(), now)
        if lease.state is State.QUEUED:
            kept = lease.detached_s or (resource.place_s if resource is not None else 0.0)
            return change(tx, lease, Renewed(place=counts.plus(kept), actor=actor), now), None
        if lease.state is not State.ACTIVE:
            return Decision(lease=lease), None
        event = renewal(lease, resource, body.ttl_s, counts, next_booking(lease, tx.waiting(), now))
        made = change(tx, lease, replace(event, actor=actor), now)
        expires = made.lease.expires
        return made, None if expires is None else round(left(expires, counts))

    def claim(
        self, tx: Tx, id_: str, body: RenewBody | ClaimBody, who: Principal, by: Requester, look: Look
    ) -> Decision:
        now, lease = self.clock.moment(), known(tx, id_)
        self._alive(tx, lease, now)
        actor = authorise(lease, body, who, by, now)
        if lease.state is not State.OFFERED:
            return Decision(lease=lease)
        look = self.promotion.beside(tx, lease.id, look)
        if look.lasting:
            return change(tx, lease, Dropped(ending=State.FAILED, why=str(look.refusal)), now)
        fence = tx.fence()
        if look.refusal is not None or fence is not None:
            why = str(look.refusal) if look.refusal is not None else "fenced"
            return change(tx, lease, TurnedBack(why=why), now)
        return self.promotion.grant(tx, lease, look, actor)

    def _alive(self, tx: Tx, lease: Lease, now: Moment) -> None:
        """Refuse what cannot be renewed any more (R45), with who has it since (F03)."""
        if lease.state.ended:
            self._gone_on(tx, lease, now)
            raise Ended(what="lease", name=lease.id, why=lease.cause or lease.state.value)
        if lease.state is State.RELEASING:
            raise LeaseLost(
                lease=lease.id,
                resource=lease.resource,
                why=f"it is being put back: {lease.cause or 'released'}",
            )
        if lease.state is State.STUCK:
            raise stuck(lease)

    def _gone_on(self, tx: Tx, lease: Lease, now: Moment) -> None:
        """Refuse `stale_generation` when its resource has been granted again since (F04)."""
        for cover in lease.covers:
            holder = tx.holder(cover)
            if holder is not None and lease.fence is not None and holder.fence is not None:
                raise stale(lease, lease.fence.generation, now, holder)

    def release(self, tx: Tx, id_: str, body: ReleaseBody, who: Principal, by: Requester) -> Decision:
        now, lease = self.clock.moment(), known(tx, id_)
        if lease.state.ended:
            self._gone_on(tx, lease, now)
        actor = authorise(lease, body, who, by, now)
        if lease.state.ended:
            return Decision(lease=lease)
        if body.abandon:
            return self._abandon(tx, lease, body, who, actor)
        match lease.state:
            case State.SCHEDULED | State.QUEUED | State.OFFERED:
                return change(tx, lease, Dropped(ending=State.CANCELLED, why=actor, actor=actor), now)
            case State.ACTIVATING:
                return change(tx, lease, CancelAsked(why=actor, actor=actor), now)
            case State.ACTIVE:
                why = "closed" if lease.mode else ""
                return self.happen(tx, lease, UndoBegun(ending=State.RELEASED, why=why, actor=actor), now)
            case State.STUCK:
                if is_remembered(lease) and (blocked := self.promotion.blocked()) is not None:
                    raise blocked
                return change(tx, lease, UndoBegun(ending=State.RELEASED, actor=actor), now)
            case _:
                return Decision(lease=lease)

    def happen(self, tx: Tx, lease: Lease, event: LeaseEvent, now: Moment) -> Decision:
        """Something happens to a lease; one that has nothing to put back is over in the same transaction."""
        made = change(tx, lease, event, now)
        owes = lease.working or (lease.plan and tx.journal(lease.id))
        if made.lease.state is State.RELEASING and not owes:
            return change(tx, made.lease, Restored(), now)
        return made

    def _abandon(self, tx: Tx, lease: Lease, body: ReleaseBody, who: Principal, actor: str) -> Decision:
        if lease.state is not State.STUCK:
            raise InvalidRequest(
                what=f"The lease {lease.id} is {lease.state}: only a stuck one can be abandoned.",
                expected="Release it; --abandon frees what a release could not put back.",
                where="abandon",
            )
        operator(who)
        if not body.because.strip():
            raise InvalidRequest(
                what="Why is it abandoned?", expected="Give --because TEXT.", where="because"
            )
        left_over = unverified(tx.journal(lease.id))
        event = Abandoned(because=self.clean(body.because), unverified=left_over, actor=actor)
        return change(tx, lease, event, self.clock.moment())


def operator(who: Principal) -> None:
    """Refuses `wrong_scope` to everybody but operators."""
    if not who.may(Scope.OPERATOR):
        raise WrongScope(key=who.name, scope=Scope.OPERATOR)


def stuck(lease: Lease) -> Stuck:
    """The refusal of what a stuck lease cannot do."""
    at = lease.failing
    return Stuck(
        resource=lease.resource,
        lease=lease.id,
        step=at.step if at else "a step that a restart cut",
        wanted=at.wanted if at else "it finished",
        seen=at.seen if at else lease.cause,
    )
