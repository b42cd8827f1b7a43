"""What is published and retired, and what people are told of rows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hostler.domain.errors import InvalidRequest, NotFound, RowUnreached
from hostler.domain.fleet import DriverKind, Engine, Secret, Upstream, frozen
from hostler.domain.registry import Row
from hostler.domain.values import EngineId, HostName, Requester
from hostler.services.peering import TICK_S
from hostler.wire.sync import ProbeCall, PublishBody
from tests.fakes.clock import inline_threads
from tests.fakes.paired import PairedNode, Trio, a_fleet, trio

BY = Requester(client="kim", key="ops")
CROW = HostName("crow")
URL = "http://10.99.0.1:8101"


def engine(name: str, **more: object) -> Engine:
    made = Engine(id=EngineId(name), host=CROW, model="m", port=8101)
    return replace(made, **more)  # type: ignore[arg-type]  # a test's shorthand for some of its fields


ENGINES = (
    engine("work"),
    engine("loop", url="http://127.0.0.1:8102"),
    engine("own", local_only=True),
    engine("keyed", key=Secret("k")),
    engine("used", driver=DriverKind.EXTERNAL, url="http://10.99.0.2:9000"),
    engine("lan", driver=DriverKind.EXTERNAL, url="http://box.lan:9000"),
)
UPSTREAMS = (
    Upstream(name="cloud", url="https://cloud.example.net/v1"),
    Upstream(name="paid", url="https://paid.example.net/v1", key=Secret("k")),
    Upstream(name="elsewhere", url="https://e.example.net", on=(HostName("raven"),)),
)


@pytest.fixture
async def three() -> Trio:
    inline_threads()
    return trio(crow=a_fleet("crow", ENGINES, UPSTREAMS))


@pytest.fixture
def crow(three: Trio) -> PairedNode:
    return three["crow"]


async def publish(node: PairedNode, id_: str, **more: object) -> Row:
    """The row as it is told."""
    body = replace(PublishBody(id=id_), **more)  # type: ignore[arg-type]  # a test's shorthand
    await node.sync.publish(body, BY)
    return node.registry.rows[node.name, id_]


async def test_an_engine_is_published_once_all_reach_it(three: Trio, crow: PairedNode) -> None:
    """SYNC-3, SYNC-4: an engine becomes a row on its host; every node was asked whether it reaches it."""
    row = await publish(crow, "work")
    assert (row.url, row.host, row.models, row.version) == (URL, "crow", ("m",), 1)
    assert row.reach == {"crow": True, "raven": True, "annex": True}
    assert all(URL in three[name].sockets.looked for name in ("crow", "raven", "annex"))
    assert crow.events.last("row_published").actor == BY.tag()
    saves = crow.files.saves
    await publish(crow, "work")
    assert crow.files.saves == saves
    assert len(crow.events.of("row_published")) == 1


async def test_an_upstream_is_published_with_its_host(crow: PairedNode) -> None:
    """SYNC-3: an upstream of the config is told with the host that the config names."""
    row = await publish(crow, "cloud", models=("a", "b"))
    assert (row.host, row.models) == ("external", ("a", "b"))


@pytest.mark.parametrize(
    ("id_", "why"),
    [
        ("loop", "each node's own machine"),
        ("own", "marked local_only"),
        ("keyed", "keys do not travel"),
        ("paid", "keys do not travel"),
    ],
)
async def test_what_is_not_published(crow: PairedNode, id_: str, why: str) -> None:
    """SYNC-1, SYNC-2: loopback, local_only, and what is asked with a key stay here."""
    with pytest.raises(InvalidRequest, match=why):
        await publish(crow, id_)
    assert crow.registry.rows == {}
    assert crow.sockets.looked == []


@pytest.mark.parametrize("id_", ["none", "elsewhere", "raven-work"])
async def test_only_what_this_config_has(crow: PairedNode, id_: str) -> None:
    """SYNC-4: what is no engine or upstream of this node is not published."""
    with pytest.raises(NotFound, match="engine or upstream"):
        await publish(crow, id_)


async def test_a_host_is_named_by_who_has_the_address(crow: PairedNode) -> None:
    """SYNC-3: without a host it is refused, naming who has the address; so is another's name."""
    with pytest.raises(InvalidRequest, match="does not say on which host") as refused:
        await publish(crow, "used")
    assert refused.value.expected.startswith("raven has that address")
    with pytest.raises(InvalidRequest, match="raven has the address"):
        await publish(crow, "used", host="crow")
    assert (await publish(crow, "used", host="raven")).host == "raven"
    with pytest.raises(InvalidRequest, match="crow has the address"):
        await publish(crow, "work", host="annex")
    with pytest.raises(InvalidRequest, match="none of its interfaces"):
        await publish(crow, "work", url="http://10.7.7.7:1")
    assert (await publish(crow, "work", url="http://10.7.7.7:1", host="external")).host == "external"
    assert (await publish(crow, "lan", host="crow")).url == "http://box.lan:9000"


