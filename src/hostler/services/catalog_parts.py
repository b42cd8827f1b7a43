"""What the commands `hostler catalog`, `engine from-catalog` and `pull` ask for: one Protocol, its answers.

Needs no daemon (INTERFACE-3). Decides the shape of each answer; reads no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hostler.domain.catalog import Catalog, Entry, ModelFile
from hostler.domain.catalog_fit import Fit
from hostler.domain.fleet import frozen
from hostler.services.config_parts import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogReport:
    """What a check found: where it looked, how many entries are right, and everything that is wrong."""

    places: tuple[str, ...]
    entries: int
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFit:
    """Every shape of an entry against one box. `memory` is bytes by pool, None where it is not known."""

    host: str
    memory: Mapping[str, int | None]
    fits: tuple[Fit, ...]


class Outcome(StrEnum):
    """How a file of a quant came to be there (CAT-12)."""

    DOWNLOADED = "downloaded"
    """Fetched now, its SHA-256 the catalog's."""
    UNVERIFIED = "unverified"
    """There, and nothing but its size, or not even that, speaks for it."""
    VERIFIED = "verified"
    """It was there already, its SHA-256 the catalog's: adopted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """One file of a quant that is there now. `why` says what is not verified of it, `anew` why it was not
    gone on with what an earlier pull had left.
    """

    file: str
    path: str
    size: int
    outcome: Outcome
    why: str = ""
    anew: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One file that a pull is about: `url` None where the catalog knows no source."""

    entry: str
    file: ModelFile
    url: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """What a pull would do, shown before it does anything: the licence first (CAT-12)."""

    reference: str
    license: str | None
    repository: str | None
    gated: bool
    models_dir: str
    files: tuple[Wanted, ...]


Progress = Callable[[str, str, int, int | None], None]
"""Called with what is done (`reads`, `fetches`), the file, how many bytes of it are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """An engine of the catalog as a config writes it: as plain data, and as YAML to paste."""

    reference: str
    document: Mapping[str, object] = field(default_factory=lambda: frozen({}))
    text: str = ""


class CatalogParts(Protocol):
    """The catalog as commands see it. `config` None searches for one; where there is none it goes without."""

    def check(self, path: str | None, config: str | None) -> CatalogReport:
        """Every error of a file or directory; None: of the shipped entries and the config's directory."""
        ...

    def schema(self) -> str:
        """The JSON Schema of a catalog entry, for editors."""
        ...

    def catalog(self, config: str | None) -> Catalog:
        """The catalog in force. Refuses `invalid_catalog` where nobody knows what is in it."""
        ...

    def entry(self, name: str, config: str | None) -> Entry:
        """One entry. Refuses `not_found` with the nearest name, and as `catalog`."""
        ...

    def fit(self, name: str, host: str | None, config: str | None) -> BoxFit:
        """Each of its shapes against a host of the config, else this machine. Refuses as `entry`."""
        ...

    def engine(self, reference: str, hosts: Sequence[str], config: str | None) -> Printed:
        """The engine of ID#VARIANT on those hosts, in the order of its roles. Refuses `invalid_request`."""
        ...

    def plan(self, reference: str, config: str | None) -> PullPlan:
        """What a pull of ID#QUANT is about. Refuses `not_found`."""
        ...

    def pull(self, wanted: Wanted, progress: Progress) -> Pulled:
        """Have one file: adopt what is there, else fetch it. Starts and deletes nothing.

        Refuses `not_the_file`, `store_full`, `upstream_unreachable`, `upstream_died`.
        """
        ...
