import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hostler import __version__
from hostler.domain.engine import State
from hostler.domain.events import Event
from hostler.domain.values import EngineId
from hostler.services.feed import PAGE
from tests.fakes.clock import settle
from tests.fakes.schedule import FakeSchedule
from tests.fakes.signals import send
from tests.interfaces.room import Room
from tests.interfaces.terminal import HOSTLER, Ended, Shell, served, shell

NASTY = "red\x1b[31m\u202e\nsecond line"
"""A text of somebody else that would colour, reorder and break the lines of a terminal."""


@pytest.fixture
async def user(box: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    async with served(box.app, tmp_path) as it:
        yield it


def told(ended: Ended) -> tuple[int, list[str]]:
    """The exit code, and the lines of stderr; nothing may be on stdout of what failed."""
    assert ended.out == ""
    return ended.code, ended.err.splitlines()


async def test_the_version_is_printed(tmp_path: Path) -> None:
    """INTERFACE-2: --version prints the version and needs no daemon."""
    ended = await shell(tmp_path).run("--version")
    assert (ended.code, ended.out) == (0, f"hostler {__version__}\n")


async def test_status_is_the_whole_picture(box: Room, user: Shell) -> None:
    """INTERFACE-2: status shows host, hold, memory, engines, routes, requests, and times as local ones."""
    box.held("bench", minutes=42)
    box.request()
    ended = await user.run("status")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "crow: hostler 0.1.0, pid 4711, up 0 s, 127.0.0.1:7070"
    assert lines[1] == "hold     held by bench, ends in 42 min (22:47): window"
    assert lines[2].startswith("memory   host: 24.0 GiB of 124 GiB used, 100 GiB available")
    large = next(line for line in lines if line.startswith("large"))
    assert large.endswith("blocked: box_reserved until 22:47 (in 42 min); uncurated")
    assert "1 request under way." in lines
    assert "\x1b" not in ended.out


async def test_json_is_the_wire_form(box: Room, user: Shell) -> None:
    """INTERFACE-2: with --json the answer is the API's own document, one, and nothing else."""
    assert isinstance(box.control.schedule, FakeSchedule)
    box.control.schedule.unknown = frozenset({"fast"})
    async with box.client() as client:
        for words, path in (
            (["status"], "/v1/hostler/status"),
            (["engines"], "/v1/hostler/engines"),
            (["routes"], "/v1/hostler/routes"),
            (["requests"], "/v1/hostler/requests"),
            (["why", "fast"], "/v1/hostler/engines/fast/why"),
            (["logs", "fast"], "/v1/hostler/engines/fast/logs"),
            (["schedule"], "/gateway/schedule"),
        ):
            ended = await user.inside(*words, "--json")
            assert (ended.code, ended.err) == (0, "")
            assert ended.out.count("\n") == 1
            assert json.loads(ended.out) == (await client.get(path)).json()


async def test_an_engine_is_started_and_stopped(box: Room, user: Shell) -> None:
    """INTERFACE-1: the commands on an engine change it and say so in a sentence."""
    for words, said, state in (
        (["start", "fast"], "fast is ready after 0 s.\n", State.READY),
        (
            ["drain", "fast", "--timeout", "5s"],
            (
                "fast is drained: it runs and takes nothing new. `hostler resume fast` lets requests in"
                " again, `hostler stop fast` stops it.\n"
            ),
            State.DRAINING,
        ),
        (["resume", "fast"], "fast may run again.\n", State.READY),
        (["stop", "fast", "--now"], "fast is stopped.\n", State.STOPPED),
        (["suspend", "fast"], "fast is suspended.\n", State.STOPPED),
        (["clear", "fast"], "fast may be tried again.\n", State.STOPPED),
    ):
        ended = await user.inside(*words)
        assert (ended.code, ended.out, ended.err) == (0, said, "")
        assert box.lane("fast").state is state


async def test_a_refused_start_is_one_error_and_one_hint(box: Room, user: Shell) -> None:
    """INTERFACE-4: a start under a hold exits 75 with one error line and one hint line on stderr."""
    box.held("bench")
    code, lines = told(await user.run("start", "fast"))
    assert code == 75
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]
    assert lines[0] == "error: crow is held by bench until 22:47 (in 42 min): fast is not started."


