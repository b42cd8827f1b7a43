"""Refusals of what writes a config: `hostler import` and `hostler init`."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors.base import Kind, Refusal


@dataclass(eq=False, kw_only=True)
class NotImportable(Refusal):
    """What cannot be said in our config. `problems` are all of it, each `file:line: path: why`."""

    kind = Kind.INVALID
    code = "not_importable"
    message = "{file}: {count} thing(s) cannot be imported, so nothing was written."
    hint = "Change what is named, or take it out of the file, and import again."

    file: str
    count: int
    problems: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class DraftBroken(Refusal):
    """A config that we made does not pass our own check: a bug of ours, told as one."""

    kind = Kind.INTERNAL
    code = "draft_broken"
    message = (
        "This is a bug of Hostler: the config that it made does not pass its own check. Nothing was written."
    )
    hint = "Please report it, with the file that was given and the lines below."

    problems: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class FileExists(Refusal):
    """A file that would be written is there already."""

    kind = Kind.INVALID
    code = "file_exists"
    message = "{path} is there already, and is not overwritten."
    hint = "Name another file with -o, or overwrite it with --force."

    path: str


@dataclass(eq=False, kw_only=True)
class FileUnusable(Refusal):
    """A file cannot be written."""

    kind = Kind.INVALID
    code = "file_unusable"
    message = "{path} cannot be written: {why}."
    hint = "Name a file in a directory that is yours with -o."

    path: str
    why: str
