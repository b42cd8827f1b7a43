"""Asking an engine whether it serves as itself (ENG-4, LEASE-13), with the standard library only.

Decides what an answer means: health 200, or 404 which is no such route; the expected model id in the list;
and, for chat and embeddings, one real piece of work. Never raises for what an engine does.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from hostler.deadman.written import Engine

LOOK_S: Final = 2.5
WORK_S: Final = 120.0
"""A first token may need a whole model's pages to be read."""
MAX_BODY: Final = 1 << 20
MODELS: Final = "/v1/models"
NO_ROUTE: Final = 404
OK: Final = 200
WORK: Final[Mapping[str, tuple[str, str, Mapping[str, object]]]] = {
    "chat": (
        "/v1/chat/completions",
        "choices",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "stream": False},
    ),
    "embed": ("/v1/embeddings", "data", {"input": "Hello"}),
}
"""By the engine's task: path, what the answer must have, what is asked. Of other tasks health is all."""


def look(engine: Engine) -> str | None:
    """One look: None when it is ready as itself, else what is seen."""
    try:
        return _look(engine)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{engine.url}: {str(error) or type(error).__name__}"


def _look(engine: Engine) -> str | None:
    if engine.health == "none":
        return None
    parts = urlsplit(engine.url)
    if engine.health == "tcp":
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=LOOK_S):
            return None
    status, _ = _ask(engine, "GET", engine.health, None, LOOK_S)
    if status not in (OK, NO_ROUTE):
        return f"{engine.health}: {status}"
    status, body = _ask(engine, "GET", MODELS, None, LOOK_S)
    if status != OK:
        return f"{MODELS}: {status}"
    ids = [it.get("id") for it in _items(body, "data") if isinstance(it, dict)]
    return None if engine.model in ids else f"it serves {', '.join(map(str, ids)) or 'no model'}"


def work(engine: Engine) -> str | None:
    """One token, or one embedding: None when it was given, else what came instead."""
    if engine.task not in WORK or engine.health in ("tcp", "none"):
        return None
    path, wanted, body = WORK[engine.task]
    try:
        asked = json.dumps({"model": engine.model, **body}).encode()
        status, answer = _ask(engine, "POST", path, asked, WORK_S)
        if status != OK:
            return f"{path}: {status}"
        return None if _items(answer, wanted) else f"{path}: 200 without {wanted}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{path}: {str(error) or type(error).__name__}"


def _items(body: bytes, name: str) -> list[object]:
    """The list of that name in an answer; empty when it has none. Raises ValueError for what is no JSON."""
    try:
        found = json.loads(body)
    except RecursionError as error:
        raise ValueError("the answer is nested too deep") from error
    items = found.get(name) if isinstance(found, dict) else None
    return items if isinstance(items, list) else []


def _ask(engine: Engine, method: str, path: str, body: bytes | None, within_s: float) -> tuple[int, bytes]:
    """Status and body of one request; no proxy, no redirect."""
    parts = urlsplit(engine.url)
    made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = made(parts.hostname or "", parts.port, timeout=within_s)
    headers = {"Connection": "close"} | ({"Content-Type": "application/json"} if body is not None else {})
    if engine.key:
        headers["Authorization"] = f"Bearer {engine.key}"
    try:
        connection.request(method, parts.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(MAX_BODY)
    finally:
        connection.close()
