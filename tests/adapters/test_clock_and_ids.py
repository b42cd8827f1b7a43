import re

from hostler.adapters.clock import SystemClock
from hostler.adapters.ids import ALPHABET, SystemIds, base32, new_key


async def test_the_clock_is_utc_and_does_not_go_back() -> None:
    """TIME-1: the wall clock is aware and in UTC; elapsed seconds only grow, over a sleep too."""
    clock = SystemClock()
    assert clock.now().utcoffset() is not None
    assert str(clock.now().tzinfo) == "UTC"
    before = clock.elapsed()
    await clock.sleep(0.001)
    assert clock.elapsed() - before >= 0.001


def test_ids_are_unique_and_sort_by_time() -> None:
    """SEC-2: an id is a prefix and 26 characters that fit every name's pattern, unique, in order of time."""
    ids = SystemIds()
    made = [ids.new("rq") for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch(r"rq_[0-9a-hjkmnp-tv-z]{26}", each) for each in made)
    stamps = [each[3:13] for each in made]
    assert stamps == sorted(stamps)


def test_base_32_keeps_order() -> None:
    """TIME-1: a later time gives a greater text, at every carry."""
    assert base32(31, 2) < base32(32, 2) < base32(1023, 2)
    assert base32(0, 3) == "000"
    assert base32(1023, 2) == ALPHABET[-1] * 2


def test_dice_are_in_their_range() -> None:
    """ENG-3: jitter is in [0, 1) and is not always the same."""
    thrown = [SystemIds().jitter() for _ in range(100)]
    assert all(0 <= each < 1 for each in thrown)
    assert len(set(thrown)) > 90


def test_a_key_has_256_bits() -> None:
    """SEC-1: a key is 32 random bytes as text of a header, each time another."""
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"hk_[A-Za-z0-9_-]{43}", key) for key in keys)
