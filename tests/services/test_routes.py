import asyncio
from dataclasses import replace

import pytest

from hostler.domain.errors import InvalidRequest, NotFound, StoreFull
from hostler.domain.fleet import EngineTarget, Fleet, Plain, Route, frozen
from hostler.domain.holding import Holding
from hostler.domain.values import EngineId, RouteName
from hostler.services.routes import Routes, load
from tests.fakes.clock import ManualClock, inline_threads
from tests.fakes.events import EventList
from tests.fakes.state_files import MemoryStateFiles
from tests.fakes.world import BOT, engine, fleet


def two_routes() -> Fleet:
    """`chat` with profiles `day` (first) and `night`, and `bare` without an active one."""
    profiles = frozen(
        {name: Plain(targets=(EngineTarget(engine=EngineId("a")),)) for name in ("day", "night")}
    )
    chat = Route(name=RouteName("chat"), profiles=profiles, active="day")
    bare = Route(name=RouteName("bare"), profiles=profiles)
    return replace(fleet([engine("a")]), routes=frozen({chat.name: chat, bare.name: bare}))


def routes(files: MemoryStateFiles, made: Fleet | None = None) -> Routes:
    """The routes of a daemon that starts with these files."""
    inline_threads()
    made = made or two_routes()
    return Routes(files=files, clock=ManualClock(), events=EventList(), current=load(made, files))


async def test_a_switch_is_durable_before_it_is_swapped() -> None:
    """GW-1: a switch that cannot be written is refused, and the old profile serves on, here and after."""
    files = MemoryStateFiles()
    it = routes(files)
    files.full = True
    with pytest.raises(StoreFull, match=r"routes\.json was not written: No space left"):
        await it.switch("chat", "night", BOT)
    assert it.active("chat") == "day"
    files.full = False
    await it.switch("chat", "night", BOT)
    assert files.load("routes") == {"active": {"chat": "night"}}
    assert it.active("chat") == "night"


async def test_a_switch_survives_a_restart() -> None:
    """GW-1: the active profile survives restarts; the config's `active:` is the first value only."""
    files = MemoryStateFiles()
    it = routes(files)
    assert it.active("chat") == "day"
    await it.switch("chat", "night", BOT)
    assert routes(files).active("chat") == "night"
    event = it.events.last("route_switched")  # type: ignore[attr-defined]  # the fake's
    assert (event.before, event.after, event.subject) == ("day", "night", {"route": "chat"})


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "{}", '{"active": []}', '{"active": "day"}', '{"active": {"chat": -1}}']
)
async def test_a_broken_file_is_kept_as_found(text: str) -> None:
    """GW-1: a broken routes.json is kept as found and told, and the config's first values are used."""
    files = MemoryStateFiles()
    files.texts["routes"] = text
    it = routes(files)
    assert it.active("chat") == "day"
    assert it.broken
    assert files.texts["routes"] == text
    await it.switch("chat", "night", BOT)
    assert it.broken is None
    assert files.texts["routes.unreadable"] == text
    assert routes(files).active("chat") == "night"


async def test_a_profile_that_is_gone_is_not_used() -> None:
    """GW-1: a kept profile that the config does not have any more gives way to the config's first value."""
    files = MemoryStateFiles()
    files.texts["routes"] = '{"active": {"chat": "dusk", "gone": "day", "bare": 3}}'
    it = routes(files)
    assert (it.active("chat"), it.active("bare"), it.active("gone")) == ("day", None, None)


async def test_a_profile_that_comes_back_is_not_switched_to() -> None:
    """CONF-3, F26: a switch to what a config had no more is forgotten, unless a lease has the route."""
    made = two_routes()
    chat = made.routes[RouteName("chat")]
    day_only = replace(chat, profiles=frozen({"day": chat.profiles["day"]}))
    lacking = replace(made, routes=frozen({**made.routes, chat.name: day_only}))
    it = routes(MemoryStateFiles())
    await it.switch("chat", "night", BOT)
    it.retable(lacking)
    assert it.active("chat") == "day"
    it.guard.adopt({"route chat": Holding(lease="ls_1", resource="box", holder="ann")})
    it.retable(made)
    assert it.active("chat") == "night"
    it.retable(lacking)
    it.guard.adopt({})
    it.retable(made)
    assert it.active("chat") == "day"


async def test_a_switch_to_what_is_not_there() -> None:
    """GW-1: an unknown route or profile is refused, and nothing is written."""
    files = MemoryStateFiles()
    it = routes(files)
    with pytest.raises(NotFound):
        await it.switch("chut", "day", BOT)
    with pytest.raises(InvalidRequest):
        await it.switch("chat", "dawn", BOT)
    assert files.texts == {}


async def test_two_switches_at_once_lose_none() -> None:
    """GW-1: two switches at once are both in the table and in the file."""
    files = MemoryStateFiles()
    it = routes(files)
    await asyncio.gather(it.switch("chat", "night", BOT), it.switch("bare", "day", BOT))
    assert it.table.active == {"chat": "night", "bare": "day"}
    assert files.load("routes") == {"active": {"chat": "night", "bare": "day"}}


async def test_a_switch_whose_caller_leaves_is_whole() -> None:
    """GW-1: a switch whose caller leaves meanwhile is durable and swapped, or neither."""
    files = MemoryStateFiles()
    it = routes(files)
    task = asyncio.ensure_future(it.switch("chat", "night", BOT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert it.active("chat") == ((files.load("routes") or {}).get("active") or {"chat": "day"})["chat"]  # type: ignore[index]  # an object, as written