async def test_it_is_refused_while_one_node_does_not_reach_it(three: Trio, crow: PairedNode) -> None:
    """SYNC-4: refused with what each node saw; a node that need not is named with who and why."""
    three["raven"].sockets.dead.add(URL)
    three.wire.cut.add("annex")
    with pytest.raises(RowUnreached) as refused:
        await publish(crow, "work")
    assert refused.value.nodes == ("raven", "annex")
    crows, ravens, annexs = refused.value.seen
    assert (crows, ravens) == ("crow: reached", "raven: Connection refused")
    assert annexs.startswith("annex: The node of annex does not answer")
    assert crow.registry.rows == {}
    with pytest.raises(InvalidRequest, match="Nobody says why"):
        await publish(crow, "work", allow=("raven",), because=" ")
    with pytest.raises(InvalidRequest, match="owl is no paired node"):
        await publish(crow, "work", allow=("owl",), because="x")
    row = await publish(crow, "work", allow=("raven", "annex"), because="it moves on Friday")
    assert row.allowed == dict.fromkeys(("raven", "annex"), "kim (key ops): it moves on Friday")
    assert row.reach == {"crow": True, "raven": False}


async def test_it_is_refused_when_it_is_dead_here(crow: PairedNode) -> None:
    """SYNC-4: only what is real is published: this node has to reach it, too."""
    crow.sockets.dead.add(URL)
    with pytest.raises(RowUnreached, match="crow does not reach"):
        await publish(crow, "work")


async def test_retired_and_published_again(three: Trio, crow: PairedNode) -> None:
    """SYNC-5: a retired row is a flag that every peer hears; publishing brings it back as a later version."""
    await publish(crow, "work")
    await three.agree()
    told = await crow.sync.retire("work", BY)
    assert (told.state, told.retired, told.version) == ("retired", True, 2)
    await three.agree()
    assert three["annex"].sync.routes.table.shared == {}
    assert three["annex"].registry.rows["crow", "work"].retired
    assert (await publish(crow, "work")).version == 3
    await three.agree()
    assert "work" in three["annex"].sync.routes.table.shared
    with pytest.raises(NotFound):
        await crow.sync.retire("none", BY)


async def test_who_has_the_address_retires_it_too_and_others_do_not(three: Trio, crow: PairedNode) -> None:
    """SYNC-5: only the node whose address it is, or the row's author, asserts a row again."""
    await publish(crow, "used", host="raven")
    await three.agree()
    with pytest.raises(InvalidRequest, match="is crow's"):
        await three["annex"].sync.retire("used", BY)
    assert (await three["raven"].sync.retire("used", BY)).author == "raven"
    await three.agree()
    assert three["annex"].sync.routes.table.shared == {}
    with pytest.raises(InvalidRequest, match="is raven's"):
        await publish(crow, "used", host="raven", models=("again",))
    states = {row.author: row.state for row in (await three["annex"].sync.now()).rows}
    assert states == {"crow": "doubted", "raven": "retired"}


async def test_what_leaves_the_config_is_retired(three: Trio, crow: PairedNode) -> None:
    """SYNC-1, CONF-3: what the config has no more, or keeps to itself by now, is retired by itself."""
    await publish(crow, "cloud")
    await publish(crow, "work")
    following = asyncio.ensure_future(crow.sync.run())
    await three.clock.advance(TICK_S)
    assert crow.events.of("row_retired") == []
    fleet = crow.lanes.config.fleet
    crow.lanes.config.fleet = replace(
        fleet,
        upstreams=frozen({}),
        engines=frozen({**fleet.engines, EngineId("work"): engine("work", local_only=True)}),
    )
    crow.files.full = True
    await three.clock.advance(TICK_S)
    assert len(crow.bugs) == 1
    crow.files.full = False
    await three.clock.advance(TICK_S)
    following.cancel()
    assert {row.id for row in crow.registry.told() if row.retired} == {"cloud", "work"}
    assert crow.events.last("row_retired").actor.endswith("client=config")


