import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.catalog import Gates
from hostler.domain.catalog_fit import FitResult, capacity, fit, fits_of
from hostler.domain.fleet import frozen
from hostler.domain.values import ServingClass
from tests.fakes.catalog import GIB, TWO, entry, quants, variant


@pytest.mark.parametrize(
    ("need", "has", "result"),
    [
        (100, 100, "fits"),
        (101, 100, "tight"),
        (110, 100, "tight"),
        (111, 100, "won't fit"),
        (None, 100, "unknown"),
        (1, None, "unknown"),
        (1, 0, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_a_need_fits_is_tight_or_does_not(need: int | None, has: int | None, result: FitResult) -> None:
    """CAT-11: up to what a box has fits, up to 110 % of it is tight, and missing data is unknown."""
    assert fit(need, has) == result


@given(st.none() | st.integers(0, 1 << 50), st.none() | st.integers(0, 1 << 50))
def test_what_is_not_known_never_fits(need: int | None, has: int | None) -> None:
    """CAT-11: no answer but unknown is given of a need or a box that is not known."""
    assert (fit(need, has) == "unknown") == (need is None or has is None or has <= 0)


def test_unified_memory_is_counted_once() -> None:
    """CAT-11: a box has the sum of its pools, a unified one being one; one unknown makes all unknown."""
    assert capacity({"host": 124 * GIB}) == 124 * GIB
    assert capacity({"host": 64 * GIB, "gpu0": 24 * GIB}) == 88 * GIB
    assert capacity({"host": 64 * GIB, "gpu0": None}) is None
    assert capacity({}) is None


def test_every_shape_is_told_with_its_sum() -> None:
    """CAT-11: quants go by min_ram, variants by their peak, a part of two boxes by its own share."""
    peak = Gates(peak=frozen({"worker": 74 * GIB, "main": 78 * GIB}))
    made = entry(
        "glm",
        variant("measured", gates=peak, topology=TWO),
        variant("claimed", topology=TWO),
        variant("alone"),
        serving_class=ServingClass.WINDOWED,
        **quants(min_ram=152 * GIB + 1),
    )
    found = {it.what: (it.result, it.text) for it in fits_of(made, 76 * GIB)}
    assert found == {
        "Q8": ("won't fit", "needs 152.0 GiB (its min_ram) of the box's 76.0: 201 %"),
        "glm#measured": (
            "tight",
            "needs 78.0 GiB (its measured peak, on each of 2 boxes) of the box's 76.0: 103 %",
        ),
        "glm#claimed": (
            "tight",
            "needs 76.0 GiB (the min_ram of its quant, on each of 2 boxes) of the box's 76.0: 101 %",
        ),
        "glm#alone": (
            "won't fit",
            "needs 152.0 GiB (the min_ram of its quant) of the box's 76.0: 201 %",
        ),
    }


def test_a_shape_that_nobody_measured_is_unknown() -> None:
    """CAT-11: a shape without figures, and a box without, are told as not known."""
    bare = entry("a", variant(), variant("odd", quant="Q9"), **quants())
    assert {it.result for it in fits_of(bare, 100 * GIB)} == {"unknown"}
    assert [it.text for it in fits_of(bare, 100 * GIB)][1] == "not known: neither its peak nor its min_ram"
    assert [(it.result, it.text) for it in fits_of(entry(), None)] == [
        ("unknown", "needs 2.0 GiB (its min_ram); the box's is not known"),
        ("unknown", "needs 2.0 GiB (the min_ram of its quant); the box's is not known"),
    ]
