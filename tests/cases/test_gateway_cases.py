import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.fakes.fake_engine import eventually, free_port
from tests.fakes.signals import kill
from tests.story.house import House, Json, chat, house

pytestmark = pytest.mark.cases
REFUSED = {".", "..", "%2e%2e", "../../etc/passwd"}


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[House]:
    """A house with fake engines."""
    async with house(tmp_path) as it:
        yield it


@asynccontextmanager
async def upstream(script: Path, port: int) -> AsyncIterator[None]:
    """A server of the cases', running on a port."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-B", str(script), str(port))
    try:
        async with httpx2.AsyncClient() as client:

            async def up() -> bool:
                try:
                    return (await client.get(f"http://127.0.0.1:{port}/")).status_code > 0
                except httpx2.TransportError:
                    return False

            await eventually(up, "the upstream answers")
        yield
    finally:
        kill(process)
        await process.wait()


async def test_a_stream_in_lumps(cases_dir: Path, fake: House) -> None:
    """GW-13: each event of BG-10's upstream is here before the next one is sent, on a kept connection too."""
    port = free_port()
    fake.top = {"upstreams": {"lumps": {"url": f"http://127.0.0.1:{port}/v1"}}}
    fake.routes["m"] = {"profiles": {"p": {"upstream": "lumps"}}, "active": "p"}
    async with upstream(cases_dir / "bugs/BG-10.stream.py", port):
        await fake.start()
        async with fake.client() as client:

            async def once() -> None:
                events, arrived = [], []
                async with client.stream("POST", "/v1/chat/completions", json=chat("m", stream=True)) as got:
                    assert got.headers["x-accel-buffering"] == "no"
                    assert got.headers["cache-control"] == "no-cache"
                    assert "content-length" not in got.headers
                    async for line in got.aiter_lines():
                        if line.startswith("data: "):
                            events.append(json.loads(line.removeprefix("data: ")))
                            arrived.append(time.time())
                assert [event["i"] for event in events] == list(range(60))
                for here, event in zip(arrived, events[1:], strict=False):
                    assert here < event["t"], event["i"]

            await asyncio.gather(once(), once())


async def test_strange_model_names(cases_dir: Path, fake: House) -> None:
    """GW-2, GW-11: each name of BG-11 works in list, path, body, answer and CLI, or is refused at load."""
    lines = (cases_dir / "bugs/BG-11.names.txt").read_text().splitlines()
    assert len(lines) == 12
    names = [name for line in lines for name in line.split(" and ")]
    fake.fakes("engine")
    for name in names:
        fake.routes = {name: {"profiles": {"p": "engine"}, "active": "p"}}
        fake.write()
        checked = await fake.run("config", "check")
        assert (checked.code != 0) == (name in REFUSED), (name, checked)
    good = [name for name in names if name not in REFUSED]
    fake.routes = {name: {"profiles": {"p": "engine"}, "active": "p"} for name in good}
    await fake.start()
    async with fake.client() as client:
        listed = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
        assert listed[: len(good)] == good
        for name in good:
            for path in (quote(name, safe=""), quote(name)):
                assert (await client.get(f"/v1/models/{path}")).json()["id"] == name
            answer = await fake.chat(name)
            assert (answer.status_code, answer.json()["model"]) == (200, name)
            assert json.loads(str((await fake.heard("engine"))[-1]["body"]))["model"] == "engine"
            assert (await fake.told("routes", "set", name, "p")) is not None
        metrics = await client.get("/metrics", headers={"authorization": f"Bearer {fake.key}"})
        assert metrics.status_code == 200
    twice: Json = {"profiles": {"p": "engine"}, "active": "p", "aliases": ["same"]}
    fake.routes = {"a": twice, "b": twice}
    fake.write()
    refused = await fake.run("config", "check")
    assert refused.code == 78
    assert "same" in refused.out + refused.err
