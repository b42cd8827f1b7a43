"""What a holder may conclude from an answer of the head, without asking again.

Decides until when a lease is trusted (LEASE-22) and which refusal an ended lease is. Reads no clock, asks
nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from hostler.client.saved import SavedLease
from hostler.domain.errors import ActivationFailed, Lapsed, LeaseLost, Refusal, Stuck
from hostler.domain.fleet import frozen
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease

LEAST_MARGIN_S: Final = 10.0
MARGIN: Final = 0.05
"""LEASE-22: a lease is trusted for its time less the larger of 10 s and 5 % of it."""

_ENDS: Final[Mapping[str, str]] = frozen(
    {
        "max": "its time is up: it had the longest that it may",
        "booking": "its time is up: a booking begins",
        "slot": "its time is up: its slot ends",
        "cap": "its time is up: it is at its cap",
    }
)


def proof(saved: SavedLease) -> dict[str, object]:
    """What shows that this user holds it: its secret, and the fence number once there is one (LEASE-8)."""
    return {"secret": saved.secret, "epoch": saved.epoch, "generation": saved.generation}


def hash_of(secret: str) -> str:
    """The SHA-256 of a secret, as hex: all that the head is told of it before it is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def trusted(one: OneLease, began: float) -> float | None:
    """Until when an active lease can be trusted, in elapsed seconds: LEASE-22. None: it has no end.

    `began` is when the attempt began whose answer this is. The head counted later than that, so what it gave
    cannot be over before `began` plus it. A lease that is not active is trusted until `began`: not at all.
    """
    lease = one.lease
    if lease.state != State.ACTIVE:
        return began
    if lease.expires_in_s is None:
        return None
    ttl = float(lease.expires_in_s)
    return began + ttl - max(LEAST_MARGIN_S, MARGIN * ttl)


def time_up(limited_by: str) -> str:
    """Why a lease is trusted no more, by what limits it; empty where a renewal would have helped.

    A renewal moves none of these ends, whether the head answers or not (LEASE-17).
    """
    return _ENDS.get(limited_by, "")


def ending(one: OneLease) -> Refusal:
    """What to raise for a lease that ended before it was of use, or is stuck."""
    lease, state = one.lease, State(one.lease.state)
    why = lease.why or f"it is {state.value}"
    if state is State.STUCK:
        at = lease.stuck
        return Stuck(
            resource=lease.resource,
            lease=lease.id,
            step=at.step if at else "a step",
            wanted=at.wanted if at else "it to be undone",
            seen=at.seen if at else why,
        )
    if state is State.FAILED:
        return ActivationFailed(resource=lease.resource, lease=lease.id, why=why)
    if state is State.LAPSED:
        return Lapsed(resource=lease.resource, lease=lease.id, why=why)
    return LeaseLost(lease=lease.id, resource=lease.resource, why=why)
