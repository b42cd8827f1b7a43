"""Reads YAML as other programs write it: anchors, merge keys, YAML 1.1's freedom, each value with its line.

Decides what a file says, not what it means. A file that is no YAML, or has a key twice, is refused with its
line. What a config of ours may be is decided in `hostler.adapters.config.yaml`; bounds are its.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ruamel.yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from hostler.adapters.config.tree import Mark
from hostler.adapters.config.yaml import MAX_DEPTH, MAX_NODES, Finding, Unreadable, events_of, resolve
from hostler.domain.values import shorten
from hostler.services.import_parts import Given

MERGE: Final = "<<"
_UNTEXT: Final = re.compile("[\x00\ud800-\udfff]")


def given_of(text: str, file: str) -> Given:
    """The document of `text`; an empty one is an empty mapping. Raises Unreadable."""
    events = events_of(text)
    composer = _Composer(events=events, file=file, rows=text.split("\n"))
    for event in events:
        if isinstance(event, NodeEvent):
            return composer.node(event, 0)
    return Given(file=file, line=1, keys={})


@dataclass(slots=True, kw_only=True)
class _Composer:
    """Builds values from the events of the first document."""

    events: Iterator[Event]
    file: str
    rows: list[str]
    anchors: dict[str, tuple[Given, int]] = field(default_factory=dict)
    nodes: int = 0

    def node(self, event: NodeEvent, depth: int) -> Given:
        """The value that begins with `event`."""
        if depth > MAX_DEPTH:
            raise _stop(event, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self.nodes
        self._count(event, 1)
        made = self._content(event, depth)
        if event.anchor is not None:
            self.anchors[str(event.anchor)] = (made, self.nodes - before)
        return made

    def _count(self, event: Event, many: int) -> None:
        self.nodes += many
        if self.nodes > MAX_NODES:
            raise _stop(event, f"more than {MAX_NODES} values, those of aliases counted")

    def _alias(self, event: AliasEvent) -> Given:
        known = self.anchors.get(str(event.anchor))
        if known is None:
            raise _stop(event, f"no anchor &{shorten(str(event.anchor))} ends before this alias")
        self._count(event, known[1])
        return replace(known[0], line=_line(event))

    def _content(self, event: NodeEvent, depth: int) -> Given:
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, depth)
        items: list[Given] = []
        for inner in self.events:
            if isinstance(inner, SequenceEndEvent):
                break
            if isinstance(inner, NodeEvent):
                items.append(self.node(inner, depth + 1))
        return Given(file=self.file, line=_line(event), items=tuple(items))

    def _scalar(self, event: ScalarEvent) -> Given:
        if _UNTEXT.search(event.value):
            raise _stop(event, "a NUL or half a character pair in a text")
        value, wrong = (event.value, "") if event.style is not None else resolve(event.value)
        first, last = event.start_mark.line, event.end_mark.line
        rows = tuple((n + 1, self.rows[n]) for n in range(first, min(last + 1, len(self.rows))))
        return Given(
            file=self.file,
            line=_line(event),
            value=event.value if wrong else value,
            text=event.value,
            rows=rows if last > first else (),
        )

    def _mapping(self, event: MappingStartEvent, depth: int) -> Given:
        own: dict[str, Given] = {}
        merged: dict[str, Given] = {}
        for inner in self.events:
            if isinstance(inner, MappingEndEvent):
                break
            if not isinstance(inner, NodeEvent):
                continue
            key = self._key(inner)
            value = self.node(self._value(inner), depth + 1)
            if key == MERGE:
                _merge(merged, value, inner)
            elif key in own:
                raise _stop(inner, f"the key {shorten(key)} is given twice, first on line {own[key].line}")
            else:
                own[key] = replace(value, line=_line(inner))
        return Given(file=self.file, line=_line(event), keys={**merged, **own})

    def _key(self, event: NodeEvent) -> str:
        if isinstance(event, ScalarEvent):
            return str(event.value)
        if isinstance(event, AliasEvent):
            return self._alias(event).text
        raise _stop(event, "a key is text, not a list or a mapping")

    def _value(self, key: NodeEvent) -> NodeEvent:
        value = next(self.events)
        if not isinstance(value, NodeEvent):
            raise _stop(key, "a key without a value")
        return value


def _merge(into: dict[str, Given], value: Given, event: Event) -> None:
    """`<<:` gives keys that the mapping does not have itself; of several the first one counts."""
    for each in value.items if value.items is not None else (value,):
        if each.keys is None:
            raise _stop(event, "<< takes a mapping, or a list of them")
        for name, one in each.keys.items():
            into.setdefault(name, one)


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _stop(event: Event, message: str) -> Unreadable:
    mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
    return Unreadable(Finding(mark=mark, path=(), message=message))
