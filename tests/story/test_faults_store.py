"""A full disk, odd reservation files, a config that was edited: nothing counts as free, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.fakes.fake_engine import eventually
from tests.story.disks import small_disk
from tests.story.house import House, Json
from tests.story.lease_house import Gates, also, code, events, gates, holders, lease_is, leases, resources


async def test_a_full_disk_at_grant_and_at_renew(fake: House) -> None:
    """LEASE-7, R86, R87, F22: 507 and no effect; a renewal 503 with what is left; it clears."""
    box = gates(fake, "one")
    also(fake, other={})
    with small_disk(fake) as disk:
        await fake.start()
        async with holders(fake, "anna", "bert") as (anna, bert):
            await anna.active("other", ttl_s=600.0)
            disk.fill()
            refused = await bert.reserve(now=True)
            assert code(refused) == (507, "store_full")
            assert box.effects == []
            renewed = await anna.do("renew")
            assert code(renewed) == (503, "schedule_unavailable")
            assert "stands as it is for" in renewed.text
            assert (await anna.client.get("/v1/models")).status_code == 200
            kept = await lease_is(fake, anna.id, "active")
            assert kept["generation"] == anna.last["generation"]
            disk.clear()
            assert (await anna.do("renew")).json()["granted_s"] == 600
            await bert.active()
        await fake.end()
    assert box.effects == ["do one"]


async def test_a_full_disk_during_a_restore(fake: House) -> None:
    """LEASE-14, F23: while the journal cannot be written the box is held; it ends put back, or stuck."""
    box = gates(fake, "one", "two")
    with small_disk(fake) as disk:
        await fake.start()
        async with holders(fake, "anna", "bert") as (anna, bert):
            await anna.active()
            box.shut("before-undo-two")
            await anna.do("release")
            await box.reached("before-undo-two")
            disk.fill()
            box.open("before-undo-two")
            await eventually(lambda: "undo two" in box.effects, f"the undo is done\n{fake.words()}")
            refused = await bert.reserve(now=True)
            assert refused.status_code in (507, 503, 409), refused.text
            assert (await lease_is(fake, anna.id, "releasing", "stuck"))["generation"]
            disk.clear()
            over = await lease_is(fake, anna.id, "released", "stuck")
            if over["state"] == "stuck":
                await anna.do("release")
                await lease_is(fake, anna.id, "released")
            assert not {"is-one", "is-two"} & {file.name for file in box.root.iterdir()}
            await bert.active()
        await fake.end()
    assert box.effects[:4] == ["do one", "do two", "undo two", "undo one"]


async def test_a_full_disk_at_the_start(fake: House) -> None:
    """REL-1, R85, F22: a daemon that finds its disk full serves all the same, and frees nothing."""
    box = gates(fake, "one")
    with small_disk(fake) as disk:
        await fake.start()
        async with holders(fake, "anna", "bert") as (anna, bert):
            box.shut("after-do-one")
            await anna.reserve()
            await box.reached("after-do-one")
            await fake.end(signal.SIGKILL)
            await box.end("after-do-one")
            if not disk.small:
                pytest.skip("a limit on files does not outlive the daemon: needs root for a disk of its own")
            disk.fill()
            await fake.start()
            assert (await anna.client.get("/v1/models")).status_code == 200
            assert (await bert.reserve(now=True)).status_code in (503, 507, 409)
            disk.clear()
            stuck = await lease_is(fake, anna.id, "stuck", "activating")
            if stuck["state"] == "activating":
                stuck = await lease_is(fake, anna.id, "stuck")
            await anna.do("release")
            await lease_is(fake, anna.id, "failed")
        await fake.end()
    assert box.effects == ["do one", "undo one"]


def odd(hold: Path, kind: str) -> None:
    """A reservation file of that kind."""
    hold.parent.mkdir(mode=0o700, exist_ok=True)
    record = {"owner": "w1", "reason": "x", "created_at": "2026-11-01T00:00:00Z"}
    if kind == "symlink":
        other = hold.with_name("other.json")
        other.write_text("{}")
        hold.symlink_to(other)
        return
    hold.write_text('{"owner": "w1", "expi' if kind == "torn" else json.dumps(record))
    hold.chmod(0o600)
    if kind == "owner":
        hold.write_text(json.dumps({**record, "expires_at": "2020-01-01T00:00:00Z"}))
        os.chown(hold, 12345, 12345)


@pytest.mark.parametrize(
    "kind",
    ["no expiry", "owner", *(pytest.param(it, marks=pytest.mark.slow) for it in ("torn", "symlink"))],
)
async def test_an_odd_reservation_file_counts_as_reserved(fake: House, kind: str) -> None:
    """HOLD-4, LEASE-23, F24: the claim queues behind it, `--now` is refused, and it is told once."""
    if kind == "owner" and os.geteuid() != 0:
        pytest.skip("only root makes a file somebody else's")
    odd(fake.hold, kind)
    resources(fake, box={"actions": [{"hold": "local"}]})
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        assert code(await bert.reserve(now=True)) == (409, "box_reserved")
        await anna.reserve()
        assert anna.last["state"] == "queued"
        assert [row["id"] for row in await leases(fake)] == [anna.id]
        fake.hold.unlink()

        async def mine() -> bool:
            await anna.do("renew", wait_s=1.0)
            return anna.last["state"] == "active"

        await eventually(mine, f"it is hers once the file is gone\n{fake.words()}")
    told = await events(fake, "hold_unreadable", "hold_opened")
    assert len(told) <= 2, told


def change(it: House, box: Gates, kind: str) -> None:
    """The box with another action, or no box."""
    other = Gates(root=it.root / "other")
    other.write()
    changed: Json = {"box": {"actions": [other.action("new")]}} if kind == "edited" else {"third": {}}
    it.top["reservations"] = {"resources": changed}
    box.clear_effects()


@pytest.mark.parametrize("kind", ["edited", "removed"])
async def test_a_resource_that_is_changed_while_it_is_held(fake: House, kind: str) -> None:
    """LEASE-5, R10, F26: the release undoes what the grant did; an edit counts from the next one."""
    box = gates(fake, "one", "two")
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active()
        await fake.end(signal.SIGKILL)
        change(fake, box, kind)
        await fake.start()
        await lease_is(fake, anna.id, "active")
        await anna.do("release", wait_s=20.0)
        assert anna.last["state"] == "released"
        assert box.effects == ["undo two", "undo one"]
        if kind == "edited":
            await bert.active()
            assert Gates(root=fake.root / "other").effects == ["do new"]
        else:
            assert code(await bert.reserve()) == (404, "resource_not_found")
    assert box.effects == ["undo two", "undo one"]
