"""Writes one row of the registry into the file that people keep, everything else left as it is (PORT-5).

Decides where the row stands and that it is read back before it counts. One writer at a time; a reader sees
the old file or the new one, at every instant and after every crash.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from hostler.adapters.config.schema.base import size_text
from hostler.adapters.config.tree import ListNode, MapNode, Node, node_at, plain
from hostler.adapters.config.tree import Path as Place
from hostler.adapters.config.yaml import Unreadable, compose, decode
from hostler.adapters.scan.registry import ROWS, rows_in
from hostler.domain.errors import InvalidRequest, RegistryUnusable
from hostler.domain.ports import ANY, Row, overlap

_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*(?: [A-Za-z0-9._-]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
MODE: Final = 0o644
_TRIES: Final = 100
"""How many others may write before us while we wait: each has the file for a moment."""


class Taken(Exception):
    """Somebody wrote a row with that port between the proposal and now."""


def add_row(path: Path, row: Row, *, in_config: bool) -> Row:
    """Write `row` behind those of the file and read it back; the row with its line.

    Refuses `invalid_request` where the rows are written in a form that cannot be added to by itself, and
    `registry_unusable` where the file cannot be written. Raises Taken where the port has a row by now.
    """
    try:
        with _alone(path) as old:
            text = decode(old) if old is not None else ""
            if old is not None and _has(text, row, str(path), in_config=in_config):
                raise Taken
            new = added(text, row, in_config=in_config, file=str(path))
            found = _verified(text, new, row, str(path), in_config=in_config)
            _replace(path, new.encode(), old)
            if path.read_bytes() != new.encode():
                raise RegistryUnusable(path=str(path), why="it was read back and is another")
            return found
    except OSError as error:
        raise RegistryUnusable(path=str(path), why=error.strerror or "it cannot be written") from error


def _has(text: str, row: Row, file: str, *, in_config: bool) -> bool:
    """Whether somebody has that port of that host already."""
    return any(
        each.host == row.host
        and each.protocol == row.protocol
        and each.status.taken
        and each.port <= row.last
        and row.port <= each.last
        and overlap(each.address, row.address)
        for each in rows_in(_root(text, file), file, in_config=in_config)
    )


def row_text(row: Row) -> str:
    """A row as it is written: `{host: raven, port: 8031-8033, service: masters, status: reserved}`."""
    keys: dict[str, str] = {"host": _said(row.host)}
    if row.address != ANY:
        keys["address"] = _said(row.address)
    keys["port"] = row.ports
    if row.protocol != "tcp":
        keys["protocol"] = row.protocol
    keys |= {"service": _said(row.service), "status": row.status.value}
    if row.by:
        keys["by"] = row.by
    if row.needs is not None:
        keys["needs"] = _said(size_text(row.needs))
    if row.note:
        keys["note"] = _said(row.note)
    return "{" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}"


def _said(text: str) -> str:
    bare = _BARE.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if bare else json.dumps(text)


def added(text: str, row: Row, *, in_config: bool, file: str) -> str:
    """The text with one more row. Refuses `invalid_request` where it cannot be told where."""
    root = _root(text, file)
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    place = _place(root, in_config=in_config)
    rows = node_at(root, place)
    said = row_text(row)
    if isinstance(rows, ListNode) and rows.items:
        return _behind_last(lines, rows, said, file)
    if rows is not None:
        return _instead_of_none(lines, rows, said, file)
    if not in_config:
        return "".join([*lines, f"{ROWS}:\n", f"  - {said}\n"])
    ports = node_at(root, ("ports",))
    if ports is None:
        return "".join([*lines, "\n" if lines else "", "ports:\n", f"  {ROWS}:\n", f"    - {said}\n"])
    if (
        not isinstance(ports, MapNode)
        or not ports.entries
        or "{" in lines[ports.mark.line - 1][: ports.mark.column]
    ):
        raise _by_hand(file, said)
    first = ports.entries[0].mark
    indent = " " * (first.column - 1)
    at = first.line - 1
    return "".join([*lines[:at], f"{indent}{ROWS}:\n", f"{indent}  - {said}\n", *lines[at:]])


def _root(text: str, file: str) -> Node:
    try:
        return compose(text)[0]
    except Unreadable as error:
        raise InvalidRequest(
            what=f"{file}:{error.finding.mark.line}: {error.finding.message}.",
            expected="Correct the file first; nothing was written.",
            where=file,
        ) from error


def _place(root: Node, *, in_config: bool) -> Place:
    if in_config:
        return ("ports", ROWS)
    return () if isinstance(root, ListNode) else (ROWS,)


def _behind_last(lines: list[str], rows: ListNode, said: str, file: str) -> str:
    """Behind the last row and what is indented below it."""
    mark = rows.items[-1].mark
    before = lines[mark.line - 1][: mark.column - 1]
    dash = before.rfind("-")
    if dash < 0 or before[:dash].strip() or before[dash + 1 :].strip():
        raise _by_hand(file, said)
    end = mark.line
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > dash:
        end += 1
    return "".join([*lines[:end], f"{before[:dash]}- {said}\n", *lines[end:]])


def _instead_of_none(lines: list[str], rows: Node, said: str, file: str) -> str:
    """In the place of `rows: []`, or of `rows:` with nothing behind it."""
    at = rows.mark.line - 1
    line = lines[at]
    start = rows.mark.column - 1
    if not line[start:].startswith("[]"):
        raise _by_hand(file, said)
    head = line[:start].rstrip()
    rest = line[start + 2 :].rstrip("\n")
    if not head:
        return "".join([*lines[:at], f"- {said}{rest}\n", *lines[at + 1 :]])
    indent = " " * (_indent(line) + 2)
    return "".join([*lines[:at], f"{head}{rest}\n", f"{indent}- {said}\n", *lines[at + 1 :]])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _by_hand(file: str, said: str) -> InvalidRequest:
    return InvalidRequest(
        what=f"The rows of {file} are written in a form that nothing can be added to.",
        expected=f"Add this row yourself: - {said}",
        where=file,
    )


def _verified(old: str, new: str, row: Row, file: str, *, in_config: bool) -> Row:
    """The new row as it is read back; refuses where anything else would be another."""
    before = _root(old, file)
    try:
        after = compose(new)[0]
    except Unreadable as error:
        # What was there is right: a document in braces, for instance, takes no line behind it.
        raise _by_hand(file, row_text(row)) from error
    rows = rows_in(after, file, in_config=in_config)
    kept = [_bare(each) for each in rows_in(before, file, in_config=in_config)]
    same = _without_rows(before, in_config=in_config) == _without_rows(after, in_config=in_config)
    if [_bare(each) for each in rows] != [*kept, _bare(row)] or not same:
        raise _by_hand(file, row_text(row))
    return rows[-1]


def _bare(row: Row) -> Row:
    return replace(row, file="", line=0)


def _without_rows(root: Node, *, in_config: bool) -> object:
    """The document less its rows, and less what holds nothing else."""
    whole = plain(root)
    if isinstance(whole, list):
        return {}
    document = dict(whole) if isinstance(whole, Mapping) else {}
    ports = document.get("ports") if in_config else document
    rest = {key: value for key, value in ports.items() if key != ROWS} if isinstance(ports, Mapping) else {}
    if not in_config:
        return rest
    document.pop("ports", None)
    return {**document, "ports": rest} if rest else document


@contextmanager
def _alone(path: Path) -> Iterator[bytes | None]:
    """The bytes of the file, None where there is none, while no other of us writes it."""
    for _ in range(_TRIES):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        with os.fdopen(handle, "rb") as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever wrote before us put another file into this place.
            if os.fstat(handle).st_ino == path.stat().st_ino:
                yield file.read()
                return
    raise OSError(0, "others write it all the time")


def _replace(path: Path, data: bytes, old: bytes | None) -> None:
    """Put the new bytes into the file's place, with its mode; refuses where it changed meanwhile."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, MODE if old is None else path.stat().st_mode & 0o777)
            os.fsync(handle)
        if old is None:
            os.link(name, path)
            Path(name).unlink()
        else:
            if path.read_bytes() != old:
                raise OSError(0, "somebody changed it meanwhile")
            Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
