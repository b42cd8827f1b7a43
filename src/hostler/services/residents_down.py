"""Residents that cannot come up here, though they should always be (GATE-2).

Decides who is one, and in which words it is told. One that waits for a hold, a lease or memory is none.
"""

from __future__ import annotations

from hostler.domain.engine import State
from hostler.domain.fleet import DriverKind
from hostler.services.gate import Gate
from hostler.services.lanes import Lane


def residents_down(gate: Gate) -> tuple[str, ...]:
    """A sentence for each resident whose every start is refused until something is mended."""
    lanes = (lane for lane in gate.lanes.by_id.values() if lane.engine.resident and waits(lane))
    refused = ((lane.engine.id, gate.unlaunchable(lane)) for lane in lanes)
    return tuple(
        f"{refusal} It is a resident and is down: `hostler why {name}` shows every check"
        for name, refusal in refused
        if refusal is not None
    )


def waits(lane: Lane) -> bool:
    """Whether it is down, and ours to bring up."""
    ours = lane.engine.enabled and lane.engine.driver is not DriverKind.EXTERNAL
    return ours and lane.state in (State.STOPPED, State.FAILED)
