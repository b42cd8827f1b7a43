"""Leases, resources and moments for tests of the domain: whole, and plain unless a test says otherwise."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from hostler.domain.lease import Failing, Lease, LeaseId, Slot, State
from hostler.domain.moment import Moment
from hostler.domain.resource import Resource
from hostler.domain.step import FenceNumber, Step
from hostler.domain.values import HostName

NOW = Moment(at=datetime(2026, 9, 4, 20, 0, tzinfo=UTC), boot="boot-1", elapsed=100_000.0)
PAIR = Resource(
    name="pair",
    hosts=(HostName("crow"), HostName("raven")),
    covers=("pair",),
    max_s=4 * 3600.0,
    indefinite=True,
)


class LeaseKeys(TypedDict, total=False):
    """What a test may say of a lease."""

    resource: str
    covers: tuple[str, ...]
    holder: str
    state: State
    created: Moment
    number: int
    priority: int
    ttl_s: float | None
    detached_s: float | None
    fence: FenceNumber | None
    slot: Slot | None
    place: Moment | None
    offer: Moment | None
    activated: Moment | None
    expires: Moment | None
    hard: Moment | None
    limited_by: str
    warned: tuple[float, ...]
    reminded: Moment | None
    ending: State | None
    cause: str
    drift: tuple[str, ...]
    failing: Failing | None
    cancelled: bool
    plan: tuple[Step, ...]
    mode: str
    drain_before_s: float
    soft: Moment | None
    closing: bool


PLAIN = Lease(
    id=LeaseId("ls-1"),
    resource="pair",
    covers=("pair",),
    holder="kim",
    key="bench",
    secret="0" * 64,
    request_id="rq-1",
    digest="1" * 64,
    created=NOW,
    ttl_s=3600.0,
)


def lease(name: str = "ls-1", **keys: Unpack[LeaseKeys]) -> Lease:
    """A lease of kim's on pair for an hour, queued now."""
    return replace(PLAIN, id=LeaseId(name), request_id=f"rq {name}", **keys)


def active(**keys: Unpack[LeaseKeys]) -> Lease:
    """One that became active now, for an hour of at most four."""
    return replace(
        lease(
            state=State.ACTIVE,
            activated=NOW,
            expires=NOW.plus(3600.0),
            hard=NOW.plus(4 * 3600.0),
            limited_by="max",
        ),
        **keys,
    )
