import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.catalog import (
    Evidence,
    Gates,
    ModelFile,
    Quant,
    effective_class,
    overlaid,
    start_affordance,
)
from hostler.domain.fleet import frozen
from hostler.domain.values import ServingClass
from tests.fakes.catalog import GIB, PROOF, TWO, catalog, entry, variant

CLASSES = st.sampled_from([None, *ServingClass])
RESIDENT, WINDOWED, WEDGE = ServingClass


@given(st.lists(CLASSES), CLASSES)
def test_a_merge_only_rises(said: list[ServingClass | None], more: ServingClass | None) -> None:
    """CAT-3: whatever else speaks of a shape, its class is never less dangerous for it."""
    before, after = effective_class(*said), effective_class(*said, more)
    assert after.danger == max(before.danger, more.danger if more is not None else 0)


@given(st.lists(CLASSES), st.randoms())
def test_a_merge_has_no_order(said: list[ServingClass | None], dice: object) -> None:
    """CAT-3: who speaks first of a shape makes no difference to its class, nor does who says nothing."""
    turned = [*said[len(said) // 2 :], None, *said[: len(said) // 2]]
    assert effective_class(*turned) is effective_class(*said)


def test_a_merge_of_nothing() -> None:
    """CAT-2: a shape of which nobody speaks is resident; an entry always speaks."""
    assert effective_class() is RESIDENT


@pytest.mark.parametrize(
    ("serving_class", "start", "text"),
    [
        (RESIDENT, True, ""),
        (WINDOWED, False, "Operator window only: runs on two boxes or evicts production"),
        (WEDGE, False, "Known wedge risk: never started from the dashboard"),
    ],
)
def test_what_is_offered_of_a_class(serving_class: ServingClass, start: bool, text: str) -> None:
    """CAT-6: a start is offered of the resident class alone; the others have a sentence in its place."""
    found = start_affordance(serving_class)
    assert (found.start, found.badge, found.text) == (start, serving_class, text)


def test_the_class_of_a_variant_is_its_entrys_at_least() -> None:
    """CAT-3: a variant that says it is safer than its entry is of its entry's class."""
    made = entry(
        "a", variant(serving_class=RESIDENT), variant("8k", serving_class=WEDGE), serving_class=WINDOWED
    )
    assert made.class_of(made.variants["4k"]) is WINDOWED
    assert made.class_of(made.variants["8k"]) is WEDGE


def test_a_directory_stands_over_the_package() -> None:
    """CAT-1, CAT-3: an entry of the directory stands over the shipped one, of the more dangerous class."""
    below = [entry("a", serving_class=WINDOWED), entry("b")]
    found = overlaid(below, [entry("a", family="other"), entry("b", serving_class=WEDGE), entry("c")])
    assert {name: it.serving_class for name, it in found.items()} == {
        "a": WINDOWED,
        "b": WEDGE,
        "c": RESIDENT,
    }
    assert found["a"].family == "other"


def test_a_reference_names_an_entry_and_a_variant() -> None:
    """CAT-7: ID#VARIANT finds both or nothing; every reference of a catalog finds something."""
    made = catalog(entry("a", variant("4k"), variant("8k")), entry("b"))
    assert list(made.references()) == ["a#4k", "a#8k", "b#4k"]
    for reference in made.references():
        found = made.find(reference)
        assert found is not None
        assert f"{found[0].id}#{found[1].id}" == reference
    assert [made.find(it) for it in ("a", "a#", "a#9k", "c#4k", "#4k")] == [None] * 5


@pytest.mark.parametrize(
    ("evidence", "proven"),
    [
        ((), False),
        ((PROOF,), True),
        ((Evidence(identity=True),), False),
        ((Evidence(quality_runs=3),), False),
        ((Evidence(identity=True), Evidence(quality_runs=1)), True),
    ],
)
def test_a_variant_is_proven_by_both(evidence: tuple[Evidence, ...], proven: bool) -> None:
    """CAT-9: a variant is proven by an identity check and one quality run, not by one of the two."""
    assert variant(evidence=evidence).proven is proven


def test_a_variant_has_what_its_entry_says() -> None:
    """CAT-8: gates and topology that a variant does not say are its entry's; what it says is its own."""
    both = Gates(peak=frozen({"": GIB}), available=4 * GIB)
    made = entry(
        "a",
        variant("plain"),
        variant("own", gates=Gates(peak=frozen({"": 2 * GIB}), available=5 * GIB), topology=TWO),
        variant("some", gates=Gates(available=5 * GIB)),
        gates=both,
    )
    plain, own, some = made.variants.values()
    assert made.gates_of(plain) == both
    assert made.gates_of(own) == own.gates
    assert made.gates_of(some) == Gates(peak=both.peak, available=5 * GIB)
    assert (made.topology_of(plain).boxes, made.topology_of(own).boxes) == (1, 2)


@pytest.mark.parametrize(
    ("sizes", "size", "weights"), [((1, 2), None, 3), ((1, None), None, None), ((1, None), 9, 9)]
)
def test_the_weights_of_a_quant(sizes: tuple[int | None, ...], size: int | None, weights: int | None) -> None:
    """CAT-1: a quant weighs what its files do; where one is not known, what is said of all of them."""
    files = tuple(ModelFile(name=f"{index}.gguf", size=each) for index, each in enumerate(sizes))
    assert Quant(name="Q8", files=files, size=size).weights == weights
