"""A node of another host over its node API: what travels, what is believed, what is found out by asking."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx2
import pytest

from hostler.domain.errors import (
    EngineNotFound,
    IdempotencyConflict,
    InvalidRequest,
    NodeOutdated,
    NodeUnreachable,
    NotFound,
    StepFailed,
)
from hostler.domain.fence import Fence
from hostler.domain.fleet import Secret, frozen
from hostler.domain.plan import command, webhook
from hostler.domain.step import CallWebhook, FoundCommand, PointRoute, RunCommand, Step
from hostler.domain.values import EngineId
from hostler.services.node_needs import Member
from hostler.services.schedule_needs import Remembered
from hostler.wire.nodes import OperationBody, OperationCall
from hostler.wire.values import dump, request_from
from tests.adapters.far_lines import AWAY, bodies, far, held
from tests.fakes.far_host import KEY
from tests.services.node_conformance import HOOK, HOST, LEASE, POWER, RemoteRig

# ---------------------------------------------------------------- keys and lines


async def test_the_nodes_own_key_is_sent_and_no_other() -> None:
    """NODE-2: each call has the key of that host, and neither cookies nor anybody else's key."""
    async with far() as (it, tell):
        await tell.do(AWAY)
        assert {each.headers["authorization"] for each in it.cable.seen} == {f"Bearer {KEY}"}
        assert not any("cookie" in each.headers or "x-api-key" in each.headers for each in it.cable.seen)


@pytest.mark.parametrize("key", ["hk_local", "hk_wrong"])
async def test_no_other_key_opens_the_node_api(key: str) -> None:
    """NODE-2: neither a wrong key nor an admin's does anything at a node; the right one is named."""
    async with far() as (it, tell):
        it.as_crow(key=Secret(key))
        with pytest.raises(NodeUnreachable) as told:
            await tell.ask(AWAY)
        assert "hosts.crow.key" in str(told.value)
        assert key not in str(told.value)
        assert it.parts.routes.active("chat") == "local"


async def test_a_redirect_is_not_followed() -> None:
    """NODE-2: a node that answers with a redirect is unreachable, and the key goes nowhere else."""
    async with far() as (it, tell):
        it.cable.answer = lambda request: httpx2.Response(
            307, headers={"location": "http://elsewhere.test/"}, request=request
        )
        with pytest.raises(NodeUnreachable, match="redirect"):
            await tell.ask(AWAY)
        assert {each.url.host for each in it.cable.seen} == {"crow.test"}


async def test_plain_http_is_refused_unless_it_is_allowed() -> None:
    """NODE-2: beyond loopback nothing is sent over plain HTTP where the config does not allow it."""
    async with far() as (it, tell):
        it.as_crow(allow_plain_http=False)
        with pytest.raises(NodeUnreachable, match="allow_plain_http"):
            await tell.ask(AWAY)
        assert it.cable.seen == []


@pytest.mark.parametrize("lacks", ["url", "key"])
async def test_a_host_without_url_or_key_is_not_asked(lacks: str) -> None:
    """NODE-2: without its url or key in the config a node is unreachable, and which is missing is told."""
    async with far() as (it, tell):
        it.as_crow(**{lacks: None})
        with pytest.raises(NodeUnreachable, match=lacks):
            await tell.ask(AWAY)
        assert it.cable.seen == []


async def test_another_node_at_its_address_is_not_it() -> None:
    """NODE-3: a daemon of another host at that address is not taken for the node."""
    async with far() as (it, tell):
        answer = replace(it.door.answer(), host="owl")
        it.cable.answer = lambda request: httpx2.Response(200, content=dump(answer), request=request)
        with pytest.raises(NodeUnreachable, match="the node of owl answers"):
            await tell.ask(AWAY)


# ---------------------------------------------------------------- lost answers


async def test_a_lost_answer_is_found_out_by_asking() -> None:
    """NODE-3, R24: an operation whose answer was lost is asked for again by its id, and is done once."""
    async with far() as (it, tell):
        it.cable.lose = 2
        operation = tell.operation(command(POWER), id_=f"{LEASE}.7.1")
        await tell.rig.wait(it.remote.perform(operation))
        assert it.parts.commands.ran.count(("make", "power")) == 1
        sent = [each for each in bodies(it) if each["do"] == "perform"]
        assert len(sent) == 3
        operations = [each["operation"] for each in sent]
        assert {it["id"] for it in operations if isinstance(it, dict)} == {f"{LEASE}.7.1"}


async def test_an_operation_that_takes_long_is_waited_for() -> None:
    """R24, NODE-1: an operation of 150 s is asked about again and again, and done once."""
    async with far() as (it, tell):
        it.parts.webhooks.gate = asyncio.Event()
        operation = replace(tell.operation(webhook(HOOK)), deadline_s=200.0)
        task = asyncio.ensure_future(it.remote.perform(operation))
        await it.parts.world.clock.advance(150.0)
        assert not task.done()
        it.parts.webhooks.gate.set()
        await tell.rig.wait(task)
        assert len(it.parts.webhooks.calls) == 1
        assert len(bodies(it)) > 10


