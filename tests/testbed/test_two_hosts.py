"""Two hosts with real daemons: one schedule, routes to each other's engines, leases over both."""

from __future__ import annotations

import json
import signal
from typing import cast

import pytest

from tests.fakes.fake_engine import eventually
from tests.story.lease_house import LEASES, Gates
from tests.testbed.bed import Bed
from tests.testbed.telling import code, holder, lease_is, taken, told_why

pytestmark = pytest.mark.slow


async def test_a_lease_on_the_other_host(both: Bed) -> None:
    """R16, NODE-1, NODE-6: routes lead to the other host's engine; a lease there has steps as any other."""
    await both.ready()
    crow, raven = both.crow, both.raven
    assert await crow.said("far") == "I am raven-work."
    assert await raven.said("near") == "I am crow-work."
    lease = await taken(crow, "raven_box")
    steps = (await lease_is(crow, lease, "active"))["steps"]
    assert isinstance(steps, list)
    assert [(it["host"], it["text"], it["state"]) for it in steps] == [
        ("raven", "hold raven", "done"),
        ("crow", "route far to away on crow", "done"),
        ("raven", "route far to away on raven", "done"),
        ("raven", "drain raven-work", "done"),
        ("raven", "suspend raven-work", "done"),
    ]
    await raven.is_state("raven-work", "stopped")
    assert raven.hold.exists()
    assert not crow.hold.exists()
    assert [await it.said("far") for it in (crow, raven)] == ["I am crow-spare."] * 2
    async with raven.client() as client:
        refused = await client.post("/v1/hostler/engines/raven-work/start", json={})
    assert code(refused) == (409, "box_reserved")

    async def listed() -> bool:
        """The head asks its nodes every few seconds."""
        return f"raven: {lease} (raven_box" in await crow.told("nodes")

    await eventually(listed, raven.words())
    await crow.told("release", "raven_box")
    assert [await it.said("far") for it in (crow, raven)] == ["I am raven-work."] * 2
    assert not raven.hold.exists()


async def test_what_is_asked_of_another_host(both: Bed) -> None:
    """NODE-6, PORT-5, HOLD-12: any daemon warms an engine of any host, shows its log, says who listens."""
    both.engine("cold", "raven", 8104)
    await both.ready()
    crow, raven = both.crow, both.raven
    async with crow.client() as client:
        answer = await client.post("/llm/acquire", json={"provider": "cold"})
        assert answer.json() == {"ok": True, "warmed": "cold", "provider": "cold"}
        await raven.is_state("cold", "ready")
        again = await client.post("/llm/acquire", json={"provider": "cold"})
        assert again.json()["warmed"] is None
        await raven.told("stop", "cold")
        await raven.told("box", "hold", "--owner", "bench", "--minutes", "5")
        held = await client.post("/llm/acquire", json={"provider": "cold"})
        assert (held.status_code, held.json()["owner"]) == (409, "bench")
    assert await crow.told("logs", "raven-work") == await raven.told("logs", "raven-work")
    live = await crow.run("ports", "live", "--host", "raven", "--json")
    found = json.loads(live.out)
    assert found["host"] == "raven"
    assert "raven-work" in {row["engine"] for row in found["ports"]}
    from_raven = json.loads((await raven.run("ports", "live", "--host", "crow", "--json")).out)
    assert "crow-work" in {row["engine"] for row in from_raven["ports"]}


