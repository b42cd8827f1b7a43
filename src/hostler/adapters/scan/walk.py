"""Which files of a folder are read for ports, as what, and why the others are not (PORT-4).

Decides kinds by names and first lines. Nothing is executed, no link is followed to another folder.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.adapters.scan.compose import NAMED, compose
from hostler.adapters.scan.project import MAINS, OVERRIDES, OVERRIDES_OLD
from hostler.adapters.scan.shell import shell
from hostler.adapters.scan.texts import Unread, read_text
from hostler.adapters.scan.units import unit
from hostler.domain.errors import NotFound
from hostler.domain.ports import Finding, Trouble
from hostler.domain.values import escape_controls, shorten
from hostler.services.ports import Scanned, Skipped, Source

MOST_FILES: Final = 20_000
DEEPEST: Final = 24
COMPOSE: Final = "compose"
SCRIPT: Final = "script"
UNIT: Final = "unit"
FORMS: Final = (
    "compose ports, short",
    "compose ports, long",
    "compose command, host network",
    "compose image, host network",
    "PORT=",
    "PORT=N command",
    "--port N",
    "--port=N",
    "-p N",
    "host:N",
    "http.server",
    "ssh -L",
    "ssh -R",
    "ssh -D",
    "docker -p",
    "docker -P",
    "nc -l",
    "socat LISTEN",
    "ListenStream",
    "ListenDatagram",
    "Environment",
    "client target",
)
"""Every form that is tried, whether it was found or not."""
_PASSED: Final = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox"})
_SHELL: Final = re.compile(rb"#![^\n]*\b(?:ba|da|z|k|a)?sh\b")
_DROP_IN: Final = re.compile(r".+\.(?:service|socket)\.d")
_TEMPLATE_LINE: Final = 128


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One walk through folders."""

    given: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    read: dict[str, str] = field(default_factory=dict)
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: int = 0

    def file(self, path: Path) -> None:
        """Read one file, if it is of a kind that is read."""
        kind = kind_of(path)
        if kind is None:
            self.passed[_ending(path), "not a kind that is read"] += 1
        elif kind == COMPOSE:
            self._compose(path)
        else:
            self._text(path, kind)

    def _compose(self, path: Path) -> None:
        names = [*OVERRIDES, *OVERRIDES_OLD]
        if path.name in names and any((path.parent / main).is_file() for main in MAINS):
            return  # It is read with its main file.
        found = compose(path, self.given)
        self.findings += found.findings
        self.troubles += found.troubles
        for name in found.files:
            self.read.setdefault(name, COMPOSE)

    def _text(self, path: Path, kind: str) -> None:
        try:
            text = read_text(path)
        except Unread as error:
            self.troubles.append(Trouble(file=str(path), line=1, message=f"cannot be read: {error}"))
            return
        self.read.setdefault(str(path), kind)
        self.findings += unit(str(path), text) if kind == UNIT else shell(str(path), text, path.name)

    def folder(self, top: Path) -> None:
        """Read a folder and those below it, in the order of names."""
        for path in self._files(top):
            self.seen += 1
            if self.seen > MOST_FILES:
                self.passed[str(top), f"more than {MOST_FILES} files"] += 1
                return
            self.file(path)

    def _files(self, top: Path) -> Iterator[Path]:
        for folder, below, names in os.walk(top, onerror=self._unread):
            depth = len(Path(folder).relative_to(top).parts)
            for name in sorted(below):
                path = Path(folder, name)
                if name in _PASSED or path.is_symlink() or depth >= DEEPEST:
                    why = (
                        "a link"
                        if path.is_symlink()
                        else "too deep"
                        if depth >= DEEPEST
                        else "not ours to read"
                    )
                    self.passed[f"{name}/", why] += 1
            below[:] = [
                name
                for name in sorted(below)
                if name not in _PASSED and not Path(folder, name).is_symlink() and depth < DEEPEST
            ]
            yield from (Path(folder, name) for name in sorted(names))

    def _unread(self, error: OSError) -> None:
        self.passed[str(error.filename), error.strerror or "cannot be read"] += 1


def scan(dirs: Sequence[str], given: Mapping[str, str]) -> Scanned:
    """What the files of these folders show. Refusals: not_found for a folder that is not there."""
    walk = _Walk(given=given)
    for name in dirs:
        top = Path(name)
        if top.is_dir():
            walk.folder(top)
        elif top.is_file():
            walk.file(top)
        else:
            raise NotFound(what="folder", name=shorten(name), nearest="Name folders or files to scan.")
    return Scanned(
        findings=tuple(dict.fromkeys(walk.findings)),
        troubles=tuple(dict.fromkeys(walk.troubles)),
        read=tuple(Source(path=path, kind=kind) for path, kind in walk.read.items()),
        skipped=tuple(
            Skipped(what=escape_controls(what), why=why, count=count)
            for (what, why), count in sorted(walk.passed.items())
        ),
        forms=FORMS,
    )


def kind_of(path: Path) -> str | None:
    """What a file is read as, None for what is not read."""
    if NAMED.fullmatch(path.name):
        return COMPOSE
    if path.suffix in (".service", ".socket") or (
        path.suffix == ".conf" and _DROP_IN.fullmatch(path.parent.name)
    ):
        return UNIT
    if path.suffix in (".sh", ".bash"):
        return SCRIPT
    return SCRIPT if not path.suffix and _is_shell(path) else None


def _is_shell(path: Path) -> bool:
    """Whether a file without an ending begins as a shell script does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _SHELL.match(os.read(descriptor, _TEMPLATE_LINE)) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _ending(path: Path) -> str:
    return f"*{path.suffix}" if path.suffix else "files without an ending"
