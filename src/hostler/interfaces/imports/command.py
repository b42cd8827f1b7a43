"""A command line of llama-swap as the words that it runs.

Decides the words as llama-swap does (comment lines, joined lines, quotes; no shell), and what of them cannot
run here: a shell's syntax without a shell, a path of Windows. What a program's flags mean is in `programs`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Final

from hostler.interfaces.imports.macros import PID, PORT
from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

_SHELL: Final = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "1>&2", "&>", "<<"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash"})


def without_comments(given: Given) -> Given:
    """The command less its comment lines: their macros are not looked at."""
    if not isinstance(given.value, str):
        return given
    text = "\n".join(line for line in given.value.split("\n") if not line.lstrip().startswith("#"))
    return replace(given, value=text, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The words of a command, where it stands, and what the marks in them stand for."""

    words: tuple[str, ...]
    given: Given
    path: str

    @property
    def program(self) -> str:
        """The program without its directory."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def script(self) -> bool:
        """Whether a shell runs a script of its own, `sh -c '…'`."""
        return self.program in _SHELLS and "-c" in self.words[1:2]

    @property
    def has_port(self) -> bool:
        """Whether the command has `${PORT}`."""
        return any(PORT in word for word in self.words)

    def option(self, *names: str) -> str | None:
        """The value of the last of these options, written `--name value` or `--name=value`."""
        found = None
        for index, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names and equals:
                found = value
            elif word in names and index + 1 < len(self.words):
                found = self.words[index + 1]
        return found

    def has(self, *names: str) -> bool:
        """Whether one of these flags is in it."""
        return any(word.partition("=")[0] in names for word in self.words)

    def line_of(self, word: str) -> int:
        """The line that a word stands on."""
        return next((number for number, row in self.given.rows if word in row), self.given.line)


def command_of(given: Given, path: str, notes: Notes) -> Command | None:
    """The words of a command; None, and refused, where it cannot be run here."""
    joined = re.sub(r"\\[ \t]*\n", " ", without_comments(given).text)
    try:
        words = tuple(shlex.split(joined, comments=False, posix=True))
    except ValueError as error:
        notes.refuse(given, path, f"its quotes do not match: {error}")
        return None
    command = Command(words=words, given=given, path=path)
    if not words:
        notes.refuse(given, path, "there is no command in it")
        return None
    if _WINDOWS.match(words[0]) or words[0].lower().endswith((".exe", ".bat", ".cmd")):
        notes.refuse(given, path, f"{words[0]} is a path of Windows, and Hostler does not run on Windows")
        return None
    return command if _has_no_shell_in_it(command, notes) else None


def _has_no_shell_in_it(command: Command, notes: Notes) -> bool:
    if _ASSIGNMENT.fullmatch(command.words[0]):
        notes.refuse(
            command.given,
            command.path,
            f"no shell reads it, so {command.words[0]} would be the program: put it under env:",
        )
        return False
    for word in command.words:
        if word in _SHELL or (word.endswith(";") and not command.script):
            notes.refuse(
                command.given,
                command.path,
                f"no shell reads it, so {word} would be an argument: write sh -c '…' if a shell is meant",
                line=command.line_of(word),
            )
            return False
    return True


def warn_of_words(command: Command, notes: Notes) -> None:
    """Words that are passed on, and were hardly meant so: notes behind arguments, `$NAME` and `~`."""
    for number, row in _notes_in(command):
        at = replace(command.given, line=number)
        said = row.partition(" #")[2].strip()
        notes.warn(
            at,
            command.path,
            f"the words of the note (# {said}) are passed to the program, as llama-swap does:"
            " a note needs a line of its own",
        )
    for word in () if command.script else command.words:
        if re.search(r"\$[A-Za-z_{(]", word) or word.startswith("~/"):
            at = replace(command.given, line=command.line_of(word))
            notes.warn(at, command.path, f"no shell fills in {word}: the program gets it as it is written")


def _notes_in(command: Command) -> tuple[tuple[int, str], ...]:
    if command.script or not any(word.startswith("#") for word in command.words):
        return ()
    found = tuple(
        (number, row)
        for number, row in command.given.rows
        if " #" in row and not row.lstrip().startswith("#") and _outside_quotes(row)
    )
    return found or ((command.given.line, command.given.text),)


def _outside_quotes(row: str) -> bool:
    before = row.partition(" #")[0]
    return before.count('"') % 2 == 0 and before.count("'") % 2 == 0


def argument(word: str) -> str:
    """A word as our argv has it: a brace doubled, the port's mark as `{port}`."""
    return word.replace("{", "{{").replace("}", "}}").replace(PORT, "{port}")


def readable(text: str) -> str:
    """A text with the marks written as they were in the file."""
    return text.replace(PORT, "${PORT}").replace(PID, "${PID}")