async def test_a_failure_with_json_is_the_error_object_alone(box: Room, user: Shell) -> None:
    """INTERFACE-2: with --json a failure is the API's error object, alone, on stderr."""
    box.held("bench")
    code, lines = told(await user.inside("start", "fast", "--json"))
    assert (code, len(lines)) == (75, 1)
    async with box.client() as client:
        answer = await client.post("/v1/hostler/engines/fast/start")
    assert json.loads(lines[0]) == answer.json()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("start", "nothing"), 66),
        (("start", "heavy"), 77),
        (("start", "far"), 77),
        (("cancel", "rq_nothing"), 66),
        (("routes", "set", "chat", "nothing"), 65),
        (("routes", "set", "nothing", "local"), 66),
        (("logs", "fast", "-n", "20000"), 65),
        (("schedule", "--since", "no cursor"), 66),
        (("schedule", "--follow", "--since", "no cursor"), 66),
        (("start",), 2),
        (("start", "fast", "--bogus"), 2),
        (("start", "fast", "more"), 2),
        (("start", "fast", "--timeout", "5"), 2),
        (("start", "fast", "--override", "safe"), 2),
        (("nothing",), 2),
        (("--bogus",), 2),
    ],
)
async def test_the_exit_code_says_what_kind_of_no_it_is(
    user: Shell, words: tuple[str, ...], code: int
) -> None:
    """INTERFACE-4: each kind of failure has its exit code, and is one error line and at most one hint."""
    found, lines = told(await user.inside(*words))
    assert found == code
    assert lines[0].startswith("error: ")
    assert [line.split(":")[0] for line in lines[1:]] in (["hint"], [])


@pytest.mark.parametrize("words", [("nothing",), ("start", "fast", "--bogus"), ("start", "--override", "x")])
async def test_wrong_use_with_json_is_an_error_object_too(user: Shell, words: tuple[str, ...]) -> None:
    """INTERFACE-2: a wrong use with --json is an error object with code usage, and exit 2."""
    code, lines = told(await user.inside(*words, "--json"))
    assert (code, len(lines)) == (2, 1)
    assert json.loads(lines[0])["error"]["code"] == "usage"


async def test_a_daemon_that_is_not_there_is_told(tmp_path: Path) -> None:
    """INTERFACE-4: without a daemon a command exits 69 and says how to start one."""
    code, lines = told(await shell(tmp_path).run("status"))
    assert code == 69
    assert [it for it in ("hostler serve", "HOSTLER_URL", "HOSTLER_API_KEY") if it not in lines[1]] == []


async def test_a_key_without_the_scope_is_told(user: Shell) -> None:
    """INTERFACE-4: a call that the key may not make exits 77, and the key is not printed."""
    ended = await user.run("stop", "fast", HOSTLER_API_KEY="hk_wrong")
    code, lines = told(ended)
    assert code == 77
    assert "hk_wrong" not in "".join(lines)
    asked = f"{user.env['HOSTLER_URL']} (of HOSTLER_URL) was asked with the key of HOSTLER_API_KEY"
    assert lines[1].startswith(f"hint: {asked}")


async def test_a_start_that_is_not_awaited_longer_exits_124(box: Room, user: Shell) -> None:
    """INTERFACE-4: start with --timeout exits 124 when the engine is not ready by then; the start goes on."""
    box.driver.loading.add(EngineId("fast"))
    run = asyncio.ensure_future(user.run("start", "fast", "--timeout", "3s"))
    while box.lane("fast").state is not State.STARTING or box.lane("fast").waiters == 0:
        await asyncio.wait({run}, timeout=0.01)
    await box.clock.advance(3)
    code, lines = told(await run)
    assert code == 124
    assert lines[0].startswith("error: fast is loading: 3 s of")
    assert box.lane("fast").state is State.STARTING


async def test_text_of_others_moves_no_cursor_and_takes_one_row(box: Room, user: Shell) -> None:
    """INTERFACE-2: what others wrote is shown escaped, on one row each, wherever it is printed."""
    box.held(NASTY)
    box.driver.logs[EngineId("fast")] = [NASTY]
    box.lane("fast").suspended_by = (NASTY,)
    entry = box.request(route=NASTY)
    entry.phase = NASTY
    for words, rows in (
        (["status"], 19),
        (["engines"], 6),
        (["requests"], 2),
        (["logs", "fast"], 1),
        (["routes"], 4),
    ):
        ended = await user.inside(*words)
        assert ended.code == 0, ended.err
        assert len(ended.out.splitlines()) == rows
        assert ended.out.isascii()
        assert "\x1b" not in ended.out
    assert "red\\x1b[31m\\u202e\\x0asecond line" in (await user.inside("requests")).out


