from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain import registry
from hostler.domain.addresses import is_this_machine
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.registry import Registry, Row, checked, is_ours, should_sync, unreached
from tests.fakes.own_machine import LOOPBACK, OWN_MACHINE, own_machine

LAN = Row(id="big", url="http://10.0.0.9:8000", host="crow", models=("qwen",))


def node(name: str, *rows: Row) -> Registry:
    made = Registry(node=name)
    for row in rows:
        made = made.write(row)
    return made


@pytest.mark.parametrize(
    ("row", "travels"),
    [
        (LAN, True),
        (replace(LAN, url="https://crow.lan:7070"), True),
        (replace(LAN, url="http://192.168.1.4"), True),
        (replace(LAN, url="http://100.64.0.7:1"), True),
        (replace(LAN, local_only=True), False),
        (replace(LAN, local_only="true"), True),
        (replace(LAN, local_only=1), True),
        (replace(LAN, local_only=None), True),
        (replace(LAN, url=""), False),
        (replace(LAN, url="crow:8000"), False),
        (replace(LAN, url="http://"), False),
        (replace(LAN, url="http://[::1"), False),
        (replace(LAN, url="http://crow:99999"), False),
        (replace(LAN, url="ftp://crow"), False),
        (replace(LAN, url="file:///etc/passwd"), False),
        (replace(LAN, url="http://ann:pw@crow"), False),
        (replace(LAN, url="http://169.254.169.254"), False),
        (replace(LAN, url="http://metadata.google.internal"), False),
        (replace(LAN, url="http://169.254.3.4"), False),
        (replace(LAN, url="http://[fe80::1%25eth0]"), False),
        *((replace(LAN, url=f"http://{host}:8000"), False) for host in LOOPBACK),
    ],
)
def test_which_rows_travel(row: Row, travels: bool) -> None:
    """SYNC-2: one predicate says which rows travel; a malformed flag is not local_only."""
    verdict = should_sync(row)
    assert (verdict.travels, bool(verdict.why)) == (travels, True)


@given(own_machine())
@settings(max_examples=1000)
def test_no_spelling_of_this_machine_travels(host: str) -> None:
    """SYNC-2: loopback in any spelling is known as such, and a row of it leaves no node and enters none."""
    assert is_this_machine(host)
    row = replace(LAN, url=f"http://{host}:8000", author="raven", version=1)
    assert not should_sync(row).travels
    assert Registry(node="raven", rows={row.key: row}).told() == ()
    crow = Registry(node="crow")
    assert crow.take("raven", [row]) == (crow, ())


def test_local_only_is_asked_first() -> None:
    """SYNC-2: of a row that is local_only nothing else is said."""
    assert should_sync(Row(id="x", url="http://169.254.169.254", local_only=True)).why.endswith("local_only")


def test_a_host_is_named_and_never_guessed() -> None:
    """SYNC-3: a URL that others can ask needs its host, whatever its address; loopback does not."""
    for url in ("http://10.0.0.9", "http://100.64.0.1", "http://crow.lan"):
        with pytest.raises(InvalidRequest, match="does not say on which host") as refused:
            checked(Row(id="big", url=url), owners=("crow", "raven"))
        assert "crow or raven has that address" in str(refused.value.expected)
        assert checked(Row(id="big", url=url, host=registry.EXTERNAL)).host == "external"
    with pytest.raises(InvalidRequest, match="does not say on which host"):
        checked(Row(id="big", url="http://10.0.0.9"))
    assert checked(Row(id="own", url="http://127.0.0.1:8")).host == ""


@pytest.mark.parametrize(
    "row",
    [
        Row(id="", url="http://crow", host="crow"),
        Row(id="x" * 129, url="http://crow", host="crow"),
        Row(id="a\x1b[31m", url="http://crow", host="crow"),
        Row(id="x", url=f"http://crow/{'x' * 512}", host="crow"),
        Row(id="x", url="http://crow", host="crow", models=("m",) * 65),
    ],
)
def test_rows_have_bounds(row: Row) -> None:
    """SYNC-1: a row without a printable id, or one that is too large, is refused."""
    with pytest.raises(InvalidRequest):
        checked(row)


