"""A window over two hosts with something killed at one moment of it, and how everything is in the end.

`python -m tests.testbed.fault_line [open|close] [crow|raven]` runs every moment of opening and closing, some
at once, and prints a line for each: by hand, for it takes most of an hour. The tests run some of them.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import httpx2

from tests.fakes.fake_engine import eventually
from tests.story.house import Json
from tests.testbed.bed import Bed, bed
from tests.testbed.box import Box
from tests.testbed.window_bed import HEAVY, STANDING, as_before, modes, standing

PATIENCE_S: Final = 180.0
"""A deadman waits 60 s for a daemon that died, then brings engines back; three of these run at once."""
AT_ONCE: Final = 3
WINDOWS: Final = "/v1/hostler/windows"
Phase = Literal["open", "close"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`who`'s daemon is killed when `steps` steps are done (open), or undone (close)."""

    phase: Phase
    who: str
    steps: int

    def __str__(self) -> str:
        return f"{self.phase} after {self.steps} steps, the daemon of {self.who} killed"


@dataclass(slots=True, kw_only=True)
class End:
    """How it was in the end. `killed_at` is what was really done when the signal was sent."""

    moment: Moment
    killed_at: int = -1
    state: str = ""
    why: str = ""
    restored_by: tuple[str, ...] = ()
    engines: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    report: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = ", ".join(self.restored_by) or "the daemon"
        up = ", ".join(f"{name} {state}" for name, state in self.engines.items())
        return (
            f"{self.moment} (at {self.killed_at}): {self.state} ({self.why}); restored by {by}; {up};"
            f" holds: {', '.join(self.holds) or 'none'}; verified: {', '.join(self.report)}"
        )


async def begun(it: Bed, cap_s: float) -> str:
    """The id of a window that begins to open."""
    body = {"mode": "heavy", "cap_s": cap_s, "override": "windowed", "secret_hash": "0" * 64}
    async with it.crow.client() as client:
        got = await client.post(WINDOWS, json=body, headers={"idempotency-key": "one"})
    assert got.status_code in (200, 201, 202), got.text
    return str(got.json()["lease"]["id"])


async def window(it: Bed, id_: str) -> Json:
    """The window as the head tells it."""
    found = (await it.crow.get(f"/v1/hostler/leases/{id_}"))["lease"]
    assert isinstance(found, dict)
    return found


def steps_in(lease: Json, *states: str) -> int:
    """How many of its steps are in one of these states."""
    rows = lease["steps"]
    assert isinstance(rows, list)
    return sum(1 for row in rows if row["state"] in states)


async def close(it: Bed, id_: str) -> None:
    """Ask for the close and wait for nothing."""
    async with it.crow.client() as client:
        lease = await window(it, id_)
        body = {"epoch": lease["epoch"], "generation": lease["generation"], "because": "the test"}
        got = await client.post(f"{WINDOWS}/{id_}/close", json=body)
    assert got.status_code < 300, got.text


async def reached(it: Bed, id_: str, moment: Moment) -> int:
    """Return once so many steps are done or undone; how many really were."""
    seen = [0]

    async def true() -> bool:
        lease = await window(it, id_)
        counted = ("done", "undone") if moment.phase == "open" else ("undone",)
        seen[0] = steps_in(lease, *counted)
        return seen[0] >= moment.steps or lease["state"] not in ("activating", "releasing")

    await eventually(true, f"{moment}\n{it.crow.words()}", patience_s=PATIENCE_S)
    return seen[0]


async def back_up(box: Box) -> None:
    """The daemon is killed and, as a service manager would have it, started again."""
    await box.end(signal.SIGKILL)
    await box.start()


async def settled(it: Bed, id_: str) -> None:
    """Return once nobody works on the window's steps forward."""

    async def true() -> bool:
        try:
            return (await window(it, id_))["state"] != "activating"
        except httpx2.HTTPError:
            return False

    await eventually(true, f"it is open, or not\n{it.crow.words()}", patience_s=PATIENCE_S)


