import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.catalog import Build, Gates
from hostler.domain.curation import (
    Crossing,
    LinkSeen,
    asked,
    build_problem,
    curation,
    parse_speed,
    speed_text,
    topology_problem,
)
from hostler.domain.fleet import frozen
from tests.fakes.catalog import GIB, PROOF, entry, variant

REPORT = "version: 5900 (3f2a1c9d)\nbuilt with cc (Debian 12.2.0) for x86_64-linux-gnu\n"
LINK = Crossing(
    to="crow",
    interface="tb0",
    address="10.99.0.2",
    peer="10.99.0.1",
    speed=10 * 10**9,
    port=50052,
)
GOOD = LinkSeen(up=True, speed=10 * 10**9, reached=True)


def test_what_an_entry_means_for_an_engine() -> None:
    """CAT-8: an engine has the peak of its role, the context and build of its shape, and nothing else."""
    gates = Gates(peak=frozen({"worker": GIB, "main": 2 * GIB}), available=3 * GIB)
    made = entry("a", variant(gates=gates, evidence=(PROOF,)), build=Build(release=5))
    found = curation(made, made.variants["4k"], role="main", crossings=(LINK,))
    assert (found.entry, found.proven, found.peak, found.available) == ("a#4k", True, 2 * GIB, 3 * GIB)
    assert (found.context_most, found.build, found.crossings) == (4096, Build(release=5), (LINK,))
    own = entry("a", variant(most_context=8192, build=Build(tree="x")), build=Build(release=5))
    plain = curation(own, own.variants["4k"])
    assert (plain.context_most, plain.build, plain.peak, plain.proven) == (8192, Build(tree="x"), None, False)


def test_what_must_be_available_is_need_and_reserve() -> None:
    """CAT-8, MEM-2: a gate of 100 available is a need of 92 beside a reserve of 8, unless it needs more."""
    assert asked({"host": 10}, "host", None, 8) == {"host": 10}
    assert asked({"host": 10}, "host", 100, 8) == {"host": 92}
    assert asked({"host": 95, "gpu0": 1}, "host", 100, 8) == {"host": 95, "gpu0": 1}
    assert asked({}, "host", 100, 8) == {"host": 92}


# ---------------------------------------------------------------- the build


@pytest.mark.parametrize(
    ("build", "report", "problem"),
    [
        (Build(release=5900), REPORT, None),
        (Build(release=5901), REPORT, "its build is 5900, and at least 5901 is needed"),
        (Build(release=5900), "llama-server b6001", None),
        (Build(release=1), "version: 1 (571d0d5)\nbuilt with GNU 11.4.0 for Linux x86_64", None),
        (Build(release=1), "version: 0.3.0-dev", "its build has no number, and at least 1 is needed"),
        (Build(release=5900), "nothing of it", "its build has no number, and at least 5900 is needed"),
        (Build(commits=("3f2a1c9",)), REPORT, None),
        (Build(commits=("3f2a1c9d00",)), REPORT, None),
        (Build(commits=("aaaaaaa", "3F2A1C9D")), REPORT, None),
        (Build(commits=("aaaaaaa",)), REPORT, "its build is none of the commits aaaaaaa: it reports"),
        (Build(tree="debian"), REPORT, None),
        (Build(tree="turbo"), REPORT, "its build is not of the tree turbo: it reports"),
        (Build(tree="debian", commits=("3f2a1c9",), release=1), REPORT, None),
        (Build(release=1), "", "its binary does not say which build it is"),
        (Build(release=1), None, "its binary does not say which build it is"),
    ],
)
def test_a_build_is_what_its_binary_reports(build: Build, report: str | None, problem: str | None) -> None:
    """CAT-8: tree, commit and release are looked for in the report; a binary that says nothing is not it."""
    found = build_problem(build, report)
    assert (found is None) == (problem is None)
    assert problem is None or (found or "").startswith(problem)


# ---------------------------------------------------------------- the links


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (GOOD, None),
        (LinkSeen(up=True, speed=40 * 10**9, reached=True), None),
        (
            LinkSeen(up=False, why="the kernel says down"),
            "the link tb0 to crow is down: the kernel says down",
        ),
        (LinkSeen(up=False), "the link tb0 to crow is down"),
        (
            LinkSeen(up=True, speed=10**9, reached=True),
            "the link tb0 to crow has 1 Gbit/s, and 10 Gbit/s is needed",
        ),
        (
            LinkSeen(up=True, reached=True),
            "the link tb0 to crow has a speed that cannot be read, and 10 Gbit/s is needed",
        ),
        (
            LinkSeen(up=True, speed=10**10, reached=False, why="refused"),
            "10.99.0.1:50052 on crow is not reached over tb0: refused",
        ),
        (LinkSeen(up=True, speed=10**10), "10.99.0.1:50052 on crow is not reached over tb0"),
    ],
)
def test_a_link_is_up_fast_and_leads_somewhere(seen: LinkSeen, problem: str | None) -> None:
    """CAT-8: a shape over two boxes needs its interface up, its speed, and the worker's port reached."""
    assert topology_problem([LINK], [seen]) == problem


def test_each_link_counts() -> None:
    """CAT-8: the first link that is not good enough is told; without one to the other box nothing is."""
    bare = Crossing(to="raven", interface="eth1", address="10.0.0.1", peer="10.0.0.2")
    assert topology_problem([bare, LINK], [LinkSeen(up=True), GOOD]) is None
    assert topology_problem([bare, LINK], [LinkSeen(up=True), LinkSeen(up=False)]) == (
        "the link tb0 to crow is down"
    )
    assert topology_problem([], []) is None
    assert "has no link to another" in (topology_problem(None, []) or "")


@given(st.integers(1, 4000), st.sampled_from([10**6, 10**9]))
def test_a_speed_reads_back(number: int, unit: int) -> None:
    """CAT-8: a speed that is written is read as the same number of bits."""
    assert parse_speed(speed_text(number * unit)) == number * unit


def test_what_is_no_speed() -> None:
    """CAT-8: a number without its unit is no speed."""
    with pytest.raises(ValueError, match="is no speed"):
        parse_speed("10")
