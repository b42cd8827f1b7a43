"""Values as JSON and back: the one form of events, states and requests on the wire and in the store.

Decides how a value is written (TIME-1: RFC 3339 in UTC with milliseconds) and that a request's unknown
keys are refused while an answer's are ignored: a newer daemon may say more, a caller may not ask for
what nobody heard of. Refusals are written by `hostler.wire.refusals` and read by `hostler.wire.told`.
"""

from __future__ import annotations

import difflib
import json
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from hostler.domain.errors import InvalidRequest
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import Secret, frozen
from hostler.domain.values import Priority, rfc3339
from hostler.wire.native import PLAIN, is_native

_T = TypeVar("_T")
Written = msgspec.Raw
"""JSON text that was written before: it is put where it stands as it is."""


def to_json(value: object) -> object:
    """`value` made of dicts, lists, text, numbers, bools and None.

    Dataclasses by field name, times as RFC 3339, enums by value, sets sorted, secrets as `****`, and JSON
    that was written already read back. Raises ValueError for NaN and infinities, TypeError for what has no
    wire form.
    """
    if value.__class__ in PLAIN:
        return value
    if isinstance(value, dict | types.MappingProxyType):
        return _object(value.items())
    if isinstance(value, list | tuple):
        return [item if item.__class__ in PLAIN else to_json(item) for item in value]
    names = _names(value.__class__)  # type: ignore[arg-type] # mypy reads "no object has a hash" of a class
    if names:
        return _object((name, getattr(value, name)) for name in names)
    return _other_to_json(value)


def _object(items: Iterable[tuple[object, object]]) -> dict[str, object]:
    # The same test as above, once more: most values end here, and a call costs more than the rest of it.
    return {
        key if key.__class__ is str else _key(key): item if item.__class__ in PLAIN else to_json(item)
        for key, item in items
    }