def test_an_address_is_ours_only_on_an_interface() -> None:
    """SYNC-3: an address is this node's when one of its interfaces has it, in any spelling."""
    assert is_ours("http://10.0.0.9:8000", ["10.0.0.9", "fd00::9"])
    assert is_ours("http://[fd00:0::9]", ["10.0.0.9", "fd00::9"])
    assert is_ours("http://[::ffff:10.0.0.9]", ["10.0.0.9"])
    assert not is_ours("http://10.0.0.8", ["10.0.0.9"])
    assert not is_ours("http://crow.lan", ["10.0.0.9"])
    assert not is_ours("http://", ["10.0.0.9"])
    assert not is_ours("http://[", ["10.0.0.9"])


def told_to(who: Registry, *others: Registry) -> Registry:
    """What `who` knows once the others told it of their own rows."""
    for other in others:
        who = who.take(other.node, other.told())[0]
    return who


def test_the_later_writer_wins() -> None:
    """SYNC-5: of two rows of an id the higher Lamport number counts, of equal ones the higher author."""
    mine = replace(LAN, host="external")
    crow, raven = node("crow", mine), node("raven", replace(mine, models=("other",)))
    crow, raven = told_to(crow, raven), told_to(raven, crow)
    wren = told_to(Registry(node="wren"), raven, crow)
    for it in (crow, raven, wren):
        assert [row.author for row in it.claims("big")] == ["raven", "crow"]
    crow = crow.write(replace(mine, models=("third",)))
    assert crow.rows["crow", "big"].order == (2, "crow")
    wren = told_to(wren, crow)
    assert [row.models for row in wren.claims("big")] == [("third",), ("other",)]


def test_equal_content_writes_nothing() -> None:
    """SYNC-5: saying the same again is no new version, and a peer that knows it hears nothing new."""
    crow = node("crow", LAN)
    assert crow.write(LAN) is crow
    raven, news = Registry(node="raven").take("crow", crow.told())
    assert len(news) == 1
    assert raven.take("crow", crow.told()) == (raven, ())
    assert raven.write(LAN) is raven
    assert raven.told() == ()


def test_a_row_is_its_authors() -> None:
    """SYNC-5: only the author, or the node whose address it is, says a row again."""
    far = replace(LAN, host="raven")
    raven = told_to(Registry(node="raven"), node("crow", far))
    changed = replace(far, retired=True)
    with pytest.raises(InvalidRequest, match="is crow's"):
        raven.write(changed)
    raven = raven.write(changed, owns=True)
    assert raven.row("big") == raven.rows["raven", "big"]
    assert raven.resolved(["crow"]) == ()


def test_the_word_of_whose_address_it_is_stands() -> None:
    """SYNC-5: what the row's own host says of it counts, whatever version another asserts again."""
    far = replace(LAN, host="raven")
    crow = node("crow", far)
    raven = told_to(Registry(node="raven"), crow).write(replace(far, retired=True), owns=True)
    crow = told_to(crow, raven)
    with pytest.raises(InvalidRequest, match="is raven's"):
        crow.write(replace(far, models=("again",)))
    stale = replace(far, version=10**9, author="crow")
    wren = told_to(Registry(node="wren"), raven).take("crow", [stale])[0]
    assert wren.resolved(["crow", "raven"]) == ()
    assert "raven has its address" in wren.doubt(wren.rows["crow", "big"])


