"""The endpoints of modes and windows on a faked service, and what the command line says of real answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.errors import NotFound, ServingClassRefused
from hostler.interfaces.api.app import create_app
from hostler.interfaces.api.window_endpoints import WINDOWING
from hostler.interfaces.cli import modes as mode_words
from hostler.interfaces.cli import windows as window_words
from hostler.services.elsewhere import Elsewhere
from hostler.services.keys import GIVEN, INCLUDES, Scope
from hostler.wire.windows import (
    AbortBody,
    BackView,
    CloseBody,
    HostSum,
    ModePlan,
    ModesNow,
    ModeView,
    OpenBody,
    WindowReport,
    WindowsQuery,
)
from tests.fakes.schedule import AT
from tests.fakes.windows import PART, WINDOW, FakeModes, FakeWindows
from tests.interfaces.room import Room, ring
from tests.interfaces.terminal import served

KEY = {"idempotency-key": "rq-1"}
OPEN = {"mode": "heavy", "secret_hash": "0" * 64, "override": "windowed", "cap_s": 600.0}
HEAVY = ModeView(
    name="heavy",
    standing=False,
    hosts={"crow": ("glm",)},
    routes={},
    resource="box",
    serving_class="windowed",
    cap_s=3600.0,
    cap_max_s=10_800.0,
    missing=("glm on crow",),
    extra=("bots on crow",),
    differing=("chat on local, not away",),
)


def fake(box: Room) -> FakeWindows:
    assert isinstance(box.control.windows, FakeWindows)
    return box.control.windows


async def test_each_call_is_handed_on(box: Room) -> None:
    """API-1, WIN-10: what is sent is what the service gets."""
    async with box.client() as client:
        opened = await client.post("/v1/hostler/windows", json=OPEN, headers=KEY)
        await client.post("/v1/hostler/windows/ls_1/close", json={"secret": "s"})
        await client.post("/v1/hostler/windows/ls_1/abort", json={"secret": "s", "why": "enough"})
        await client.get("/v1/hostler/windows", params={"ended": "true"})
        await client.get("/v1/hostler/windows/ls_1")
        report = await client.get("/v1/hostler/windows/ls_1/report")
        modes = await client.get("/v1/hostler/modes")
        plan = await client.get("/v1/hostler/modes/heavy/plan")
    assert opened.json()["lease"]["window"]["mode"] == "heavy"
    assert report.json()["cause"] == "closed"
    assert modes.json()["modes"] == []
    assert plan.json()["mode"] == "heavy"
    asked = [(it.call, it.given[:2]) for it in fake(box).asked]
    assert asked == [
        ("open", (OpenBody(mode="heavy", secret_hash="0" * 64, override="windowed", cap_s=600.0), "rq-1")),
        ("close", ("ls_1", CloseBody(secret="s"))),
        ("abort", ("ls_1", AbortBody(secret="s", why="enough"))),
        ("windows", (WindowsQuery(ended=True),)),
        ("status", ("ls_1",)),
        ("report", ("ls_1",)),
    ]


async def test_a_window_needs_the_id_of_its_request(box: Room) -> None:
    """LEASE-9: a lost answer must not open a second one."""
    async with box.client() as client:
        got = await client.post("/v1/hostler/windows", json=OPEN)
    assert got.status_code == 400
    assert fake(box).asked == []


async def test_a_refusal_is_told_with_its_status(box: Room) -> None:
    """CAT-5: the class that has to be named, and no time to come back."""
    fake(box).refuses = ServingClassRefused(engine="heavy", serving_class="windowed", why="it evicts")
    async with box.client() as client:
        got = await client.post("/v1/hostler/windows", json=OPEN, headers=KEY)
    assert (got.status_code, got.json()["error"]["code"]) == (409, "serving_class_refused")
    assert "retry-after" not in got.headers
    fake(box).refuses = NotFound(what="mode", name="x")
    async with box.client() as client:
        assert (await client.get("/v1/hostler/windows/x")).status_code == 404


@pytest.mark.parametrize("scope", sorted(GIVEN))
async def test_windows_are_the_operators(box: Room, scope: Scope) -> None:
    """API-4, WIN-10: whoever may read the schedule sees them, only operators open and end them."""
    box.other_keys(ring(box.clock, *sorted(GIVEN)))
    for row in WINDOWING:
        path = row.path.replace("{window:path}", "ls_1").replace("{mode:path}", "heavy")
        body = OPEN if path.endswith("windows") else {}
        async with box.client(key=f"hk_{scope}") as client:
            if row.changes:
                got = await client.post(path, json=body, headers=KEY)
            else:
                got = await client.get(path)
        assert (got.status_code == 200) is (row.scope in INCLUDES[Scope(scope)]), (row.path, got.text)


async def test_another_host_owns_the_schedule(box: Room) -> None:
    """R3: then every call says whose it is."""
    other = Elsewhere(head=("raven",), here="crow")
    box.control = replace(box.control, windows=other, modes=other)
    box.app = create_app(box.control)
    async with box.client() as client:
        for path in ("/v1/hostler/modes", "/v1/hostler/windows", "/v1/hostler/windows/ls_1/report"):
            assert (await client.get(path)).json()["error"]["code"] == "not_head"


def test_where_the_fleet_is_in_one_sentence() -> None:
    """MODE-2: the mode, or what differs from the nearest."""
    now = ModesNow(at=AT, present="heavy", nearest="heavy", window="ls_1", modes=(HEAVY,))
    assert mode_words.standing(now) == "the fleet is in heavy; window ls_1 is open"
    assert mode_words.standing(replace(now, present=None, window=None)) == (
        "the fleet is in no mode; heavy is nearest: down: glm on crow; up beside it: bots on crow;"
        " routes: chat on local, not away"
    )
    told = mode_words.standing(replace(now, present=None, silent=("raven",)))
    assert told.endswith("; raven says nothing, so what runs there is not known; window ls_1 is open")
    none = ModesNow(at=AT, present=None, nearest=None, window=None, modes=())
    assert mode_words.standing(none) == "the config has no modes"


def test_a_plan_for_people() -> None:
    """MODE-2, WIN-5: the sums, the restore, and what is in the way."""
    crow = HostSum(
        host="crow", need=1, text="glm 74.0 = 74.0 GiB", back=("bots",), restore_s=900.0, hold_after_s=900.0
    )
    plan = ModePlan(
        at=AT,
        mode="heavy",
        resource="box",
        covers=("box", "host crow"),
        cap_s=3600.0,
        drain_before_s=600.0,
        hosts=(
            crow,
            replace(crow, host="raven", back=("flash", "voice")),
            replace(crow, host="owl", back=(), restore_s=0.0, hold_after_s=600.0),
        ),
        steps=(),
        refused="crow is held",
    )
    assert list(mode_words.lines(plan)) == [
        "heavy: leases box (box, host crow)",
        "  crow: glm 74.0 = 74.0 GiB",
        "  crow: bots comes back within 15 min, so its hold outlives the cap by 15 min",
        "  raven: glm 74.0 = 74.0 GiB",
        "  raven: flash, voice come back within 15 min, so its hold outlives the cap by 15 min",
        "  owl: glm 74.0 = 74.0 GiB",
        "  owl: nothing comes back; its hold outlives the cap by 10 min",
        "cap 60 min by default; no new requests for the last 10 min",
        "now refused: crow is held",
    ]


async def test_a_plan_is_asked_for_with_its_cap(box: Room, tmp_path: Path) -> None:
    """MODE-2, WIN-8: `mode plan` sends the cap that it is given, and tells no default then."""
    modes = FakeModes()
    app = create_app(replace(box.control, modes=modes))
    async with served(app, tmp_path) as user:
        given = await user.inside("mode", "plan", "heavy", "--cap", "10m")
        usual = await user.inside("mode", "plan", "heavy")
    assert [it.given for it in modes.asked] == [("heavy", 600.0), ("heavy", None)]
    assert "\ncap 60 min; no new requests" in given.out
    assert "\ncap 60 min by default; no new requests" in usual.out


def test_a_window_for_people() -> None:
    """WIN-10, WIN-2: who, until when, both deadlines, the hold, each strike."""
    struck = replace(WINDOW, window=replace(PART, strikes=("bots came up",), closing=True))
    lines = list(window_words.lines(struck, AT))
    assert lines[0].startswith("heavy by bench: ")
    assert lines[1].startswith("  takes no new requests; its cap ")
    assert lines[2].startswith("  the hold of crow lapses ")
    assert lines[3] == "  strike 1: bots came up"
    assert list(window_words.lines(WINDOW, AT))[1].startswith("  takes requests until ")
    for state in ("releasing", "stuck"):
        assert list(window_words.lines(replace(WINDOW, state=state), AT))[1].startswith("  its cap ")


def test_a_report_for_people() -> None:
    """WIN-4: each engine, up, verified, its memory, its seconds, and what is wrong."""
    bots = BackView(
        engine="bots", host="crow", up=True, verified=True, why="", memory={"host": 43 << 30}, seconds=41.0
    )
    voice = BackView(
        engine="voice", host="crow", up=False, verified=False, why="it is failed", memory={}, seconds=None
    )
    report = WindowReport(
        at=AT,
        lease="ls_1",
        mode="heavy",
        state="stuck",
        cause="restore",
        opened_at=AT,
        ended_at=None,
        strikes=("bots came up",),
        engines=(bots, voice),
        wrong=("voice: it is failed",),
        steps=(),
    )
    lines = list(window_words.report_lines(report))
    assert lines[0] == "heavy (ls_1) is stuck: restore"
    assert lines[2:] == [
        "  strike 1: bots came up",
        "  bots on crow: up, verified, took 43.0 GiB of host, started in 41 s",
        "  voice on crow: down, not verified: it is failed",
        "  not verified: voice: it is failed",
    ]
    empty = list(window_words.report_lines(replace(report, engines=(), wrong=())))
    assert empty[-1] == "  nothing was restored yet"
