from dataclasses import dataclass, field

import pytest

from hostler.services.lanes import InFlight
from hostler.services.observe import Observer
from hostler.services.picture import Picture
from hostler.services.requests import Outcome
from tests.fakes.clock import ManualClock
from tests.fakes.events import EventList
from tests.fakes.world import BOT


@dataclass(slots=True)
class Meters:
    """The need `Meters`: keeps what was counted."""

    requests: list[dict[str, object]] = field(default_factory=list)
    degraded_: list[str] = field(default_factory=list)

    def request(
        self, *, route: str, engine: str, outcome: str, seconds: float, first_byte_s: float | None
    ) -> None:
        self.requests.append({"outcome": outcome, "seconds": seconds, "first_byte_s": first_byte_s})

    def degraded(self, *, route: str, code: str) -> None:
        self.degraded_.append(code)

    def refused(self, *, code: str) -> None: ...

    def render(self, picture: Picture) -> bytes:
        return b""


def entry(clock: ManualClock) -> InFlight:
    """A request that arrived just now."""
    return InFlight(
        id="rq_1", requester=BOT, route="chat", path="/", started=clock.elapsed(), cut=lambda _: None
    )


@pytest.mark.parametrize("outcome", list(Outcome))
async def test_only_a_good_end_is_a_success(outcome: Outcome) -> None:
    """GW-5: every end is counted under its own name; all but good ones and refusals are an event (BG-03)."""
    clock, events, meters = ManualClock(), EventList(), Meters()
    row = entry(clock)
    await clock.advance(2.5)
    row.first_byte, row.bytes_out = clock.elapsed(), 7
    await clock.advance(1)
    Observer(meters=meters, clock=clock, events=events).ended(row, outcome, 200)
    assert meters.requests == [{"outcome": outcome.value, "seconds": 3.5, "first_byte_s": 2.5}]
    quiet = outcome in (Outcome.OK, Outcome.REFUSED)
    assert events.types == ([] if quiet else ["request_ended"])
    if not quiet:
        told = events.last("request_ended")
        assert (told.after, told.facts) == (outcome.value, {"status": 200, "bytes": 7, "seconds": 3.5})


async def test_a_degraded_answer_is_counted() -> None:
    """GATE-6: a degraded answer is counted under its code; an answer without a byte has no time to one."""
    clock, meters = ManualClock(), Meters()
    row = entry(clock)
    row.degraded = "box_reserved"
    Observer(meters=meters, clock=clock, events=EventList()).ended(row, Outcome.OK, 200)
    assert meters.degraded_ == ["box_reserved"]
    assert meters.requests[0]["first_byte_s"] is None
