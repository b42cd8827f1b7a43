from pathlib import Path

import pytest

from hostler.interfaces.imports.matrix import Malformed, members, pairs, parse, permits
from tests.interfaces.importing import Made, made, refused

CMD = "llama-server --port ${PORT}"


def models(*names: str) -> str:
    return "models:\n" + "".join(f"  {name}: {{cmd: {CMD!r}}}\n" for name in names)


def stops(got: Made, names: str) -> set[str]:
    """Every pair `ab` where a start of a stops b."""
    return {one + two for one in names for two in names if one != two and got.stops(one, two)}


def test_models_in_no_group_run_one_at_a_time(tmp_path: Path) -> None:
    """CONF-4, EVICT-1: what llama-swap runs one at a time is one group of ours."""
    got = made(tmp_path, models("a", "b", "c"))
    assert stops(got, "abc") == {"ab", "ac", "ba", "bc", "ca", "cb"}
    assert list(got.fleet.host.groups) == ["main"]
    assert got.fleet.host.groups["main"].min_resident_s == 0


def test_one_model_needs_no_group(tmp_path: Path) -> None:
    """CONF-4: where nothing excludes anything there is no group."""
    got = made(tmp_path, models("a"))
    assert (dict(got.fleet.host.groups), got.engine("a").group) == ({}, None)


GROUPS = """\
groups:
  One at a time: {members: [a, b]}
  side: {members: [c, d], swap: false, exclusive: false}
  kept: {members: [e], persistent: true, exclusive: false}
"""


@pytest.mark.parametrize("below", [(), ("routing", "router", "settings")], ids=["top", "routing"])
def test_groups(tmp_path: Path, below: tuple[str, ...]) -> None:
    """CONF-4: swap, exclusive and persistent say whom a start stops, wherever the groups stand."""
    text = "".join(f"{'  ' * depth}{key}:\n" for depth, key in enumerate(below))
    text += "".join(f"{'  ' * len(below)}{line}\n" for line in GROUPS.splitlines())
    got = made(tmp_path, models("a", "b", "c", "d", "e", "f") + text)
    assert stops(got, "abcdef") == {
        *("ab", "ac", "ad", "af", "ba", "bc", "bd", "bf"),
        *("fa", "fb", "fc", "fd"),
    }
    assert got.engine("a").group == "one-at-a-time"
    assert [name for name in "abcdef" if got.engine(name).pinned] == ["e"]


def test_a_persistent_group_that_swaps_is_told(tmp_path: Path) -> None:
    """CONF-4: members of a persistent group that exclude each other cannot be pinned, and that is told."""
    got = made(tmp_path, models("a", "b", "c") + "groups: {g: {members: [a, b], persistent: true}}\n")
    assert stops(got, "abc") == {"ab", "ba", "ac", "bc"}
    assert not got.engine("a").pinned
    assert "may be stopped for memory" in got.tells("5: groups.g.persistent")


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ("groups: {g: {members: [x]}}", "groups.g.members: there is no model x"),
        ("groups: {g: {members: [a]}, h: {members: [a]}}", "a is in the group g already"),
        ("groups: {g: {members: [a]}}\nmatrix: {sets: {s: a}}", "groups or matrix, once, not both"),
        ("groups: {g: [a]}", "groups.g: expected a mapping"),
        ("matrix: {sets: {s: 'a & x'}}", "matrix.sets.s: there is no model x"),
        ("matrix: {vars: {v: x}}", "matrix.vars.v: there is no model x"),
        ("matrix: {sets: {s: '+t'}}", "matrix.sets.s: there is no set t"),
        ("matrix: {sets: {s: '+t', t: '+s'}}", "matrix.sets.s: the set s is made of itself"),
        ("routing: {router: {use: matrix}}", "routing.router.use: there is no matrix"),
        ("routing: {router: {use: both}}", "routing.router.use: expected group or matrix"),
    ],
)
def test_groups_that_cannot_be_are_refused(tmp_path: Path, groups: str, why: str) -> None:
    """CONF-4: groups and sets of models that are none, or that contradict each other, are refused."""
    assert any(why in told for told in refused(tmp_path, models("a", "b") + groups + "\n"))


MATRIX = """\
matrix:
  vars: {A: a}
  evict_costs: {a: 5}
  sets:
    heavy: "(A | b) & (c | d)"
    light: "c & d"
    more: "+light & e"
"""


