"""Reads the files that are imported, and writes the config that comes of them: the need `ImportParts`.

Decides which files a path means and what `${env.NAME}` becomes, as llama-swap does: text, before the YAML is
read. A config is written whole or not at all, its secrets first, each in a private file of its own.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.adapters.config.reading import examine
from hostler.adapters.config.yaml import Unreadable, decode
from hostler.adapters.imports.given import given_of
from hostler.adapters.programs import ProgramFiles
from hostler.domain.errors import FileExists, FileUnusable, NotImportable
from hostler.domain.fleet import Secret, frozen
from hostler.services.config_parts import Problem
from hostler.services.import_parts import NOWHERE, SECRETS, Draft, Given, Source

_VARIABLE: Final = re.compile(r"\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}")
_SUFFIXES: Final = (".yml", ".yaml")


@dataclass(slots=True)
class _Read:
    """One reading under way."""

    env: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def file(self, path: Path) -> Given | None:
        try:
            text = decode(path.read_bytes())
        except OSError as error:
            self.problems.append(f"{path}:1: it cannot be read: {error.strerror}")
            return None
        except Unreadable as error:
            self.problems.append(_told(path, error))
            return None
        try:
            return given_of(self._with_variables(text, path), str(path))
        except Unreadable as error:
            self.problems.append(_told(path, error))
            return None

    def _with_variables(self, text: str, path: Path) -> str:
        lines = text.split("\n")
        return "\n".join(self._line(line, f"{path}:{number}") for number, line in enumerate(lines, start=1))

    def _line(self, line: str, place: str) -> str:
        def one(match: re.Match[str]) -> str:
            value = self.env.get(match[1])
            if value is None:
                # In a comment it does not matter.
                if not re.match(r"\s*#|.*\s#", line[: match.start()]):
                    self.problems.append(f"{place}: the variable {match[1]} is not set")
                return match[0]
            if "\n" in value or "\0" in value:
                self.problems.append(f"{place}: the variable {match[1]} has a line end in it")
                return match[0]
            self.variables.setdefault(value, match[1])
            return value.replace("\\", "\\\\").replace('"', '\\"')

        return _VARIABLE.sub(one, line)


def _told(path: Path, error: Unreadable) -> str:
    return f"{path}:{error.finding.mark.line}: {error.finding.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFiles:
    """The need `ImportParts`. `folder` is the working directory."""

    env: Mapping[str, str]
    folder: Path

    @property
    def here(self) -> str:
        return str(self.folder)

    def read(self, paths: Sequence[str]) -> Source:
        run = _Read(env=self.env)
        found: list[Path] = []
        for path in paths:
            found += _files(Path(path), run.problems)
        seen: set[Path] = set()
        for file in found:
            real = file.resolve()
            if real in seen:
                run.problems.append(f"{file}:1: it is given twice")
            seen.add(real)
        read = [given for file in found if (given := run.file(file)) is not None]
        if run.problems:
            told = tuple(run.problems)
            raise NotImportable(file=paths[0] if paths else "", count=len(told), problems=told)
        return Source(files=tuple(read), variables=frozen(run.variables))

    def has_program(self, program: str, cwd: str) -> bool:
        return ProgramFiles().exists(program, self.env, cwd)

    def check(self, draft: Draft) -> Sequence[Problem]:
        with tempfile.TemporaryDirectory(prefix="hostler-draft-") as name:
            folder = Path(name)
            _write_secrets(folder, draft.secrets)
            path = folder / "hostler.yaml"
            _write(path, _placed(draft.text, folder))
            return examine(path, self.env).problems

    def earlier(self, path: str) -> Mapping[str, Given]:
        try:
            found = given_of(decode((self.folder / path).read_bytes()), path)
        except (OSError, Unreadable):  # What is no config of ours has nothing to keep.
            return {}
        engines = (found.keys or {}).get("engines")
        return (engines.keys or {}) if engines is not None else {}

    def finish(
        self, draft: Draft, path: str | None, *, force: bool, sources: Sequence[str] = ()
    ) -> Sequence[str]:
        if path is None:
            return [str(self.folder / SECRETS / name) for name in draft.secrets]
        target = Path(os.path.abspath(self.folder / path))  # noqa: PTH100 - a link at its end stays one
        folder = target.parent
        if any(target.exists() and target.samefile(self.folder / each) for each in sources):
            raise FileUnusable(path=str(target), why="it is what is imported")
        taken = [target, *(folder / SECRETS / name for name in draft.secrets)]
        if not force:
            for each in taken:
                if os.path.lexists(each):
                    raise FileExists(path=str(each))
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_secrets(folder, draft.secrets)
            _write(target, _placed(draft.text, folder))
        except OSError as error:
            raise FileUnusable(path=str(target), why=error.strerror or type(error).__name__) from error
        return [str(each) for each in taken[1:]]

    def shown(self, draft: Draft) -> str:
        return _placed(draft.text, self.folder)


def _files(path: Path, problems: list[str]) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())
    if not found:
        problems.append(f"{path}:1: the directory has no *.yml or *.yaml file")
    return found


def _placed(text: str, folder: Path) -> str:
    """The text with the directory of its secrets put in; it stands in double quotes."""
    return text.replace(NOWHERE, json.dumps(str(folder), ensure_ascii=False)[1:-1])


def _write_secrets(folder: Path, secrets: Mapping[str, Secret]) -> None:
    if secrets:
        (folder / SECRETS).mkdir(mode=0o700, exist_ok=True)
    for name, secret in secrets.items():
        _write(folder / SECRETS / name, f"{secret.value}\n")


def _write(path: Path, text: str) -> None:
    """Write a private file whole: whoever looks sees the old one or the new one. Raises OSError."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except OSError:
        Path(part).unlink(missing_ok=True)
        raise
