"""What a lease that has nothing on this host any more left here: a suspension, a hold (NODE-5, LEASE-14).

Decides in which words it is told, with the command that ends it. Puts nothing back: a schedule that holds the
lease as over, restored from a backup for instance, does not say what is to run here.
"""

from __future__ import annotations

from hostler.domain.gate import personal
from hostler.domain.holding import ENGINE, HOLD
from hostler.domain.values import shorten
from hostler.services.gate import Gate
from hostler.services.holds import Holds


def left_behind(gate: Gate, holds: Holds) -> tuple[str, ...]:
    """A sentence for each engine and hold of this host that only a lease which is over keeps."""
    told = [
        f"{lane.engine.id} is kept suspended by lease {shorten(owner)}, which has nothing on"
        f" {holds.host} any more:"
        f" `hostler resume {lane.engine.id}` there lets it start"
        for lane in gate.lanes.by_id.values()
        if gate.guard.holding(ENGINE, lane.engine.id) is None
        for owner in lane.suspended_by
        if not personal(owner)
    ]
    view = holds.view()
    lease = view.record.lease if view.held and view.record is not None else None
    if lease is not None and gate.guard.holding(HOLD, holds.host) is None:
        told.append(
            f"{holds.host} is held by lease {shorten(lease)}, which has nothing there any more:"
            " `hostler box release --force` there ends the hold"
        )
    return tuple(told)