async def test_a_node_that_does_not_answer_is_given_up_after_a_while() -> None:
    """NODE-3, F14: a node that goes in the middle of an operation is unreachable after 30 s."""
    async with far() as (it, tell):
        await tell.ask(AWAY)
        it.cable.cut = True
        before = it.parts.world.clock.elapsed()
        with pytest.raises(NodeUnreachable, match="No route to host"):
            await tell.rig.wait(it.remote.perform(tell.operation(AWAY)))
        assert 30.0 <= it.parts.world.clock.elapsed() - before < 60.0
        with pytest.raises(NodeUnreachable):
            await it.remote.memory()


async def test_its_refusals_are_those_of_the_node() -> None:
    """NODE-1: what a node refuses is raised as the same class, also another step under a known id."""
    async with far() as (it, tell):
        it.parts.commands.fail.add("make")
        with pytest.raises(StepFailed, match="exit code 3"):
            await tell.do(command(POWER))
        await tell.rig.wait(it.remote.perform(tell.operation(AWAY, id_=f"{LEASE}.7.9")))
        other = tell.operation(PointRoute(host=HOST, route="chat", profile="local"), id_=f"{LEASE}.7.9")
        with pytest.raises(IdempotencyConflict):
            await tell.rig.wait(it.remote.perform(other))


async def test_its_words_are_bounded_and_without_our_key() -> None:
    """NODE-3: a node's text reaches people in at most 500 characters, without the key that was sent."""
    async with far() as (it, tell):
        await tell.ask(AWAY)
        error = {"code": "strange", "message": f"{KEY} {'x' * 2000}\x07"}
        it.cable.answer = lambda request: httpx2.Response(500, json={"error": error}, request=request)
        with pytest.raises(Exception, match="x") as told:
            await tell.ask(AWAY)
        assert KEY not in str(told.value)
        assert len(str(told.value)) <= 500
        assert "\x07" not in str(told.value)


async def test_what_became_of_an_operation_can_be_asked() -> None:
    """NODE-1: the receipt of an operation says whether it was done or refused; of an unknown one nothing."""
    async with far() as (it, tell):
        await tell.rig.wait(it.remote.perform(tell.operation(AWAY, id_=f"{LEASE}.7.1")))
        it.parts.commands.fail.add("make")
        with pytest.raises(StepFailed):
            await tell.rig.wait(it.remote.perform(tell.operation(command(POWER), id_=f"{LEASE}.7.2")))
        assert (await it.remote.receipt(f"{LEASE}.7.1")).state == "done"
        refused = await it.remote.receipt(f"{LEASE}.7.2")
        assert (refused.state, (refused.error or {}).get("code")) == ("refused", "step_failed")
        with pytest.raises(NotFound):
            await it.remote.receipt(f"{LEASE}.7.3")


# ---------------------------------------------------------------- versions and forms


@pytest.mark.parametrize(("api", "head_api", "upgrade"), [(3, 1, "raven"), (1, 3, "crow")])
async def test_nodes_too_far_apart_refuse_before_anything_is_done(
    api: int, head_api: int, upgrade: str
) -> None:
    """NODE-7: API numbers that are more than one apart refuse the preflight, naming whom to upgrade."""
    async with far(api=api, head_api=head_api) as (it, tell):
        with pytest.raises(NodeOutdated) as told:
            await tell.ask(AWAY)
        assert told.value.upgrade == upgrade
        assert bodies(it) == []


@pytest.mark.parametrize(("api", "head_api"), [(2, 1), (1, 2), (2, 2)])
async def test_the_older_number_is_spoken(api: int, head_api: int) -> None:
    """NODE-7: of two numbers that are one apart the head uses the older."""
    async with far(api=api, head_api=head_api) as (it, tell):
        await tell.do(AWAY)
        assert {each["api"] for each in bodies(it)} == {min(api, head_api)}


async def test_a_daemon_from_before_the_node_api_is_to_be_upgraded() -> None:
    """NODE-7: a daemon that knows no node API is named as the one to upgrade."""
    async with far() as (it, tell):
        error = {"code": "not_found", "message": "none", "facts": {"what": "path", "name": "/x"}}
        it.cable.answer = lambda request: httpx2.Response(404, json={"error": error}, request=request)
        with pytest.raises(NodeOutdated) as told:
            await tell.ask(AWAY)
        assert told.value.upgrade == "crow"


async def test_unknown_keys_are_refused_in_a_call_and_passed_over_in_an_answer() -> None:
    """NODE-7: a node refuses what it has never heard of; what a newer node says besides is passed over."""
    async with far() as (it, tell):
        await tell.ask(AWAY)
        sent = bodies(it)[-1]
        operation = sent["operation"]
        assert isinstance(operation, dict)
        for strange in ({**sent, "hurry": 1}, {**sent, "operation": {**operation, "hurry": 1}}):
            request = httpx2.Request(
                "POST",
                "http://crow.test:7070/v1/hostler/node/ops",
                headers={"authorization": f"Bearer {KEY}"},
                json=strange,
            )
            got = await it.cable.handle_async_request(request)
            assert got.status_code == 400
        step = {**operation, "step": {**operation["step"], "hurry": 1}}
        with pytest.raises(InvalidRequest):
            await it.door.operate(
                OperationCall(api=1, do="preflight", operation=replace_body(step), wait_s=0.0)
            )
        more = {**json.loads(dump(it.door.answer())), "mood": "fine"}
        it.cable.answer = lambda request: httpx2.Response(200, json=more, request=request)
        assert (await it.remote.now()).host == HOST