async def test_only_the_head_owns_the_schedule(both: Bed) -> None:
    """R2, R3, NODE-3: a node that is not the head refuses and asks nobody; a node that is away is named."""
    await both.ready()
    crow, raven = both.crow, both.raven
    both.cable.cut()
    body = {"resource": "pair", "holder": "ann", "secret_hash": "0" * 64}
    async with raven.client() as client:
        got = await client.post(LEASES, json=body, headers={"idempotency-key": "one"})
    assert code(got) == (409, "not_head")
    assert "owned by crow" in got.json()["error"]["message"]
    refused = await crow.chat("far")
    assert code(refused) == (502, "node_unreachable")
    assert "raven" in refused.json()["error"]["message"]
    assert await crow.said("near") == "I am crow-work."
    await crow.sees("raven", up=False)
    async with crow.client() as client:
        anna = holder(crow, client, "anna")
        now = await anna.reserve("pair", now=True)
        assert code(now)[1] == "node_unreachable"
        assert (await crow.row("crow-work"))["suspended_by"] == []
        await anna.reserve("pair")
        await eventually(lambda: told_why(crow, anna.id, "raven"), crow.words())
        both.cable.heal()
        await crow.sees("raven", up=True)
        await anna.do("renew", wait_s=20.0)
        await lease_is(crow, anna.id, "active", "activating", "offered")
        await anna.do("renew", wait_s=20.0)
        await lease_is(crow, anna.id, "active")
        await anna.do("release", wait_s=30.0)
        await lease_is(crow, anna.id, "released")
    assert await raven.said("far") == "I am raven-work."


async def test_a_node_that_goes_away_in_the_middle(both: Bed) -> None:
    """F14, LEASE-12: a step of a node that is gone fails after a while, and what was done is undone."""
    gates = Gates(root=both.root / "gates")
    gates.write()
    both.resources(
        tool={
            "hosts": ["crow", "raven"],
            "actions": [{**gates.action("one"), "on": "crow"}, {**gates.action("two"), "on": "raven"}],
        }
    )
    await both.ready()
    crow = both.crow
    gates.shut("before-do-one")
    async with crow.client() as client:
        anna = holder(crow, client, "anna")
        await anna.reserve("tool")
        await gates.reached("before-do-one")
        both.cable.cut()
        gates.open("before-do-one")
        failed = await lease_is(crow, anna.id, "failed", "stuck", patience_s=60.0)
    assert failed["state"] == "failed"
    assert "The node of raven does not answer" in str(failed["why"])
    assert gates.effects == ["do one", "undo one"]


async def test_an_answer_that_is_lost_is_read_back(both: Bed) -> None:
    """R24, NODE-3: the cable is cut while a node acts: the head asks again, and it is done once."""
    gates = Gates(root=both.root / "gates")
    gates.write()
    both.resources(tool={"hosts": ["raven"], "actions": [{**gates.action("two"), "on": "raven"}]})
    await both.ready()
    crow = both.crow
    gates.shut("before-do-two")
    async with crow.client() as client:
        anna = holder(crow, client, "anna")
        await anna.reserve("tool")
        await gates.reached("before-do-two")
        both.cable.cut()
        gates.open("before-do-two")
        await eventually(lambda: gates.effects == ["do two"], "it acts while nobody hears it")
        both.cable.heal()
        await lease_is(crow, anna.id, "active", patience_s=60.0)
        await anna.do("release", wait_s=30.0)
        await lease_is(crow, anna.id, "released")
    assert gates.effects == ["do two", "undo two"]


async def test_commands_are_done_as_their_own_host_defines_them(both: Bed) -> None:
    """CONF-6: a command runs on its host by its name; where the two files differ nothing is begun."""
    gates = Gates(root=both.root / "gates")
    gates.write()
    tool = {"hosts": ["raven"], "actions": [{**gates.action("two"), "on": "raven"}]}
    both.resources(tool=tool)
    await both.ready()
    crow, raven = both.crow, both.raven
    lease = await taken(crow, "tool")
    await crow.told("release", lease)
    assert gates.effects == ["do two", "undo two"]
    both.resources(tool={**tool, "actions": [{**gates.action("three"), "on": "raven"}]})
    both.write("raven")
    await raven.told("reload")
    refused = await crow.run("reserve", "tool", "--for", "1m")
    assert refused.code != 0
    assert f"{raven.config} on raven" in refused.err
    assert f"{crow.config} on crow" in refused.err
    assert gates.effects == ["do two", "undo two"]


