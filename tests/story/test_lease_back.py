"""A schedule's store that went back in time, and one that cannot be read: real daemons on real files."""

from __future__ import annotations

import json
import shutil
import signal

from tests.story.house import House
from tests.story.lease_house import begun, furnish, lease_is, taken


def keep(it: House) -> None:
    """A copy of the store, whole: the daemon does not run."""
    for more in ("", "-wal", "-shm"):
        kept = it.state / f"schedule.db{more}"
        if kept.exists():
            shutil.copy2(kept, it.root / f"kept.db{more}")


def put_back(it: House) -> None:
    """The copy in the place of the store."""
    for more in ("", "-wal", "-shm"):
        (it.state / f"schedule.db{more}").unlink(missing_ok=True)
        kept = it.root / f"kept.db{more}"
        if kept.exists():
            shutil.copy2(kept, it.state / f"schedule.db{more}")


async def test_a_store_of_last_week_frees_nothing(fake: House) -> None:
    """LEASE-8, F25: what the node remembers is stuck in a new epoch, and no number repeats."""
    furnish(fake)
    await begun(fake)
    await fake.end()
    keep(fake)
    await begun(fake)
    cursor = json.loads(await fake.told("schedule", "--json"))["cursor"]
    lease = await taken(fake, "--holder", "anna")
    await fake.end(signal.SIGKILL)
    put_back(fake)
    await fake.start()
    stuck = await lease_is(fake, lease, "stuck")
    assert (stuck["holder"], stuck["resource"]) == ("anna", "box")
    assert (await fake.row("work"))["state"] == "stopped"
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    assert (await fake.run("reserve", "box")).code == 75
    assert (await fake.run("schedule", "--since", cursor)).code == 66
    generation = str(stuck["generation"])
    await fake.told("release", lease, "--generation", generation, "--because", "the store went back")
    await fake.is_state("work", "ready")
    assert (await lease_is(fake, lease, "released", "failed"))["state"] == "released"
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"
    again = await lease_is(fake, await taken(fake), "active")
    assert str(again["epoch"]) > str(stuck["epoch"])
    assert int(str(again["generation"])) > int(generation)


async def test_an_unreadable_store_is_recovered_with_what_the_node_remembers(fake: House) -> None:
    """LEASE-8, REL-4: `schedule recover` keeps the bad file aside, and what was leased is stuck."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    await fake.end(signal.SIGKILL)
    for more in ("-wal", "-shm"):
        (fake.state / f"schedule.db{more}").unlink(missing_ok=True)
    (fake.state / "schedule.db").write_bytes(b"garbage" * 1000)
    await fake.start()
    assert (await fake.run("reserve", "box")).code == 69
    told = json.loads(await fake.told("schedule", "recover", "--json"))
    aside = told["kept_as"]
    assert isinstance(aside, str)
    assert (fake.state / aside).read_bytes() == b"garbage" * 1000
    stuck = await lease_is(fake, lease, "stuck")
    assert (await fake.row("work"))["state"] == "stopped"
    await fake.told("release", lease, "--generation", str(stuck["generation"]), "--because", "recovered")
    await fake.is_state("work", "ready")


async def test_a_backup_is_put_back_while_the_daemon_is_down(fake: House) -> None:
    """REL-4: a backup is restored into a new epoch; while the daemon runs that is refused."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    backup = fake.root / "backup.db"
    await fake.told("schedule", "backup", str(backup))
    busy = await fake.run("schedule", "restore", str(backup))
    assert busy.code == 75, (busy.out, busy.err)
    await fake.end()
    told = json.loads(await fake.told("schedule", "restore", str(backup), "--json"))
    await fake.start()
    found = await lease_is(fake, lease, "active", "stuck")
    assert str(told["epoch"]) > str(found["epoch"])
    assert (await fake.row("work"))["state"] == "stopped"


async def test_a_store_that_is_deleted_in_use_frees_nothing(fake: House) -> None:
    """LEASE-8, R83, R85, F24: no empty store takes its place by itself; recovered, it is stuck."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    for kept in fake.state.glob("schedule.db*"):
        kept.unlink()
    for _ in range(2):
        done = await fake.run("reserve", "box")
        assert done.code == 69, (done.out, done.err)
        assert "schedule recover" in done.err
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    await fake.told("schedule", "recover")
    stuck = await lease_is(fake, lease, "stuck")
    assert (await fake.row("work"))["state"] == "stopped"
    await fake.told("release", lease, "--generation", str(stuck["generation"]), "--because", "recovered")
    await fake.is_state("work", "ready")
    assert not fake.hold.exists()


async def test_two_daemons_never_share_a_state(fake: House) -> None:
    """CONF-5, R85: with another hold path too, a second daemon on the same state directory is refused."""
    furnish(fake)
    await begun(fake)
    elsewhere = fake.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    done = await fake.run("serve", HOSTLER_BOX_RESERVATION_PATH=str(elsewhere / "box.json"))
    assert done.code == 75, (done.out, done.err)
    assert str(fake.state) in done.err
    await fake.told("status")