def replace_body(operation: dict[str, object]) -> OperationBody:
    """An operation's body with a step that nobody knows."""
    return request_from(OperationBody, json.dumps(operation).encode())


# ---------------------------------------------------------------- what it knows


async def test_what_it_remembers_is_the_same_from_afar() -> None:
    """LEASE-8: what a node's receipts say arrives whole, a command by its name."""
    async with far() as (it, tell):
        await it.remote.adopt(held())
        steps: tuple[Step, ...] = (AWAY, command(POWER), webhook(HOOK))
        for n, step in enumerate(steps, start=1):
            operation = tell.operation(step, id_=f"{LEASE}.7.{n}")
            found = await tell.see(step)
            await tell.rig.wait(it.remote.perform(replace(operation, found=found)))
        near, away = await it.parts.node.memory(), await it.remote.memory()
        assert near == away
        (lease,) = away.leases
        assert [entry.step.kind for entry in lease.entries] == ["route", "exec", "webhook"]
        assert lease.entries[1].found == FoundCommand(already=False)
        it.head_config.fleet = replace(it.head_config.fleet, resources=frozen({}))
        (unknown,) = (await it.remote.memory()).leases
        check_unknown(unknown)


def check_unknown(lease: Remembered) -> None:
    """A definition that the head does not have is kept by its name and digest, with its undo."""
    _, run, call = (entry.step for entry in lease.entries)
    assert isinstance(run, RunCommand)
    assert isinstance(call, CallWebhook)
    assert (run.definition, run.digest, run.undo) == ("box/1", POWER.digest, ("box/1",))
    assert (call.definition, call.digest, call.undo) == ("box/2", HOOK.digest, "box/2")


async def test_machines_exchange_durations() -> None:
    """LEASE-21, LEASE-28: ends and the fence travel as durations, and count by the clocks of the node."""
    async with far() as (it, _):
        clock = it.parts.world.clock
        now = clock.moment()
        holding = replace(held()["route chat"], until=now.plus(60.0).at, hard=now.plus(90.0))
        await it.remote.adopt({"route chat": holding})
        (kept,) = it.own.held().values()
        assert kept.hard == now.plus(90.0)
        assert kept.until == now.plus(60.0).at
        rows = bodies(it, "/held")[-1]["held"]
        assert isinstance(rows, list)
        assert [(row["until_in_s"], row["hard_in_s"]) for row in rows] == [(60.0, 90.0)]
        fence = Fence(since=now.plus(-5.0), until=now.plus(600.0), by="op", reason="deploy")
        await it.remote.raise_fence(fence)
        assert it.parts.node.files.guard.fence(now) == fence
        await it.remote.raise_fence(None)
        assert it.parts.node.files.guard.fence(now) is None


async def test_processes_of_another_host() -> None:
    """JOB-5, F03: a process of another host is registered and ended there; what is left is named."""
    async with far() as (it, _):
        member = Member(pid=4711, start_ticks=99, comm="bench")
        it.parts.processes.groups[4711, 99] = [member]
        await it.remote.register(LEASE, 4711, 99)
        with pytest.raises(InvalidRequest):
            await it.remote.register(LEASE, 4712, 1)
        it.parts.processes.immortal.add(4711)
        rig = RemoteRig(it)
        (left,) = await rig.wait(it.remote.end_processes(LEASE))
        assert left.startswith("crow: process 4711")
        it.parts.processes.immortal.clear()
        assert await rig.wait(it.remote.end_processes(LEASE)) == []
        await it.remote.close()


# ---------------------------------------------------------------- for people and bots


async def test_who_listens_and_a_warm_engine_are_asked_of_their_host() -> None:
    """PORT-5, NODE-6: with that host's key; its own daemon looks, and its own gate says what starts."""
    async with far() as (it, _):
        assert (await it.remote.ports()).host == HOST
        assert await it.remote.acquire("fast", "bot/1")
        assert not await it.remote.acquire("fast", "bot/1")
        with pytest.raises(EngineNotFound):
            await it.remote.acquire("nobody", "bot/1")
        assert {each.headers["authorization"] for each in it.cable.seen} == {f"Bearer {KEY}"}


async def test_the_log_of_an_engine_is_asked_of_its_host() -> None:
    """NODE-1, ENG-12: the last lines, control characters shown; of an unknown engine nothing."""
    async with far() as (it, _):
        it.driver.logs[EngineId("fast")] = ["first", "load \x1b[31mred", "last"]
        assert await it.remote.logs("fast", 2) == ("load \\x1b[31mred", "last")
        with pytest.raises(EngineNotFound):
            await it.remote.logs("nobody", 2)
