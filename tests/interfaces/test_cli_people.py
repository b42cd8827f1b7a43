import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hostler.domain.engine import State
from hostler.domain.fleet import frozen
from hostler.domain.hold import HoldState, HoldView
from hostler.domain.values import EngineId, rfc3339
from hostler.interfaces.cli.engines import COLUMNS, rows
from hostler.services.picture import MemberStatus
from tests.fakes.clock import settle
from tests.fakes.reloading import FILE, Disk
from tests.interfaces.room import Room
from tests.interfaces.terminal import HOSTLER, Shell, served
from tests.interfaces.test_cli import told


@pytest.fixture
async def user(box: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    async with served(box.app, tmp_path) as it:
        yield it


async def silent(request: Request) -> Response:
    """A daemon whose streams begin and say nothing more."""

    async def stream() -> AsyncIterator[bytes]:
        yield b"id: a:1\n: heartbeat a:1\n\n"
        await asyncio.Event().wait()

    return StreamingResponse(stream(), media_type="text/event-stream")


@pytest.mark.parametrize("words", [("logs", "fast", "-f"), ("schedule", "--follow")])
async def test_a_follower_ends_with_its_reader(tmp_path: Path, words: tuple[str, ...]) -> None:
    """INTERFACE-2: a command that follows ends when its reader has gone, though nothing more comes."""
    ours, theirs = os.pipe()
    async with served(Starlette(routes=[Route("/{path:path}", silent)]), tmp_path) as user:
        process = await asyncio.create_subprocess_exec(
            *HOSTLER, *words, env=dict(user.env), stdout=theirs, stderr=asyncio.subprocess.PIPE
        )
        os.close(theirs)
        os.close(ours)
        _, err = await process.communicate()
    assert (process.returncode, err) == (141, b"")


async def test_a_resident_that_is_stopped_comes_back_and_says_so(box: Room, user: Shell) -> None:
    """INTERFACE-1: stop of a resident engine says that it comes back, and which command keeps it stopped."""
    await user.inside("start", "embed")
    ended = await user.inside("stop", "embed")
    assert ended.out == (
        "embed is stopped. It is resident, so it comes back by itself;"
        " `hostler suspend embed` keeps it stopped.\n"
    )
    assert box.lane("embed").state is State.STOPPED


async def test_notes_say_what_is_resident_and_how_a_drain_ends(user: Shell) -> None:
    """INTERFACE-1: the note of an engine says that it is resident, and of a draining one how that ends."""
    await user.inside("start", "fast")
    await user.inside("drain", "fast")
    lines = (await user.inside("engines")).out.splitlines()
    assert next(it for it in lines if it.startswith("embed")).endswith("resident; uncurated; essential")
    fast = next(it for it in lines if it.startswith("fast"))
    assert "takes nothing new until `hostler resume fast` or `hostler stop fast`" in fast


async def test_a_torn_hold_record_is_told_with_its_cure(box: Room, user: Shell) -> None:
    """HOLD-4: a start under a record that cannot be read is told what clears it, and when it ages out."""
    box.hold.view = HoldView(
        state=HoldState.UNREADABLE,
        path="/run/hold.json",
        defect="is not JSON",
        until=box.clock.now() + timedelta(hours=8),
    )
    code, lines = told(await user.run("start", "fast"))
    assert code == 75
    assert lines == [
        "error: crow is held by unknown until 2026-09-05 06:05: fast is not started.",
        (
            "hint: The hold record is not JSON: `hostler box release` clears it and keeps its bytes,"
            " or it ages out at 2026-09-05 06:05."
        ),
    ]


async def test_no_wire_time_reaches_a_person(box: Room, user: Shell) -> None:
    """TIME-1: no command prints people a time of the wire, in a table, in an event or in a refusal."""
    box.held("bench")
    cursor = json.loads((await user.inside("schedule", "--json")).out)["cursor"]
    await user.inside("start", "fast")
    await settle()
    for words in (
        ("status",),
        ("engines",),
        ("why", "fast"),
        ("schedule", "--since", cursor),
        ("start", "fast"),
    ):
        ended = await user.run(*words)
        assert not re.search(r"\dT\d\d:\d\d:\d\d", ended.out + ended.err), words


async def test_a_reload_is_told_change_by_change(box: Room, user: Shell) -> None:
    """CONF-3: the dry run and the reload print each difference, its keys, and what follows for what runs."""
    disk = box.control.reload.source
    assert isinstance(disk, Disk)
    assert (await user.inside("reload")).out == f"{FILE} is what is in force already.\n"
    await user.inside("start", "fast")
    before = disk.fleet
    fast = replace(before.engines[EngineId("fast")], model="other", ttl_s=9.0)
    disk.write(replace(before, engines=frozen({**before.engines, fast.id: fast})))
    for words, done in ((["reload", "--dry-run"], False), (["reload"], True)):
        lines = (await user.inside(*words)).out.splitlines()
        assert [line.split()[:3] for line in lines[1:3]] == [
            ["changed", "engine", "fast"],
            ["later", "engine", "fast"],
        ]
        assert lines[3].startswith("note: fast runs on as it was started")
        assert (box.lane("fast").engine.ttl_s == 9.0) is done


async def test_a_distributed_engine_names_its_members(box: Room) -> None:
    """ENG-11, INTERFACE-1: the note of a whole has each member with host and state, a member's the whole."""
    fast = box.control.status.engine("fast")
    members = (
        MemberStatus(id="worker", host="crow", state="unreachable"),
        MemberStatus(id="master", host="raven", state="ready"),
    )
    wide = replace(fast, of="wide", of_host=fast.host)
    shown = [replace(fast, members=members), wide, replace(wide, of_host="raven")]
    whole, member, far = rows(shown, rfc3339(box.clock.now()))
    assert "worker on crow unreachable, master on raven ready" in whole[-1]
    assert whole[COLUMNS.index("MEMORY")] == "-"
    assert "member of wide" in member[-1]
    assert "raven" not in member[-1]
    assert "member of wide, an engine of raven: `hostler engines` there shows it" in far[-1]
