from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.errors import InvalidRequest, ModelNotFound, NotFound
from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Escalating,
    Fleet,
    Host,
    Node,
    Peer,
    Plain,
    Profile,
    Route,
    Secret,
    Strategy,
    Target,
    Upstream,
    UpstreamTarget,
)
from hostler.domain.registry import Row
from hostler.domain.route import Shared, build, engines_of, lookup, nearest, order, switched, with_rows
from hostler.domain.values import EngineId, HostName, RouteName

CROW, RAVEN = HostName("crow"), HostName("raven")


def to(name: str) -> EngineTarget:
    return EngineTarget(engine=EngineId(name))


SMALL, BIG, DRAFT = to("small"), to("big"), to("draft")
CLOUD = UpstreamTarget(upstream="cloud", model="large")
LOCAL: Mapping[str, Profile] = {"local": Plain(targets=(SMALL,)), "away": Plain(targets=(CLOUD,))}


def route(
    name: str,
    *,
    active: str | None = "local",
    aliases: tuple[str, ...] = (),
    on: tuple[HostName, ...] = (),
    profiles: Mapping[str, Profile] = LOCAL,
) -> Route:
    return Route(name=RouteName(name), profiles=profiles, active=active, aliases=aliases, on=on)


def fleet(*routes: Route) -> Fleet:
    engines = {
        EngineId(name): Engine(id=EngineId(name), host=CROW, hidden=name == "draft")
        for name in ("small", "big", "draft")
    }
    return Fleet(
        here=CROW,
        head=(CROW,),
        node=Node(),
        hosts={CROW: Host(name=CROW)},
        engines=engines,
        routes={it.name: it for it in routes},
    )


# ---------------------------------------------------------------- names

CHAT = route("chat", aliases=("gpt-4o-mini", "qwen/qwen3.6:35b"))
TABLE = build(fleet(CHAT, route("Chat"), route("elsewhere", on=(RAVEN,))), {})


def named(model: str) -> str:
    found = lookup(TABLE, model)
    return found.name if isinstance(found, Route) else f"engine {found.id}"


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("chat", "chat"),
        ("Chat", "Chat"),
        ("gpt-4o-mini", "chat"),
        ("qwen/qwen3.6:35b", "chat"),
        ("big", "engine big"),
        ("draft", "engine draft"),
    ],
)
def test_a_name_is_matched_exactly(model: str, found: str) -> None:
    """GW-2: a route is found by its exact name or alias, an engine by its id, hidden or not; case counts."""
    assert named(model) == found


@pytest.mark.parametrize("model", ["CHAT", "cha", "chat ", "", "elsewhere", "gpt-4o", "local"])
def test_an_unknown_name_is_refused(model: str) -> None:
    """GW-2: any other name, and a route that this gateway does not offer, is `model_not_found`."""
    with pytest.raises(ModelNotFound):
        lookup(TABLE, model)


def test_the_nearest_names_are_told() -> None:
    """GW-2: the refusal of an unknown name has the nearest names, and never a hidden engine's."""
    with pytest.raises(ModelNotFound) as refused:
        lookup(TABLE, "gpt-4o-mini ")
    assert refused.value.advice() == "Did you mean gpt-4o-mini?"
    with pytest.raises(ModelNotFound) as refused:
        lookup(TABLE, "draf")
    assert "draft" not in refused.value.advice()


def test_a_foreign_name_is_told_safely() -> None:
    """GW-2: an unknown name is shown with its controls escaped, and bounded in length."""
    with pytest.raises(ModelNotFound) as refused:
        lookup(TABLE, "\x1b[2J" + "x" * 1_000_000)
    assert refused.value.model.startswith("\\x1b[2Jxx")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("anything", [], ""),
        ("fost", ["fast", "large"], "Did you mean fast?"),
        ("zzz", ["b", "a"], "There are: a, b."),
        ("zzz", [f"n{index}" for index in range(9)], "There are: n0, n1, n2, n3, n4, n5, n6, n7 and 1 more."),
    ],
)
def test_the_nearest_names(name: str, known: list[str], text: str) -> None:
    """GW-2: where no name is near, the first few that there are are named instead."""
    assert nearest(name, known) == text