async def test_a_pair_takes_its_turn_on_both(both: Bed) -> None:
    """F27: a queued pair is not passed by later claims on either of its boxes, and takes all or nothing."""
    await both.ready()
    crow = both.crow
    async with crow.client() as client:
        small, pair, late = (holder(crow, client, name) for name in ("small", "pair", "late"))
        await small.active("raven_box")
        await pair.reserve("pair")
        await late.reserve("raven_box")
        other = holder(crow, client, "other")
        await other.reserve("crow_box")
        for it in (pair, late, other):
            await lease_is(crow, it.id, "queued")
        assert (await crow.row("crow-work"))["suspended_by"] == []
        await small.do("release", wait_s=30.0)
        await pair.do("renew", wait_s=20.0)
        await pair.do("renew", wait_s=20.0)
        held = await lease_is(crow, pair.id, "active")
        assert set(cast("list[str]", held["covers"])) == {"pair", "crow_box", "raven_box"}
        for it in (late, other):
            assert (await lease_is(crow, it.id, "queued"))["state"] == "queued"
        await pair.do("release", wait_s=30.0)
        for it in (late, other):
            await it.do("renew", wait_s=20.0)
            await it.do("renew", wait_s=20.0)
            await lease_is(crow, it.id, "active")
            await it.do("release", wait_s=30.0)


async def test_a_reboot_of_the_other_host(both: Bed) -> None:
    """F20: a lease whose host was rebooted is put back with the cause `reboot`, and the next is offered."""
    boots = [both.root / f"boot-{n}" for n in (1, 2)]
    for n, file in enumerate(boots, start=1):
        file.write_text(f"0000000{n}-0000-4000-8000-000000000000\n")
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    crow, raven = both.crow, both.raven
    raven.wrap = ("sh", "-c", script, str(boots[0]))
    await both.ready()
    await raven.is_state("raven-work", "ready")
    async with crow.client() as client:
        anna, bert = (holder(crow, client, name) for name in ("anna", "bert"))
        await anna.active("raven_box")
        await bert.reserve("raven_box")
        await raven.end(signal.SIGKILL)
        await raven.engines_end()
        raven.hold.unlink()
        raven.wrap = ("sh", "-c", script, str(boots[1]))
        await raven.start()
        over = await lease_is(crow, anna.id, "released", "stuck", patience_s=60.0)
        assert over["state"] == "released"
        assert "reboot" in str(over["why"])
        await raven.is_state("raven-work", "ready")
        assert await crow.said("far") == "I am raven-work."
        await lease_is(crow, bert.id, "offered", "active", "activating")
        stale = await anna.do("renew")
        assert stale.status_code == 409


async def test_a_head_that_was_down(both: Bed) -> None:
    """F21: a head that was down finds its lease as it was: its node kept it, and nothing was done twice."""
    await both.ready()
    crow, raven = both.crow, both.raven
    async with crow.client() as client:
        anna = holder(crow, client, "anna")
        await anna.active("raven_box", ttl_s=20.0)
        await crow.end(signal.SIGKILL)

        async def told() -> bool:
            return f"lease {anna.id}" in await raven.warnings()

        await eventually(told, raven.words(), patience_s=60.0)
        assert (await raven.row("raven-work"))["suspended_by"] == [anna.id]
        assert raven.hold.exists()
        await crow.start()
        await crow.sees("raven", up=True)
        await lease_is(crow, anna.id, "active")
        renewed = await anna.do("renew", ttl_s=600.0)
        assert renewed.status_code == 200, renewed.text

        async def quiet() -> bool:
            return "cut off" not in await raven.warnings()

        await eventually(quiet, raven.words())
        assert len(await raven.events("engine_stopped")) == 1
        await anna.do("release", wait_s=30.0)
    assert await crow.said("far") == "I am raven-work."
