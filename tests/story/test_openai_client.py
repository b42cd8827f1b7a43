import asyncio

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.story.house import House

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


@pytest.mark.real
async def test_the_openai_client(real: House) -> None:
    """GW-10: the openai client lists, chats, streams, embeds and gets its 404, against real engines."""
    real.add("fast")
    real.add("embed", "--embeddings", task="embed")
    real.routes["chat"] = {"profiles": {"local": "fast"}, "active": "local", "aliases": ["team/chat:1"]}
    await real.start()
    async with openai.AsyncOpenAI(base_url=f"{real.url}/v1", api_key="any", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["chat", "fast", "embed"]
        assert (await client.models.retrieve("team/chat:1")).id == "chat"
        whole = await client.chat.completions.create(model="chat", messages=HELLO)
        assert (whole.choices[0].message.content or "").strip() == "I am fast."
        pieces = [
            piece.choices[0].delta.content or ""
            async for piece in await client.chat.completions.create(
                model="team/chat:1",
                messages=HELLO,
                stream=True,
            )
            if piece.choices
        ]
        assert len(pieces) > 1
        assert "".join(pieces).strip() == "I am fast."
        text = await client.completions.create(model="chat", prompt="hello", max_tokens=2)
        assert text.choices[0].finish_reason == "length"
        vectors = await client.embeddings.create(model="embed", input=["one", "two"])
        assert len(vectors.data) == 2
        assert len(vectors.data[0].embedding) > 1
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="chta", messages=HELLO)
        assert missing.value.code == "model_not_found"
        assert "Did you mean chat" in str(missing.value.body)


@pytest.mark.real
async def test_the_blocking_client(real: House) -> None:
    """GW-10: the openai client without asyncio streams to the end."""
    real.add("fast")
    await real.start()

    def ask() -> str:
        with openai.OpenAI(base_url=f"{real.url}/llm/v1", api_key="any", max_retries=0) as client:
            stream = client.chat.completions.create(model="fast", messages=HELLO, stream=True)
            return "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)

    assert (await asyncio.to_thread(ask)).strip() == "I am fast."
