"""What is kept in memory of a value that was written is what its text is read as."""

from dataclasses import replace
from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.fleet import frozen
from hostler.domain.lease import Failing
from hostler.domain.moment import Moment
from hostler.wire.records import job_and_text, job_from_text, lease_and_text, lease_from_text
from hostler.wire.values import event_and_text, event_from_text
from tests.adapters.schedule_rows import START, full_job, full_lease
from tests.adapters.stores import event

TEXT = st.lists(st.one_of(st.characters(), st.sampled_from("\ud800\udcff")), max_size=8).map("".join)
"""Halves of characters among them: `st.text` makes none."""
NUMBER = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
ZONE = st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours)))


@given(TEXT, TEXT, NUMBER, ZONE)
def test_a_lease_is_what_its_text_is_read_as(name: str, why: str, number: float, zone: timezone) -> None:
    """LEASE-7: a lease that stays in memory once it is written is equal to the one that its row gives."""
    written = replace(
        full_lease(),
        holder=name,
        drift=(why, name),
        failing=Failing(n=1, step=name, wanted=why, seen=name),
        ttl_s=number,
        warned=(number,),
        created=Moment(at=START.astimezone(zone), boot="boot", elapsed=number),
    )
    kept, text = lease_and_text(written)
    assert kept == lease_from_text(text)


@given(TEXT, TEXT, NUMBER)
def test_a_job_is_what_its_text_is_read_as(name: str, note: str, number: float) -> None:
    """JOB-1: a job that stays in memory once it is written is equal to the one that its row gives."""
    kept, text = job_and_text(replace(full_job(), title=name, note=note, metrics=frozen({name: number})))
    assert kept == job_from_text(text)


FACT = st.recursive(
    st.one_of(TEXT, NUMBER, st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


@given(TEXT, st.dictionaries(TEXT, FACT, max_size=4), ZONE)
def test_an_event_is_what_its_text_is_read_as(name: str, facts: dict[str, object], zone: timezone) -> None:
    """FEED-2: an event that is told when it is recorded is equal to the one that the log gives later."""
    at = START.astimezone(zone)
    told, text = event_and_text(replace(event(1), at=at, actor=name, message=name, facts=frozen(facts)))
    assert told == event_from_text(text)