def test_a_forged_row_changes_nothing() -> None:
    """SYNC-5: a peer that is neither author nor owner changes no row, however high the version it writes."""
    wren = told_to(Registry(node="wren"), node("crow", LAN))
    homes = {"10.0.0.9": "crow"}
    for forged in (
        replace(LAN, retired=True, version=10**9, author="crow"),
        replace(LAN, retired=True, version=10**9, author="raven"),
        replace(LAN, models=("evil",), host="raven", version=10**9, author="raven"),
        replace(LAN, models=("evil",), host="", version=10**9, author="raven"),
    ):
        after, _ = wren.take("raven", [forged])
        assert after.rows["crow", "big"] == wren.rows["crow", "big"]
        assert [row.author for row in after.resolved(["crow", "raven"], homes)] == ["crow"]
        assert after.row("big", homes) == wren.rows["crow", "big"]


def test_an_address_of_ours_is_not_anothers() -> None:
    """SYNC-3, SYNC-5: a row is doubted that names another host for an address which is a known node's."""
    wren = Registry(node="wren").take("raven", [replace(LAN, host="raven", version=1, author="raven")])[0]
    row = wren.rows["raven", "big"]
    assert wren.doubt(row) == ""
    assert "of an address that is wren's" in wren.doubt(row, {"10.0.0.9": "wren"})
    bare = replace(row, host="")
    assert "it says nothing of an address that is wren's" in wren.doubt(bare, {"10.0.0.9": "wren"})
    assert wren.doubt(replace(row, url="http://")) == ""
    assert wren.resolved(["raven"], {"10.0.0.9": "wren"}) == ()
    mapped = replace(row, url="http://[::ffff:10.0.0.9]:1")
    assert "wren's" in wren.doubt(mapped, {"10.0.0.9": "wren"})


def test_whose_an_address_is() -> None:
    """SYNC-3: an address is a node's where this node asks it, or has it itself; loopback is nobody's."""
    urls = {
        "raven": "https://raven.lan:7070",
        "owl": "http://10.0.0.8",
        "me": "http://127.0.0.1:7070",
        "x": "?",
    }
    found = registry.homes_of(urls, "crow", ["10.0.0.9", "10.0.0.8"])
    assert found == {"raven.lan": "raven", "10.0.0.8": "crow", "10.0.0.9": "crow"}


def test_what_peers_know_is_not_taken_back_in_silence() -> None:
    """SYNC-2, SYNC-5: a row that peers know cannot become one that does not travel: it is retired."""
    crow = node("crow", LAN)
    for quiet in (replace(LAN, local_only=True), replace(LAN, url="http://127.0.0.1:8000")):
        with pytest.raises(InvalidRequest, match="does not travel"):
            crow.write(quiet)
    own = node("crow", Row(id="own", url="http://127.0.0.1:1"))
    assert own.write(replace(LAN, id="own")).told()[0].version == 2


def test_a_retired_row_is_kept_and_not_offered() -> None:
    """SYNC-5: retiring is a flag that travels; the row stops resolving at once, and is never deleted."""
    crow = node("crow", LAN)
    raven = told_to(Registry(node="raven"), crow)
    assert [row.id for row in raven.offered(["crow"])] == ["big"]
    crow = crow.write(replace(crow.rows["crow", "big"], retired=True))
    assert crow.offered([]) == ()
    raven = told_to(raven, crow)
    assert (raven.offered(["crow"]), raven.rows["crow", "big"].retired) == ((), True)


def test_an_id_of_our_own_leads_to_no_peer() -> None:
    """SYNC-5: an id that this node says itself leads to no row of a peer, until it is retired here."""
    crow, raven = node("crow", LAN), node("raven", replace(LAN, host="raven", url="http://10.0.0.8"))
    crow = told_to(crow.seen_clock(9).write(replace(LAN, models=("new",))), raven)
    assert [row.author for row in crow.claims("big")] == ["crow", "raven"]
    assert crow.resolved(["raven"]) == ()
    crow = crow.write(replace(crow.rows["crow", "big"], retired=True))
    assert [row.author for row in crow.resolved(["raven"])] == ["raven"]


