"""How a request body is changed: bytes put in place of bytes, and every other byte as it came (GW-11).

Decides the bytes of the four changes there are: the model's name, a target's patches (GW-4), a stripped
token (GW-4) and the note of a degraded answer (GATE-6). Does not decide whether a change is due. Each change
is an `Edit` on the body as it came; `apply` makes them all at once, so that none moves another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from hostler.gateway.body import Found, Span, array_at, has_items, object_at, text_at

MAX_PATCH_DEPTH = 8
"""How deep a patch is merged; below that its value replaces what is there."""

_SPELLED = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)

_SYSTEM = ("system", "developer")
_TOOL_ROLES = ("tool", "function")
_TOOL_PARTS = ("tool_use", "tool_result")


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """`body[start:end]` becomes `text`; an insertion has `start == end`."""

    start: int
    end: int
    text: bytes


class Place(StrEnum):
    """Where the note of a degraded answer goes (GATE-6): what the engine's template accepts."""

    MERGE = "merge"
    FIRST = "first"
    LAST = "last"


def apply(body: bytes, edits: Iterable[Edit]) -> bytes:
    """`body` with all edits made, those at one place in the order given; none may overlap another."""
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError(f"two edits overlap at byte {edit.start}")
        parts += (body[position : edit.start], edit.text)
        position = edit.end
    parts.append(body[position:])
    return b"".join(parts)


def replace_model(body: bytes, span: Span, name: str) -> bytes:
    """`body` with `name` as the value at `span`."""
    return b"".join((body[: span[0]], _json(name), body[span[1] :]))


def model_edit(span: Span, name: str) -> Edit:
    """As `replace_model`, to be made together with others."""
    return Edit(span[0], span[1], _json(name))


def patch_edits(body: bytes, found: Found, patch: Mapping[str, object]) -> list[Edit]:
    """What merges `patch` into the object `found`: keys are added or replaced, objects are merged key by key.

    Keys that `patch` does not name keep every byte. Of a key that stands twice the last value is changed:
    the one that engines read.
    """
    return _merge(body, found, patch, MAX_PATCH_DEPTH)


def token_edit(body: bytes, found: Found, token: str) -> Edit | None:
    """What strips `token` from the start of the latest user message; None when it does not stand there.

    The token counts at the start of the content, or of its first text part, after white space or not, when
    white space or the end follows it; the white space after it goes too. `token` is ASCII.
    """
    span = _latest_user_text(body, found)
    return None if span is None else _strip(body, span, token)


def note_edit(body: bytes, found: Found, note: str, place: Place = Place.MERGE) -> Edit | None:
    """What puts `note` before the engine as a system message; None when the body has no `messages`.

    MERGE adds to the first system message, or puts one first where there is none.
    """
    span = found.values.get("messages")
    if span is None or body[span[0] : span[0] + 1] != b"[":
        return None
    messages = array_at(body, span)
    if place is Place.MERGE:
        merged = _merged_note(body, messages, note)
        if merged is not None:
            return merged
    message = _json({"role": "system", "content": note})
    if not messages:
        return Edit(span[0] + 1, span[0] + 1, message)
    if place is Place.LAST:
        return Edit(messages[-1][1], messages[-1][1], b"," + message)
    return Edit(messages[0][0], messages[0][0], message + b",")


@dataclass(frozen=True, slots=True)
class Message:
    """One message as escalation sees it: `text` is its text parts joined by line breaks.

    `tools`: it calls a tool or holds a tool's result, OpenAI's way or Anthropic's.
    """

    role: str
    text: str
    tools: bool


def outline(body: bytes, found: Found, last: int) -> list[Message]:
    """The last `last` messages, oldest first; fewer when there are fewer, none without `messages`."""
    span = found.values.get("messages")
    messages = array_at(body, span) if span is not None else []
    return [_message(body, one) for one in messages[max(0, len(messages) - last) :]]


def _message(body: bytes, span: Span) -> Message:
    """One message; what is no message at all has no role and no text."""
    if body[span[0] : span[0] + 1] != b"{":
        return Message(role="", text="", tools=False)
    found = object_at(body, *span)
    role = _text(body, found, "role") or ""
    texts = [text_at(body, part) or "" for part in _text_spans(body, found)]
    tools = role in _TOOL_ROLES or has_items(body, found, "tool_calls") or _has_tool_part(body, found)
    return Message(role=role, text="\n".join(texts), tools=tools)


