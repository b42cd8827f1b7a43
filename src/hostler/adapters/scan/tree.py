"""YAML of others as a tree of texts that knows its lines, for compose files (PORT-2).

Decides what merges and aliases come to, and the bounds of what is read. Scalars stay the text that was
written: `22:22` is never a number here, whichever YAML version it was meant for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from hostler.adapters.config.yaml import MAX_DEPTH, MAX_NODES, Unreadable, events_of

_NOTHING: Final = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A scalar as it was written; `plain`: without quotes."""

    value: str
    line: int
    plain: bool = False
    tag: str = ""

    @property
    def nothing(self) -> bool:
        """Whether it says null."""
        return self.plain and self.value in _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A sequence."""

    items: tuple[Tree, ...]
    line: int
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """A mapping, merges written out; a local key wins over a merged one."""

    entries: Mapping[str, Tree]
    line: int
    tag: str = ""

    def get(self, key: str) -> Tree | None:
        """What stands under `key`, None where nothing does or null."""
        found = self.entries.get(key)
        return None if isinstance(found, Text) and found.nothing and not found.tag else found


Tree = Text | Items | Keys


class Broken(Exception):
    """The text is no YAML, or leaves its bounds: `line` and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def read_tree(text: str) -> Tree:
    """The tree of the one document in `text`; an empty one is an empty mapping. Raises Broken."""
    try:
        return _Reader(events=events_of(text)).document()
    except Unreadable as error:
        raise Broken(error.finding.mark.line, error.finding.message) from error


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Builds the tree from the parser's events."""

    events: Iterator[Event]
    anchors: dict[str, tuple[Tree, int]] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Tree:
        """The first document; a second one is not read."""
        root: Tree = Keys(entries={}, line=1)
        seen = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                seen += 1
                if seen > 1:
                    raise Broken(_line(event), "a second document in one file")
            elif isinstance(event, NodeEvent):
                root = self._node(event, 0)
        return root

    def _count(self, event: Event, many: int = 1) -> None:
        self.nodes += many
        if self.nodes > MAX_NODES:
            raise Broken(_line(event), f"more than {MAX_NODES} values, those of aliases counted")

    def _node(self, event: NodeEvent, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise Broken(_line(event), f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, AliasEvent):
            known = self.anchors.get(str(event.anchor))
            if known is None:
                raise Broken(_line(event), f"no anchor &{event.anchor} ends before this alias")
            self._count(event, known[1])
            return known[0]
        before = self.nodes
        self._count(event)
        tree = self._content(event, depth)
        if event.anchor is not None:
            self.anchors[str(event.anchor)] = (tree, self.nodes - before)
        return tree

    def _content(self, event: NodeEvent, depth: int) -> Tree:
        if isinstance(event, ScalarEvent):
            return Text(value=event.value, line=_line(event), plain=event.style is None, tag=_tag(event))
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, depth)
        items: list[Tree] = []
        for inner in self.events:
            if isinstance(inner, SequenceEndEvent):
                break
            if isinstance(inner, NodeEvent):
                items.append(self._node(inner, depth + 1))
        tag = _tag(event) if isinstance(event, CollectionStartEvent) else ""
        return Items(items=tuple(items), line=_line(event), tag=tag)

    def _mapping(self, event: MappingStartEvent, depth: int) -> Keys:
        own: dict[str, Tree] = {}
        merged: list[Keys] = []
        for inner in self.events:
            if isinstance(inner, MappingEndEvent):
                break
            if not isinstance(inner, NodeEvent):
                continue
            key = self._node(inner, depth + 1)
            value = next(self.events)
            if not isinstance(value, NodeEvent):
                raise Broken(_line(inner), "a key without a value")
            tree = self._node(value, depth + 1)
            if not isinstance(key, Text):
                raise Broken(_line(inner), "a key that is a list or a mapping")
            if key.value == "<<" and key.plain:
                merged += _mergeable(tree)
            elif key.value in own:
                raise Broken(_line(inner), f"the key {key.value} is given twice")
            else:
                own[key.value] = tree
        entries: dict[str, Tree] = {}
        for each in reversed(merged):
            entries |= each.entries
        return Keys(entries={**entries, **own}, line=_line(event), tag=_tag(event))


def _mergeable(tree: Tree) -> list[Keys]:
    """The mappings that `<<` names, the strongest first."""
    if isinstance(tree, Keys):
        return [tree]
    found = [each for each in tree.items if isinstance(each, Keys)] if isinstance(tree, Items) else []
    if not found:
        raise Broken(tree.line, "<< needs a mapping, or a list of them")
    return found


def _tag(event: ScalarEvent | CollectionStartEvent) -> str:
    return "" if event.ctag is None else str(event.ctag)
