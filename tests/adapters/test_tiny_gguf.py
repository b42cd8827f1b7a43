"""The tiny models of the demo, and the real llama-server on them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from demo import fake_engine, tiny_gguf
from hostler.domain.engine import Launch, Probe, Readiness, judge
from tests.adapters.driver_conformance import ProcessRig, process_rig, start_ready
from tests.fakes.fake_engine import eventually, program_launch


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProcessRig]:
    """The process driver with the real engine."""
    async with process_rig(tmp_path, real=True) as found:
        yield found


def serving(rig: ProcessRig, model: Path, *more: str) -> Launch:
    """A launch of the real engine on `model`."""
    return rig.keep(program_launch(rig.program, *more, root=rig.root, model=model))


async def post(launch: Launch, path: str, body: dict[str, object]) -> dict[str, object]:
    """One JSON answer."""
    async with httpx2.AsyncClient(base_url=launch.url) as client:
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found


def text_of(answer: dict[str, object]) -> str:
    """What the assistant said."""
    choices = answer["choices"]
    assert isinstance(choices, list)
    said: str = choices[0]["message"]["content"]
    return said


CHAT: dict[str, object] = {"messages": [{"role": "user", "content": "Who are you? I am fast."}]}


@pytest.mark.parametrize(
    "says", ["I am fast.", "I am large. I am large, and I know that I am.", "Grüße, 世界!"]
)
@pytest.mark.real
async def test_a_model_says_its_text(rig: ProcessRig, tmp_path: Path, says: str) -> None:
    """ENG-4: each tiny model answers exactly its own text, so the answer tells which engine gave it."""
    tiny_gguf.write_model(tmp_path / "m.gguf", says=says)
    launch = serving(rig, tmp_path / "m.gguf")
    await start_ready(rig.driver, launch)
    assert text_of(await post(launch, "/v1/chat/completions", CHAT)) == says
    assert text_of(await post(launch, "/v1/chat/completions", CHAT | {"temperature": 1.5})) == says


@pytest.mark.real
async def test_a_stream_comes_in_pieces(rig: ProcessRig, tmp_path: Path) -> None:
    """GW-8: the real engine streams a tiny model's text in its pieces, then [DONE]."""
    tiny_gguf.write_model(tmp_path / "m.gguf", says="I am fast.")
    launch = serving(rig, tmp_path / "m.gguf")
    await start_ready(rig.driver, launch)
    events: list[str] = []
    async with (
        httpx2.AsyncClient(base_url=launch.url) as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        events += [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
    assert events.pop() == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content") for event in events]
    assert [piece for piece in deltas if piece] == ["I", " am", " fast", "."]


@pytest.mark.real
async def test_an_endless_model_ends_at_the_limit(rig: ProcessRig, tmp_path: Path) -> None:
    """ENG-8: an endless tiny model goes on until the caller's limit."""
    tiny_gguf.write_model(tmp_path / "m.gguf", says="on and ", endless=True)
    launch = serving(rig, tmp_path / "m.gguf")
    await start_ready(rig.driver, launch)
    answer = await post(launch, "/v1/chat/completions", CHAT | {"max_tokens": 30})
    assert text_of(answer).startswith("on and on and on and ")


@pytest.mark.real
async def test_a_model_for_embeddings_gives_vectors(rig: ProcessRig, tmp_path: Path) -> None:
    """GW-9: a tiny model written for embeddings gives each input a vector of its own."""
    tiny_gguf.write_model(tmp_path / "m.gguf", says="I embed.", embeddings=True)
    launch = serving(rig, tmp_path / "m.gguf", "--embeddings")
    await start_ready(rig.driver, launch)
    answer = await post(launch, "/v1/embeddings", {"input": ["aa", "b"]})
    data = answer["data"]
    assert isinstance(data, list)
    first, second = (item["embedding"] for item in data)
    assert len(first) == len(second) > 0
    assert first != second


@pytest.mark.real
async def test_the_real_engine_says_503_while_loading(rig: ProcessRig, tmp_path: Path) -> None:
    """ENG-4: a real llama-server answers 503 on /health while its model loads, then 200."""
    tiny_gguf.write_model(tmp_path / "m.gguf", says="I load.", layers=16, feed_forward=4096)
    launch = serving(rig, tmp_path / "m.gguf")
    run = await rig.driver.start(launch)
    seen: list[Probe] = []

    async def ready() -> bool:
        seen.append(await rig.driver.probe(launch, run))
        return judge(seen[-1], health=launch.health, model=launch.model) is Readiness.READY

    await eventually(ready, "it is ready")
    assert 503 in [probe.http_status for probe in seen]


def test_pieces_are_all_different() -> None:
    """ENG-4: a text is cut into tokens that all differ, so that each has one successor."""
    for text in ("I am fast.", "no no no no", "a a a a a a", "aaaa", "one, two, one, two", "x", "  "):
        found = tiny_gguf.pieces(text)
        assert "".join(found) == text
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("says", ["", "<unk>", "<s>", "<0x41>"])
def test_what_cannot_be_said_is_refused(tmp_path: Path, says: str) -> None:
    """CONF-2: an empty text, or one that has the model's own tokens, is refused before a file is made."""
    with pytest.raises(ValueError, match=r"text to say|own tokens"):
        tiny_gguf.write_model(tmp_path / "m.gguf", says=says)
    assert not (tmp_path / "m.gguf").exists()


def test_layers_are_holes(tmp_path: Path) -> None:
    """ENG-5: layers make a model's file larger without taking the disk's space."""
    path = tmp_path / "m.gguf"
    tiny_gguf.write_model(path, says="I am large.", layers=16, feed_forward=4096)
    found = path.stat()
    assert found.st_size > 200 << 20
    assert found.st_blocks * 512 < 8 << 20


def test_the_fake_engine_says_the_same(tmp_path: Path) -> None:
    """ENG-2: the stand-in reads from a tiny model what the real engine would say."""
    for says in ("I am fast.", "I am large. I am large, and so on."):
        tiny_gguf.write_model(tmp_path / "m.gguf", says=says)
        assert fake_engine.text_of(tmp_path / "m.gguf") == says


def test_the_command_writes_a_model(tmp_path: Path) -> None:
    """ENG-4: `python -m demo.tiny_gguf OUT --says TEXT` writes the same file as the function."""
    tiny_gguf.main([str(tmp_path / "a.gguf"), "--says", "I am fast."])
    tiny_gguf.write_model(tmp_path / "b.gguf", says="I am fast.")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


async def test_the_fake_engine_streams_like_the_real_one(tmp_path: Path) -> None:
    """GW-8: the stand-in streams the tiny model's text in pieces that join to it, then [DONE]."""
    async with process_rig(tmp_path, real=False) as rig:
        launch = rig.launch()
        await start_ready(rig.driver, launch)
        async with asyncio.timeout(20), httpx2.AsyncClient(base_url=launch.url) as client:
            answer = await client.post("/v1/chat/completions", json=CHAT | {"stream": True})
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        assert events.pop() == "[DONE]"
        deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
        assert "".join(deltas) == "I am fast."
