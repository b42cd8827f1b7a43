"""The page of endpoints: the paths that clients of models use, then the control API from its table."""

import dataclasses
from typing import Final

from hostler.domain.errors import (
    IdempotencyConflict,
    Internal,
    InvalidRequest,
    NoKey,
    Refusal,
    TooLarge,
    WrongScope,
)
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.endpoints import ENDPOINTS
from tools.pages.text import first_paragraph, table

INFERENCE: Final = (
    (
        "POST",
        "/v1/chat/completions",
        "A chat, plain or as a stream. The route may escalate, and may degrade.",
    ),
    ("POST", "/v1/completions", "A completion of text, plain or as a stream."),
    ("POST", "/v1/embeddings", "Embeddings."),
    (
        "GET",
        "/v1/models",
        "The routes, and the engines that are not hidden, each with its state. Starts nothing.",
    ),
    ("GET", "/v1/models/{model}", "One of them."),
    ("any", "/llm/v1/…", "The same as under `/v1/`."),
    (
        "any",
        "/upstream/{engine}/…",
        "Anything else that an engine serves, passed on. `GET`, `HEAD`, `OPTIONS` start nothing.",
    ),
)
"""tests/docs/test_pages.py holds these against the gateway's own list."""

EVERY: Final = (InvalidRequest, NoKey, WrongScope, TooLarge, IdempotencyConflict, Internal)
"""What any call may be refused with."""

INTRODUCTION: Final = """# Endpoints

## For clients of models

`model` in the body names a route, an alias or an engine. Bytes pass as they came; only the model's name and
what the config patches change.

{inference}
A client may send `x-hostler-client` (a name for the log) and `x-hostler-no-degrade: 1` (rather the refusal
than a smaller engine's answer). Answers have `x-hostler-route`, `x-hostler-served-by`, and where it applies
`x-hostler-degraded` with the code of the cause.

## Control

A call that needs a scope takes `Authorization: Bearer KEY`. What is not `GET` takes an `Idempotency-Key`; a
repeated call with the same key and body acts once. A call that makes a lease or a job has to have one: what
it makes keeps the key, across restarts too. Besides those in its row any call may be refused with
{every}. All of them: [refusals](refusals.md).

"""


def code(text: str) -> str:
    """Text as code."""
    return f"`{text}`"


def codes(refusals: tuple[type[Refusal], ...]) -> str:
    """Refusals by their codes."""
    return ", ".join(code(refusal.code) for refusal in refusals if refusal not in EVERY)


def keys_of(shape: type) -> str:
    """The keys of what is sent, each with its default; a type without keys gives nothing."""
    if not dataclasses.is_dataclass(shape):
        raise TypeError(f"{shape!r} is no dataclass: say here how its keys are read")
    return ", ".join(
        code(each.name if each.default in (dataclasses.MISSING, None, "") else f"{each.name}={each.default}")
        for each in dataclasses.fields(shape)
    )


def answer_of(endpoint: Endpoint) -> str:
    """What a good answer is: its shape's sentence, else its media type."""
    if endpoint.answer is None:
        return code(endpoint.media)
    return first_paragraph(endpoint.answer) if isinstance(endpoint.answer, type) else code(endpoint.media)


def row_of(endpoint: Endpoint) -> tuple[str, ...]:
    """One row of the table."""
    return (
        code(f"{endpoint.method} {endpoint.path.replace(':path', '')}"),
        code(str(endpoint.scope)) if endpoint.scope else "open",
        endpoint.summary,
        ", ".join(filter(None, [keys_of(endpoint.query), keys_of(endpoint.body)])),
        answer_of(endpoint),
        codes(endpoint.refusals),
    )


def render() -> str:
    """The page as Markdown."""
    inference = table(("path", "what it does"), [(code(f"{m} {path}"), text) for m, path, text in INFERENCE])
    every = ", ".join(code(each.code) for each in EVERY)
    head = ("call", "scope", "what it does", "keys", "answer", "refusals")
    return INTRODUCTION.format(inference=inference, every=every) + table(head, map(row_of, ENDPOINTS))
