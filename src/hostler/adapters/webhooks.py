"""Webhooks of actions (LEASE-2): the need `Webhooks`.

Decides how one is called: a POST without any key of ours, no redirect followed, no proxy or netrc of the
environment. What is told of a failure has no URL in it: that may hold a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx2


@dataclass(frozen=True, slots=True)
class HttpWebhooks:
    """Calls them, each on a connection of its own."""

    async def call(self, url: str, body: Mapping[str, object], *, timeout_s: float) -> str | None:
        try:
            async with (
                httpx2.AsyncClient(timeout=timeout_s, follow_redirects=False, trust_env=False) as client,
                client.stream("POST", url, json=dict(body)) as answer,
            ):
                status = answer.status_code
        except httpx2.TimeoutException:
            return f"no answer within {timeout_s:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return f"it could not be called: {type(error).__name__}"
        return None if 200 <= status < 300 else f"it answered {status}"