def _other_to_json(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in JSON")
        return value
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return _object(value.items())
    if isinstance(value, AbstractSet):
        return [to_json(item) for item in sorted(value)]
    return _rare_to_json(value)


def _rare_to_json(value: object) -> object:
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, Written):
        return cast("object", msgspec.json.decode(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {}
    raise TypeError(f"{type(value).__name__} has no form on the wire")


@cache
def _hints(kind: type) -> Mapping[str, object]:
    """What each field may be. Worked out once: it compiles every annotation."""
    return typing.get_type_hints(kind)


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that is written by them; none of any other type."""
    written = is_dataclass(kind) and not issubclass(kind, Secret)
    return tuple(field.name for field in fields(kind)) if written else ()


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} is no text, and only text is a key in JSON")
    return key.value if isinstance(key, Enum) else key


def dump(value: object) -> bytes:
    r"""`value` as one line of JSON text; half a character is shown as `\udcff`. Raises as `to_json`."""
    try:
        return msgspec.json.encode(_ready(value), enc_hook=_mapping)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole_characters(to_json(value)))


def dump_plain(value: object) -> bytes:
    """The same of what is JSON's already, as `to_json` gives it: nothing in it is looked at again."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole_characters(value))


def plain_text(value: object) -> str:
    """JSON's own value as `json.dumps` writes it, also where it is nested too deeply for that."""
    written, todo = list[str](), list[tuple[bool, object]]([(False, value)])
    while todo:
        is_text, item = todo.pop()
        if is_text or not isinstance(item, list | dict):
            written.append(str(item) if is_text else json.dumps(item))
            continue
        parts = list[tuple[bool, object]]([(True, "[" if isinstance(item, list) else "{")])
        for number, inner in enumerate(item):
            before = ", " if number else ""
            if isinstance(item, dict):
                parts += [(True, f"{before}{json.dumps(inner)}: "), (False, item[inner])]
            else:
                parts += [(True, before), (False, inner)]
        parts.append((True, "]" if isinstance(item, list) else "}"))
        todo += reversed(parts)
    return "".join(written)


def _inside(value: object) -> Iterable[object]:
    """What may be nested inside; nothing of an empty list is, and yet it is one level."""
    if isinstance(value, dict):
        return value.values() or (None,)
    return (value or (None,)) if isinstance(value, list) else ()


def is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects of JSON's own value are nested more than `most` deep."""
    level = [value]
    for _ in range(most + 1):
        level = [inner for it in level for inner in _inside(it)]
        if not level:
            return False
    return True


def _ready(value: object) -> object:
    """`value` as `to_json` has it, but with the dataclasses that the encoder writes by itself left whole."""
    if isinstance(value, dict):
        return {_key(key): item if item.__class__ in PLAIN else _ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if item.__class__ in PLAIN else _ready(item) for item in value]
    return value if value.__class__ is Written or is_native(value) else to_json(value)


def _mapping(value: object) -> dict[object, object]:
    """A read-only mapping inside such a dataclass."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def _whole_characters(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    return value


# ---------------------------------------------------------------- events


def event_to_json(event: Event) -> dict[str, object]:
    """An event as it is stored and told (FEED-3). Times lose what is below a millisecond."""
    return {
        "time": rfc3339(event.at),
        "type": event.type,
        "actor": event.actor,
        "subject": to_json(event.subject),
        "from": event.before,
        "to": event.after,
        "message": event.message,
        "facts": to_json(event.facts),
        "priority": None if event.priority is None else event.priority.name.lower(),
        "once": event.once,
    }


def event_from_json(found: Mapping[str, Any]) -> Event:
    """The event of its JSON form; keys of a later version are ignored. Raises ValueError."""
    try:
        priority = found.get("priority")
        return Event(
            type=found["type"],
            at=datetime.fromisoformat(found["time"]),
            actor=found["actor"],
            subject=frozen(found["subject"]),
            before=found["from"],
            after=found["to"],
            message=found["message"],
            facts=frozen(found["facts"]),
            priority=None if priority is None else Priority[priority.upper()],
            once=found.get("once"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no event: {error!r}") from error


def event_to_text(event: Event) -> str:
    """An event as one line of JSON. Raises TypeError or ValueError for facts that have no JSON form."""
    return event_and_text(event)[1]


def event_and_text(event: Event) -> tuple[Event, str]:
    """An event as one line of JSON, and before it the event that this line is read as. Raises the same."""
    told = event_to_json(event)
    try:
        return event_from_json(told), msgspec.json.encode(told).decode()
    except UnicodeEncodeError:
        text = dump_plain(told).decode()
        return event_from_text(text), text


def event_from_text(text: str) -> Event:
    """The event of such a line. Raises ValueError."""
    try:
        found = msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError(f"this is no event: {error}") from error
    return event_from_json(found)


def recorded_to_json(recorded: Recorded) -> dict[str, object]:
    """An event of the log with its place, as the feed tells it (FEED-1)."""
    return {"cursor": recorded.cursor, "seq": recorded.seq} | event_to_json(recorded.event)


# ---------------------------------------------------------------- what comes in


def request_from(wanted: type[_T], body: bytes) -> _T:
    """The request in `body`, a JSON object with the fields of the dataclass `wanted` and no others.

    An empty body counts as `{}`. Refuses `invalid_request`, naming the place and what was expected.
    """
    found = parse(body) if body.strip() else {}
    if not isinstance(found, dict):
        raise InvalidRequest(what="The body is no JSON object.", expected="Send an object: {…}.")
    for place, key, known in _unknown(wanted, found, ""):
        near = difflib.get_close_matches(key, known, 1)
        raise InvalidRequest(
            what=f"The key {place!r} is not known here.",
            expected=f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known) or 'none'}.",
            where=place,
        )
    try:
        return msgspec.convert(found, wanted)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise InvalidRequest(what=f"The body does not fit: {what}.", where=where.strip("`")) from error


def parse(body: bytes) -> object:
    """The JSON value in `body`. Refuses `invalid_request`; NaN is none, and neither is half a value."""
    try:
        return cast("object", msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(what=f"The body is no JSON: {error}.") from error


def _unknown(wanted: object, found: object, place: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each key of `found` that no field of `wanted` has, with its place and the known ones."""
    if isinstance(wanted, type) and is_dataclass(wanted) and isinstance(found, dict):
        hints = _hints(wanted)
        for key, item in found.items():
            here = f"{place}.{key}" if place else key
            if key not in hints:
                yield here, key, [field.name for field in fields(wanted)]
            else:
                yield from _unknown(hints[key], item, here)
    elif isinstance(found, list | dict):
        yield from _unknown_inside(wanted, found, place)


def _unknown_inside(
    wanted: object, found: list[object] | dict[str, object], place: str
) -> Iterator[tuple[str, str, list[str]]]:
    inner = typing.get_args(wanted)
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        for option in inner:
            yield from _unknown(option, found, place)
    elif inner:
        items: Iterable[tuple[object, object]] = (
            enumerate(found) if isinstance(found, list) else found.items()
        )
        which = inner[0] if isinstance(found, list) else inner[-1]
        for key, item in items:
            yield from _unknown(which, item, f"{place}[{key}]")