async def over(it: Bed, id_: str) -> Json:
    """The window once it has ended."""
    found: list[Json] = []

    async def true() -> bool:
        try:
            found[:] = [await window(it, id_)]
        except httpx2.HTTPError:
            return False
        return found[0]["state"] in ("released", "expired", "cancelled", "failed")

    try:
        await eventually(true, "", patience_s=PATIENCE_S)
    except AssertionError:
        words = "\n".join(f"{name}:\n{box.words()}" for name, box in it.boxes.items())
        raise AssertionError(f"it does not end: {found}\n{words}") from None
    return found[0]


async def run(moment: Moment, root: Path) -> End:
    """One window, one kill, the end. Raises AssertionError when not all is as before."""
    end = End(moment=moment)
    async with bed(root) as it:
        modes(it)
        await it.start()
        await standing(it, PATIENCE_S)
        id_ = await begun(it, 1800.0)
        if moment.phase == "close":
            await eventually(
                lambda: _active(it, id_), f"it is open\n{it.crow.words()}", patience_s=PATIENCE_S
            )
            await close(it, id_)
        end.killed_at = await reached(it, id_, moment)
        await back_up(it.boxes[moment.who])
        await settled(it, id_)
        if await _active(it, id_):
            # It was open, or nothing of it had begun on that host: that ends nothing (WIN-1).
            await close(it, id_)
        lease = await over(it, id_)
        end.state, end.why = str(lease["state"]), str(lease["why"])
        await as_before(it)
        await told(it, id_, end)
    return end


async def _active(it: Bed, id_: str) -> bool:
    return (await window(it, id_))["state"] == "active"


async def told(it: Bed, id_: str, end: End) -> None:
    """What is to be printed: engines, holds, who restored, and what the report says."""
    end.restored_by = tuple(
        f"the deadman of {row['subject']['host']}"  # type: ignore[index]  # an event's subject is an object
        for row in await it.crow.events("deadman_restored")
    )
    names = [(host, name) for part in (STANDING, HEAVY) for host, found in part.items() for name in found]
    end.engines = {name: str((await it.boxes[host].row(name))["state"]) for host, name in names}
    end.holds = tuple(name for name, box in it.boxes.items() if box.hold.exists())
    report = await it.crow.get(f"{WINDOWS}/{id_}/report")
    rows = report["engines"]
    assert isinstance(rows, list)
    assert report["wrong"] == [], report
    end.report = tuple(str(row["engine"]) for row in rows if row["verified"])


async def every(moments: Sequence[Moment], root: Path) -> Sequence[End]:
    """All of them, some at once, each printed as it ends. What went wrong is raised after the last."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(n: int, moment: Moment) -> End:
        async with turn:
            try:
                end = await run(moment, root / f"bed-{n}")
            except AssertionError as error:
                print(f"{moment}: NOT BACK: {error}", flush=True)
                raise
            print(end, flush=True)
            return end

    ends = await asyncio.gather(*(one(n, it) for n, it in enumerate(moments)), return_exceptions=True)
    wrong = [it for it in ends if isinstance(it, BaseException)]
    if wrong:
        raise BaseExceptionGroup(f"{len(wrong)} of {len(ends)} windows", wrong)
    return [it for it in ends if isinstance(it, End)]


STEPS: Final = 21
"""Of opening this window; a moment past the last is the window that is open."""


async def main(*asked: str) -> int:
    """Every moment of opening and of closing, or of what is named (`close crow`), for either daemon."""
    phases: tuple[Phase, ...] = ("open", "close")
    named = set(asked)
    moments = [
        Moment(phase=phase, who=who, steps=n)
        for phase in phases
        for who in STANDING
        for n in range(STEPS)
        if (phase in named or not named & set(phases)) and (who in named or not named & STANDING.keys())
    ]
    with tempfile.TemporaryDirectory(prefix="hostler-faults.") as root:
        ends = await every(moments, Path(root))
    print(f"{len(ends)} windows, each back as before")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # What was started is ended, as by Ctrl-C.
    sys.exit(asyncio.run(main(*sys.argv[1:])))
