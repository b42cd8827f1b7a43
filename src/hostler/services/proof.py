"""Who may change a lease or a job: its holder by the secret, an operator with a reason (LEASE-9).

Decides from what was sent. A name is a label and proves nothing.
"""

from __future__ import annotations

import hashlib
import hmac

from hostler.domain.errors import InvalidRequest, NotYours, StaleGeneration
from hostler.domain.lease import Lease
from hostler.domain.moment import Moment
from hostler.domain.values import Requester, shorten
from hostler.services.keys import Principal, Scope
from hostler.services.schedule_views import until_of
from hostler.wire.schedule import Proof


def hashed(secret: str) -> str:
    """The SHA-256 of a secret, in hex: all that is ever kept of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def proven(secret: str | None, kept: str) -> bool:
    """Whether that secret is the one whose hash is `kept`."""
    return secret is not None and hmac.compare_digest(hashed(secret), kept)


def authorise(lease: Lease, proof: Proof, who: Principal, by: Requester, now: Moment) -> str:
    """The actor that events name. Refuses `not_yours`, `stale_generation`, `invalid_request`.

    Somebody else's needs the operator role, a reason, and the fence number of what is meant: an operator who
    looked at an old picture ends nothing that came after it.
    """
    granted = lease.fence
    if proof.generation is not None and granted is not None and proof.generation != granted.generation:
        raise stale(lease, proof.generation, now)
    if proof.epoch is not None and granted is not None and proof.epoch != granted.epoch:
        raise stale(lease, granted.generation, now)
    if proven(proof.secret, lease.secret):
        return f"holder {shorten(lease.holder)}"
    if not who.may(Scope.OPERATOR):
        raise NotYours(
            what=f"The lease {lease.id} on {lease.resource} is {shorten(lease.holder)}'s.",
            expected="Only its holder, or an operator with --generation and --because, may change it.",
        )
    if not proof.because.strip():
        raise InvalidRequest(
            what=f"The lease {lease.id} is {shorten(lease.holder)}'s: why do you change it?",
            expected="Give --because TEXT; it is told in the events.",
            where="because",
        )
    if granted is not None and proof.generation is None:
        raise InvalidRequest(
            what=f"Which grant of {lease.resource} do you mean?",
            expected=f"Give --generation {granted.generation}, if it is this one.",
            where="generation",
        )
    return f"operator {by.tag()}"


def stale(lease: Lease, given: int, now: Moment, holder: Lease | None = None) -> StaleGeneration:
    """The refusal of a fence number that is not the present one."""
    present = holder or lease
    return StaleGeneration(
        resource=lease.resource,
        given=given,
        present=present.fence.generation if present.fence else 0,
        holder=present.holder if present.state.holds else "nobody",
        until=until_of(present, now) if present.state.holds else "-",
    )
