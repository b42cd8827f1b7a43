"""Several files of llama-swap become one, as llama-swap merges them.

Decides that mappings are merged deep, lists are joined, null yields, equal scalars are fine, and that two
different scalars, or one name defined in two files, are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hostler.interfaces.imports.fields import is_null
from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

_SETTINGS: Final = ("routing", "router", "settings")
DEFINED_ONCE: Final = frozenset(
    {
        ("models",),
        ("groups",),
        ("profiles",),
        ("selectors",),
        ("peers",),
        ("matrix",),
        (*_SETTINGS, "groups"),
        (*_SETTINGS, "matrix"),
    }
)
"""Mappings of names: the same name below one of them in two files is an error."""


def merged(files: Sequence[Given], notes: Notes) -> Given:
    """The files as one; what contradicts is refused."""
    whole = files[0]
    for file in files[1:]:
        whole = _merge(whole, file, (), notes)
    return whole


def _merge(one: Given, two: Given, path: tuple[str, ...], notes: Notes) -> Given:
    if is_null(two):
        return one
    if is_null(one):
        return two
    if one.keys is not None and two.keys is not None:
        return _mappings(one, two, path, notes)
    if one.items is not None and two.items is not None:
        return replace(one, items=one.items + two.items)
    if one.plain() != two.plain():
        notes.refuse(two, ".".join(path), f"{one.place} says something else, and one of them must go")
    return one


def _mappings(one: Given, two: Given, path: tuple[str, ...], notes: Notes) -> Given:
    keys = dict(one.keys or {})
    for name, value in (two.keys or {}).items():
        if name not in keys:
            keys[name] = value
        elif path in DEFINED_ONCE:
            notes.refuse(value, ".".join((*path, name)), f"it is defined in {keys[name].place} already")
        else:
            keys[name] = _merge(keys[name], value, (*path, name), notes)
    return replace(one, keys=keys)