# ---------------------------------------------------------------- the active profile


def active(found: Route, kept: Mapping[str, str]) -> str | None:
    profile = build(fleet(found), kept).profile(found)
    return None if profile is None else profile[0]


def test_the_active_profile() -> None:
    """GW-1: the profile that was kept is the active one, else the config's, else the only one there is."""
    only = route("only", active=None, profiles={"one": Plain(targets=(SMALL,))})
    assert active(CHAT, {"chat": "away"}) == "away"
    assert active(CHAT, {}) == "local"
    assert active(CHAT, {"chat": "gone"}) == "local"
    assert active(only, {}) == "one"
    assert active(route("none", active=None), {}) is None


def test_the_active_profile_is_given_whole() -> None:
    """GW-1: the table gives the active profile with its targets."""
    assert TABLE.profile(CHAT) == ("local", LOCAL["local"])


def test_a_switch_is_a_new_table() -> None:
    """GW-1: a switch gives a new table and leaves the old one, which requests under way still use."""
    after = switched(TABLE, "chat", "away")
    assert (after.active["chat"], TABLE.active["chat"]) == ("away", "local")
    assert after.active["Chat"] == "local"
    assert lookup(after, "gpt-4o-mini") is CHAT


def test_a_switch_of_what_is_not_there() -> None:
    """GW-1: a switch of an unknown route, or to an unknown profile, is refused with the nearest name."""
    with pytest.raises(NotFound) as missing:
        switched(TABLE, "chta", "away")
    assert missing.value.advice() == "Did you mean chat, Chat?"
    with pytest.raises(InvalidRequest) as wrong:
        switched(TABLE, "chat", "lokal")
    assert wrong.value.where == "profile"
    assert wrong.value.advice() == "Did you mean local?"


# ---------------------------------------------------------------- the order of targets

Kind = Literal["pin", "first_ready", "least_loaded", "spill"]
ALL = (SMALL, BIG, CLOUD)


def ordered(
    kind: Kind, ready: Mapping[Target, int], *, spill: int = 0, targets: tuple[Target, ...] = ALL
) -> tuple[Target, ...]:
    """`ready`: the targets that are, with their requests under way."""
    return order(
        targets,
        Strategy(kind=kind, spill=spill),
        ready=lambda it: it in ready,
        load=lambda it: ready.get(it, 0),
    )


@pytest.mark.parametrize(
    ("kind", "ready", "expected"),
    [
        ("pin", {BIG: 0}, (SMALL,)),
        ("first_ready", {}, (SMALL, BIG, CLOUD)),
        ("first_ready", {SMALL: 9, BIG: 0}, (SMALL, BIG, CLOUD)),
        ("first_ready", {CLOUD: 9}, (CLOUD, SMALL, BIG)),
        ("least_loaded", {SMALL: 3, BIG: 1, CLOUD: 2}, (BIG, CLOUD, SMALL)),
        ("least_loaded", {BIG: 4, CLOUD: 4}, (BIG, CLOUD, SMALL)),
        ("least_loaded", {}, (SMALL, BIG, CLOUD)),
    ],
)
def test_the_order_of_targets(kind: Kind, ready: Mapping[Target, int], expected: tuple[Target, ...]) -> None:
    """GW-1: pin keeps to the first; the others prefer what is ready, in order or by load."""
    assert ordered(kind, ready) == expected


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        ({SMALL: 0, BIG: 0, CLOUD: 0}, (SMALL, BIG, CLOUD)),
        ({SMALL: 3, BIG: 0, CLOUD: 0}, (SMALL, BIG, CLOUD)),
        ({SMALL: 4, BIG: 0, CLOUD: 0}, (BIG, CLOUD, SMALL)),
        ({SMALL: 4, BIG: 0}, (BIG, CLOUD, SMALL)),
        ({SMALL: 4}, (BIG, CLOUD, SMALL)),
        ({BIG: 1}, (BIG, SMALL, CLOUD)),
        ({SMALL: 6, BIG: 4, CLOUD: 5}, (BIG, CLOUD, SMALL)),
    ],
)
def test_spilling_over(ready: Mapping[Target, int], expected: tuple[Target, ...]) -> None:
    """GW-1: `spill: 4` fills the first ready target to 4 requests, then the next, then starts one."""
    assert ordered("spill", ready, spill=4) == expected


