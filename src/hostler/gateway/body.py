"""Where the top-level values of a JSON request body stand, found without building the body (GW-12).

Decides which model a body names and which bytes spell it; refuses a body that two readers could read in two
ways. Does not change a byte (that is `edit`) and does not judge what the values mean to an engine.

How: msgspec walks the body once and gives each top-level value as raw bytes. Their lengths let us walk from
key to key; each value is compared with the bytes we stand at. A text that is `{`, then keys each followed by
`:` and one whole JSON value, separated by `,`, then `}`, has no other reading, so a walk that comes out at
the end is a proof of every span. It costs about 0.25 ms for 1 MB of long strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

MAX_KEYS = 1024
"""The most keys of one object that is walked: past it the walk itself would be work."""

MAX_MODEL_BYTES = 1024
"""The longest spelling of a model's name; a route's is 256 bytes (GW-2), and escapes take up to six each."""

Span = tuple[int, int]
"""Start and end of a value: `body[start:end]`."""


class BodyError(ValueError):
    """The body cannot be routed. `reason` is one clause; `position` is the byte where known, else None."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason if position is None else f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position


class Malformed(BodyError):
    """The body is no JSON."""


class NotAnObject(BodyError):
    """The body is JSON, but no object."""


class DuplicateKey(BodyError):
    """A key that decides the route stands twice: which of them counts differs from reader to reader."""


class ModelMissing(BodyError):
    """There is no top-level `model`, or it is empty."""


class ModelNotText(BodyError):
    """The top-level `model` is no string, or too long to be a name."""


@dataclass(frozen=True, slots=True)
class Found:
    """The object at `start` of a body: the span of each key's value, and where its closing brace stands.

    `values` is in the body's order. `twice` holds keys that stand more than once; theirs is the last span.
    """

    values: Mapping[str, Span]
    start: int
    close: int
    twice: frozenset[str] = frozenset()


@dataclass(slots=True)
class Routed:
    """A body whose model is known: `model` is its name, decoded, and `span` the value with its quotes.

    `streams`: it asks for its answer as a stream.
    """

    model: str
    span: Span
    streams: bool = False


_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_texts = msgspec.json.Decoder(str)

_scanner = json.JSONDecoder(parse_int=len, parse_float=len)

_BOM = b"\xef\xbb\xbf"
_SPACES = (b" ", b"\n", b"\r", b"\t")
_SPACE = re.compile(rb"[ \t\n\r]*")
_KEY = rb'("[^"\\]*(?:\\.[^"\\]*)*")[ \t\n\r]*:[ \t\n\r]*'
_FIRST = re.compile(rb"[ \t\n\r]*(?:%b|\})" % _KEY, re.DOTALL)
_STEP = re.compile(rb"[ \t\n\r]*(?:,[ \t\n\r]*%b|\})" % _KEY, re.DOTALL)
_MODEL = b'"model"'
_SMALL = 4096
_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(rb"[ \t\n\r]*,")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_AT_BYTE = re.compile(r" \(byte (\d+)\)$")


def route(body: bytes) -> Routed:
    """The model that `body` names, and where; whoever needs more of the body asks `locate` and `routed`.

    Raises Malformed, NotAnObject, DuplicateKey, ModelMissing, ModelNotText.
    """
    found = _only_model(body) if len(body) <= _SMALL else None
    if found is None:
        return routed(body, locate(body))
    span, streams = found
    return Routed(_model(body, span), span, streams)


def routed(body: bytes, found: Found) -> Routed:
    """As `route`, of a body whose values were located already."""
    if "model" in found.twice:
        raise DuplicateKey("the body names `model` twice", found.values["model"][0])
    span = found.values.get("model")
    if span is None:
        raise ModelMissing("the body names no `model`")
    return Routed(_model(body, span), span, is_true(body, found, "stream"))


def _only_model(body: bytes) -> tuple[Span, bool] | None:
    """The span of `model` in a body that spells it once anywhere, and no character by its number.

    There the one spelling is the key, if msgspec sees the key at all. Also whether `stream` is true. None:
    look properly.
    """
    if body.count(_MODEL) != 1 or b"\\u00" in body:
        return None
    try:
        found = _objects.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    colon = _COLON.match(body, body.find(_MODEL) + len(_MODEL))
    raw, stream = found.get("model"), found.get("stream")
    if raw is None or colon is None:
        return None
    start = colon.end()
    return (start, start + len(memoryview(raw))), stream is not None and bytes(stream) == b"true"


