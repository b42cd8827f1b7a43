"""`${…}` of llama-swap: what its macros stand for, in the order in which it fills them in.

Decides the text of every value. `${PORT}` and `${PID}` become marks of ours: their numbers are not known
when a config is imported, and a port is never imported as a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

PORT: Final = "\ue000"
PID: Final = "\ue001"
MACRO: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")
BY_ID: Final = "setParamsByID"
_RESERVED: Final = {"PORT": PORT, "PID": PID}
MAX_TEXT: Final = 1 << 16
"""Characters that a value may grow to: thirty macros of two others each would be 2^30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Macros:
    """The macros that one model sees, in the order of their definition."""

    defined: Mapping[str, Given]
    notes: Notes

    def checked(self, path: str) -> Macros:
        """These macros, less those whose names or values cannot be."""
        kept = {}
        for name, value in self.defined.items():
            if name in (*_RESERVED, "MODEL_ID") or not _NAME.fullmatch(name):
                self.notes.refuse(value, f"{path}.{name}", "this is no name for a macro")
            elif value.keys is not None or value.items is not None:
                self.notes.refuse(value, f"{path}.{name}", "a macro is text, a number, or true or false")
            else:
                kept[name] = value
        return replace(self, defined=kept)

    def over(self, own: Mapping[str, Given], path: str) -> Macros:
        """With a model's own ones: those of a known name take its place, the others come last."""
        mine = Macros(defined=own, notes=self.notes).checked(path)
        return replace(self, defined={**self.defined, **mine.defined})

    def with_id(self, model: str, at: Given) -> Macros:
        """With `${MODEL_ID}`."""
        given = Given(file=at.file, line=at.line, value=model, text=model)
        return replace(self, defined={"MODEL_ID": given, **self.defined})

    def expand(self, given: Given, path: str) -> Given:
        """The value with every macro filled in; keys only where they are names that clients ask for."""
        if given.keys is not None:
            in_keys = path.endswith(f".{BY_ID}")
            expanded = {}
            for name, value in given.keys.items():
                key = self._filled(name, value, path) if in_keys else name
                expanded[key] = self.expand(value, f"{path}.{name}")
            return replace(given, keys=expanded)
        if given.items is not None:
            return replace(given, items=tuple(self.expand(each, path) for each in given.items))
        return self._scalar(given, path)

    def _scalar(self, given: Given, path: str) -> Given:
        if not isinstance(given.value, str) or "${" not in given.value:
            return given
        whole = MACRO.fullmatch(given.value)
        known = self.defined.get(whole[1]) if whole is not None else None
        if known is not None and "${" not in known.text:
            return replace(given, value=known.value, text=known.text)
        text = self._filled(given.value, given, path)
        return replace(given, value=text, text=text)

    def _filled(self, text: str, at: Given, path: str) -> str:
        """From the last definition to the first, so that a macro may be made of earlier ones."""
        for name in reversed(tuple(self.defined)):
            text = text.replace("${" + name + "}", self.defined[name].text)
            if len(text) > MAX_TEXT:
                self.notes.refuse(at, path, f"its macros make it longer than {MAX_TEXT} characters")
                return ""
        for name, mark in _RESERVED.items():
            text = text.replace("${" + name + "}", mark)
        left = MACRO.search(text)
        if left is not None:
            self.notes.refuse(at, path, f"there is no macro {left[1]}: {left[0]}", line=_line_of(at, left[0]))
        return text


def _line_of(given: Given, word: str) -> int:
    """The line of a text of several lines that has that word."""
    return next((number for number, row in given.rows if word in row), given.line)
