"""A config that changes under a running daemon: by API, by signal, on the disk."""

import asyncio
import json
import signal

import pytest

from tests.fakes.fake_engine import eventually
from tests.fakes.signals import send
from tests.story.house import House, alive, chat, frames
from tests.story.lease_house import events

CHAT = "/v1/chat/completions"
RELOAD = "/v1/hostler/config/reload"
EDITS = 100


@pytest.mark.real
async def test_a_storm_of_edits(real: House) -> None:
    """CONF-3: of 100 edits while streams run, each that is right is one event, each other one is one too.

    No stream is cut, and no engine is started again.
    """
    for name in ("fast", "large"):
        real.add(name, endless=True)
    await real.start()
    codes = []
    async with real.client() as client:
        streams = [stream(real, name) for name in ("fast", "large")]
        running = [asyncio.create_task(each) for each in streams]
        await eventually(lambda: all(not it.done() for it in running), "streams run")
        for name in ("fast", "large"):
            await real.is_state(name, "ready")
        pids = {name: await real.pid(name) for name in ("fast", "large")}
        for number in range(EDITS):
            if number % 3 == 2:
                real.config.write_text(f"version: 1\nengines: {{broken {number}\n")
            else:
                real.engines["large"]["ttl"] = f"{number + 1}h"
                real.write()
            key = {"authorization": f"Bearer {real.key}"}
            codes.append((await client.post(RELOAD, json={}, headers=key)).status_code)
        assert codes == [422 if number % 3 == 2 else 200 for number in range(EDITS)]
        assert {name: await real.pid(name) for name in pids} == pids
        assert not any(it.done() for it in running)
        for row in await real.rows():
            await client.post(
                f"/v1/hostler/requests/{row['id']}/cancel",
                headers={"authorization": f"Bearer {real.key}"},
            )
        ends = await asyncio.gather(*running)
    assert all("was cancelled" in found[-1] or "ended" in found[-1] for found in ends), ends
    taken, refused = await events(real, "config_reloaded"), await events(real, "config_rejected")
    assert (len(taken), len(refused)) == (codes.count(200), codes.count(422))
    assert len(real.said("engine_starting")) == 2
    assert not real.said("engine_stopping")


async def stream(it: House, name: str) -> list[str]:
    """All frames of a stream that has no end of its own."""
    body = chat(name, stream=True, max_tokens=1_000_000)
    async with it.client() as client, client.stream("POST", CHAT, json=body) as found:
        return await frames(found.aiter_lines())


@pytest.mark.real
async def test_a_new_engine_and_route_serve_at_once(real: House) -> None:
    """CONF-3: what was added on disk is served without a restart; what was removed is no more."""
    real.add("fast")
    real.routes["chat"] = {"profiles": {"a": "fast"}}
    await real.start()
    assert (await real.chat("chat")).headers["x-hostler-served-by"] == "fast"
    pid = await real.pid("fast")
    real.add("new")
    real.routes["chat"] = {"profiles": {"b": "new"}}
    del real.engines["fast"]
    real.write()

    async def taken() -> bool:
        return (await real.chat("chat")).headers.get("x-hostler-served-by") == "new"

    await eventually(taken, f"the file is followed\n{real.words()}")
    assert (await real.chat("fast")).status_code == 404
    assert alive(pid)
    row = await real.row("fast")
    assert (row["config"], row["state"]) == ("removed", "ready")
    assert "until it is stopped" in await real.told("engines")
    await real.told("stop", "fast", "--now")
    assert not alive(pid)

    async def forgotten() -> bool:
        return [row["id"] for row in json.loads(await real.told("engines", "--json"))["engines"]] == ["new"]

    await eventually(forgotten, "the removed engine is forgotten")


async def test_the_command_tells_what_it_took_up(fake: House) -> None:
    """CONF-3, INTERFACE-1: `hostler reload` says what waits for a restart; a bad file exits 78."""
    fake.fakes("fast")
    await fake.start()
    assert "is what is in force already" in await fake.told("reload")
    fake.node["shutdown"] = "9s"
    fake.fakes("new")
    fake.write()
    said = await fake.told("reload")
    assert "node.shutdown_s" in said
    assert "restart the daemon" in said
    # The file is followed as well: the command may find all of it taken up but what needs a restart.
    taken = [str(it["message"]) for it in await events(fake, "config_reloaded")]
    assert len([it for it in taken if "added engine new" in it]) == 1
    assert [change["what"] for change in json.loads(await fake.told("reload", "--json"))["changes"]] == [
        "node.shutdown_s"
    ]
    fake.config.write_text("version: 1\nengine: {}\n")
    done = await fake.run("reload")
    assert done.code == 78
    assert "hostler config check" in done.err
    status = json.loads(await fake.told("status", "--json"))
    assert any("not right and not in use" in text for text in status["daemon"]["warnings"])


async def test_a_hang_up_signal_reads_the_config(fake: House) -> None:
    """CONF-3: SIGHUP reads the file again, and ends no daemon, not one that has just begun either."""
    fake.fakes("fast")
    await fake.start()
    assert fake.daemon is not None
    send(fake.daemon, signal.SIGHUP)
    await fake.told("status")
    fake.fakes("new")
    fake.write()
    send(fake.daemon, signal.SIGHUP)

    async def there() -> bool:
        return len(json.loads(await fake.told("engines", "--json"))["engines"]) == 2

    await eventually(there, f"the new engine is there\n{fake.words()}")
    assert fake.daemon.returncode is None
