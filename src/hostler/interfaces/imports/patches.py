"""llama-swap's filters as patches of a route: what is set, and what is taken out, of a request's body.

Decides the order (taken out, set, set by the name that was asked for) and how a key is taken out: as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.macros import BY_ID
from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

Patch = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """What is changed in every request, and besides in those that ask by one name."""

    always: Mapping[str, object] = field(default_factory=dict)
    by_name: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def of(self, name: str) -> Patch:
        """The patch for requests that ask by that name."""
        return {**self.always, **self.by_name.get(name, {})}


def patches_of(filters: Fields, model: str, notes: Notes) -> Patches:
    """The patches that the filters of `model` come to; of a peer's, which has several, `model` is empty."""
    always: Patch = {}
    gone: list[str] = []
    set_always = _settings(filters.mapping("setParams"), filters.below("setParams"), notes)
    by_name = {
        name: _settings(fields.given.keys or {}, fields.path, notes) for name, fields in filters.each(BY_ID)
    }
    key = "stripParams" if filters.get("stripParams") is not None else "strip_params"
    for word in filters.text(key).split(","):
        name = word.strip()
        if not name or name == "model":
            continue
        _put(always, name.split("."), None)
        if name not in set_always and not (model in by_name and all(name in it for it in by_name.values())):
            gone.append(name)
    if gone:
        notes.changed(
            filters.at(key),
            filters.below(key),
            f"{', '.join(gone)} reach the engine as null instead of not at all; llama.cpp and vLLM read null"
            " as absent",
            alike="stripParams",
        )
    return Patches(always={**always, **set_always}, by_name=by_name)


def _settings(given: Mapping[str, Given], path: str, notes: Notes) -> Patch:
    found: Patch = {}
    for name, value in given.items():
        if name == "model":
            notes.left_out(
                value, f"{path}.model", "the model's name is the target's own: useModelName says it"
            )
            continue
        if value.keys is not None:
            notes.changed(
                value,
                f"{path}.{name}",
                "it is merged into what the client sent, key by key; llama-swap puts it in its place",
                alike=f"setParams.{name}",
            )
        _put(found, name.split("."), value.plain())
    return found


def _put(into: Patch, steps: list[str], value: object) -> None:
    """llama-swap reads a dot as a step down."""
    for step in steps[:-1]:
        inner = into.get(step)
        if not isinstance(inner, dict):
            inner = {}
            into[step] = inner
        into = inner
    into[steps[-1]] = value
