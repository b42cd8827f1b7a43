"""What is public of a lease, as facts: absolute JSON values that events carry (FEED-3).

Decides which facts there are, and from which fields of the lease each is made: one whose fields stay as they
are stays as it is, and is not worked out anew. Never a secret: no hash of one, no plan (its URLs may hold
one). What is said of a change is `lease_news`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Final

from hostler.domain.lease import Lease
from hostler.domain.lease_due import limited
from hostler.domain.moment import Moment, shown
from hostler.domain.values import rfc3339

Form = Callable[[Lease, Moment], object]


def at(deadline: Moment | None, now: Moment) -> str | None:
    """A deadline as `now` sees it, RFC 3339."""
    return None if deadline is None else rfc3339(shown(deadline, now))


FACTS: Final[Mapping[str, tuple[tuple[str, ...], Form]]] = {
    "covers": (("covers",), lambda it, _now: list(it.covers)),
    "holder": (("holder",), lambda it, _now: it.holder),
    "key": (("key",), lambda it, _now: it.key),
    "reason": (("reason",), lambda it, _now: it.reason),
    "number": (("number",), lambda it, _now: it.number),
    "priority": (("priority",), lambda it, _now: it.priority),
    "created_at": (("created",), lambda it, _now: rfc3339(it.created.at)),
    "ttl_s": (("ttl_s",), lambda it, _now: it.ttl_s),
    "detached_s": (("detached_s",), lambda it, _now: it.detached_s),
    "epoch": (("fence",), lambda it, _now: None if it.fence is None else it.fence.epoch),
    "generation": (("fence",), lambda it, _now: None if it.fence is None else it.fence.generation),
    "start_at": (("slot",), lambda it, _now: None if it.slot is None else rfc3339(it.slot.start)),
    "end_at": (("slot",), lambda it, _now: None if it.slot is None else rfc3339(it.slot.end)),
    "place_at": (("place",), lambda it, now: at(it.place, now)),
    "offer_at": (("offer",), lambda it, now: at(it.offer, now)),
    "activated_at": (("activated",), lambda it, now: at(it.activated, now)),
    "expires_at": (("expires",), lambda it, now: at(it.expires, now)),
    "hard_at": (("hard",), lambda it, now: at(it.hard, now)),
    "limited_by": (("expires", "hard", "limited_by", "slot"), limited),
    "warned": (("warned",), lambda it, _now: list(it.warned)),
    "reminded_at": (("reminded",), lambda it, now: at(it.reminded, now)),
    "cause": (("cause",), lambda it, _now: it.cause),
    "ending": (("ending",), lambda it, _now: None if it.ending is None else it.ending.value),
    "cancelled": (("cancelled",), lambda it, _now: it.cancelled),
    "drift": (("drift",), lambda it, _now: list(it.drift)),
    "stuck": (("failing",), lambda it, _now: None if it.failing is None else asdict(it.failing)),
    "ended_at": (("ended",), lambda it, now: at(it.ended, now)),
}
"""Each fact with the fields that it is made from, and how. Durations in seconds, deadlines as `at` says."""

WINDOW_FACTS: Final[Mapping[str, tuple[tuple[str, ...], Form]]] = {
    "kind": ((), lambda _it, _now: "window"),
    "mode": (("mode",), lambda it, _now: it.mode),
    "stop_accepting_at": (("soft",), lambda it, now: at(it.soft, now)),
    "closing": (("closing",), lambda it, _now: it.closing),
    "strikes": (("strikes",), lambda it, _now: list(it.strikes)),
}
"""What a lease of kind `window` has besides (MODE-3)."""

_OF_WINDOWS: Final = {**FACTS, **WINDOW_FACTS}
_FIELDS: Final = tuple(sorted({name for of, _ in _OF_WINDOWS.values() for name in of}))
_values: Final = attrgetter(*_FIELDS)


def picture(lease: Lease, now: Moment) -> Mapping[str, object]:
    """Everything public of a lease but its state and its steps: what the facts of its events add up to."""
    return {name: form(lease, now) for name, (_, form) in _facts(lease).items()}


def changes(before: Lease, after: Lease, now: Moment) -> dict[str, object]:
    """What of the picture of `after` is not so in that of `before`, both as `now` sees them."""
    pairs = zip(_FIELDS, _values(before), _values(after), strict=True)
    moved = {name for name, had, has in pairs if had is not has}
    found = {}
    for name, (of, form) in _facts(after).items():
        if not moved.isdisjoint(of):
            value = form(after, now)
            if value != form(before, now):
                found[name] = value
    return found


def _facts(lease: Lease) -> Mapping[str, tuple[tuple[str, ...], Form]]:
    return _OF_WINDOWS if lease.mode else FACTS
