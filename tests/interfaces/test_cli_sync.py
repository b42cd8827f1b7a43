"""`hostler sync` and its endpoints: three paired nodes in memory, one of them behind a real control API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.registry import Row
from hostler.interfaces.api.app import create_app
from hostler.services.keys import keyring
from hostler.wire.sync import ExchangeCall, Told, row_to
from hostler.wire.values import to_json
from tests.fakes.paired import Trio, trio
from tests.interfaces.room import LOCAL, Room, room
from tests.interfaces.terminal import Shell, served

SYNC = "/v1/hostler/sync"
ROW = Row(id="x", url="http://10.99.0.2:1", host="raven", version=1, author="raven")


@pytest.fixture
def three() -> Trio:
    return trio()


@pytest.fixture
async def box(three: Trio) -> AsyncIterator[Room]:
    async with room() as it:
        crow = three["crow"]
        ring = keyring(
            configured=(), kept=(), local=LOCAL, clock=it.clock, peers=list(crow.fleet.peers.values())[:1]
        )
        it.control = replace(it.control, sync=crow.sync, keyring=ring)
        it.app = create_app(it.control)
        yield it


@pytest.fixture
async def user(box: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    async with served(box.app, tmp_path) as it:
        yield it


async def test_publish_status_explain_retire(user: Shell, three: Trio) -> None:
    """SYNC-4, SYNC-5, INTERFACE-2: a row from its publishing to its end, as a person sees it."""
    done = await user.run("sync", "publish", "crow-work")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == ["NODE", "REACHES", "IT", "WHY"]
    assert done.out.splitlines()[-1] == "crow-work is shared: http://10.99.0.1:8101 on crow."
    await three.agree()
    out = (await user.run("sync")).out.splitlines()
    assert out[0].split() == ["PEER", "STATE", "SINCE", "HAS", "OUR", "LATEST", "WHY"]
    assert out[1].split()[:2] == ["raven", "up"]
    assert any(line.startswith("crow-work") and "ours" in line for line in out)
    told = (await user.run("sync", "explain", "crow-work")).out
    assert told.startswith("crow-work travels: its URL is one that other machines can ask.")
    assert (await user.run("sync", "retire", "crow-work")).out == "crow-work is retired.\n"
    found = json.loads((await user.run("sync", "--json")).out)
    assert [(row["id"], row["state"]) for row in found["rows"]] == [("crow-work", "retired")]
    again = json.loads((await user.run("sync", "retire", "crow-work", "--json")).out)
    assert again["version"] == 2


async def test_a_refused_publishing_shows_who_does_not_reach_it(user: Shell, three: Trio) -> None:
    """SYNC-4, INTERFACE-4: the table is printed, then the error with its hint; the code is a conflict's."""
    three.wire.cut.add("annex")
    done = await user.run("sync", "publish", "crow-work")
    assert done.code == 76
    rows = [line.split()[:2] for line in done.out.splitlines()]
    assert rows == [["NODE", "REACHES"], ["crow", "yes"], ["raven", "yes"], ["annex", "no"]]
    lines = done.err.splitlines()
    assert lines[0].startswith("error: crow-work is not published: annex does not reach")
    assert "--allow-unreachable" in lines[1]
    done = await user.run("sync", "publish", "crow-work", "--json")
    assert (done.code, done.out) == (76, "")
    assert json.loads(done.err)["error"]["facts"]["nodes"] == ["annex"]
    args = ("--allow-unreachable", "annex", "--because", "it moves", "--host", "crow", "--model", "m")
    done = await user.run("sync", "publish", "crow-work", *args)
    assert done.code == 0, done.err
    told = (await user.run("sync", "explain", "crow-work")).out
    assert "annex need not reach crow's: " in told
    assert told.rstrip().endswith(": it moves")


async def test_without_anything_to_show(box: Room, tmp_path: Path) -> None:
    """INTERFACE-2: without peers and rows it says so, and notes are printed."""
    sync = box.control.sync
    told = replace(await sync.now(), peers=(), rows=(), notes=("look here",))

    class Empty:
        """The service with nothing in it."""

        async def now(self) -> object:
            return told

    box.control = replace(box.control, sync=Empty())  # type: ignore[arg-type]  # only `now` is asked
    async with served(create_app(box.control), tmp_path) as user:
        assert (await user.run("sync")).out.splitlines() == [
            "No node is paired: sync.peers in the config.",
            "",
            "There are no rows.",
            "note: look here",
        ]


async def test_nothing_of_that_name(user: Shell) -> None:
    """INTERFACE-4: an unknown row is not found, for each command."""
    for words in (("explain", "none"), ("retire", "none"), ("publish", "none")):
        assert (await user.run("sync", *words)).code == 66


async def test_the_exchange_over_the_api(box: Room, three: Trio) -> None:
    """SYNC-1, SYNC-6: with the key of a pair its node exchanges and probes, and does nothing else."""
    told = Told(rows=(row_to(ROW),))
    call = to_json(ExchangeCall(api=1, node="raven", digest=told.digest, told=told))
    probe = {"api": 1, "node": "raven", "url": "http://10.99.0.1:8101"}
    async with box.client("k") as client:
        got = await client.post(f"{SYNC}/exchange", json=call)
        assert (got.status_code, got.json()["need"]) == (200, False)
        seen = await client.post(f"{SYNC}/probe", json=probe)
        assert seen.json() == {"api": 1, "node": "crow", "up": True, "why": "", "owns": True}
        assert (await client.get(SYNC)).status_code == 403
        assert (await client.post(f"{SYNC}/retire", json={"id": "x"})).status_code == 403
    assert ("raven", "x") in three["crow"].registry.rows
    async with box.client() as client:
        assert (await client.post(f"{SYNC}/exchange", json=call)).status_code == 403
        assert (await client.get(f"{SYNC}/rows/x")).json()["claims"][0]["author"] == "raven"


async def test_a_row_is_nothing_to_warm(box: Room, three: Trio) -> None:
    """SYNC-6: to acquire a row starts nothing, neither here nor where it is."""
    config = box.control.config
    config.fleet = replace(config.fleet, peers=three["crow"].fleet.peers)
    box.control.routes.retable(config.fleet)
    await box.control.routes.share([ROW])
    async with box.client() as client:
        got = await client.post("/llm/acquire", json={"provider": "x"})
    assert (got.status_code, got.json()["warmed"]) == (200, None)
    assert box.driver.started == []
