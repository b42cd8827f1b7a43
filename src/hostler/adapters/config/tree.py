"""A config file as a tree that knows its places. Decides where a path of keys stands in the file.

Holds what was written, not what it means: `hostler.adapters.config.schema` knows the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.values import escape_controls

Path = tuple[str | int, ...]
"""Keys and list indices from the root, as in ("engines", "embed", "argv", 2)."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file, both counted from 1."""

    line: int
    column: int


START: Final = Mark(1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A scalar, read by the core schema of YAML 1.2."""

    mark: Mark
    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    """A sequence."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a mapping, with its own place."""

    key: str
    mark: Mark
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """A mapping; its keys are texts, each once, in the file's order."""

    mark: Mark
    entries: tuple[Entry, ...]

    def entry(self, key: str) -> Entry | None:
        """The entry of that key, or None."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def keys(self) -> tuple[str, ...]:
        """The keys in the file's order."""
        return tuple(entry.key for entry in self.entries)


Node = Leaf | ListNode | MapNode


def plain(node: Node) -> object:
    """The node as dicts, lists and scalars."""
    match node:
        case Leaf():
            return node.value
        case ListNode():
            return [plain(item) for item in node.items]
        case MapNode():
            return {entry.key: plain(entry.node) for entry in node.entries}


def bare(tree: Node) -> object:
    """The tree as plain data, keys without a value left out: they have a problem of their own."""
    if isinstance(tree, MapNode):
        return {
            entry.key: bare(entry.node) if entry.key != "patches" else plain(entry.node)
            for entry in tree.entries
            if not (isinstance(entry.node, Leaf) and entry.node.value is None)
        }
    if isinstance(tree, ListNode):
        return [bare(item) for item in tree.items]
    return plain(tree)


def empty(node: Node, path: Path) -> Iterator[tuple[Path, Mark]]:
    """Every key without a value; inside `patches` null is a value of its own."""
    if isinstance(node, MapNode):
        for entry in node.entries:
            here = (*path, entry.key)
            if isinstance(entry.node, Leaf) and entry.node.value is None:
                yield here, entry.mark
            elif entry.key != "patches":
                yield from empty(entry.node, here)
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from empty(item, (*path, index))


def child(node: Node, step: str | int) -> tuple[Mark, Node] | None:
    """The place of the key (or item) that `step` names, and its node; None when there is none."""
    if isinstance(node, MapNode) and isinstance(step, str):
        entry = node.entry(step)
        return None if entry is None else (entry.mark, entry.node)
    if isinstance(node, ListNode) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step].mark, node.items[step]
    return None


def locate(root: Node, path: Path, *, at_key: bool = False) -> Mark:
    """The place of the value at `path`, of its key with `at_key`.

    Where the path leaves the tree (a missing key), the place of the last key that is there.
    """
    key, node = root.mark, root
    for step in path:
        found = child(node, step)
        if found is None:
            return key
        key, node = found
    return key if at_key else node.mark


def node_at(root: Node, path: Path) -> Node | None:
    """The node at `path`, or None."""
    node = root
    for step in path:
        found = child(node, step)
        if found is None:
            return None
        node = found[1]
    return node


def keys_at(root: Node, path: Path) -> tuple[str, ...]:
    """The keys of the mapping at `path`; none where there is no mapping."""
    node = node_at(root, path)
    return node.keys() if isinstance(node, MapNode) else ()


def without(root: Node, path: Path) -> Node:
    """The tree less the key or item at `path`; the same tree where there is none."""
    if not path:
        return root
    step, rest = path[0], path[1:]
    found = child(root, step)
    if found is None:
        return root
    inner = without(found[1], rest) if rest else None
    if isinstance(root, MapNode):
        kept = (
            replace(entry, node=inner) if entry.key == step and inner is not None else entry
            for entry in root.entries
            if entry.key != step or inner is not None
        )
        return replace(root, entries=tuple(kept))
    if isinstance(root, ListNode):
        items = (
            inner if index == step and inner is not None else item
            for index, item in enumerate(root.items)
            if index != step or inner is not None
        )
        return replace(root, items=tuple(items))
    return root


def written(path: Path) -> str:
    """`engines.embed.argv[2]`; a key that would read wrong is quoted: `routes["a.b/c"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _BARE.fullmatch(step):
            text += f".{step}" if text else step
        else:
            quoted = step.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escape_controls(quoted)}"]'
    return text
