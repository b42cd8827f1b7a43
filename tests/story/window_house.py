"""A house with two modes: `standard` keeps two engines up, `heavy` needs the box for another one alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.story.house import House, Json

MODES: Json = {
    "standard": {"standing": True, "hosts": {"local": ["work", "spare"]}, "routes": {"chat": "local"}},
    "heavy": {
        "serving_class": "windowed",
        "hosts": {"local": ["giant"]},
        "routes": {"chat": "heavy"},
        "cap": {"default": "10m", "max": "1h"},
        "drain_before": "1s",
    },
}


def modes(it: House, *fakes: str, **heavy: object) -> None:
    """Two standing engines, one that only a window starts, and the route that follows the mode."""
    times = {"start_timeout": "5s", "stop_timeout": "2s"}
    it.fakes("work", resident=True, order=2, **times)
    it.fakes("spare", resident=True, order=1, **times)
    it.fakes("giant", *fakes, serving_class="windowed", **times)
    it.routes["chat"] = {"profiles": {"local": "work", "heavy": "giant"}, "active": "local"}
    found = json.loads(json.dumps(MODES))
    found["heavy"].update(heavy)
    it.top["modes"] = found


async def standing(it: House) -> None:
    """Return once the standing engines serve."""
    await it.is_state("work", "ready")
    await it.is_state("spare", "ready")


async def opened(it: House, *more: str) -> Json:
    """A window in `heavy`, which is open."""
    found = json.loads(
        await it.told(
            "window", "open", "heavy", "--override", "windowed", "--reason", "bench", "--json", *more
        )
    )
    window = found["lease"]
    assert isinstance(window, dict)
    assert window["state"] == "active", window
    return window


async def windows(it: House, *, ended: bool = False) -> list[Json]:
    """The windows, by the API."""
    async with it.client(authorization=f"Bearer {it.key}") as client:
        got = await client.get("/v1/hostler/windows", params={"ended": str(ended).lower()})
    found = got.json()["leases"]
    assert isinstance(found, list)
    return found


async def deadmen(it: House) -> list[tuple[object, object]]:
    """The windows that have a deadman on this host, and whether it is alive."""
    found = json.loads(await it.told("deadman", "status", "--json"))
    return [(row["window"], row["deadman_alive"]) for row in found["windows"] if row["phase"] != "over"]


def hold(it: House) -> Json | None:
    """The hold record that is there."""
    path: Path = it.hold
    return json.loads(path.read_text()) if path.exists() else None
