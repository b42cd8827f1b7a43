from dataclasses import replace

import pytest

from hostler.domain.catalog import Build, Entry, Evidence, Gates, Launch, Source, Topology
from hostler.domain.catalog_check import Found, check_entry, check_over, first_run_defaults
from hostler.domain.fleet import frozen
from hostler.domain.values import ServingClass
from tests.fakes.catalog import GIB, MIB, PROOF, TWO, entry, quants, variant

RESIDENT, WINDOWED, WEDGE = ServingClass
BOTH = {"launch": Launch()}
"""An entry of two boxes says nothing of its start here."""


def told(made: Entry) -> list[tuple[str, str]]:
    return [(".".join(map(str, it.path)), it.message) for it in check_entry(made)]


def one(made: Entry) -> Found:
    """The one thing that is wrong."""
    found = check_entry(made)
    assert len(found) == 1, found
    return found[0]


def test_a_right_entry_has_no_findings() -> None:
    """CAT-11: nothing is found in an entry that breaks no rule."""
    assert check_entry(entry()) == ()


# ---------------------------------------------------------------- CAT-4: one box


def test_a_resident_entry_fits_one_box() -> None:
    """CAT-4: a quant of more than 126,976 MiB makes its entry no resident one, and the sum says why."""
    found = one(entry(**quants(min_ram=157_911 * MIB)))
    assert found.path == ("quants", "Q8", "min_ram")
    assert found.message == (
        "Q8 needs 157,911 MiB = 154.2 GiB, and one box has 126,976 MiB = 124.0 GiB:"
        " 30,935 MiB = 30.2 GiB more, so the entry cannot be resident"
    )
    assert check_entry(entry(serving_class=WINDOWED, **quants(min_ram=157_911 * MIB))) == ()


def test_the_box_is_just_large_enough() -> None:
    """CAT-4: 126,976 MiB are one box, and a byte more are not."""
    assert check_entry(entry(**quants(min_ram=126_976 * MIB))) == ()
    assert one(entry(**quants(min_ram=126_976 * MIB + 1))).hint == "serving.class: windowed"


def test_another_box_is_judged_by_its_own_memory() -> None:
    """CAT-4: `topology.box_memory` is the box that an entry is for."""
    small, large = Topology(box_memory=GIB), Topology(box_memory=512 * GIB)
    assert "one box has 1,024 MiB" in one(entry(topology=small)).message
    assert check_entry(entry(topology=large, **quants(min_ram=400 * GIB))) == ()


def test_weights_alone_may_be_more_than_a_box() -> None:
    """CAT-4: without min_ram the weights speak: nothing runs in less memory than they have."""
    assert "Q8 needs 131,072 MiB = 128.0 GiB" in one(entry(**quants(size=128 * GIB))).message


@pytest.mark.parametrize(
    ("more", "path", "message"),
    [
        ({"tags": ("chat", "two-box")}, "tags", "the entry is tagged two-box"),
        ({"topology": TWO, **BOTH}, "topology.roles", "the entry has 2 roles"),
        (
            {"variants": frozen({"two": variant("two", topology=TWO)})},
            "variants.two.topology.roles",
            "two runs on 2 boxes",
        ),
    ],
)
def test_two_boxes_are_never_resident(more: dict[str, object], path: str, message: str) -> None:
    """CAT-4: neither a tag nor a topology of two boxes goes with the resident class."""
    found = one(entry(**more))
    assert (".".join(map(str, found.path)), found.message) == (
        path,
        f"{message}, so the entry cannot be resident",
    )
    assert check_entry(entry(serving_class=WINDOWED, **more)) == ()


# ---------------------------------------------------------------- CAT-3: the ratchet


def test_a_variant_is_never_safer_than_its_entry() -> None:
    """CAT-3: a variant that declares less danger than its entry is an error of the check."""
    found = one(entry("a", variant(serving_class=RESIDENT), serving_class=WINDOWED))
    assert found.path == ("variants", "4k", "class")
    assert found.message == "resident is safer than its entry, which is windowed: a variant never is"


def test_a_more_dangerous_variant_raises_its_entry() -> None:
    """CAT-3: a variant that declares more danger than its entry is an error that says to raise the entry."""
    found = one(entry("a", variant(serving_class=WEDGE), serving_class=WINDOWED))
    assert found.message == "wedge-risk is more dangerous than its entry, which is windowed: raise the entry"
    assert found.hint == "serving.class: wedge-risk"


