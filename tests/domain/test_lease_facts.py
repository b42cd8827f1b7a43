from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.lease import Failing, Lease, Slot, State
from hostler.domain.lease_facts import FACTS, WINDOW_FACTS, changes, picture
from hostler.domain.step import FenceNumber
from tests.fakes.leases import NOW, PLAIN

SLOT = Slot(start=NOW.plus(600).at, end=NOW.plus(4200).at)
MOMENTS = (None, NOW.plus(60), NOW.plus(60.0001), NOW.plus(7200))
OTHERS: dict[str, tuple[object, ...]] = {
    "covers": (("pair",), ("pair", "crow")),
    "ttl_s": (None, 60.0),
    "detached_s": (None, 60.0),
    "fence": (None, FenceNumber(epoch="e1", generation=7), FenceNumber(epoch="e1", generation=8)),
    "slot": (None, SLOT),
    "limited_by": ("", "max", "booking"),
    "warned": ((), (300.0,)),
    "cause": ("", "a fence is up"),
    "ending": (None, State.EXPIRED),
    "cancelled": (False, True),
    "drift": ((), ("route chat is on cloud",)),
    "failing": (None, Failing(n=3, step="start fast-4b", wanted="ready", seen="failed")),
    "closing": (False, True),
    "strikes": ((), ("bots came up",)),
    **dict.fromkeys(("place", "offer", "activated", "expires", "hard", "reminded", "ended", "soft"), MOMENTS),
}
WHOLE = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OTHERS.items()})


@given(WHOLE, WHOLE, st.sampled_from(["", "heavy-glm"]))
def test_what_changed_is_the_difference_of_two_pictures(
    had: dict[str, object], has: dict[str, object], mode: str
) -> None:
    """FEED-3: the facts of a change are what differs between the whole pictures before and after it."""
    before = replace(PLAIN, mode=mode, **had)  # type: ignore[arg-type] # each is a value of its own field
    for changed in (has, *({name: value} for name in OTHERS for value in OTHERS[name])):
        after = replace(before, **changed)  # type: ignore[arg-type] # as above
        earlier = picture(before, NOW)
        whole = {name: value for name, value in picture(after, NOW).items() if value != earlier[name]}
        assert changes(before, after, NOW) == whole


def test_a_fact_is_made_from_fields_of_a_lease() -> None:
    """FEED-3: every field that a fact is said to be made from is one that a lease has."""
    named = {name for of, _ in (*FACTS.values(), *WINDOW_FACTS.values()) for name in of}
    assert named <= {field.name for field in fields(Lease)}
