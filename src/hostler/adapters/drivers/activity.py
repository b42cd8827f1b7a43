"""What an engine itself says of its work, so that traffic which does not pass us counts as use (ENG-9).

Decides how `/slots` and `/metrics` are read. Both are plain reads: they wake nothing and run nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Final

import httptools

from hostler.adapters.drivers.http_look import get
from hostler.domain.engine import Launch

READ_S: Final = 1.0
_COUNTERS: Final = (
    "llamacpp:prompt_tokens_total",
    "llamacpp:tokens_predicted_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
)
_RUNNING: Final = ("llamacpp:requests_processing", "vllm:num_requests_running")


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """Reads an engine's own counters."""

    async def read(self, launch: Launch) -> float | None:
        """A number that changes while it works, infinity when it works now, None when it does not say."""
        try:
            async with asyncio.timeout(READ_S):
                status, body = await get(launch.url + "/metrics", {})
                if status == 200:
                    found = metrics_activity(body.decode("utf-8", "replace"))
                    if found is not None:
                        return found
                status, body = await get(launch.url + "/slots", {})
                return slots_activity(body) if status == 200 else None
        except (TimeoutError, OSError, EOFError, httptools.HttpParserError):
            return None


def metrics_activity(text: str) -> float | None:
    """The sum of the token counters in a Prometheus text; infinity when a request runs; None without any."""
    total, found = 0.0, False
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        if name not in _COUNTERS and name not in _RUNNING:
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        found = True
        if name in _RUNNING and number > 0:
            return math.inf
        if name in _COUNTERS:
            total += number
    return total if found else None


def slots_activity(body: bytes) -> float | None:
    """Infinity when a slot is processing, 0 when none is, None for anything that is no list of slots."""
    try:
        slots = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(slots, list):
        return None
    busy = any(isinstance(slot, dict) and slot.get("is_processing") is True for slot in slots)
    return math.inf if busy else 0.0
