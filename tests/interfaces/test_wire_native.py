"""Dataclasses that are written without being taken apart: they look the same, and nothing slips through."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.fleet import Secret, frozen
from hostler.wire.jobs import JobView, OneJob
from hostler.wire.native import is_native
from hostler.wire.schedule import LeaseView, OneLease, ResourceView
from hostler.wire.values import dump, to_json


class Mood(StrEnum):
    """A text of a few."""

    CALM = "calm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Has a number."""

    value: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One field of each kind that is written as it is."""

    text: str = "schön"
    mood: Mood = Mood.CALM
    yes: bool = True
    count: int | None = None
    value: float = 1.5
    numbers: Mapping[str, float] = field(default_factory=lambda: frozen({"loss": 0.25}))
    inner: Inner | None = None
    rows: tuple[Inner, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """Has what has a form of its own."""

    key: Secret
    at: datetime = datetime(2026, 9, 4, 20, 5, 11, 987_654, tzinfo=UTC)
    names: frozenset[str] = frozenset({"b", "a"})


@pytest.mark.parametrize("kind", [JobView, LeaseView, ResourceView, OneJob, OneLease])
def test_rows_of_a_snapshot_are_native(kind: type) -> None:
    """PERF-10: no row of a snapshot has a field that the encoder could not write by itself."""
    bare: object = object.__new__(kind)
    for each in fields(kind):
        object.__setattr__(bare, each.name, None)
    assert is_native(bare)


@given(
    row=st.builds(
        Row,
        text=st.text(),
        count=st.none() | st.integers(-(2**60), 2**60),
        value=st.floats(allow_nan=False, allow_infinity=False),
        inner=st.none() | st.builds(Inner, value=st.floats(allow_nan=False, allow_infinity=False)),
        rows=st.lists(st.builds(Inner), max_size=3).map(tuple),
    )
)
def test_native_looks_like_any_other(row: Row) -> None:
    """API-1: a value is written the same whether the encoder takes it apart or we do."""
    assert is_native(row)
    assert msgspec.json.decode(dump({"rows": [row]})) == {"rows": [to_json(row)]}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["value", "numbers", "inner", "rows"])
def test_a_number_that_json_has_not_is_found_everywhere(bad: float, place: str) -> None:
    """API-1: NaN and infinities are refused wherever they are, never written as `null`."""
    inside = {"value": bad, "numbers": {"x": bad}, "inner": Inner(value=bad), "rows": (Inner(value=bad),)}
    with pytest.raises(ValueError, match="no place in JSON"):
        dump([Row(**{place: inside[place]})])  # type: ignore[arg-type]  # the field's own type


def test_what_has_a_form_of_its_own_keeps_it() -> None:
    """SEC-1, TIME-1: a secret is never written, a time is RFC 3339 with milliseconds, a set is sorted."""
    odd = Odd(key=Secret("hk_never"))
    assert not is_native(odd)
    assert dump([odd]) == b'[{"key":"****","at":"2026-09-04T20:05:11.987Z","names":["a","b"]}]'


def test_half_a_character_in_a_row_is_shown() -> None:
    r"""INTERFACE-1: half a character in a row is shown as `\\udcff`, as everywhere."""
    assert b"\\\\udcff" in dump(Row(text="\udcff"))
