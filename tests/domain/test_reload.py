from dataclasses import replace

import pytest

from hostler.domain.fleet import (
    Fleet,
    Gateway,
    Group,
    Host,
    Key,
    Node,
    Plain,
    Route,
    Secret,
    Upstream,
    frozen,
)
from hostler.domain.mode import Mode
from hostler.domain.reload import LAUNCH, Change, How, changes, taken_up
from hostler.domain.values import EngineId, HostName, RouteName
from tests.fakes.catalog import catalog, entry
from tests.fakes.world import CROW, engine, fleet


def told(old: Fleet, new: Fleet) -> list[str]:
    return [str(change) for change in changes(old, new)]


def test_the_same_config_changes_nothing() -> None:
    """CONF-3: a config that comes to the same has no changes."""
    made = fleet([engine("fast")])
    assert changes(made, fleet([engine("fast")])) == ()
    assert taken_up(made, made) == made


def test_engines_come_go_and_change() -> None:
    """CONF-3: an engine is added, removed, changed at once, or from its next start on, by its keys."""
    old = fleet([engine("fast"), engine("gone"), engine("large")])
    new = fleet([engine("fast", ttl_s=60.0), engine("large", model="other", order=5), engine("new")])
    assert told(old, new) == [
        "changed engine fast: ttl_s",
        "removed engine gone",
        "changed engine large: order",
        "later engine large: model (from its next start on)",
        "added engine new",
    ]


@pytest.mark.parametrize("key", sorted(LAUNCH))
def test_what_an_engine_is_launched_with_waits_for_its_next_start(key: str) -> None:
    """CONF-3: every key that a driver runs an engine by is taken up when it starts again."""
    old = fleet([engine("fast")])
    made = replace(old.engines[EngineId("fast")], **{key: "changed"})  # type: ignore[arg-type]  # any other value
    new = replace(old, engines=frozen({made.id: made}))
    (change,) = changes(old, new)
    assert (change.how, change.keys) == (How.LATER, (key,))


def test_what_only_a_restart_takes_up_keeps_its_value() -> None:
    """CONF-3: listeners, places, the head and who orchestrates stay as they were, and are told."""
    old = fleet([engine("fast")])
    new = replace(
        old,
        timezone="Europe/Berlin",
        node=Node(listen=("127.0.0.1:9",), state_dir="/elsewhere"),
        hosts=frozen({CROW: replace(old.host, orchestration=False, max_residue=1)}),
    )
    assert [(it.how, it.what) for it in changes(old, new)] == [
        (How.KEPT, "node.listen"),
        (How.KEPT, "node.state_dir"),
        (How.KEPT, f"hosts.{CROW}.orchestration"),
        (How.KEPT, "fleet.timezone"),
        (How.CHANGED, f"host {CROW}"),
    ]
    after = taken_up(old, new)
    assert (after.node, after.timezone, after.host.orchestration) == (old.node, None, True)
    assert after.host.max_residue == 1
    assert [it.how for it in changes(after, new)] == [How.KEPT] * 4


def test_every_other_part_is_compared_by_its_names() -> None:
    """CONF-3: hosts, upstreams, routes, classes, resources, modes and keys are named, and what differs."""
    old = fleet([engine("fast")])
    chat = Route(name=RouteName("chat"), profiles=frozen({"day": Plain(targets=())}))
    raven = Host(name=HostName("raven"))
    heavy = Mode(name="heavy", hosts=frozen({}))
    full = replace(
        old,
        name="stable",
        ended_kept_s=1.0,
        hosts=frozen({**old.hosts, raven.name: raven}),
        upstreams=frozen({"cloud": Upstream(name="cloud", url="http://a")}),
        routes=frozen({chat.name: chat}),
        gateway=Gateway(max_body=1),
        modes=frozen({"heavy": heavy}),
        keys=(Key(name="me", digest=b"1", scopes=frozenset({"infer"})),),
    )
    other = replace(
        full,
        hosts=frozen({CROW: replace(old.host, groups=frozen({"main": Group(name="main", host=CROW)}))}),
        upstreams=frozen({"cloud": Upstream(name="cloud", url="http://b", key=Secret("hk_hidden"))}),
        routes=frozen({chat.name: replace(chat, active="day")}),
        modes=frozen({"heavy": replace(heavy, cap_s=60.0)}),
        keys=(Key(name="me", digest=b"2", scopes=frozenset({"admin"})),),
    )
    assert told(old, full) == [
        "added host raven",
        "added upstream cloud",
        "added route chat",
        "added mode heavy",
        "added key me",
        "changed gateway: max_body",
        "changed fleet.name",
        "changed fleet.ended_kept_s",
    ]
    assert told(full, other) == [
        f"changed host {CROW}: groups",
        "removed host raven",
        "changed upstream cloud: url, key",
        "changed route chat: active",
        "changed mode heavy: cap_s",
        "changed key me: digest, scopes",
    ]
    assert "hk_hidden" not in repr(changes(full, other))


def test_a_changed_catalog_is_told() -> None:
    """CONF-3, CAT-7: entries that came, went or changed are told, and the policy, and a broken directory."""
    old = replace(fleet([]), catalog=catalog(entry("a"), entry("b")))
    new = replace(
        fleet([]),
        catalog=catalog(entry("b", family="c"), entry("c"), directory="/srv/c", trouble="broken"),
        uncurated="refuse",
    )
    assert told(old, new) == [
        "removed catalog entry a",
        "changed catalog entry b: family",
        "added catalog entry c",
        "changed policy: uncurated",
        "changed catalog (broken)",
    ]
    assert taken_up(old, new).catalog == new.catalog


def test_a_change_is_one_sentence() -> None:
    """CONF-3: a change names what it is, its keys and what follows."""
    assert str(Change(how=How.ADDED, what="route chat")) == "added route chat"
    assert str(Change(how=How.KEPT, what="node.listen", note="restart")) == "kept node.listen (restart)"
