"""Windows over two hosts: real daemons, real deadmen, one cable."""

from __future__ import annotations

import json

import pytest

from tests.fakes.fake_engine import eventually
from tests.testbed.bed import Bed
from tests.testbed.sampler import sampled
from tests.testbed.telling import lease_is, taken
from tests.testbed.window_bed import (
    HEAVY,
    LONG_S,
    STANDING,
    as_before,
    deadmen,
    hold,
    modes,
    opened,
    standing,
)

pytestmark = pytest.mark.slow


async def test_standard_to_heavy_and_back_on_both(both: Bed) -> None:
    """MODE-2, WIN-1, WIN-4, WIN-5: both boxes are evicted for one pair of engines, then all is as before."""
    modes(both)
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    window = await opened(both, "--cap", "5m")
    for box in (crow, raven):
        record = hold(box)
        assert record is not None
        assert record["lease"] == window["id"]
        assert await deadmen(box) == [(window["id"], True)]
    assert [await box.said("big") for box in (crow, raven)] == ["I am giant."] * 2
    await crow.is_state("worker", "ready")
    for box, names in ((crow, ("crow-work", "crow-spare")), (raven, ("raven-work",))):
        for name in names:
            assert (await box.row(name))["state"] == "stopped"
    assert "the fleet is in heavy" in await crow.told("mode")
    closed = json.loads(await crow.told("window", "close", "--json"))["lease"]
    assert (closed["state"], closed["why"]) == ("released", "it was released: closed")
    await as_before(both)
    assert [await box.said("big") for box in (crow, raven)] == ["I am raven-work."] * 2
    report = json.loads(await crow.told("window", "report", "--json"))
    assert {(row["host"], row["engine"], row["up"], row["verified"]) for row in report["engines"]} == {
        ("crow", "crow-work", True, True),
        ("crow", "crow-spare", True, True),
        ("raven", "raven-work", True, True),
    }
    assert report["wrong"] == []
    assert "the fleet is in standard" in await crow.told("mode")


async def test_a_second_strike_on_the_other_host_aborts(both: Bed) -> None:
    """WIN-6: what comes up against the window on a host that is not the head is stopped, then it ends."""
    modes(both)
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    window = str((await opened(both, "--cap", "5m"))["id"])
    await raven.run("start", "raven-work", "--lease", window)

    async def struck() -> bool:
        strikes = json.loads(await crow.told("window", "report", "--json"))["strikes"]
        assert len(strikes) < 2
        return [str(it).startswith("raven-work came up") for it in strikes] == [True]

    await eventually(struck, f"strike one\n{crow.words()}\n{raven.words()}", patience_s=LONG_S)
    await raven.is_state("raven-work", "stopped")
    await raven.run("start", "raven-work", "--lease", window)
    over = await lease_is(crow, window, "cancelled", "stuck", patience_s=LONG_S)
    assert "aborted: raven-work came up" in str(over["why"]), over
    await as_before(both)


async def test_at_every_instant_it_fits_and_is_held(both: Bed) -> None:
    """WIN-5, WIN-3, MODE-1: sampled at 20 Hz: memory is never over, nobody beside the mode, always held."""
    sizes = {"crow-work": 40, "crow-spare": 40, "worker": 90, "raven-work": 90, "giant": 110}
    modes(both)
    engines = both.part("engines")
    for name, gib in sizes.items():
        row = engines[name]
        assert isinstance(row, dict)
        row["memory"] = f"{gib} GiB"
    for name in both.boxes:
        memory = both.root / f"memory-{name}"
        memory.mkdir()
        (memory / "host").write_text("total: 124 GiB\navailable: 118 GiB\n")
        host = both.part("hosts")[name]
        assert isinstance(host, dict)
        host["memory"] = {"reader": f"files:{memory}", "reserve": "4 GiB"}
    await both.start()
    await standing(both)
    async with sampled(both) as seen:
        await opened(both, "--cap", "5m")
        await both.crow.told("window", "close")
        await as_before(both)
    for host in both.boxes:
        samples = seen.of(host)
        assert all(sum(sizes[name] for name in it.running) <= 124 for it in samples)
        usual, heavy = frozenset(STANDING[host]), frozenset(HEAVY[host])
        # From the first eviction to the last engine that is back somebody holds the host.
        down = [n for n, it in enumerate(samples) if not usual <= it.running]
        assert down, f"nothing was evicted on {host}"
        assert all(it.held for it in samples[down[0] : down[-1] + 1])
        # Once the mode has the host nobody else runs until it has gone again.
        there = [n for n, it in enumerate(samples) if it.running & heavy]
        assert there, f"nothing of the mode ran on {host}"
        assert all(it.running <= heavy for it in samples[there[0] : there[-1] + 1])
        assert not samples[-1].held