async def test_routes_show_where_they_lead_and_are_switched(box: Room, user: Shell) -> None:
    """GW-1: routes shows the active profile and its targets, set switches it, and a name may hold a slash."""
    lines = (await user.inside("routes")).out.splitlines()
    assert lines[0].split() == ["ROUTE", "PROFILE", "TARGETS", "OTHERS", "ALIASES"]
    assert "fast: fast (stopped), large: large (stopped)" in lines[1]
    assert "nowhere: no profile is active" in lines[3]
    ended = await user.inside("routes", "set", "chat", "cloud")
    assert ended.out == "chat now leads to cloud as big (profile cloud).\n"
    assert box.control.routes.active("chat") == "cloud"
    ended = await user.inside("routes", "set", "team/embed v1", "local")
    assert ended.out == "team/embed v1 now leads to embed (stopped) (profile local).\n"


async def test_requests_are_listed_and_cancelled(box: Room, user: Shell) -> None:
    """GW-9: requests lists what is under way with key, client and address; cancel ends one by its id."""
    entry = box.request()
    row = (await user.inside("requests")).out.splitlines()[1].split()
    assert row == [
        entry.id,
        "chat",
        "-",
        "accepted",
        "0",
        "s",
        "0",
        "B",
        "0",
        "B",
        "bots",
        "bot",
        "10.99.0.7",
    ]
    ended = await user.inside("cancel", entry.id)
    assert ended.out == f"{entry.id} is cancelled.\n"
    assert [refusal.code for refusal in box.cuts] == ["ended"]


async def test_why_prints_every_check(box: Room, user: Shell) -> None:
    """GATE-2: why prints the verdict and one row per check, and exits 0."""
    box.held("bench")
    ended = await user.inside("why", "fast")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0] == "fast is stopped and would not start now."
    assert any(line.startswith("hold ") and " refused " in line for line in lines)


async def test_the_schedule_is_followed(box: Room, user: Shell) -> None:
    """FEED-1: schedule --since prints every later event once, --follow --json one a line as they come."""
    cursor = json.loads((await user.inside("schedule", "--json")).out)["cursor"]
    async with box.client() as client:
        await client.post("/v1/hostler/engines/fast/start")
    await settle()
    lines = (await user.run("schedule", "--since", cursor)).out.splitlines()
    assert [line.split()[2] for line in lines[:-1]] == ["engine_starting", "engine_ready", "engine_measured"]
    assert lines[0].startswith("2026-09-04 22:05:11  engine_starting  engine=fast host=crow  for api")
    assert lines[-1].startswith("cursor: ")
    run = asyncio.ensure_future(user.inside("schedule", "--follow", "--since", cursor, "--json"))
    while not box.queue.released:
        await asyncio.wait({run}, timeout=0.01)
        if box.clock.sleepers:
            box.control.feed.stop()
    types = [json.loads(line)["type"] for line in (await run).out.splitlines()]
    assert types == ["engine_starting", "engine_ready", "engine_measured"]


async def test_many_events_are_read_to_the_last(box: Room, user: Shell) -> None:
    """FEED-1: schedule --since prints every event though the daemon gives them in pages."""
    cursor = json.loads((await user.inside("schedule", "--json")).out)["cursor"]
    for number in range(PAGE + 1):
        box.queue.emit(Event(type="deferred", at=box.clock.now(), message=str(number)))
    await box.queue.flush(5)
    found = json.loads((await user.inside("schedule", "--since", cursor, "--json")).out)
    assert [event["message"] for event in found["events"]] == [str(number) for number in range(PAGE + 1)]


async def test_a_name_is_a_name_whatever_it_holds(user: Shell) -> None:
    """GW-2: what a name holds never leads to another call: it is sent whole, and told as it was given."""
    for name in ("fast?wait_s=1", "../status", "fast/stop", "fast#x", "fast%2Fstop"):
        code, lines = told(await user.inside("start", name))
        assert (name, code) == (name, 66)
        assert "/stop" in name or name in lines[0]


