from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hostler.domain.curation import Curation
from hostler.domain.fleet import Key
from hostler.domain.values import ServingClass
from hostler.interfaces.cli.engines import rows
from hostler.services.keys import digest_of, keyring
from tests.fakes.catalog import catalog, entry, variant
from tests.interfaces.room import Room, room

CATALOG = "/v1/hostler/catalog"
MADE = catalog(
    entry("small"),
    entry("large", variant("1m"), serving_class=ServingClass.WEDGE_RISK),
    directory="/srv/c",
    trouble="/srv/c cannot be used: x; the last good one is in force",
)


@pytest.fixture
async def box() -> AsyncIterator[Room]:
    async with room() as it:
        it.control.config.fleet = replace(it.control.config.fleet, catalog=MADE)
        yield it


async def test_the_catalog_is_listed_with_what_is_offered(box: Room) -> None:
    """CAT-6, CAT-7, API-1: GET catalog has each entry in force with its class and what stands for a start."""
    async with box.client() as client:
        found = (await client.get(CATALOG)).json()
    assert (found["directory"], found["trouble"]) == (MADE.directory, MADE.trouble)
    large, small = found["entries"]
    assert (large["id"], large["serving_class"], small["id"], small["serving_class"]) == (
        "large",
        "wedge-risk",
        "small",
        "resident",
    )
    assert large["affordance"] == {
        "start": False,
        "badge": "wedge-risk",
        "text": "Known wedge risk: never started from the dashboard",
    }
    assert small["affordance"] == {"start": True, "badge": "resident", "text": ""}
    assert [it["reference"] for it in large["variants"]] == ["large#1m"]


async def test_the_catalog_has_pages(box: Room) -> None:
    """API-1: the catalog is given a page at a time, and its cursor goes on."""
    async with box.client() as client:
        first = (await client.get(CATALOG, params={"limit": 1})).json()
        rest = (await client.get(CATALOG, params={"limit": 1, "cursor": first["next"]})).json()
    assert [it["id"] for it in (*first["entries"], *rest["entries"])] == ["large", "small"]
    assert rest["next"] is None


async def test_a_key_without_the_scope_reads_no_catalog(box: Room) -> None:
    """API-4: a key that may only infer is refused the catalog."""
    key = Key(name="bots", digest=digest_of("hk_bots"), scopes=frozenset({"infer"}))
    box.other_keys(keyring(configured=(key,), kept=(), local=None, clock=box.clock))
    async with box.client(key="hk_bots") as client:
        answer = await client.get(CATALOG)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_scope")


async def test_an_engine_shows_what_the_catalog_says_of_it(box: Room) -> None:
    """CAT-6, CAT-7: an engine shows its entry or that it has none, and what is offered of it."""
    lane = box.lane("fast")
    async with box.client() as client:
        plain = (await client.get("/v1/hostler/engines/fast")).json()["engine"]
        assert (plain["entry"], plain["uncurated"], plain["proven"]) == (None, True, None)
        assert plain["affordance"]["start"] is True
        lane.engine = replace(
            lane.engine,
            entry="large#1m",
            curation=Curation(entry="large#1m", peak=7),
            need={},
            serving_class=ServingClass.WEDGE_RISK,
        )
        found = (await client.get("/v1/hostler/engines/fast")).json()["engine"]
    assert (found["entry"], found["uncurated"], found["proven"]) == ("large#1m", False, False)
    assert found["memory"]["claim"] == {"host": 7}
    assert found["affordance"]["text"].startswith("Known wedge risk")


async def test_people_see_class_and_uncurated(box: Room) -> None:
    """CAT-7: `hostler engines` and `status` note the class, an unproven variant, and who is uncurated."""
    lane = box.lane("fast")
    lane.engine = replace(
        lane.engine,
        entry="large#1m",
        curation=Curation(entry="large#1m"),
        serving_class=ServingClass.WINDOWED,
    )
    shown = {row[0]: row[-1] for row in rows(box.control.status.engines(), box.control.status.at())}
    assert "windowed" in shown["fast"]
    assert "unproven (large#1m)" in shown["fast"]
    assert "uncurated" not in shown["fast"]
    assert "uncurated" in shown["embed"]


async def test_a_catalog_that_is_not_right_is_a_warning(box: Room) -> None:
    """CAT-7: status warns while the catalog in force is not what lies on the disk."""
    assert f"the catalog: {MADE.trouble}" in box.control.status.daemon().warnings