def locate(body: bytes) -> Found:
    """The top-level values of `body`. A byte order mark is passed over. Raises Malformed, NotAnObject."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    return object_at(body, start, len(body))


def object_at(body: bytes, start: int, end: int) -> Found:
    """The values of the object that `body[start:end]` spells, white space around it allowed.

    Raises Malformed with the position in `body`, and NotAnObject.
    """
    text = body if start == 0 and end == len(body) else body[start:end]
    text, raw = _decoded(text, start)
    if len(raw) > MAX_KEYS:
        raise Malformed(f"an object of more than {MAX_KEYS} keys")
    return _walk(text, raw, start)


def array_at(body: bytes, span: Span) -> list[Span]:
    """The spans of the elements of the array at `span`; none when the value is no array.

    `span` is a span of a value that was found: what it holds is known to be JSON.
    """
    start, end = span
    if body[start : start + 1] != b"[":
        return []
    spans: list[Span] = []
    position = start + 1
    for raw in _elements(body[start:end]):
        position = _after_space(body, position)
        spans.append((position, position + len(memoryview(raw))))
        after = _COMMA.match(body, spans[-1][1])
        position = end if after is None else after.end()
    return spans


def text_at(body: bytes, span: Span) -> str | None:
    """The string at `span`, decoded; None when the value is no string, or one with half a surrogate pair."""
    token = body[span[0] : span[1]]
    if not token.startswith(b'"'):
        return None
    try:
        return _texts.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_true(body: bytes, found: Found, key: str) -> bool:
    """Whether the value of `key` is `true`: `stream` decides the form of an answer."""
    span = found.values.get(key)
    return span is not None and body[span[0] : span[1]] == b"true"


def has_items(body: bytes, found: Found, key: str) -> bool:
    """Whether the value of `key` is an array with something in it: `tools` are offered then."""
    span = found.values.get(key)
    if span is None or body[span[0] : span[0] + 1] != b"[":
        return False
    first = _after_space(body, span[0] + 1)
    return body[first : first + 1] != b"]"


def _model(body: bytes, span: Span) -> str:
    """The name at `span`."""
    if span[1] - span[0] > MAX_MODEL_BYTES:
        raise ModelNotText(f"`model` is longer than {MAX_MODEL_BYTES} bytes", span[0])
    name = text_at(body, span)
    if name is None:
        raise ModelNotText("`model` is no string", span[0])
    if not name:
        raise ModelMissing("`model` is empty", span[0])
    return name


def _decoded(text: bytes, offset: int) -> tuple[bytes, dict[str, msgspec.Raw]]:
    """The object's values by key, and the text they were read from: `text`, or one of the same length.

    msgspec's errors become ours, with the byte counted from the body's start.
    """
    try:
        try:
            return text, _objects.decode(text)
        except msgspec.ValidationError:
            raise NotAnObject("the body is no JSON object") from None
        except msgspec.DecodeError:
            plain = _plain(text)
            if plain == text:
                raise
            return plain, _objects.decode(plain)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        at = _AT_BYTE.search(str(error))
        reason = _AT_BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
        position = offset + int(at[1]) if at is not None else None
        raise Malformed(f"no valid JSON: {reason[:1].lower()}{reason[1:]}", position) from None


def _elements(text: bytes) -> list[msgspec.Raw]:
    """The elements of an array that is known to be JSON."""
    try:
        return _arrays.decode(text)
    except msgspec.DecodeError:
        return _arrays.decode(_plain(text))


def _plain(text: bytes) -> bytes:
    """The text with escaped surrogates replaced, length for length: msgspec refuses half a pair.

    JavaScript writes half a pair where it cut a string within an emoji, and engines take it.
    """
    return _SURROGATE.sub(rb"\\ufffd", text)


def _walk(text: bytes, raw: Mapping[str, msgspec.Raw], offset: int) -> Found:
    """Step from key to key, as the module says; `offset` is where `text` stands in the body."""
    values: dict[str, Span] = {}
    twice: set[str] = set()
    opened = _after_space(text, 0)
    step = _FIRST.match(text, opened + 1)
    while step is not None and (token := step[1]) is not None:
        name = token[1:-1].decode() if b"\\" not in token else _texts.decode(token)
        start = step.end()
        value = memoryview(raw[name])
        end = start + len(value)
        step = _STEP.match(text, end) if text.startswith(value, start) else None
        if step is None:
            end = _end_by_parsing(text, start)
            step = _STEP.match(text, end)
        if name in values:
            twice.add(name)
        values[name] = (offset + start, offset + end)
    if step is None:
        raise Malformed("no valid JSON")
    return Found(values, offset + opened, offset + step.end() - 1, frozenset(twice))


def _end_by_parsing(text: bytes, start: int) -> int:
    """Where the value at `start` ends, when it is not its key's last: rare, so it may cost a whole parse."""
    try:
        return _scanner.raw_decode(text.decode("latin-1"), start)[1]
    except RecursionError:
        raise Malformed("nested too deeply") from None


def _after_space(text: bytes, position: int) -> int:
    """The first position from `position` on that is no white space."""
    if text[position : position + 1] in _SPACES:
        space = _SPACE.match(text, position)
        return position if space is None else space.end()
    return position