def test_what_a_peer_may_not_send_is_not_taken() -> None:
    """SYNC-2, SYNC-6: loopback rows with the highest version, and rows of others, change nothing."""
    mine = Row(id="own", url="http://127.0.0.1:8000", models=("mine",))
    crow = node("crow", mine)
    theirs = [
        replace(mine, models=("theirs",), version=10**9, author="raven"),
        replace(LAN, version=10**9, author=""),
        replace(LAN, version=10**9, author="crow"),
        replace(LAN, local_only=True, version=10**9, author="raven"),
    ]
    assert crow.take("raven", theirs) == (crow, ())
    assert crow.take("crow", [replace(LAN, version=10**9, author="crow")]) == (crow, ())
    assert crow.told() == ()


def test_a_peers_number_moves_our_clock_so_far() -> None:
    """SYNC-5: who has seen a version writes a higher one, and no peer brings a clock to its end."""
    crow = Registry(node="crow").take("raven", [replace(LAN, version=10**9, author="raven")])[0]
    assert crow.write(replace(LAN, id="own")).rows["crow", "own"].version == 10**9 + 1
    far = Registry(node="crow")
    assert far.take("raven", [replace(LAN, version=registry.JUMP + 1, author="raven")]) == (far, ())
    most = replace(LAN, version=registry.JUMP, author="raven")
    beyond = replace(LAN, id="b", version=registry.JUMP + 1, author="raven")
    assert far.take("raven", [most, beyond])[0].clock == registry.JUMP
    assert crow.seen_clock(1) is crow
    assert crow.seen_clock(1 << 60).clock == 10**9 + registry.JUMP


def test_a_node_whose_clock_went_back_says_its_rows_again() -> None:
    """SYNC-5: a node that lost its numbers hears of it, and its rows become later than what peers have."""
    crow = node("crow", LAN).write(replace(LAN, models=("two",)))
    raven = told_to(Registry(node="raven"), crow)
    lost = node("crow", replace(LAN, models=("three",)))
    assert raven.older("crow", lost.told()) == ("big",)
    same = replace(crow.rows["crow", "big"], models=("other",))
    assert raven.older("crow", [same]) == ("big",)
    assert raven.older("crow", crow.told()) == raven.older("wren", lost.told()) == ()
    assert raven.take("crow", lost.told())[0] is raven
    lost = lost.seen_clock(raven.clock).again(["big", "none"])
    assert lost.again([]) is lost
    assert told_to(raven, lost).rows["crow", "big"].models == ("three",)


def test_who_cannot_reach_a_row_does_not_offer_it() -> None:
    """SYNC-4: a node offers what it reached or has not probed, whatever others could not reach."""
    key = ("raven", "big")
    crow = told_to(Registry(node="crow"), node("raven", LAN)).seen(key, "wren", reachable=False)
    assert [row.id for row in crow.offered(["raven"])] == ["big"]
    blind = crow.seen(key, "crow", reachable=False)
    assert blind.offered(["raven"]) == ()
    assert [row.id for row in blind.resolved(["raven"])] == ["big"]
    assert crow.seen(key, "wren", reachable=False) is crow
    assert crow.seen(("raven", "none"), "wren", reachable=False) is crow
    assert unreached(crow.rows[key], ["crow", "wren"]) == ("crow", "wren")
    row = replace(crow.rows[key], reach=frozen({"crow": True}), allowed=frozen({"wren": "kim: later"}))
    assert unreached(row, ["crow", "wren"]) == ()


def test_only_paired_nodes_rows_with_a_host_are_offered() -> None:
    """SYNC-6: a row of a node that is not paired, or without its host, is not forwarded to."""
    crow = Registry(node="crow")
    crow = crow.take("raven", [replace(LAN, version=1, author="raven")])[0]
    crow = crow.take("raven", [replace(LAN, id="bare", host="", version=1, author="raven")])[0]
    crow = crow.take("stranger", [replace(LAN, id="far", version=1, author="stranger")])[0]
    assert [row.id for row in crow.offered(["raven"])] == ["big"]
    kept = crow.rows["raven", "big"]
    odd = replace(crow, rows=frozen({kept.key: replace(kept, url="http://127.0.0.1")}))
    assert odd.resolved(["raven"]) == ()