def test_a_matrix_is_said_by_groups(tmp_path: Path) -> None:
    """CONF-4, EVICT-1: two engines exclude each other where no set has both; one in no set runs alone."""
    got = made(tmp_path, models("a", "b", "c", "d", "e", "f") + MATRIX)
    apart = {"ab", "ae", "be", "af", "bf", "cf", "df", "ef"}
    assert stops(got, "abcdef") == apart | {pair[::-1] for pair in apart}
    assert got.engine("a").group == got.engine("b").group != got.engine("c").group
    assert "not weighed by costs" in got.tells("10: matrix.evict_costs")


def test_what_pairs_cannot_say_is_told(tmp_path: Path) -> None:
    """CONF-4: three engines that pass pair by pair while no set has all three are named."""
    got = made(tmp_path, models("a", "c", "d") + 'matrix: {sets: {x: "a & (c | d)", y: "c & d"}}\n')
    assert "a, c, d may be up at once" in got.tells("matrix", "groups speak of pairs")
    (tmp_path / "2").mkdir()
    got = made(tmp_path / "2", models("a", "c", "d") + 'matrix: {sets: {x: "a & c & d"}}\n')
    assert [note for note in got.told() if "groups speak of pairs" in note] == []


def test_an_expression() -> None:
    """CONF-4: & binds more than |, +set is that set, and pairs are found without writing the sets out."""
    names = {name: name.upper() for name in "abcd"}
    found = parse("a & (b | c) | +other", names, {"other": "c & d"})
    assert members(found) == frozenset("ABCD")
    assert pairs(found) == {frozenset(pair) for pair in ("AB", "AC", "CD")}
    wide = parse(" & ".join(["(a | b | c | d)"] * 40), names, {})
    assert len(pairs(wide)) == 6


def test_what_an_expression_permits() -> None:
    """CONF-4: a set permits all its subsets and nothing else; each model comes from a part of its own."""
    names = {name: name for name in "abc"}
    found = parse("(a | b) & (b | c)", names, {})
    permitted = [one for one in ("", "a", "ab", "ac", "bc", "b", "abc") if permits(found, frozenset(one))]
    assert permitted == ["", "a", "ab", "ac", "bc", "b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a &", "a model is missing"),
        ("(a", "a parenthesis is not closed"),
        ("a b", "b is not expected there"),
        ("a ! b", "! b is not understood"),
        ("", "a model is missing"),
        ("(" * 60 + "a", "more than 50 parentheses"),
    ],
)
def test_an_expression_that_is_none(text: str, why: str) -> None:
    """CONF-4: an expression that says nothing is told for what is wrong with it."""
    with pytest.raises(Malformed, match=why.replace("(", r"\(")):
        parse(text, {"a": "a", "b": "b"}, {})


def test_one_port_for_models_that_exclude_each_other(tmp_path: Path) -> None:
    """CONF-4, PORT-3: a port of two models is fine in one group, and refused where both may be up."""
    each = "{{cmd: llama-server --port 9000, proxy: 'http://localhost:9000'}}"
    text = f"models:\n  a: {each}\n  b: {each}\n".replace("{{", "{").replace("}}", "}")
    got = made(tmp_path, text)
    assert (got.engine("a").port, got.engine("b").port) == (9000, 9000)
    assert "port 9000 is shared, exclusive" in got.tells("3: models.b.proxy")
    told = refused(tmp_path, f"{text}groups: {{g: {{members: [a, b], swap: false}}}}\n")
    assert told == ["3: models.b.proxy: port 9000 is a's as well, and both may be up at once"]


def test_a_preload_with_a_ttl_is_told(tmp_path: Path) -> None:
    """CONF-4: who is preloaded and has a ttl is told of what comes of both; who lost its preload is not."""
    got = made(tmp_path, "globalTTL: 300\n" + models("a", "b") + "hooks: {on_startup: {preload: [a, b]}}\n")
    assert (got.engine("a").resident, got.engine("b").resident) == (False, True)
    assert "leave out ttl or resident" in got.tells("models.b.ttl", "brought back each time")
    assert [note for note in got.told() if "models.a.ttl" in note] == []


def test_preload(tmp_path: Path) -> None:
    """CONF-4: what is preloaded is resident, by an alias too; of a group only the last, others are told."""
    got = made(
        tmp_path,
        models("a", "b", "c")
        + "groups: {g: {members: [c], exclusive: false, persistent: true}}\n"
        + "hooks: {on_startup: {preload: [a, b, c, x]}}\n",
    )
    assert [name for name in "abc" if got.engine(name).resident] == ["b", "c"]
    assert got.engine("b").order < got.engine("c").order
    assert "a is stopped by b at once" in got.tells("hooks.on_startup.preload", "a is stopped")
    assert "there is no model x" in got.tells("there is no model x")
    assert "give it memory" in got.tells("it is a resident")
