"""Reads YAML 1.2 strictly, into a tree that knows its places (CONF-1).

Decides what of YAML may stand in a config: the core schema only (no dates, no sexagesimal numbers, no
yes and no, 0640 is the number 640), one document, each key once, no tags, no directives, no tabs as
indentation, bounded size, depth and expansion of anchors. Knows no key of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
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
from ruamel.yaml.reader import ReaderError

from hostler.adapters.config.tree import START, Entry, Leaf, ListNode, MapNode, Mark, Node, Path
from hostler.domain.values import escape_controls

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 40
MAX_NODES: Final = 100_000
"""Nodes after every alias is written out: ten anchors of ten aliases each would be 10^10."""
MAX_DIGITS: Final = 40

_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_UNTEXT: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that YAML may say and a config may not. `lost`: the value at `path` is not known."""

    mark: Mark
    path: Path
    message: str
    hint: str = ""
    lost: bool = False


class Unreadable(Exception):
    """The text is no YAML, or leaves its bounds: nothing after this place can be read."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def decode(data: bytes) -> str:
    """The text of a config file: UTF-8 (a BOM is dropped), at most 1 MiB. Raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise _stop(START, f"the file is larger than {MAX_BYTES >> 10} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise _stop(Mark(line, column), "the file is not UTF-8 text") from error


def compose(text: str) -> tuple[Node, tuple[Finding, ...]]:
    """The tree of `text` and everything in it that a config may not say. Raises Unreadable."""
    composer = _Composer(events=events(text))
    root = composer.document()
    return root, (*composer.findings, *_tabs(text, composer.scalars))


def _stop(mark: Mark, message: str, hint: str = "") -> Unreadable:
    return Unreadable(Finding(mark=mark, path=(), message=message, hint=hint))


def _mark(event: Event) -> Mark:
    return _from(event.start_mark)


def _from(mark: StreamMark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def events(text: str) -> Iterator[Event]:
    """Events of the parser; its own errors become Unreadable, whatever their class."""
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = escape_controls(str(error.problem or error.context or "this is no YAML"))
        hint = "indent with blanks" if "'\\t'" in str(error.problem) else ""
        raise _stop(START if mark is None else _from(mark), f"no YAML: {what}", hint) from error
    except ReaderError as error:
        upto = text[: error.position] if isinstance(error.position, int) else ""
        mark = Mark(upto.count("\n") + 1, len(upto) - (upto.rfind("\n") + 1) + 1)
        raise _stop(mark, "no YAML: a control character") from error
    except (YAMLError, ArithmeticError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise _stop(START, f"no YAML: {type(error).__name__} while reading it") from error


@dataclass(slots=True, kw_only=True)
class _Composer:
    """Builds the tree from the events of one document."""

    events: Iterator[Event]
    findings: list[Finding] = field(default_factory=list)
    scalars: list[tuple[int, int]] = field(default_factory=list)
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Node:
        """The one document's root; an empty file is an empty mapping."""
        root: Node = MapNode(mark=START, entries=())
        seen = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                seen += 1
                self._check_start(event, seen)
            elif isinstance(event, NodeEvent):
                if seen > 1:
                    break
                root = self._node(event, ())
        return root

    def _check_start(self, event: DocumentStartEvent, seen: int) -> None:
        if seen > 1:
            self._find(event, (), "a second document; a config is one", "cut the file at this `---`")
        if event.version is not None or event.tags:
            self._find(event, (), "directives such as %YAML and %TAG are not read", "remove it")

    def _find(self, event: Event, path: Path, message: str, hint: str = "") -> None:
        self.findings.append(Finding(mark=_mark(event), path=path, message=message, hint=hint))

    def _count(self, event: Event, many: int = 1) -> None:
        self.nodes += many
        if self.nodes > MAX_NODES:
            raise _stop(_mark(event), f"more than {MAX_NODES} values, those of aliases counted")

    def _node(self, event: NodeEvent, path: Path) -> Node:
        if len(path) > MAX_DEPTH:
            raise _stop(_mark(event), f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self.nodes
        self._count(event)
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.ctag is not None:
            self._find(event, path, f"the tag {event.ctag} is not read", "remove it")
        node = self._content(event, path)
        if event.anchor is not None:
            self.anchors[str(event.anchor)] = (node, self.nodes - before)
        return node

    def _content(self, event: NodeEvent, path: Path) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, path)
        items: list[Node] = []
        for inner in self.events:
            if isinstance(inner, SequenceEndEvent):
                break
            if isinstance(inner, NodeEvent):
                items.append(self._node(inner, (*path, len(items))))
        return ListNode(mark=_mark(event), items=tuple(items))

    def _alias(self, event: AliasEvent) -> Node:
        known = self.anchors.get(str(event.anchor))
        if known is None:
            raise _stop(_mark(event), f"no anchor &{event.anchor} ends before this alias")
        node, size = known
        self._count(event, size)
        return node

    def _scalar(self, event: ScalarEvent, path: Path) -> Leaf:
        self.scalars.append((event.start_mark.line, event.end_mark.line))
        value, wrong = (event.value, "") if event.style is not None else resolve(event.value)
        if isinstance(value, str) and _UNTEXT.search(value):
            wrong = "a NUL or half a character pair in a text"
        if wrong:
            self.findings.append(Finding(mark=_mark(event), path=path, message=wrong, lost=True))
        return Leaf(mark=_mark(event), value=None if wrong else value)

    def _mapping(self, event: MappingStartEvent, path: Path) -> MapNode:
        entries: dict[str, Entry] = {}
        for inner in self.events:
            if isinstance(inner, MappingEndEvent):
                break
            if isinstance(inner, NodeEvent):
                self._entry(inner, path, entries)
        return MapNode(mark=_mark(event), entries=tuple(entries.values()))

    def _entry(self, event: NodeEvent, path: Path, entries: dict[str, Entry]) -> None:
        key = self._key(event, path)
        value = next(self.events)
        if not isinstance(value, NodeEvent):
            raise _stop(_mark(event), "no YAML: a key without a value")
        node = self._node(value, (*path, key or "?"))
        if key is None:
            return
        if key in entries:
            first = entries[key].mark
            self._find(event, (*path, key), "the key is given twice", f"first on line {first.line}")
            return
        entries[key] = Entry(key=key, mark=_mark(event), node=node)

    def _key(self, event: NodeEvent, path: Path) -> str | None:
        """The key's text; None, and a finding, for what is no text."""
        node = self._node(event, path)
        if not isinstance(node, Leaf):
            self._find(event, path, "a key must be text, not a list or a mapping")
            return None
        if not isinstance(node.value, str):
            text = event.value if isinstance(event, ScalarEvent) else ""
            self._find(event, path, f"a key must be text, {text or 'nothing'} is none", "quote it")
            return None
        if node.value == "<<":
            self._find(event, path, "merge keys (<<) are not YAML 1.2", "write the keys out")
            return None
        return node.value


def resolve(text: str) -> tuple[bool | int | float | str | None, str]:
    """What a plain scalar is by the core schema, and what is wrong with it (empty: nothing)."""
    if text in _WORDS:
        return _WORDS[text], ""
    if _NOT_FINITE.fullmatch(text):
        return None, "a number must be finite"
    numeric = _OCTAL.fullmatch(text) or _HEX.fullmatch(text) or _FLOAT.fullmatch(text)
    if not numeric:
        return text, ""
    if len(text) > MAX_DIGITS:
        return None, f"a number of more than {MAX_DIGITS} characters"
    if text.startswith(("0o", "0x")):
        return int(text, 0), ""
    if _INT.fullmatch(text):
        return int(text), ""
    number = float(text)
    return (number, "") if abs(number) != float("inf") else (None, "a number must be finite")


def _tabs(text: str, scalars: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    """A finding for each line that a tab indents, outside texts of several lines."""
    inside = {line for first, last in scalars if last > first for line in range(first + 1, last + 1)}
    for number, line in enumerate(text.split("\n")):
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in indent and line.strip() and number not in inside:
            mark = Mark(number + 1, indent.index("\t") + 1)
            yield Finding(mark=mark, path=(), message="a tab indents this line", hint="use blanks")