def test_what_a_node_saw_itself_outlives_a_new_version() -> None:
    """SYNC-4: a newer row from a peer does not make a node forget that it cannot reach its URL."""
    crow = Registry(node="crow").take("raven", [replace(LAN, version=1, author="raven")])[0]
    crow = crow.seen(("raven", "big"), "crow", reachable=False)
    told = replace(LAN, models=("new",), version=2, author="raven", reach=frozen({"crow": True, "owl": True}))
    crow = crow.take("raven", [told])[0]
    row = crow.rows["raven", "big"]
    assert (row.models, dict(row.reach)) == (("new",), {"crow": False, "owl": True})
    assert crow.take("raven", [told]) == (crow, ())
    seen = replace(told, reach=frozen({}))
    crow, news = crow.take("raven", [seen])
    assert (news, dict(crow.rows["raven", "big"].reach)) == ((), {"crow": False})
    crow = crow.take("raven", [replace(told, url="http://10.0.0.7", version=3)])[0]
    assert crow.rows["raven", "big"].reach.get("crow") is None


def test_a_registry_has_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC-1: a peer cannot fill a node's memory, and a full registry says so to its own user."""
    monkeypatch.setattr(registry, "MAX_OWN", 1)
    crow = node("crow", LAN)
    with pytest.raises(InvalidRequest, match="full"):
        crow.write(replace(LAN, id="more"))
    theirs = [replace(LAN, id=name, version=1, author="raven") for name in ("one", "two")]
    crow = crow.take("raven", theirs)[0]
    assert set(crow.rows) == {("crow", "big"), ("raven", "one")}
    monkeypatch.setattr(registry, "MAX_ROWS", 2)
    assert crow.take("wren", [replace(LAN, version=1, author="wren")]) == (crow, ())
    monkeypatch.setattr(registry, "MAX_NODES", 1)
    crow = crow.seen(("raven", "one"), "crow", reachable=True)
    assert crow.seen(("raven", "one"), "owl", reachable=True) is crow


NAMES = ("crow", "raven", "wren")
ROWS = st.builds(
    Row,
    id=st.sampled_from(["a", "b", "c"]),
    url=st.sampled_from(
        [
            "http://10.0.0.1",
            "http://crow.lan",
            "",
            "http://169.254.1.1",
        ]
    )
    | OWN_MACHINE.map("http://{}".format),
    host=st.sampled_from(["crow", "external"]),
    models=st.sampled_from([(), ("m",), ("n",)]),
    local_only=st.sampled_from([False, True, "yes"]),
    retired=st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), ROWS),
        st.tuples(st.just("tell"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    ),
    max_size=30,
)


@given(STEPS)
@settings(max_examples=300)
def test_three_nodes_agree_and_fall_silent(steps: list[tuple[str, str, object]]) -> None:
    """SYNC-2, SYNC-5: after any history three nodes agree on all that travels, and then are silent."""
    nodes = {name: Registry(node=name) for name in NAMES}
    for _, who, what in steps:
        if isinstance(what, Row):
            with suppress(InvalidRequest):
                nodes[who] = nodes[who].write(what, owns=True)
        else:
            nodes[who] = told_to(nodes[who], nodes[str(what)])
    for who in NAMES:
        nodes[who] = told_to(nodes[who], *nodes.values())
    for who in NAMES:
        for other in NAMES:
            assert nodes[who].take(other, nodes[other].told()) == (nodes[who], ())
            for row in nodes[who].told():
                assert nodes[other].rows[row.key].same(row)
        for row in nodes[who].rows.values():
            assert row.author == who or should_sync(row).travels
    for id_ in "abc":
        travelling = [it for it in nodes.values() if all(should_sync(row).travels for row in it.claims(id_))]
        assert len({tuple(row.key for row in it.claims(id_)) for it in travelling}) <= 1
