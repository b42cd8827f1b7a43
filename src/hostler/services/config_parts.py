"""What the commands `hostler config` and `hostler paths` ask for: problems, reports, and one Protocol.

Decides the shape of a problem of the config (CONF-2). Reads no file; `hostler.adapters.config` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from hostler.domain.fleet import frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or worth a warning, at one place of one file.

    `line` and `column` count from 1. `path` is written as in `engines.embed.argv[2]`, empty for the
    whole document. `hint` says what would be right, empty where the message does.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    @property
    def place(self) -> str:
        """`file:line:column`, which editors open."""
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        """`file:line:column: path: message (hint)` (CONF-2)."""
        path = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {path}{self.message}{hint}"

    def facts(self) -> dict[str, object]:
        """The wire form: every field by its name."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReport:
    """What a check found. `counts` says how many hosts, engines, routes, … the file has, by name."""

    file: str
    host: str
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """The config with every default filled in, secrets as `****`: as plain data and as YAML."""

    file: str
    host: str
    document: Mapping[str, object]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One path at which two configs differ, `before` and `after` as plain data, secrets as `****`."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: object = None
    after: object = None


class ConfigParts(Protocol):
    """The config as commands see it that need no daemon (INTERFACE-3).

    `path` None searches (CONF-1) and raises NoConfig when nothing is found; `host` None finds this
    machine's. All but `check` raise InvalidConfig for a config with errors.
    """

    def check(self, path: str | None, host: str | None) -> ConfigReport:
        """Every error and warning at once; raises NoConfig only."""
        ...

    def show(self, path: str | None, host: str | None) -> EffectiveConfig:
        """The effective config."""
        ...

    def schema(self) -> str:
        """The JSON Schema of hostler.yaml, for editors."""
        ...

    def diff(self, before: str, after: str, host: str | None) -> Sequence[Difference]:
        """Where two config files differ, defaults filled in, in the order of the keys."""
        ...

    def paths(self, path: str | None, host: str | None) -> Mapping[str, str]:
        """Every place that this host's daemon uses, by name (CONF-5).

        Without a config the defaults; a config that is given or found must be right.
        """
        ...
