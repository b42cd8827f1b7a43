"""What `hostler import` asks for: somebody else's config with its places, and a place for what comes of it.

Decides the shape of a value that knows where it stands. Reads no file; `hostler.adapters.imports` does, and
what the values mean is decided in `hostler.interfaces.imports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hostler.domain.fleet import Secret, frozen
from hostler.services.config_parts import Problem

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value of somebody else's file: a mapping (`keys`), a list (`items`), or a scalar (`value`).

    `line` counts from 1 and is that of its key, where it has one. `text` is the scalar as it was written.
    `rows` are the lines of the file that a text of several lines was written on, with their numbers.
    """

    file: str
    line: int
    value: Scalar = None
    text: str = ""
    items: tuple[Given, ...] | None = None
    keys: Mapping[str, Given] | None = None
    rows: tuple[tuple[int, str], ...] = ()

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def plain(self) -> object:
        """The value as dicts, lists and scalars."""
        if self.keys is not None:
            return {name: each.plain() for name, each in self.keys.items()}
        if self.items is not None:
            return [each.plain() for each in self.items]
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files that were read, in the order of their merging, and the variables that stand in them.

    `variables` leads from a value to the name of the variable that it came from.
    """

    files: tuple[Given, ...]
    variables: Mapping[str, str] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A config that is not written yet. In `text` each secret is `${file:SECRETS/NAME}`, by `secrets`."""

    text: str
    secrets: Mapping[str, Secret] = field(default_factory=lambda: frozen({}))


SECRETS = "hostler-secrets"
"""The directory of the secrets of a draft, beside the config."""
NOWHERE = "\ue003"
"""Stands in a draft for the directory that the config comes to lie in."""


class ImportParts(Protocol):
    """The files and programs of this machine as an import sees them."""

    @property
    def here(self) -> str:
        """The working directory: relative paths of a command count from it."""
        ...

    def read(self, paths: Sequence[str]) -> Source:
        """Every file, of a directory its `*.yml` and `*.yaml` by name. Refuses: not_importable."""
        ...

    def has_program(self, program: str, cwd: str) -> bool:
        """Whether that program can be run from that directory."""
        ...

    def check(self, draft: Draft) -> Sequence[Problem]:
        """What `hostler config check` finds wrong with a draft. Nothing is left on the disk."""
        ...

    def earlier(self, path: str) -> Mapping[str, Given]:
        """The engines of the config that is at `path` already, by name; none where there is none."""
        ...

    def finish(
        self, draft: Draft, path: str | None, *, force: bool, sources: Sequence[str] = ()
    ) -> Sequence[str]:
        """Write the draft to `path` with its secrets beside it; the paths of the secrets.

        `path` None: nothing is written, and the draft's text is for a config in the working directory. What
        is one of `sources` is never written to. Refuses: file_exists, file_unusable.
        """
        ...

    def shown(self, draft: Draft) -> str:
        """The draft's text as it is for a config in the working directory."""
        ...