def test_a_variant_may_say_its_entrys_class() -> None:
    """CAT-3: a variant that declares what its entry is, is right."""
    assert check_entry(entry("a", variant(serving_class=WINDOWED), serving_class=WINDOWED)) == ()


def test_a_directory_never_lowers_a_class() -> None:
    """CAT-3: an entry that stands over a shipped one may be more dangerous than that, and not safer."""
    assert check_over(entry(serving_class=WEDGE), entry(serving_class=WINDOWED)) == ()
    (found,) = check_over(entry(serving_class=WINDOWED), entry(serving_class=WEDGE))
    assert found.path == ("serving", "class")
    assert "windowed is safer than the shipped tiny, which is wedge-risk" in found.message


# ---------------------------------------------------------------- CAT-1, CAT-9: defaults


def first(**more: object) -> Entry:
    return replace(
        entry("a", variant(default=True, evidence=(PROOF,)), first_run_default=True),
        **more,  # type: ignore[arg-type]  # a test names the fields that matter to it
    )


def test_a_first_run_default_is_resident_ungated_and_has_a_default() -> None:
    """CAT-4, CAT-1: the first-run default is resident, needs no account, and has a variant to take."""
    assert check_entry(first()) == ()
    assert one(first(serving_class=WINDOWED)).message == (
        "the first-run default must be resident, and this is windowed"
    )
    assert "must be ungated" in one(first(source=Source(gated=True))).message
    assert "needs a variant that is its default" in one(first(variants=frozen({"4k": variant()}))).message


def test_an_unproven_variant_is_no_default() -> None:
    """CAT-9: a default without an identity check and a quality run is an error."""
    found = one(entry("a", variant(default=True, evidence=(Evidence(identity=True),))))
    assert found.path == ("variants", "4k", "default")
    assert found.message == "4k is unproven: it has no identity check with a quality run"


def test_there_is_one_default() -> None:
    """CAT-9: of two proven defaults the second one is an error."""
    made = entry("a", *(variant(name, default=True, evidence=(PROOF,)) for name in ("4k", "8k", "9k")))
    assert told(made) == [
        ("variants.8k.default", "4k is the default already"),
        ("variants.9k.default", "4k is the default already"),
    ]


def test_who_is_the_first_run_default() -> None:
    """CAT-1: gated entries do not count among the first-run defaults of a catalog."""
    gated = entry("c", first_run_default=True, source=Source(gated=True))
    assert first_run_defaults([first(), entry("b"), gated]) == ("a",)


# ---------------------------------------------------------------- shapes and figures


def test_a_variant_is_of_a_quant_that_there_is() -> None:
    """CAT-8: a variant of an unknown quant is an error with the nearest one."""
    found = one(entry("a", variant(quant="Q9")))
    assert (found.path, found.message) == (("variants", "4k", "quant"), "there is no quant Q9")
    assert "Q8" in found.hint


def test_a_context_is_within_the_models() -> None:
    """CAT-8: neither a variant's context nor the largest of its lineage is above the model's."""
    made = entry("a", variant(context=9000, most_context=10_000))
    assert told(made) == [
        ("variants.4k.context", "9000 is above the model's context: 9000 > 8192"),
        ("variants.4k.most_context", "10000 is above the model's context: 10000 > 8192"),
    ]
    assert check_entry(replace(made, context=None)) == ()


def test_the_most_is_not_below_its_own() -> None:
    """CAT-8: the largest context of a lineage is at least the variant's own."""
    assert (
        one(entry("a", variant(most_context=2048))).message
        == "the most is below its own context: 2048 < 4096"
    )
    assert check_entry(entry("a", variant(context=None, most_context=2048))) == ()


def test_sizes_agree() -> None:
    """CAT-4: what a quant says of itself agrees with its files, and it needs no less than it weighs."""
    assert one(entry(**quants(file=5, size=6))).message == "its files are 5 bytes, not 6"
    assert one(entry(**quants(file=2 * GIB, min_ram=GIB))).message == (
        "less than its weights: 1,024 MiB = 1.0 GiB < 2,048 MiB = 2.0 GiB"
    )
    assert check_entry(entry(**quants(file=GIB, size=GIB))) == ()


