from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain import registry
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.registry import Registry, Row, checked, is_ours, should_sync, unreached

LAN = Row(id="big", url="http://10.0.0.9:8000", host="crow", models=("qwen",))
LOOPBACK = ("localhost", "127.0.0.1", "127.9", "[::1]", "[::ffff:127.0.0.1]", "0", "[::]")
"""Spellings of each node's own machine."""


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


def test_the_later_writer_wins() -> None:
    """SYNC-5: of two versions the higher Lamport number wins, of equal ones the higher author."""
    crow, raven = node("crow", LAN), node("raven", replace(LAN, models=("other",)))
    merged, news = crow.take(raven.told())
    assert [row.models for row in news] == [("other",)]
    assert raven.take(crow.told())[1] == ()
    again = merged.write(replace(LAN, models=("third",)), owns=True)
    assert again.rows["big"].order == (2, "crow")
    assert raven.take(again.told())[0].rows["big"].models == ("third",)


def test_equal_content_writes_nothing() -> None:
    """SYNC-5: saying the same again is no new version, and a peer that knows it hears nothing new."""
    crow = node("crow", LAN)
    assert crow.write(LAN) is crow
    raven, news = Registry(node="raven").take(crow.told())
    assert len(news) == 1
    assert raven.take(crow.told()) == (raven, ())
    assert raven.write(LAN) is raven


def test_a_row_is_its_authors() -> None:
    """SYNC-5: only the author, or the node whose address it is, says a row again."""
    raven = Registry(node="raven").take(node("crow", LAN).told())[0]
    changed = replace(LAN, retired=True)
    with pytest.raises(InvalidRequest, match="is crow's"):
        raven.write(changed)
    assert raven.write(changed, owns=True).rows["big"].author == "raven"


def test_a_retired_row_is_kept_and_not_offered() -> None:
    """SYNC-5: retiring is a flag that travels; the row stops resolving at once, and is never deleted."""
    crow = node("crow", LAN)
    raven = Registry(node="raven").take(crow.told())[0]
    assert [row.id for row in raven.offered(["crow"])] == ["big"]
    crow = crow.write(replace(crow.rows["big"], retired=True))
    assert crow.offered([]) == ()
    raven = raven.take(crow.told())[0]
    assert (raven.offered(["crow"]), "big" in raven.rows) == ((), True)


def test_what_a_peer_may_not_send_is_not_taken() -> None:
    """SYNC-2, SYNC-6: loopback rows with the highest version, and rows of nobody, change nothing."""
    mine = Row(id="own", url="http://127.0.0.1:8000", models=("mine",))
    crow = node("crow", mine)
    theirs = [
        replace(mine, models=("theirs",), version=10**9, author="raven"),
        replace(LAN, id="own", version=10**9, author="raven"),
        replace(LAN, version=10**9, author=""),
    ]
    merged, news = crow.take(theirs)
    assert news == ()
    assert merged.rows["own"] == crow.rows["own"]
    assert "big" not in merged.rows
    assert crow.told() == ()


def test_a_stale_row_with_a_high_version_is_overtaken() -> None:
    """SYNC-5: who writes after having seen a version writes a higher one, however high that was."""
    stale = replace(LAN, version=10**9, author="raven")
    crow = Registry(node="crow").take([stale])[0].write(replace(LAN, models=("new",)), owns=True)
    assert crow.rows["big"].version == 10**9 + 1


def test_who_cannot_reach_a_row_does_not_offer_it() -> None:
    """SYNC-4: a node offers what it reached or has not probed, whatever others could not reach."""
    crow = node("crow", LAN).seen("big", "raven", reachable=False)
    assert [row.id for row in crow.offered([])] == ["big"]
    assert crow.seen("big", "crow", reachable=False).offered([]) == ()
    assert crow.seen("big", "raven", reachable=False) is crow
    assert crow.seen("none", "raven", reachable=False) is crow
    assert unreached(crow.rows["big"], ["crow", "raven"]) == ("crow", "raven")
    row = replace(crow.rows["big"], reach=frozen({"crow": True}), allowed=frozen({"raven": "kim: later"}))
    assert unreached(row, ["crow", "raven"]) == ()


def test_only_paired_nodes_rows_with_a_host_are_offered() -> None:
    """SYNC-6: a row of a node that is not paired, or without its host, is not forwarded to."""
    crow = Registry(node="crow").take(
        [
            replace(LAN, version=1, author="raven"),
            replace(LAN, id="far", version=1, author="stranger"),
            replace(LAN, id="bare", host="", version=1, author="raven"),
        ]
    )[0]
    assert [row.id for row in crow.offered(["raven"])] == ["big"]


def test_what_a_node_saw_itself_outlives_a_new_version() -> None:
    """SYNC-4: a newer row from a peer does not make a node forget that it cannot reach it."""
    crow = Registry(node="crow").take([replace(LAN, version=1, author="raven")])[0]
    crow = crow.seen("big", "crow", reachable=False)
    crow = crow.take([replace(LAN, models=("new",), version=2, author="raven")])[0]
    assert (crow.rows["big"].models, crow.offered(["raven"])) == (("new",), ())


def test_a_registry_has_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC-1: a peer cannot fill a node's memory, and a full registry says so to its own user."""
    monkeypatch.setattr(registry, "MAX_ROWS", 1)
    crow = node("crow", LAN)
    with pytest.raises(InvalidRequest, match="full"):
        crow.write(replace(LAN, id="more"))
    assert set(crow.take([replace(LAN, id="more", version=1, author="raven")])[0].rows) == {"big"}


NAMES = ("crow", "raven", "wren")
ROWS = st.builds(
    Row,
    id=st.sampled_from(["a", "b", "c"]),
    url=st.sampled_from(
        [
            "http://10.0.0.1",
            "http://crow.lan",
            "",
            *(f"http://{host}" for host in LOOPBACK),
            "http://169.254.1.1",
        ]
    ),
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
@settings(max_examples=300, deadline=None)
def test_three_nodes_agree_and_fall_silent(steps: list[tuple[str, str, object]]) -> None:
    """SYNC-2, SYNC-5: after any history three nodes agree on all that travels, and then are silent."""
    nodes = {name: Registry(node=name) for name in NAMES}
    for _, who, what in steps:
        if isinstance(what, Row):
            nodes[who] = nodes[who].write(what, owns=True)
        else:
            nodes[who] = nodes[who].take(nodes[str(what)].told())[0]
    for _ in range(2):
        for who in NAMES:
            for other in NAMES:
                nodes[who] = nodes[who].take(nodes[other].told())[0]
    for who in NAMES:
        for other in NAMES:
            assert nodes[who].take(nodes[other].told()) == (nodes[who], ())
            for row in nodes[who].told():
                mine = nodes[other].rows.get(row.id)
                assert mine is not None
                assert mine.order == row.order or not should_sync(mine).travels
        for row in nodes[who].rows.values():
            assert row.author == who or should_sync(row).travels
