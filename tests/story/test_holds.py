import asyncio
import json

import openai
import pytest

from tests.fakes.fake_engine import PATIENCE_S, eventually
from tests.story.house import House, Json

VOICE: Json = {
    "profiles": {"local": {"fast": "fast", "large": "large"}},
    "active": "local",
    "escalate": {"token": "!escalate"},
}


def a_group(it: House) -> None:
    """Fast and large exclude each other, embed is essential; fast should be up."""
    it.host["groups"] = {"main": {"min_resident": "0s"}}
    it.add("fast", group="main", resident=True)
    it.add("large", group="main")
    it.add("embed", "--embeddings", task="embed", essential=True)
    it.routes["voice"] = VOICE


@pytest.mark.real
async def test_a_hold_from_its_begin_to_its_end(real: House) -> None:
    """HOLD-12: while held nothing is started and fast answers for large; released, the resident is back."""
    a_group(real)
    await real.start()
    await real.is_state("fast", "ready")
    await real.told("box", "hold", "--owner", "bench", "--reason", "window", "--minutes", "30")
    degraded = await real.chat("voice", "!escalate hello")
    assert (degraded.status_code, degraded.headers["x-hostler-degraded"]) == (200, "box_reserved")
    assert degraded.headers["x-hostler-served-by"] == "fast"
    refused = await real.chat("large")
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["owner"]) == (503, "box_reserved", "bench")
    assert 1700 < int(refused.headers["retry-after"]) <= 1800
    assert int(refused.headers["retry-after"]) == error["retry_after"]
    warmed = await real.ask("/llm/acquire", {"provider": "large"})
    assert (warmed.status_code, warmed.json()["ok"], warmed.json()["owner"]) == (409, False, "bench")
    await real.told("stop", "fast")
    assert (await real.chat("fast")).json()["error"]["code"] == "box_reserved"
    embedded = await real.ask("/v1/embeddings", {"model": "embed", "input": "x"})
    assert embedded.status_code == 200
    assert "bench" in await real.told("box", "status")
    why = await real.run("why", "fast")
    assert "held by bench" in why.out
    assert (await real.row("fast"))["state"] == "stopped"
    await real.told("box", "release", "--owner", "bench")
    await real.is_state("fast", "ready")
    assert (await real.chat("voice", "hello")).headers["x-hostler-served-by"] == "fast"
    assert len(real.said("hold_first_refusal")) == 1


async def test_a_hold_around_a_command(fake: House) -> None:
    """HOLD-10: `box hold … -- CMD` holds while it runs: requests are refused till then, and served after."""
    fake.fakes("fast")
    await fake.start()
    go = fake.root / "go"
    loop = f"while [ ! -e {go} ]; do read -t 0.05 x <> {fake.root}/fifo; done; exit 7"
    await (await asyncio.create_subprocess_exec("mkfifo", str(fake.root / "fifo"))).wait()
    running = asyncio.create_task(
        fake.run("box", "hold", "--owner", "bench", "--reason", "x", "--", "bash", "-c", loop)
    )
    await eventually(fake.hold.exists, "the box is held")
    assert (await fake.chat("fast")).json()["error"]["code"] == "box_reserved"
    go.touch()
    assert (await running).code == 7
    assert not fake.hold.exists()
    assert (await fake.chat("fast")).status_code == 200


async def test_a_hold_that_no_reader_understands(fake: House) -> None:
    """HOLD-4: a torn hold file holds the box for everybody but essential engines, until it is released."""
    fake.fakes("fast")
    await fake.start()
    fake.hold.write_text('{"owner": "w1", "expi')
    fake.hold.chmod(0o600)
    refused = await fake.chat("fast")
    assert (refused.status_code, refused.json()["error"]["owner"]) == (503, "unknown")
    assert refused.headers["retry-after"] == "60"
    await fake.told("box", "release")
    assert (await fake.chat("fast")).status_code == 200


async def test_the_sdk_does_not_sleep_on_a_hold(fake: House) -> None:
    """HOLD-13: the openai client hands a `box_reserved` to its caller without any retry of its own."""
    fake.fakes("fast")
    await fake.start()
    # Retry-After is 60 then: the longest that the client would sleep for.
    await fake.told("box", "hold", "--owner", "bench", "--reason", "x", "--minutes", "1")
    async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="any", max_retries=5) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            async with asyncio.timeout(PATIENCE_S):
                await client.chat.completions.create(
                    model="fast", messages=[{"role": "user", "content": "x"}]
                )
    assert refused.value.code == "box_reserved"
    assert refused.value.status_code == 503
    assert len(fake.said("start_refused")) == 1
    assert json.loads(refused.value.response.text)["error"]["owner"] == "bench"


async def test_a_drain(fake: House) -> None:
    """GW-8: `hostler drain` refuses new requests and ends those under way at its deadline, until `resume`."""
    fake.fakes("fast", "endless", "gap=0.02")
    await fake.start()
    async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="any", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="fast", messages=[{"role": "user", "content": "x"}], stream=True
        )
        await anext(stream)
        draining = asyncio.create_task(fake.run("drain", "fast", "--timeout", "1s"))
        await fake.is_state("fast", "draining")
        refused = await fake.chat("fast", max_tokens=1)
        assert refused.json()["error"]["code"] == "draining"
        with pytest.raises(openai.APIError, match="draining"):
            async for _ in stream:
                pass
    assert (await draining).code == 0
    await fake.told("resume", "fast")
    assert (await fake.chat("fast", max_tokens=1)).status_code == 200
