"""One real piece of work of an engine, over HTTP: the need `Completions` (LEASE-13).

Decides what is sent and which answer counts: one token of a chat, one embedding. Goes to the engine itself,
past the gateway: it is no request of anybody, and resets no idle time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import httpx2

from hostler.domain.engine import Launch
from hostler.domain.fleet import Secret
from hostler.domain.values import shorten

ANSWER_S: Final = 120.0
"""A first token may need a whole model's pages to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCompletions:
    """Asks engines by the OpenAI dialect."""

    answer_s: float = ANSWER_S

    async def chat(self, launch: Launch, key: Secret | None) -> str | None:
        body = {
            "model": launch.model,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1,
            "stream": False,
        }
        return await self._asked(launch, key, "/v1/chat/completions", body, "choices")

    async def embed(self, launch: Launch, key: Secret | None) -> str | None:
        body = {"model": launch.model, "input": "Hello"}
        return await self._asked(launch, key, "/v1/embeddings", body, "data")

    async def _asked(
        self, launch: Launch, key: Secret | None, path: str, body: Mapping[str, object], wanted: str
    ) -> str | None:
        """None for a 200 with a list `wanted` that has something in it."""
        headers = {} if key is None else {"authorization": f"Bearer {key.value}"}
        try:
            async with httpx2.AsyncClient(
                timeout=self.answer_s, follow_redirects=False, trust_env=False
            ) as client:
                answer = await client.post(f"{launch.url}{path}", json=dict(body), headers=headers)
        except httpx2.TimeoutException:
            return f"POST {path}: no answer within {self.answer_s:g} s"
        except (httpx2.HTTPError, OSError) as error:
            return f"POST {path}: {shorten(str(error) or type(error).__name__, 200)}"
        if answer.status_code != 200:
            return f"POST {path}: {answer.status_code} {shorten(answer.text, 200)}"
        return None if _has(answer, wanted) else f"POST {path}: 200 without {wanted}"


def _has(answer: httpx2.Response, wanted: str) -> bool:
    try:
        found = cast("object", answer.json())
    except ValueError:
        return False
    items = found.get(wanted) if isinstance(found, Mapping) else None
    return isinstance(items, list) and bool(items)