def test_a_peak_is_of_a_role_and_within_its_box() -> None:
    """CAT-8: a measured peak names a role that there is, and is not above the box it was measured on."""
    wrong = Gates(peak=frozen({"main": 200 * GIB}), available=125 * GIB)
    assert told(entry("a", variant(gates=wrong))) == [
        ("variants.4k.gates.peak", "there is no role main"),
        ("variants.4k.gates.peak", "a peak of 204,800 MiB = 200.0 GiB on a box of 126,976 MiB = 124.0 GiB"),
        (
            "variants.4k.gates.available",
            "asks for 128,000 MiB = 125.0 GiB available on a box of 126,976 MiB = 124.0 GiB",
        ),
    ]
    two = Gates(peak=frozen({"": GIB}))
    found = one(entry(gates=two, topology=TWO, serving_class=WINDOWED, **BOTH))
    assert (found.path, found.message) == (("gates", "peak"), "there is no role of one size")
    assert found.hint == "worker, main"
    right = Gates(peak=frozen({"worker": GIB, "main": GIB}), available=GIB)
    assert check_entry(entry(gates=right, topology=TWO, serving_class=WINDOWED, **BOTH)) == ()


# ---------------------------------------------------------------- CAT-9: evidence


def test_throughput_needs_its_configuration() -> None:
    """CAT-9: tokens per second without the configuration they were measured in are an error."""
    bare = Evidence(tokens_per_s=31.5)
    assert told(entry("a", variant(evidence=(PROOF, bare)), evidence=(bare,))) == [
        (
            "evidence.0.tokens_per_s",
            "31.5 tokens/s without the configuration that they were measured in",
        ),
        (
            "variants.4k.evidence.1.tokens_per_s",
            "31.5 tokens/s without the configuration that they were measured in",
        ),
    ]
    full = replace(bare, configuration="Q8, context 4096, batch 2048")
    assert check_entry(entry("a", variant(evidence=(full,)))) == ()


# ---------------------------------------------------------------- CAT-8: builds and launches


def test_a_build_asks_for_what_a_binary_reports() -> None:
    """CAT-8: no release number proves a pull request, and an empty build asks for nothing."""
    pulls = Build(release=5900, pull_requests=(123,))
    found = one(entry("a", variant(build=pulls)))
    assert found.path == ("variants", "4k", "build", "pull_requests")
    assert found.message.startswith("no release number proves a pull request")
    assert one(entry(build=Build())).path == ("build",)
    for right in (
        Build(release=5900),
        Build(tree="turbo"),
        Build(commits=("3f2a1c9",)),
        Build(tree="turbo", pull_requests=(123,)),
        Build(commits=("3f2a1c9",), pull_requests=(123,)),
    ):
        assert check_entry(entry(build=right)) == ()


def test_each_role_has_its_argv() -> None:
    """CAT-8: a launch has one argv for each role, and none for another."""
    launch = Launch(argv=frozen({"main": ("serve",), "other": ("serve",)}))
    made = entry(topology=TWO, serving_class=WINDOWED, launch=launch)
    assert told(made) == [
        ("launch.argv", "the role worker has no argv"),
        ("launch.argv.other", "there is no role other"),
    ]
    plain = Launch(argv=frozen({"main": ("serve",)}))
    assert told(entry(launch=plain)) == [
        ("launch.argv", "the role of one process has no argv"),
        ("launch.argv.main", "there is no role main"),
    ]
    unnamed = entry(topology=TWO, serving_class=WINDOWED)
    assert ("launch.argv", "there is no role of one process") in told(unnamed)


def test_a_launch_has_placeholders_that_somebody_fills_in() -> None:
    """CAT-8: an unknown placeholder is an error with the nearest one; {{ is a brace; {context} needs one."""
    launch = Launch(argv=frozen({"": ("serve", "{{x}}", "{prot}", "-c", "{context}")}))
    made = entry("a", variant(), launch=launch)
    found = one(made)
    assert (found.path, found.message) == (("launch", "argv", 2), "there is no placeholder {prot}")
    assert "port" in found.hint
    right = Launch(argv=frozen({"": ("serve", "-c", "{context}")}))
    assert check_entry(entry("a", variant(), launch=right)) == ()
    without = entry("a", variant(context=None), launch=right)
    assert one(without).message == "{context} is a variant's, and one of them has none"