TARGETS = st.lists(st.sampled_from([SMALL, BIG, DRAFT, CLOUD]), unique=True)
KINDS = st.sampled_from(("first_ready", "least_loaded", "spill"))


@given(TARGETS, st.dictionaries(st.sampled_from([SMALL, BIG, DRAFT, CLOUD]), st.integers(0, 9)), KINDS)
def test_every_target_is_tried_once(targets: list[Target], ready: dict[Target, int], kind: Kind) -> None:
    """GW-1: but for pin, every target is in the order once, and a pin has at most one."""
    found = ordered(kind, ready, spill=4, targets=tuple(targets))
    assert sorted(map(repr, found)) == sorted(map(repr, targets))
    assert ordered("pin", ready, targets=tuple(targets)) == tuple(targets[:1])


def test_the_engines_of_a_profile() -> None:
    """GW-1: the engines that a profile may lead to are its engine targets, or its fast and large one."""
    assert engines_of(Plain(targets=(SMALL, CLOUD, BIG))) == ("small", "big")
    assert engines_of(Escalating(fast=EngineId("small"), large=EngineId("big"))) == ("small", "big")


# ---------------------------------------------------------------- peers' rows

ANNEX = HostName("annex")
ROW = Row(id="far", url="http://10.99.0.3:8101", host="annex", models=("m", "n"), author="annex", version=1)


def paired(*routes: Route) -> Fleet:
    """The fleet, paired with annex, and with an upstream."""
    peer = Peer(name=ANNEX, url="http://10.99.0.3:7070", key=Secret("k"))
    cloud = Upstream(name="cloud", url="https://cloud.example.net")
    return replace(fleet(*routes), peers={ANNEX: peer}, upstreams={"cloud": cloud})


def test_a_peers_row_is_found_by_its_id_and_its_models() -> None:
    """SYNC-5: a row of a paired node is what its id means, and what its models do where they are free."""
    table = build(paired(route("chat")), {}, [ROW])
    found = lookup(table, "far")
    assert isinstance(found, Shared)
    assert (found.model, found.host, found.author, found.reached) == ("m", "annex", "annex", True)
    named = lookup(table, "n")
    assert isinstance(named, Shared)
    assert (named.id, named.model) == ("far", "n")
    bare = with_rows(table, [replace(ROW, models=())])
    assert bare.shared["far"].model == "far"
    with pytest.raises(ModelNotFound):
        lookup(bare, "n")


@pytest.mark.parametrize("name", ["chat", "gpt", "small", "draft", "cloud"])
def test_what_the_config_names_is_never_a_peers(name: str) -> None:
    """SYNC-5: routes, aliases, engines, hidden ones too, and upstreams come before any peer's row."""
    fleet_ = paired(route("chat", aliases=("gpt",)))
    table = build(fleet_, {}, [replace(ROW, id=name, models=("m",)), replace(ROW, id="x", models=(name,))])
    assert name not in table.shared
    assert set(table.shared) == {"x"}


def test_rows_of_whoever_is_not_paired_mean_nothing() -> None:
    """SYNC-6: a row of a node that the config does not pair with is not resolved, nor are its models."""
    table = build(paired(), {}, [replace(ROW, author="owl")])
    assert table.shared == {}
    assert build(fleet(), {}, [ROW]).shared == {}


def test_a_row_that_is_not_reached_is_resolved_and_not_suggested() -> None:
    """SYNC-4: a row that this node does not reach is known as such, and no name that helps."""
    table = build(paired(), {}, [replace(ROW, reach={"crow": False})])
    found = lookup(table, "far")
    assert isinstance(found, Shared)
    assert not found.reached
    with pytest.raises(ModelNotFound) as refused:
        lookup(table, "fart")
    assert "far" not in refused.value.nearest.split()
    near = with_rows(table, [ROW])
    with pytest.raises(ModelNotFound) as refused:
        lookup(near, "fart")
    assert "Did you mean far?" in refused.value.nearest
