"""Two hosts with two modes: `standard` keeps both at work, `heavy` needs both for one pair of engines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tests.fakes.fake_engine import eventually
from tests.story.house import Json
from tests.testbed.bed import Bed
from tests.testbed.box import Box

LONG_S: Final = 90.0
STANDING: Final = {"crow": ("crow-work", "crow-spare"), "raven": ("raven-work",)}
HEAVY: Final = {"crow": ("worker",), "raven": ("giant",)}
TIMES: Final[Mapping[str, object]] = {"start_timeout": "5s", "stop_timeout": "2s"}


def modes(it: Bed, **heavy: object) -> None:
    """The engines of the heavy mode, and both modes, in the config of the furnished bed."""
    engines = it.part("engines")
    for names in STANDING.values():
        for name in names:
            row = engines[name]
            assert isinstance(row, dict)
            row.update(TIMES)
    it.engine("worker", "crow", 8103, serving_class="windowed", **TIMES)
    it.engine("giant", "raven", 8103, serving_class="windowed", **TIMES)
    it.part("routes")["big"] = {"profiles": {"local": "raven-work", "heavy": "giant"}, "active": "local"}
    it.document["modes"] = {
        "standard": {
            "standing": True,
            "hosts": {host: list(names) for host, names in STANDING.items()},
            "routes": {"big": "local"},
        },
        "heavy": {
            "serving_class": "windowed",
            "hosts": {host: list(names) for host, names in HEAVY.items()},
            "routes": {"big": "heavy"},
            "cap": {"default": "10m", "max": "1h"},
            "drain_before": "1s",
            **heavy,
        },
    }


async def standing(it: Bed, patience_s: float = LONG_S) -> None:
    """Return once every standing engine serves, on both hosts."""
    for host, names in STANDING.items():
        for name in names:
            await it.boxes[host].is_state(name, "ready", patience_s=patience_s)


async def as_before(it: Bed) -> None:
    """The standing mode, and nothing left of a window: no engine, no hold, no deadman."""
    await standing(it)
    for host, names in HEAVY.items():
        box = it.boxes[host]
        for name in names:
            assert (await box.row(name))["state"] == "stopped", box.words()

        async def free(box: Box = box) -> bool:
            return not box.hold.exists() and not await deadmen(box)

        await eventually(free, f"{host} is free\n{box.words()}", patience_s=LONG_S)


async def opened(it: Bed, *more: str) -> Json:
    """A window in `heavy`, which is open."""
    told = await it.crow.told(
        *("window", "open", "heavy", "--override", "windowed", "--reason", "bench", "--json", *more)
    )
    window = json.loads(told)["lease"]
    assert isinstance(window, dict)
    assert window["state"] == "active", window
    return window


async def deadmen(box: Box) -> Sequence[tuple[object, object]]:
    """The windows that have a deadman on that host, and whether it is alive."""
    found = json.loads(await box.told("deadman", "status", "--json"))
    return [(row["window"], row["deadman_alive"]) for row in found["windows"] if row["phase"] != "over"]


def hold(box: Box) -> Json | None:
    """The hold record that is there."""
    return json.loads(box.hold.read_text()) if box.hold.exists() else None