async def test_a_script_on_the_other_host(both: Bed) -> None:
    """MODE-4, CONF-6: a window of raven alone runs raven's own script there, with its cap; ours verifies."""
    log = both.root / "tool.log"
    tool = both.root / "tool.sh"
    tool.write_text(f'#!/bin/sh\necho "$1 cap=$HOSTLER_CAP_SECONDS $HOSTLER_BOX_RESERVATION_PATH" >> {log}\n')
    tool.chmod(0o700)
    command = {verb: {"exec": [str(tool), verb], "timeout": "10s"} for verb in ("open", "close", "status")}
    modes(both, hosts={"raven": ["raven-work"]}, routes={}, tool=command)
    await both.start()
    await standing(both)
    await opened(both, "--cap", "5m")
    assert hold(both.raven) is not None
    assert hold(both.crow) is None
    await both.crow.told("window", "close")
    told = ("status cap=", "open cap=300", "close cap=300")
    assert log.read_text().splitlines() == [f"{it} {both.raven.hold}" for it in told]
    await as_before(both)


async def test_nobody_changes_what_a_window_has(both: Bed) -> None:
    """R34, LEASE-15, MODE-3: on both hosts starts and switches of others are refused, naming the window."""
    modes(both)
    await both.start()
    await standing(both)
    window = str((await opened(both, "--cap", "5m"))["id"])
    for box, engine in ((both.crow, "crow-work"), (both.raven, "raven-work")):
        for words in (
            ("routes", "set", "big", "local"),
            ("start", engine),
            ("resume", engine),
            ("stop", HEAVY[box.name][0]),
        ):
            refused = await box.run(*words, "--json")
            assert refused.code != 0, (box.name, words, refused.out)
            assert window in refused.out + refused.err, (box.name, words, refused.out, refused.err)
        assert await box.profile("big") == "heavy"
        assert (await box.row(engine))["state"] == "stopped"
        assert (await box.row(HEAVY[box.name][0]))["state"] == "ready"
    await both.crow.told("window", "close")
    await as_before(both)


async def test_a_mode_takes_nothing_that_is_leased(both: Bed) -> None:
    """R34, MODE-3, WIN-8: a window over a leased host is refused, naming the lease; no host changes."""
    modes(both)
    both.resources(raven_box={"hosts": ["raven"], "actions": [{"route": "far", "to": "away"}]})
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    lease = await taken(crow, "raven_box", "--holder", "anna")
    refused = await crow.run(
        *("window", "open", "heavy", "--override", "windowed", "--reason", "bench", "--json")
    )
    told = json.loads(refused.out or refused.err)
    assert refused.code != 0
    assert lease in json.dumps(told), told
    assert [await it.profile("big") for it in (crow, raven)] == ["local"] * 2
    assert [hold(it) for it in (crow, raven)] == [None] * 2
    assert [list(await deadmen(it)) for it in (crow, raven)] == [[], []]
    await standing(both)
    await crow.told("release", lease)
    await opened(both, "--cap", "5m")
    await crow.told("window", "close")
    await as_before(both)
