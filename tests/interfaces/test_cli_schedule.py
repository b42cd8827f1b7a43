import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hostler.adapters.host.process_table import read
from hostler.adapters.ids import SystemIds
from hostler.adapters.store import care
from hostler.domain.errors import ResourceNotFound, ScheduleUnavailable
from hostler.domain.fleet import Host, frozen
from hostler.domain.values import EngineId, HostName
from hostler.interfaces.api.app import create_app
from hostler.services.elsewhere import Elsewhere
from hostler.wire.schedule import Condition, FenceNow, FenceView, LeaseList, WhyResource
from hostler.wire.windows import WindowsQuery
from tests.fakes.schedule import AT, RESOURCE, FakeHistory, FakeSchedule
from tests.fakes.windows import FakeWindows
from tests.interfaces.room import Room
from tests.interfaces.terminal import Shell, served, shell
from tests.interfaces.test_cli import told

EVENT = {
    "cursor": "ep:1",
    "seq": 1,
    "time": "2026-09-04T20:05:11.000Z",
    "type": "lease_ended",
    "actor": "ada",
    "subject": {"lease": "ls_1"},
    "from": "active",
    "to": "released",
    "message": "red\x1b[31m",
    "facts": {},
}


@pytest.fixture
async def user(box: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    async with served(box.app, tmp_path) as it:
        yield it


def schedule(box: Room) -> FakeSchedule:
    """The schedule behind the API."""
    assert isinstance(box.control.schedule, FakeSchedule)
    return box.control.schedule


async def test_a_fence_goes_up_and_down(box: Room, user: Shell) -> None:
    """LEASE-28: fence up sends its reason and time, down takes it away, status asks; each says how it is."""
    up = await user.inside("fence", "up", "--reason", "deploy", "--for", "20m", "--wait")
    assert (up.code, up.err) == (0, "")
    body = schedule(box).asked[0].given[0]
    assert (body.up, body.reason, body.for_s, body.wait_s) == (True, "deploy", 1200.0, 60.0)  # type: ignore[attr-defined]  # a FenceBody
    down = await user.inside("fence", "down")
    assert down.out == "no fence is up\n"
    assert (await user.inside("fence", "status")).out == "no fence is up\n"
    assert (await user.inside("fence", "up")).code == 2


async def test_fence_up_waits_for_what_runs(box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """LEASE-28, R75: fence up --wait returns only when no activation and no release runs any more."""
    answers = [("ls_1",), ("ls_1",), ()]

    async def now(*_: object) -> FenceNow:
        running = answers.pop(0)
        return FenceNow(at=AT, fence=FenceView(up=True, by="ada", reason="deploy", running=running))

    monkeypatch.setattr(FakeSchedule, "fence", now)
    monkeypatch.setattr(FakeSchedule, "fence_now", now)
    monkeypatch.setattr("hostler.interfaces.cli.fence.LOOK_S", 0.0)
    ended = await user.inside("fence", "up", "--reason", "deploy", "--wait")
    assert ended.code == 0
    assert answers == []
    assert ended.out.splitlines() == ["fence up by ada", "for deploy"]


async def test_why_tells_of_engines_and_of_resources(
    box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-23: why tells each condition of a resource, the gate of an engine, both where both are."""

    async def why(self: FakeSchedule, resource: str) -> WhyResource:
        if resource not in ("pair", "fast"):
            raise ResourceNotFound(resource=resource, known="There are pair.")
        return WhyResource(
            at=AT,
            resource=replace(RESOURCE, state="active", holder="bob", until=AT, waiting=("ls_2",)),
            conditions=(
                Condition(name="free", met=False, text="bob has it"),
                Condition(name="fence", met=True, text="no fence is up"),
            ),
            earliest_at="2026-09-04T20:47:11.000Z",
        )

    monkeypatch.setattr(FakeSchedule, "why", why)
    lines = (await user.inside("why", "pair")).out.splitlines()
    assert lines[0].startswith("pair cannot be had now: active, bob has it until ")
    assert lines[0].endswith(", 1 waiting.")
    assert lines[1].startswith("earliest start ")
    assert [line.split()[:3] for line in lines[3:]][1] == ["free", "not", "met"]
    both = (await user.inside("why", "fast")).out
    assert "fast is stopped and would" in both
    assert "pair cannot be had now" in both
    found = json.loads((await user.inside("why", "fast", "--json")).out)
    assert sorted(found) == ["engine", "resource"]
    code, lines = told(await user.inside("why", "nope"))
    assert (code, lines[0]) == (66, "error: There is no engine or resource 'nope' here.")
    assert "There are pair." in lines[1]


async def test_why_tells_an_end_once(box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """LEASE-23: where it may start when the holder's time is up, that time is told with the holder."""

    async def why(self: FakeSchedule, resource: str) -> WhyResource:
        return WhyResource(
            at=AT,
            resource=replace(RESOURCE, state="active", holder="bob", until=AT),
            conditions=(Condition(name="free", met=False, text="bob has it"),),
            earliest_at=AT,
        )

    monkeypatch.setattr(FakeSchedule, "why", why)
    lines = (await user.inside("why", "pair")).out.splitlines()
    assert (lines[0][:24], lines[1]) == ("pair cannot be had now: ", "")


async def test_why_says_until_when_what_is_free_is_to_be_had(
    box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-23, LEASE-26: of a resource that somebody has booked, when that begins."""

    async def why(self: FakeSchedule, resource: str) -> WhyResource:
        soon = "2026-09-04T20:07:11.000Z"
        return WhyResource(at=AT, resource=RESOURCE, conditions=(), earliest_at=AT, booked_at=soon)

    monkeypatch.setattr(FakeSchedule, "why", why)
    first = (await user.inside("why", "pair")).out.splitlines()[0]
    assert first.startswith("pair could be had now: free, until a booking begins in 2 min (")


async def test_why_of_an_engine_of_another_host_says_where_to_ask(box: Room, user: Shell) -> None:
    """GATE-2, INTERFACE-3: its host, the address and the key's variable, and nothing of resources."""
    schedule(box).unknown = frozenset({"there"})
    fleet = box.control.config.fleet
    there = replace(fleet.engines[EngineId("fast")], id=EngineId("there"), host=HostName("raven"))
    for url, address in (
        ("https://raven.lan:7070", "HOSTLER_URL=https://raven.lan:7070"),
        (None, "HOSTLER_URL set to the URL of raven"),
    ):
        box.control.config.fleet = replace(
            fleet,
            hosts=frozen({**fleet.hosts, there.host: Host(name=there.host, url=url)}),
            engines=frozen({**fleet.engines, there.id: there}),
        )
        code, lines = told(await user.inside("why", "there"))
        assert (code, lines[0]) == (66, "error: There is no engine 'there' here.")
        where = f"ask its daemon, with {address} and its key in HOSTLER_API_KEY."
        assert lines[1] == f"hint: It is an engine of raven: {where}"


async def test_why_names_what_stands_in_the_way_of_what_nobody_has(
    box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-23, INTERFACE-2: of a resource that nobody has the first line names the condition not met."""

    async def why(self: FakeSchedule, resource: str) -> WhyResource:
        conditions = (
            Condition(name="free", met=True, text="nobody has it"),
            Condition(name="box_reserved", met=False, text="crow is held by ben: a lease is not started"),
        )
        return WhyResource(
            at=AT, resource=replace(RESOURCE, holder=None), conditions=conditions, earliest_at=None
        )

    monkeypatch.setattr(FakeSchedule, "why", why)
    lines = (await user.inside("why", "pair")).out.splitlines()
    assert lines[0] == "pair cannot be had now: crow is held by ben: a lease is not started."
    assert not lines[1].startswith("earliest start")


async def test_a_window_that_is_not_open_is_told_in_a_sentence(
    box: Room, user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MODE-3, INTERFACE-2: to close a window where none is open is not found, and speaks of no lease."""

    async def none(self: FakeWindows, query: WindowsQuery) -> LeaseList:
        return LeaseList(at=AT, leases=(), next=None)

    monkeypatch.setattr(FakeWindows, "windows", none)
    code, lines = told(await user.inside("window", "close"))
    assert (code, lines[0]) == (66, "error: No window is open.")
    assert "hostler window status" in lines[1]


async def test_why_of_an_engine_needs_no_schedule(box: Room, user: Shell) -> None:
    """REL-1: with a schedule that cannot be read, why still tells of an engine."""
    schedule(box).refuses = ScheduleUnavailable(why="the disk is away", file="schedule.db")
    assert (await user.inside("why", "fast")).code == 0
    code, lines = told(await user.inside("why", "pair"))
    assert (code, "the disk is away" in lines[0]) == (69, True)


async def test_history_is_read_through_the_daemon(box: Room, user: Shell) -> None:
    """HIST-2: history asks for a lease, a job, the last days, and prints an event a line, escaped."""
    assert isinstance(box.control.history, FakeHistory)
    box.control.history.rows.append(EVENT)
    ended = await user.run("history", "--lease", "ls_1", "--job", "jb_1", "--since", "7d")
    assert ended.out == "2026-09-04 22:05:11  lease_ended  lease=ls_1  red\\x1b[31m  by ada\n"
    assert box.control.history.asked[0].given[:3] == ("ls_1", "jb_1", 604_800.0)
    found = json.loads((await user.inside("history", "--json")).out)
    assert [event["message"] for event in found["events"]] == ["red\x1b[31m"]


async def test_history_is_read_without_a_daemon(tmp_path: Path) -> None:
    """HIST-2, INTERFACE-3: history --offline reads the files alone, the torn last line left out."""
    folder = tmp_path / "history"
    folder.mkdir()
    other = {**EVENT, "cursor": "ep:2", "subject": {"lease": "ls_2"}, "message": ""}
    text = "".join(json.dumps(event) + "\n" for event in (EVENT, other))
    (folder / "history.ndjson").write_text(text + '{"torn')
    user = shell(tmp_path)
    assert len((await user.inside("history", "--offline")).out.splitlines()) == 2
    only = await user.run("history", "--offline", "--lease", "ls_2")
    assert only.out == "2026-09-04 22:05:11  lease_ended  lease=ls_2  by ada\n"
    assert (await user.inside("history", "--offline", "--lease", "ls_3")).out == "Nothing is known of it.\n"


async def test_jobs_are_listed_and_shown(box: Room, user: Shell) -> None:
    """R61, HIST-2: job list has a row per job, job show all about one."""
    rows = (await user.inside("job", "list")).out.splitlines()
    assert rows[0].split() == ["JOB", "STATE", "HEARD", "PROGRESS", "TITLE", "HOLDER", "LEASE", "NOTE"]
    assert rows[1].split()[:2] == ["job_1", "running"]
    shown = (await user.inside("job", "show", "job_1")).out.splitlines()
    assert shown[0] == "job       job_1  sweep"


async def test_a_node_that_is_not_the_head_says_where_the_schedule_is(box: Room, tmp_path: Path) -> None:
    """R3, INTERFACE-2: a schedule that is elsewhere is not shown as an empty one; each says where it is."""
    urls = {"raven": "https://raven.lan:7070"}
    other = Elsewhere(head=("raven",), here="crow", urls=lambda: urls)
    feed = replace(box.control.feed, schedule=other.draw)
    control = replace(box.control, feed=feed, schedule=other, windows=other, modes=other)
    hint = "Set HOSTLER_HEAD_URL to https://raven.lan:7070, with its key in HOSTLER_HEAD_API_KEY."
    refused = f"error: The schedule is owned by raven, not by crow.\nhint: {hint}\n"
    async with served(create_app(control), tmp_path) as user:
        shown = await user.inside("schedule")
        assert (shown.code, shown.err) == (0, "")
        where = f"leases   not known here: The schedule is owned by raven, not by crow. {hint}"
        assert where in shown.out.splitlines()
        told = json.loads((await user.inside("schedule", "--json")).out)
        assert told["elsewhere"]["code"] == "not_head"
        for words in (("schedule", "--ics"), ("mode",), ("mode", "plan", "x"), ("window", "report")):
            done = await user.inside(*words)
            assert (done.code, done.out, done.err) == (76, "", refused), words


async def test_no_backup_is_put_back_while_the_daemon_runs(tmp_path: Path) -> None:
    """REL-4, INTERFACE-3: schedule restore is refused with 75 while the daemon runs; nothing is changed."""
    (tmp_path / "daemon.json").write_text(json.dumps({"url": "http://127.0.0.1:1", **myself()}))
    code, lines = told(await shell(tmp_path).inside("schedule", "restore", str(tmp_path / "backup.db")))
    assert code == 75
    assert lines[0].startswith("error: Another daemon orchestrates this box already: pid ")
    assert not (tmp_path / "schedule.db").exists()


async def test_a_backup_is_put_back_with_the_daemon_stopped(tmp_path: Path) -> None:
    """REL-4: schedule restore puts a backup in place in a new epoch, and keeps what was there beside it."""
    present = care.file_at(tmp_path / "schedule.db", SystemIds())
    with present.connection():
        pass
    present.close()
    care.backup(present, tmp_path / "backup.db")
    ended = await shell(tmp_path).inside("schedule", "restore", str(tmp_path / "backup.db"), "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert Path(found["kept_as"]).name in [it.name for it in sorted_in(tmp_path)]
    assert found["epoch"].startswith("ep_")
    code, _ = told(await shell(tmp_path).inside("schedule", "restore", str(tmp_path / "nothing.db")))
    assert code == 69


async def test_the_store_is_cared_for_through_the_daemon(tmp_path: Path) -> None:
    """REL-4, LEASE-8: schedule backup sends a whole path, recover tells the epoch and each stuck lease."""
    asked: list[tuple[str, object]] = []

    async def daemon(request: Request) -> Response:
        asked.append((request.url.path.rpartition("/")[2], await request.json()))
        found = {"at": AT, "file": "/b.db", "epoch": "ep_2", "kept_as": None, "stuck": ["ls_1"]}
        return JSONResponse(found)

    async with served(Starlette(routes=[Route("/{path:path}", daemon, methods=["POST"])]), tmp_path) as user:
        ended = await user.inside("schedule", "backup", "b.db")
        assert ended.code == 0
        assert ended.out.startswith("The schedule is backed up: file /b.db, epoch ep_2.\n")
        ended = await user.inside("schedule", "recover")
        assert ended.out.splitlines()[1] == "stuck: `hostler release ls_1` puts it back."
    assert asked == [("backup", {"file": whole("b.db")}), ("recover", {})]


def whole(name: str) -> str:
    """The whole path of a file in our working directory."""
    return str(Path(name).absolute())


def sorted_in(folder: Path) -> list[Path]:
    """What is in a folder."""
    return sorted(folder.iterdir())


def myself() -> dict[str, int]:
    """This process, as daemon.json names one."""
    process = read(os.getpid())
    assert process is not None
    return {"pid": os.getpid(), "start_ticks": process.start_ticks}