async def stub(request: Request) -> Response:
    """A daemon that hides nothing, and one whose log was begun anew."""
    if request.url.path.endswith("/logs"):
        return JSONResponse({"engine": "fast", "lines": [NASTY]})
    told = {"code": "cursor_reset", "message": "Gone.", "hint": "", "cursor": "a:1", "reset": True}
    return Response(f"event: reset\ndata: {json.dumps(told)}\n\n", media_type="text/event-stream")


async def test_what_a_daemon_says_is_not_believed_to_be_clean(tmp_path: Path) -> None:
    """ENG-12: the command escapes control characters itself, whatever the daemon sends."""
    async with served(Starlette(routes=[Route("/{path:path}", stub)]), tmp_path) as user:
        ended = await user.inside("logs", "fast")
    assert ended.out == "red\\x1b[31m\\u202e\\x0asecond line\n"


async def test_a_reset_in_the_stream_is_a_failure(tmp_path: Path) -> None:
    """FEED-2: a stream that ends with a reset ends the command with the refusal's exit code."""
    async with served(Starlette(routes=[Route("/{path:path}", stub)]), tmp_path) as user:
        code, lines = told(await user.inside("schedule", "--follow"))
    assert (code, lines[0]) == (66, "error: The cursor 'a:1' cannot be continued from.")


async def test_a_followed_log_goes_on(box: Room, user: Shell) -> None:
    """ENG-12: logs -f prints the last lines and the later ones; with --json one object a line."""
    box.driver.logs[EngineId("fast")] = ["one", "two"]
    assert (await user.inside("logs", "fast", "-f", "-n", "1")).out.splitlines() == ["two", "one", "two"]
    ended = await user.inside("logs", "fast", "-f", "-n", "0", "--json")
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        {"engine": "fast", "line": "one"},
        {"engine": "fast", "line": "two"},
    ]


async def test_status_is_watched(box: Room, user: Shell) -> None:
    """INTERFACE-1: status --watch shows the picture again after each event, with --json one a line."""
    process = await asyncio.create_subprocess_exec(
        *HOSTLER,
        "status",
        "--watch",
        "--json",
        env=dict(user.env),
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    states = []
    first = json.loads(await process.stdout.readline())
    states.append(first["engines"][0]["state"])
    async with box.client() as client:
        await client.post("/v1/hostler/engines/fast/start")
    while states[-1] != "ready":
        states.append(json.loads(await process.stdout.readline())["engines"][0]["state"])
    send(process, signal.SIGINT)
    assert await process.wait() == 130
    assert states[0] == "stopped"


async def test_a_terminal_gets_colour_unless_it_does_not_want_it(user: Shell) -> None:
    """INTERFACE-2: tables are styled on a terminal, and have no colour there with NO_COLOR."""
    code, seen = await user.on_terminal("engines")
    assert code == 0
    assert "\x1b[1m" in seen
    code, seen = await user.on_terminal("engines", NO_COLOR="1")
    assert "\x1b[3" not in seen
    assert "fast" in seen


async def test_a_start_shows_its_progress_on_a_terminal(box: Room, user: Shell) -> None:
    """ENG-5: on a terminal start shows how far it is; Ctrl-C ends it with 130, and the start goes on."""
    box.driver.loading.add(EngineId("fast"))
    code, seen = await user.on_terminal("start", "fast", until="fast: starting 0 s of 120 s")
    assert code == 130
    assert "fast: starting 0 s of 120 s" in seen
    assert box.lane("fast").state is State.STARTING


async def test_a_reader_that_has_enough_is_no_failure(box: Room, user: Shell) -> None:
    """INTERFACE-2: a pipe whose reader left ends the command without a trace of Python, as SIGPIPE would."""
    box.driver.logs[EngineId("fast")] = ["x" * 1000] * 1000
    ours, theirs = os.pipe()
    os.close(ours)
    process = await asyncio.create_subprocess_exec(
        *HOSTLER,
        *("logs", "fast", "-n", "1000"),
        env=dict(user.env),
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    _, err = await process.communicate()
    assert (process.returncode, err) == (141, b"")
