"""Escalating routes: which of two engines answers a request (GW-4).

Decides between fast and large by the request and by what is possible now; every case is in one pure
function. Does not read bodies (`gateway.edit`) and does not start anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hostler.domain.errors import BoxReserved, Refusal
from hostler.domain.fleet import Escalation, frozen
from hostler.domain.values import shorten

INTENT_CHARS: Final = 4096
"""How much of a message intents are looked for in: a pattern may cost the square of the length."""

CAUSES: Final[Mapping[str, str]] = frozen(
    {
        "serving_class_refused": "only in an operator window",
        "memory_now": "not enough memory now",
        "memory_never": "not enough memory",
        "suspended": "suspended by an operator",
        "window_closing": "window closing",
        "leased": "leased",
        "engine_failed": "it failed to start",
        "draining": "busy",
        "loading": "still loading",
    }
)
"""What the note says of a refusal, by its code (GATE-6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message as escalation sees it; `tools`: it calls a tool or is a tool's result."""

    role: str
    text: str
    tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a request says of itself: does it want the large engine, and why."""

    large: bool
    token: bool = False
    reason: str = "plain"


def wish(
    messages: Sequence[Said], *, tools_offered: bool, rules: Escalation, intents: Sequence[re.Pattern[str]]
) -> Wish:
    """What the request asks for. `messages` are the latest ones, oldest first; `intents` are `rules.intent`.

    The token at the start of the latest user message; with `when_tools`, tools offered and an intent in that
    message, or tool activity with at most `lookback` messages after it (sticky): `lookback` + 1 tell.
    """
    latest = next((it.text for it in reversed(messages) if it.role == "user"), "")
    if rules.token is not None and has_token(latest, rules.token):
        return Wish(large=True, token=True, reason="token")
    if not rules.when_tools:
        return Wish(large=False)
    if tools_offered and any(pattern.search(latest, 0, INTENT_CHARS) for pattern in intents):
        return Wish(large=True, reason="intent")
    if any(it.tools for it in messages[-rules.lookback - 1 :]):
        return Wish(large=True, reason="sticky")
    return Wish(large=False)


def has_token(text: str, token: str) -> bool:
    """Whether `text` begins with the token and white space or its end follows: `!escalated` is another word.

    As `gateway.edit` strips it: what counts here is gone there.
    """
    start = text.lstrip()
    return start.startswith(token) and not start[len(token) : len(token) + 1].strip()


class Can(StrEnum):
    """What an engine could do for a request now."""

    SERVE = "serve"
    START = "start"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which engine serves. `refused`: neither can, and this is why. `degraded` is the refusal's code."""

    large: bool
    reason: str
    degraded: str | None = None
    note: str | None = None
    refused: bool = False


def decide(asked: Wish, *, fast: Can, large: Can, refusal: Refusal | None, may_degrade: bool) -> Decision:
    """The decision's whole table (GW-4, GATE-6). `refusal` is why `large` can do nothing.

    No swap is made for a request that fast could have served: while large is ready and fast is not, large
    serves both. A degraded answer never starts anything (HOLD-12).
    """
    if not asked.large:
        if fast is not Can.SERVE and large is Can.SERVE:
            return Decision(large=True, reason="large is ready, fast is not")
        return Decision(large=False, reason=asked.reason)
    if large is not Can.NOTHING:
        return Decision(large=True, reason=asked.reason)
    if fast is Can.SERVE and may_degrade and refusal is not None:
        return Decision(
            large=False,
            reason=f"{asked.reason}, but large is refused",
            degraded=refusal.code,
            note=cause_of(refusal),
        )
    return Decision(large=True, reason=f"{asked.reason}, refused", refused=True)


def cause_of(refusal: Refusal) -> str:
    """The cause that a degraded answer's note names (GATE-6): `held by WHO until T`, or the code's words.

    The owner is text of others that a model will read: controls are shown, and its length is bounded.
    """
    if isinstance(refusal, BoxReserved):
        return f"held by {shorten(refusal.owner)} until {refusal.until}"
    return CAUSES.get(refusal.code, refusal.code.replace("_", " "))
