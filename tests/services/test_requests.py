import pytest

from hostler.domain.errors import Ended, NotFound, Refusal
from hostler.services.requests import Requests
from tests.fakes.clock import ManualClock
from tests.fakes.ids import CountingIds
from tests.fakes.world import BOT


def table() -> tuple[Requests, list[Refusal]]:
    return Requests(clock=ManualClock(), ids=CountingIds()), []


def test_a_request_is_listed_while_it_is_under_way() -> None:
    """GW-9: a request is in the table from its arrival to its end, oldest first, under an id of its own."""
    it, cuts = table()
    first = it.open(BOT, route="-", path="/v1/chat/completions", cut=cuts.append)
    second = it.open(BOT, route="-", path="/v1/chat/completions", cut=cuts.append)
    assert tuple(it.all()) == (first, second)
    assert first.id != second.id
    it.close(first)
    it.close(first)
    assert tuple(it.all()) == (second,)


def test_a_cancel_ends_that_request() -> None:
    """GW-9: a cancel ends that request with an error that says who, and no other."""
    it, cuts = table()
    first = it.open(BOT, route="-", path="/", cut=cuts.append)
    it.open(BOT, route="-", path="/", cut=cuts.append)
    it.cancel(first.id, BOT)
    assert [type(cut) for cut in cuts] == [Ended]
    assert str(cuts[0]) == f"The request {first.id} is over: cancelled by 10.99.0.7 ua=bot/1 client=bot."


def test_a_cancel_of_what_is_over() -> None:
    """GW-9: a cancel of an unknown id is `not_found`, and says that it may have ended already."""
    it, cuts = table()
    with pytest.raises(NotFound) as told:
        it.cancel("rq_1", BOT)
    assert told.value.nearest == "It may have ended already."
    assert cuts == []