def _has_tool_part(body: bytes, message: Found) -> bool:
    """Whether a part of the message's content is a tool's call or result."""
    return any(_text(body, part, "type") in _TOOL_PARTS for part in _parts(body, message))


def _parts(body: bytes, message: Found) -> list[Found]:
    """The parts of a message's content; none when it is no array."""
    span = message.values.get("content")
    spans = array_at(body, span) if span is not None else []
    return [object_at(body, *part) for part in spans if body[part[0] : part[0] + 1] == b"{"]


def _merge(body: bytes, found: Found, patch: Mapping[str, object], depth: int) -> list[Edit]:
    """As `patch_edits`, of the object `found`, `depth` levels deep."""
    edits: list[Edit] = []
    added: list[bytes] = []
    for key, value in patch.items():
        span = found.values.get(key)
        if span is None:
            added.append(_json(key) + b":" + _json(value))
        elif isinstance(value, Mapping) and depth > 1 and body[span[0] : span[0] + 1] == b"{":
            edits += _merge(body, object_at(body, *span), value, depth - 1)
        else:
            edits.append(Edit(span[0], span[1], _json(value)))
    if added:
        comma = b"," if found.values else b""
        # After the last value, not before the brace: white space between them stays where it is.
        at = max((end for _, end in found.values.values()), default=found.close)
        edits.append(Edit(at, at, comma + b",".join(added)))
    return edits


def _merged_note(body: bytes, messages: list[Span], note: str) -> Edit | None:
    """What adds the note to the first system message; None when there is none that can take it."""
    for span in messages:
        if body[span[0] : span[0] + 1] != b"{":
            continue
        found = object_at(body, *span)
        if _text(body, found, "role") in _SYSTEM and "content" in found.values:
            return _appended(body, found.values["content"], note)
    return None


def _appended(body: bytes, content: Span, note: str) -> Edit | None:
    """What appends the note to a content: before a string's closing quote, or as one more part."""
    start, end = content
    if body[start : start + 1] == b'"':
        text = _json("\n\n" + note if end - start > 2 else note)[1:-1]
        return Edit(end - 1, end - 1, text)
    if body[start : start + 1] == b"[":
        parts = array_at(body, content)
        part = _json({"type": "text", "text": note})
        at = parts[-1][1] if parts else start + 1
        return Edit(at, at, b"," + part if parts else part)
    return None


def _latest_user_text(body: bytes, found: Found) -> Span | None:
    """Where the first text of the latest user message stands: its content, or the first text part of it."""
    span = found.values.get("messages")
    for message in reversed(array_at(body, span) if span is not None else []):
        if body[message[0] : message[0] + 1] == b"{":
            inner = object_at(body, *message)
            if _text(body, inner, "role") == "user":
                return next(iter(_text_spans(body, inner)), None)
    return None


def _text_spans(body: bytes, message: Found) -> list[Span]:
    """The strings of a message's content, in order: itself, or its parts' `text`."""
    span = message.values.get("content")
    if span is not None and body[span[0] : span[0] + 1] == b'"':
        return [span]
    texts = [part.values["text"] for part in _parts(body, message) if "text" in part.values]
    return [text for text in texts if body[text[0] : text[0] + 1] == b'"']


def _strip(body: bytes, span: Span, token: str) -> Edit | None:
    """What takes the token, however it is escaped, and the white space after it from the string at `span`."""
    chars = _chars(body, span)
    position, char = next(chars)
    while char.isspace():
        position, char = next(chars)
    start = position
    for wanted in token:
        if char != wanted:
            return None
        position, char = next(chars)
    if char and not char.isspace():
        return None
    while char.isspace():
        position, char = next(chars)
    return Edit(start, position, b"")


def _chars(body: bytes, span: Span) -> Iterator[tuple[int, str]]:
    """Each character of the string at `span` with where its spelling starts; at the end "" for ever.

    A byte beyond ASCII, or half a surrogate pair, stands for itself as a character that no token has.
    """
    position, end = span[0] + 1, span[1] - 1
    while position < end:
        spelled = _SPELLED.match(body, position, end)
        token = spelled[0] if spelled is not None else body[position : position + 1]
        char = text_at(b'"%b"' % token, (0, len(token) + 2)) if token.isascii() else None
        yield position, char or "\ufffd"
        position += len(token)
    while True:
        yield end, ""


def _json(value: object) -> bytes:
    """A value as compact JSON."""
    return msgspec.json.encode(value)


def _text(body: bytes, found: Found, key: str) -> str | None:
    """The string value of `key`, decoded."""
    span = found.values.get(key)
    return None if span is None else text_at(body, span)
