"""Commands, webhooks and scripts of another host: their names travel, their meaning does not (CONF-6)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    ConfigDiffers,
    InvalidRequest,
    NotFound,
)
from hostler.domain.fleet import frozen
from hostler.domain.mode import Mode, Tool, ToolCommand
from hostler.domain.plan import command, webhook
from hostler.domain.step import RunCommand
from hostler.domain.undo import undo_of_command, undo_of_webhook
from hostler.domain.values import HostName
from hostler.domain.window_plan import script
from hostler.wire.node_forms import received
from tests.adapters.far_lines import bodies, far, held
from tests.fakes.far_host import FILE
from tests.services.node_conformance import HOOK, HOST, LEASE, POWER


async def test_no_command_path_or_url_travels() -> None:
    """CONF-6: of a command or webhook the call has the definition's name and digest, never argv or URL."""
    async with far() as (it, tell):
        for action in (POWER, HOOK):
            step = command(action) if action.verb == "exec" else webhook(action)
            undo = undo_of_command(step) if isinstance(step, RunCommand) else undo_of_webhook(step)
            assert undo is not None
            await tell.do(step)
            await tell.do(undo)
        for each in bodies(it):
            text = json.dumps(each)
            assert "make" not in text
            assert "example.net" not in text
        assert it.parts.commands.ran.count(("unmake", "power")) == 1
        assert [url for url, _ in it.parts.webhooks.calls] == [HOOK.target, HOOK.undo_url]


async def test_a_differing_definition_fails_the_preflight() -> None:
    """CONF-6: where the two configs differ, nothing is begun, and both files are named."""
    async with far() as (it, tell):
        step = command(replace(POWER, argv=("make", "trouble")))
        with pytest.raises(ConfigDiffers) as told:
            await tell.ask(step)
        assert (told.value.definition, told.value.host) == ("box/1", "crow")
        assert told.value.file == FILE
        assert told.value.other == "/home/head/hostler.yaml on raven"
        with pytest.raises(ConfigDiffers):
            await tell.do(step)
        assert it.parts.commands.ran == []


async def test_what_was_done_is_undone_as_it_was_done() -> None:
    """LEASE-5, CONF-6: a definition that changed meanwhile is undone as its receipt has it."""
    async with far() as (it, tell):
        step = command(POWER)
        await tell.rig.wait(it.remote.perform(tell.operation(step, id_=f"{LEASE}.7.1")))
        it.far_config.fleet = replace(it.far_config.fleet, resources=frozen({}))
        undo = undo_of_command(step)
        assert undo is not None
        await tell.rig.wait(it.remote.perform(tell.operation(undo, id_=f"{LEASE}.7.u1.3")))
        assert it.parts.commands.made == set()


async def test_a_windows_script_runs_where_it_is() -> None:
    """MODE-4, CONF-6: of a mode's script its name, its digest and the cap travel; it is known again."""
    tool = Tool(
        open=ToolCommand(argv=("make", "heavy")),
        close=ToolCommand(argv=("unmake", "heavy")),
        status=ToolCommand(argv=("true",)),
    )
    heavy = Mode(name="heavy", hosts=frozen({HostName(HOST): ()}), tool=tool)
    async with far() as (it, tell):
        for config in (it.far_config, it.head_config):
            config.fleet = replace(config.fleet, modes=frozen({"heavy": heavy}))
        step = script(heavy, tool, HostName(HOST), 300.0)
        await it.remote.adopt(held())
        operation = replace(tell.operation(step, id_=f"{LEASE}.7.1"), found=await tell.see(step))
        await tell.rig.wait(it.remote.perform(operation))
        assert "make" not in json.dumps(bodies(it))
        assert it.parts.commands.told[-1]["HOSTLER_CAP_SECONDS"] == "300"
        (lease,) = (await it.remote.memory()).leases
        assert [entry.step for entry in lease.entries] == [step]
        it.head_config.fleet = replace(it.head_config.fleet, modes=frozen({}))
        (lease,) = (await it.remote.memory()).leases
        (unknown,) = (entry.step for entry in lease.entries)
        assert isinstance(unknown, RunCommand)
        assert (unknown.digest, unknown.cap_s) == (tool.digest, 300.0)
        odd = {"kind": "exec", "host": HOST, "definition": "x", "digest": "y", "undo": True, "cap_s": "1"}
        with pytest.raises(InvalidRequest, match="travels as"):
            received(odd, lambda _: step)


async def test_a_definition_without_an_undo_has_none() -> None:
    """CONF-6: asked for the undo of a definition that has none, a node refuses."""
    async with far(replace(POWER, undo=None)) as (it, tell):
        undo = undo_of_command(command(POWER))
        assert undo is not None
        with pytest.raises(NotFound):
            await tell.do(replace(undo, digest=replace(POWER, undo=None).digest))
        assert it.parts.commands.ran == []
