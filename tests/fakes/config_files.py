"""Config files for tests: written as the rules want them, with the places of expected problems marked."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from hostler.adapters.config.reading import Reading, examine

MARK = "»"
"""Stands before the place where a problem is expected; it is not in the file."""


def write_config(folder: Path, text: str, name: str = "hostler.yaml") -> Path:
    """A config file of that text, dedented, that only its owner may write."""
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o600)
    return path


def write_secret(folder: Path, name: str, text: str = "a-long-secret\n") -> Path:
    """A private file with a secret."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def with_secrets(folder: Path, text: str) -> str:
    """`text` with each `${file:…}` led to a private file of its own in `folder`."""
    count = 0

    def lead(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${{file:{write_secret(folder, f'secret-{count}', f'secret-number-{count}')}}}"

    return re.sub(r"\$\{file:[^}]*\}", lead, text)


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and line and column of each."""
    clean, places = "", []
    for part in re.split(f"({MARK})", textwrap.dedent(text)):
        if part == MARK:
            places.append((clean.count("\n") + 1, len(clean) - (clean.rfind("\n") + 1) + 1))
        else:
            clean += part
    return clean, places


def read_config(
    folder: Path,
    text: str,
    *,
    host: str | None = None,
    machine: str = "box",
    env: Mapping[str, str] | None = None,
    anywhere: bool = False,
) -> Reading:
    """What a config of that text says on a machine of that name; its home is `folder`."""
    path = write_config(folder, text)
    return examine(path, {"HOME": str(folder), **(env or {})}, host, machine=machine, anywhere=anywhere)


def told(reading: Reading) -> list[str]:
    """Each problem as `line:column: path: message (hint)`."""
    return [str(problem).removeprefix(f"{reading.file}:") for problem in reading.problems]


def warned(reading: Reading) -> list[str]:
    """Each warning, written as `told`."""
    return [str(problem).removeprefix(f"{reading.file}:") for problem in reading.warnings]


def check_marked(folder: Path, text: str, *expected: str, machine: str = "box") -> None:
    """Assert that the problems are those at the marks of `text`, in order, and nothing else.

    Each of `expected` is `path: part of the message or hint`.
    """
    clean, places = marked(text)
    reading = read_config(folder, clean, machine=machine)
    found = [(problem.line, problem.column) for problem in reading.problems]
    assert found == places, told(reading)
    for problem, wanted in zip(reading.problems, expected, strict=True):
        path, _, words = wanted.partition(": ")
        assert problem.path == path
        assert words in f"{problem.message} ({problem.hint})"
