"""The SQL of each dialect: numbered migrations and named statements, as text.

Decides how the files are read. `<dialect>/0001_….sql` and on are migrations, applied in order and never
changed once released; `<dialect>/statements.sql` has the statements, each after a line `-- name: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from hostler.domain.fleet import frozen

_MIGRATION: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_NAME: Final = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: what to run to come from `number - 1` to `number`."""

    number: int
    sql: str


def migrations(dialect: str) -> Sequence[Migration]:
    """The migrations of `dialect`, by number. RuntimeError when one is missing between two others."""
    found = []
    for path in files(__name__).joinpath(dialect).iterdir():
        match = _MIGRATION.fullmatch(path.name)
        if match:
            found.append(Migration(number=int(match[1]), sql=path.read_text(encoding="utf-8")))
    found.sort(key=lambda each: each.number)
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations of {dialect} are not numbered from 1 on without gaps")
    return tuple(found)


def statements(dialect: str) -> Mapping[str, str]:
    """The statements of `dialect` by name."""
    text = files(__name__).joinpath(dialect, "statements.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return frozen({name: sql.strip() for name, sql in zip(parts[1::2], parts[2::2], strict=True)})
