"""A lease whose hold somebody else takes: real commands on a real record."""

from __future__ import annotations

import json

from tests.fakes.fake_engine import eventually
from tests.story.house import House
from tests.story.lease_house import begun, events, furnish, taken


def owner(it: House) -> str | None:
    """Who holds the box, by the record."""
    return None if not it.hold.exists() else json.loads(it.hold.read_bytes())["owner"]


async def test_the_hold_of_a_lease_comes_back(fake: House) -> None:
    """HOLD-9, HOLD-11: what was taken over stands and is told; it is back after that, or with a renewal."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    own = f"lease:{lease}"
    assert owner(fake) == own
    await fake.told("box", "hold", "--owner", "ada", "--minutes", "5", "--take-over", own)

    async def told() -> bool:
        return f"WRONG     {lease}: local is held by ada until" in await fake.told("schedule")

    await eventually(told, "the schedule says whose hold it is")
    assert "local is held by ada until" in await fake.told("mine")
    assert "local is held by ada until" in await fake.told("why", "box")
    said = await fake.told("renew", lease, "--for", "20m")
    assert "note: local is held by ada until" in said
    assert owner(fake) == "ada"
    await fake.told("box", "release", "--owner", "ada")

    async def back() -> bool:
        return owner(fake) == own

    await eventually(back, "the lease has its hold again")
    assert len(await events(fake, "hold_written_again")) == 1
    assert "WRONG" not in await fake.told("schedule")

    await fake.told("box", "release", "--force")

    async def lost() -> bool:
        return any("by force" in str(it["message"]) for it in await events(fake, "hold_lost"))

    await eventually(lost, "that it was released by force is told")
    assert owner(fake) is None
    assert f"`hostler renew {lease}` writes its hold again" in await fake.told("mine")
    await fake.told("renew", lease, "--for", "30m")
    await eventually(back, "the renewal wrote it again")
    await fake.told("release", lease)
    assert owner(fake) is None