async def test_a_peer_asks_only_after_what_others_can_ask(three: Trio) -> None:
    """SYNC-2, SYNC-6: a probe of this machine's own addresses is refused and nothing is looked at."""
    annex = three["annex"]
    call = ProbeCall(api=1, node="crow", url="http://127.0.0.1:22")
    with pytest.raises(InvalidRequest, match="No such URL"):
        await annex.sync.probe(call, "crow")
    assert annex.sockets.looked == []
    with pytest.raises(InvalidRequest, match="The key is that of raven"):
        await annex.sync.probe(replace(call, url=URL), "raven")
    told = await annex.sync.probe(replace(call, url="http://10.99.0.3:1"), "crow")
    assert (told.node, told.up, told.owns) == ("annex", True, True)


async def test_explain(three: Trio, crow: PairedNode) -> None:
    """SYNC-2: it says why a row travels or stays; a loopback one is per node, and retired on each."""
    told = await crow.sync.explain("loop")
    assert (told.travels, told.claims) == (False, ())
    assert told.why.endswith("such a row is per node, and retired on each")
    told = await crow.sync.explain("work")
    assert told.travels
    assert told.why.endswith("it is not published: `hostler sync publish work`")
    await publish(crow, "work")
    told = await crow.sync.explain("work")
    assert [row.state for row in told.claims] == ["ours"]
    assert told.why == "its URL is one that other machines can ask"
    with pytest.raises(NotFound):
        await three["annex"].sync.explain("work")


async def test_the_state_of_each_row_is_told(three: Trio, crow: PairedNode) -> None:
    """SYNC-4, SYNC-6: each row says whether it is offered here, and if not why."""
    annex = three["annex"]
    rows = {
        name: Row(id=name, url=URL, host="crow")
        for name in ("free", "annex-work", "dead", "bare", "gone", "both")
    }
    rows["dead"] = replace(rows["dead"], url="http://10.99.0.1:1")
    rows["bare"] = replace(rows["bare"], host="", url="http://far.lan:1")
    rows["gone"] = replace(rows["gone"], retired=True)
    for row in rows.values():
        await crow.says(row)
    await three["raven"].says(Row(id="both", url="http://10.99.0.2:1", host="raven"))
    await annex.says(Row(id="home", url="http://127.0.0.1:1"))
    annex.sockets.dead.add("http://10.99.0.1:1")
    await three.agree()
    await annex.reaching.look()
    now = await annex.sync.now()
    states = {(row.id, row.author): (row.state, row.why) for row in now.rows}
    assert states["free", "crow"] == ("offered", "")
    assert states["annex-work", "crow"] == ("shadowed", "this config has that name itself")
    assert states["dead", "crow"][0] == "unreached"
    assert states["bare", "crow"][0] == "doubted"
    assert states["gone", "crow"] == ("retired", "crow retired it")
    assert states["home", "annex"][0] == "ours"
    assert "each node's own machine" in states["home", "annex"][1]
    assert {states["both", "crow"][0], states["both", "raven"][0]} == {"offered", "shadowed"}
    assert [text for text in now.notes if "claimed by" in text] == [
        "the row both is claimed by crow, raven: the first of them counts"
    ]
    annex.lanes.config.fleet = replace(annex.fleet, peers=frozen({}))
    assert {row.state for row in (await annex.sync.now()).rows if row.author == "raven"} == {"unpaired"}


async def test_a_row_that_the_config_has_elsewhere_by_now_is_named(three: Trio, crow: PairedNode) -> None:
    """SYNC-4: when the config has an engine at another place than its row says, people are told."""
    del three
    await publish(crow, "work")
    lane = crow.lanes.get("work")
    lane.launch = replace(lane.launch, url="http://10.99.0.1:9999")
    assert (await crow.sync.now()).notes == (
        f"work is told at {URL}, and the config has it at http://10.99.0.1:9999",
    )
