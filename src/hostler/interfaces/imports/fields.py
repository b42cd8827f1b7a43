"""Reads values of the expected kind out of somebody else's mapping; another kind is refused with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

MOST: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The keys of one mapping. `path` is where it stands, as in `models.qwen`."""

    given: Given
    path: str
    notes: Notes

    def at(self, name: str) -> Given:
        """Where that key stands, or the mapping itself where there is none."""
        return self.get(name) or self.given

    def get(self, name: str) -> Given | None:
        """The value of that key; None when it is not there, or null."""
        found = (self.given.keys or {}).get(name)
        return None if found is None or is_null(found) else found

    def below(self, name: str) -> str:
        """The path of that key."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str, default: str = "") -> str:
        """A text, also where it looks like a number."""
        found = self.get(name)
        if found is None:
            return default
        if found.keys is not None or found.items is not None:
            self._wrong(found, name, "text")
            return default
        return found.text

    def number(self, name: str, default: int = 0, least: int = 0) -> int:
        """A whole number, at least `least` and at most ten years of seconds."""
        found = self.get(name)
        if found is None:
            return default
        if isinstance(found.value, bool) or not isinstance(found.value, int):
            self._wrong(found, name, "a whole number")
            return default
        if not least <= found.value <= MOST:
            self._wrong(found, name, f"a number from {least} to {MOST}")
            return default
        return found.value

    def truth(self, name: str, *, default: bool = False) -> bool:
        """True or false; yes, no, on and off as well."""
        found = self.get(name)
        if found is None:
            return default
        words = {"yes": True, "on": True, "no": False, "off": False}
        value = words.get(found.text.lower(), found.value)
        if not isinstance(value, bool):
            self._wrong(found, name, "true or false")
            return default
        return value

    def listed(self, name: str) -> tuple[Given, ...]:
        """The items of a list."""
        found = self.get(name)
        if found is None:
            return ()
        if found.items is None:
            self._wrong(found, name, "a list")
            return ()
        return found.items

    def texts(self, name: str) -> tuple[tuple[Given, str], ...]:
        """The items of a list of texts, each with its place."""
        return tuple((each, each.text) for each in self.listed(name) if self._is_text(each, name))

    def mapping(self, name: str) -> Mapping[str, Given]:
        """The entries of a mapping."""
        found = self.get(name)
        if found is None:
            return {}
        if found.keys is None:
            self._wrong(found, name, "a mapping")
            return {}
        return found.keys

    def inner(self, name: str) -> Fields:
        """The fields of the mapping at that key; without any where there is none."""
        entries = self.mapping(name)
        at = self.at(name)
        return Fields(
            given=Given(file=at.file, line=at.line, keys=entries), path=self.below(name), notes=self.notes
        )

    def each(self, name: str) -> Iterator[tuple[str, Fields]]:
        """The mappings in the mapping at that key, by their names."""
        for key, given in self.mapping(name).items():
            path = f"{self.below(name)}.{key}"
            if given.keys is None:
                self.notes.refuse(given, path, "expected a mapping")
            else:
                yield key, Fields(given=given, path=path, notes=self.notes)

    def _is_text(self, given: Given, name: str) -> bool:
        if given.keys is None and given.items is None:
            return True
        self._wrong(given, name, "a list of texts")
        return False

    def _wrong(self, given: Given, name: str, expected: str) -> None:
        self.notes.refuse(given, self.below(name), f"expected {expected}")


def is_null(given: Given) -> bool:
    """Whether it says nothing."""
    return given.value is None and given.keys is None and given.items is None
