"""Reads catalog files: every error with its line, or the frozen entries (CAT-1, CAT-7, CAT-11).

Decides which files a catalog has and what becomes of one that is not right: a directory counts as a whole,
so one bad file makes it unreadable, and the last good one stays in force. The rules are
`hostler.domain.catalog_check`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Final

from pydantic import ValidationError

import hostler
from hostler.adapters.catalog.build import entry_of
from hostler.adapters.catalog.kept import Kept
from hostler.adapters.catalog.schema import VERSION, EntryKeys, json_schema
from hostler.adapters.config.explain import MISSING, Schema, explain
from hostler.adapters.config.find import Untrusted, read_config
from hostler.adapters.config.tree import START, Leaf, MapNode, Mark, Node, bare, empty, locate, written
from hostler.adapters.config.yaml import Finding, Unreadable, compose, decode
from hostler.domain.catalog import Catalog, Entry, overlaid
from hostler.domain.catalog_check import Found, check_entry, check_over, first_run_defaults
from hostler.domain.fleet import frozen
from hostler.services.config_parts import Problem

SHIPPED: Final = File(hostler.__file__).parent / "catalog"
"""Where the entries of the package are."""
MAX_FILES: Final = 500
MAX_TEXT: Final = 1 << 20
"""Bytes of all files of a directory: they are kept in one state file, which may have 16 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """One file that was read: its text, its tree, and the entry in it where it is right."""

    file: str
    text: str = ""
    root: Node | None = None
    entry: Entry | None = None
    problems: tuple[Problem, ...] = ()

    def told(self, found: Found) -> Problem:
        """A finding of a rule, at its place in this file."""
        mark = START if self.root is None else locate(self.root, found.path)
        return problem(self.file, mark, found.path, found.message, found.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRead:
    """A set of files. Its entries count only where there is no problem."""

    files: tuple[CatalogFile, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of its right files, in the order of their names."""
        return tuple(it.entry for it in self.files if it.entry is not None)

    @property
    def texts(self) -> Mapping[str, str]:
        """The text of each file by its name."""
        return frozen({File(it.file).name: it.text for it in self.files})


def problem(file: str, mark: Mark, path: tuple[str | int, ...], message: str, hint: str = "") -> Problem:
    """A problem of a catalog file at its place."""
    return Problem(
        file=file, line=mark.line, column=mark.column, path=written(path), message=message, hint=hint
    )


@cache
def _schema() -> Schema:
    return json_schema()


def read_text(file: str, text: str) -> CatalogFile:
    """The entry that a file of that text describes, or everything that is wrong with it."""
    try:
        root, findings = compose(text)
    except Unreadable as error:
        return CatalogFile(file=file, text=text, problems=(_of(file, error.finding),))
    problems = [_of(file, each) for each in findings]
    if not isinstance(root, MapNode):
        problems.append(problem(file, root.mark, (), "expected a mapping of keys", "version: 1"))
        return CatalogFile(file=file, text=text, root=root, problems=tuple(problems))
    newer = _newer(file, root)
    if newer is not None:
        return CatalogFile(file=file, text=text, root=root, problems=(newer,))
    none = dict(empty(root, ()))
    problems += [
        problem(file, mark, path, "has no value", "give one, or leave the key out")
        for path, mark in none.items()
    ]
    entry = None
    try:
        entry = entry_of(EntryKeys.model_validate(bare(root)))
    except ValidationError as error:
        told = (explain(each, root, _schema) for each in error.errors(include_url=False))
        problems += [
            problem(file, locate(root, each.path, at_key=each.at_key), each.path, each.message, each.hint)
            for each in told
            if each.message != MISSING or each.path not in none
        ]
    read = CatalogFile(file=file, text=text, root=root)
    if entry is not None:
        problems += [read.told(found) for found in check_entry(entry)]
    return CatalogFile(
        file=file, text=text, root=root, entry=None if problems else entry, problems=tuple(problems)
    )


def _newer(file: str, root: MapNode) -> Problem | None:
    """Of a newer format nothing else is known."""
    version = root.entry("version")
    value = version.node.value if version is not None and isinstance(version.node, Leaf) else None
    if version is None or isinstance(value, bool) or not isinstance(value, int) or value <= VERSION:
        return None
    message = f"version {value} is newer than this hostler, which reads {VERSION}"
    return problem(file, version.node.mark, ("version",), message, "upgrade")


LISTED: Final = "`hostler catalog list` shows the entries that there are, and where"


def _of(file: str, finding: Finding) -> Problem:
    return problem(file, finding.mark, finding.path, finding.message, finding.hint)


def read_file(path: File, *, trusted: bool = False) -> CatalogFile:
    """The entry of a file, which nobody else may write; `trusted` is for those of the package."""
    try:
        data = path.read_bytes() if trusted else read_config(path, missing=LISTED)
        return read_text(str(path), decode(data))
    except Untrusted as error:
        return CatalogFile(file=str(path), problems=(problem(str(path), START, (), str(error), error.hint),))
    except Unreadable as error:
        return CatalogFile(file=str(path), problems=(_of(str(path), error.finding),))
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        return CatalogFile(file=str(path), problems=(problem(str(path), START, (), why),))


def names_in(directory: File) -> list[File]:
    """The catalog's files of a directory, by their names; hidden ones are none. Raises OSError."""
    return sorted(it for it in directory.iterdir() if it.suffix == ".yaml" and not it.name.startswith("."))


def read_directory(directory: File, *, trusted: bool = False) -> CatalogRead:
    """All files of a directory. A directory that cannot be read, or has too much in it, is a problem."""
    try:
        paths = names_in(directory)
    except OSError as error:
        why = f"the directory cannot be read: {error.strerror or error}"
        return CatalogRead(problems=(problem(str(directory), START, (), why),))
    if len(paths) > MAX_FILES:
        why = f"more than {MAX_FILES} files"
        return CatalogRead(problems=(problem(str(directory), START, (), why),))
    return together(str(directory), [read_file(path, trusted=trusted) for path in paths])


def together(place: str, files: Iterable[CatalogFile]) -> CatalogRead:
    """Files as one set: their problems, ids that come twice, and how much they are."""
    every = tuple(files)
    problems = [each for it in every for each in it.problems]
    problems += _twice(every)
    if sum(len(it.text.encode()) for it in every) > MAX_TEXT:
        problems.append(problem(place, START, (), f"its files are more than {MAX_TEXT >> 10} KiB together"))
    return CatalogRead(files=every, problems=tuple(problems))


def _twice(files: Iterable[CatalogFile]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for it in files:
        if it.entry is None:
            continue
        if it.entry.id in first:
            yield it.told(Found(path=("id",), message=f"{it.entry.id} is in {first[it.entry.id]} too"))
        first.setdefault(it.entry.id, it.file)


@cache
def shipped() -> CatalogRead:
    """The entries of the package."""
    return read_directory(SHIPPED, trusted=True)


def over_shipped(read: CatalogRead) -> tuple[Problem, ...]:
    """What is wrong with entries only because of the shipped ones that they stand over (CAT-3)."""
    below = {entry.id: entry for entry in shipped().entries}
    return tuple(
        it.told(found)
        for it in read.files
        if it.entry is not None and it.entry.id in below
        for found in check_over(it.entry, below[it.entry.id])
    )


def defaults(read: CatalogRead) -> tuple[Problem, ...]:
    """A whole catalog has exactly one ungated first-run default (CAT-1)."""
    entries = overlaid(shipped().entries, read.entries)
    found = first_run_defaults(entries.values())
    if len(found) == 1:
        return ()
    message = (
        f"exactly one ungated entry is the first-run default, and these are: {', '.join(found) or 'none'}"
    )
    ours = [it for it in read.files if it.entry is not None and it.entry.id in found]
    if ours:
        return tuple(it.told(Found(path=("first_run_default",), message=message)) for it in ours)
    place = read.files[0].file if read.files else str(SHIPPED)
    return (problem(place, START, (), message),)


def every_problem(read: CatalogRead) -> tuple[Problem, ...]:
    """Everything that keeps a directory from being in force."""
    return (*read.problems, *over_shipped(read), *(() if read.problems else defaults(read)))


def load(directory: str | None, kept: Kept = Kept()) -> Catalog:  # noqa: B008 - a frozen value, made once
    """The catalog in force: the shipped entries, and those of `directory` or of its last good state (CAT-7).

    Never raises.
    """
    base = shipped()
    if base.problems:
        return Catalog(trouble=f"the package's own: {base.problems[0]}", directory=directory, known=False)
    if directory is None:
        return Catalog(entries=overlaid(base.entries, ()))
    read = read_directory(File(directory))
    problems = every_problem(read)
    if not problems:
        entries = overlaid(base.entries, read.entries)
        return Catalog(entries=entries, directory=directory, added=read.texts)
    return _last_good(directory, f"{directory} cannot be used: {_first(problems)}", kept)


def _last_good(directory: str, trouble: str, kept: Kept) -> Catalog:
    texts = kept.texts or {}
    last = together(directory, [read_text(name, texts[name]) for name in sorted(texts)])
    why = kept.why or (str(last.problems[0]) if last.problems else "")
    entries = overlaid(shipped().entries, () if why else last.entries)
    start = f"nothing stands in for it ({why})" if why else "the last good one is in force"
    return Catalog(
        entries=entries,
        directory=directory,
        added=frozen({} if why else dict(texts)),
        trouble=f"{start}: {trouble}",
        known=not why,
    )


def _first(problems: tuple[Problem, ...]) -> str:
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"
