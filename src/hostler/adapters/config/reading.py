"""Reads a config file whole: every error at once, or the frozen fleet (CONF-1, CONF-2).

Decides the order: trust, YAML, version, host, secrets, keys, defaults, relations. A part with errors
of its own is left out and the rest is still checked.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path as File

from pydantic import ValidationError

from hostler.adapters.catalog.kept import kept as kept_catalog
from hostler.adapters.catalog.reading import load as load_catalog
from hostler.adapters.config.build import build
from hostler.adapters.config.check_access import check_access
from hostler.adapters.config.check_catalog import check_catalog
from hostler.adapters.config.check_engines import check_engines
from hostler.adapters.config.check_hosts import check_hosts
from hostler.adapters.config.check_memory import check_memory
from hostler.adapters.config.check_modes import check_modes
from hostler.adapters.config.check_ports import check_ports
from hostler.adapters.config.check_reservations import check_reservations
from hostler.adapters.config.check_routes import check_routes
from hostler.adapters.config.explain import MISSING, UNKNOWN, Schema, Told, explain, nearest
from hostler.adapters.config.fill import LOCAL, fill, node_of
from hostler.adapters.config.find import Untrusted, read_config
from hostler.adapters.config.parts import part_of
from hostler.adapters.config.paths import state_dir
from hostler.adapters.config.schema.document import VERSION, Document, json_schema
from hostler.adapters.config.secrets import Resolved, resolve
from hostler.adapters.config.tree import (
    START,
    Leaf,
    ListNode,
    MapNode,
    Mark,
    Node,
    Path,
    bare,
    empty,
    keys_at,
    locate,
    node_at,
    without,
    written,
)
from hostler.adapters.config.view import View
from hostler.adapters.config.yaml import Finding, Unreadable, compose, decode
from hostler.domain.errors import InvalidConfig
from hostler.domain.fleet import Fleet, Secret, frozen
from hostler.services.config_parts import Problem

MAX_PROBLEMS = 200
"""More than this many are told as their number: nobody reads the two hundred and first."""
CHECKS = (
    check_hosts,
    check_engines,
    check_ports,
    check_memory,
    check_routes,
    check_reservations,
    check_modes,
    check_catalog,
    check_access,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a config file says. `fleet` and `document` are None where there are problems.

    `secrets` are the values that came from the environment or a file, by their paths.
    """

    file: str
    host: str
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    document: Document | None = None
    fleet: Fleet | None = None
    secrets: Mapping[Path, Secret] = field(default_factory=lambda: frozen({}))


def load(path: File, env: Mapping[str, str], host: str | None = None) -> Fleet:
    """The fleet of a config file as host `host` (None: this machine) sees it.

    Raises InvalidConfig with every problem, each `file:line:column: path: what was expected`.
    """
    return right(examine(path, env, host)).fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A reading without problems."""

    reading: Reading
    document: Document
    fleet: Fleet


def right(reading: Reading) -> Right:
    """The reading, if it has no problems; raises InvalidConfig with all of them."""
    if reading.problems or reading.document is None or reading.fleet is None:
        problems = tuple(str(problem) for problem in reading.problems)
        raise InvalidConfig(file=reading.file, count=len(problems), problems=problems)
    return Right(reading=reading, document=reading.document, fleet=reading.fleet)


def examine(
    path: File,
    env: Mapping[str, str],
    host: str | None = None,
    *,
    machine: str | None = None,
    anywhere: bool = False,
) -> Reading:
    """Read and check a config file. Never raises for what is in it.

    `machine` is this machine's name (None: asked for). `anywhere`: a machine that is none of the hosts
    may check the file as its first host; secrets that are missing are warnings then.
    """
    name = machine if machine is not None else socket.gethostname()
    run = _Run(file=str(path), env=env, host=host, machine=name.partition(".")[0].lower(), anywhere=anywhere)
    try:
        root, findings = compose(decode(read_config(path)))
    except Untrusted as error:
        run.tell(START, (), str(error), error.hint)
    except Unreadable as error:
        run.find(error.finding)
    else:
        for finding in findings:
            run.find(finding)
        return run.read(root, frozenset(each.path for each in findings if each.lost))
    return run.reading(LOCAL)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One reading under way."""

    file: str
    env: Mapping[str, str]
    host: str | None
    machine: str
    anywhere: bool
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def tell(self, mark: Mark, path: Path, message: str, hint: str = "", *, warn: bool = False) -> None:
        """Note a problem, or a warning."""
        problem = Problem(
            file=self.file,
            line=mark.line,
            column=mark.column,
            path=written(path),
            message=message,
            hint=hint,
        )
        (self.warnings if warn else self.problems).append(problem)

    def find(self, finding: Finding, *, warn: bool = False) -> None:
        """Note a finding of the YAML reader or of the secrets."""
        self.tell(finding.mark, finding.path, finding.message, finding.hint, warn=warn)

    def reading(self, host: str, hidden: Iterable[str] = ()) -> Reading:
        """What was found so far, in the order of the file, without any secret's text."""
        secrets = sorted((text for text in hidden if len(text) > 3), key=len, reverse=True)
        return Reading(
            file=self.file,
            host=host,
            problems=_ordered(self.problems, secrets),
            warnings=_ordered(self.warnings, secrets),
        )

    def read(self, root: Node, lost: frozenset[Path]) -> Reading:
        """Everything after the YAML; `lost` are paths whose values it could not tell."""
        if not isinstance(root, MapNode):
            self.tell(root.mark, (), "expected a mapping of keys", "version: 1")
            return self.reading(LOCAL)
        if not self._version(root):
            return self.reading(LOCAL)
        here, ours = self._here(root)
        for path, mark in empty(root, ()):
            if path not in lost:
                self.tell(mark, path, "has no value", "give one, or leave the key out")
        resolved = resolve(root, self.env, lambda path: not ours or _others(path, here))
        for finding in resolved.errors:
            self.find(finding)
        for finding in resolved.warnings:
            self.find(finding, warn=True)
        view = self._view(root, resolved, here, lost)
        for check in CHECKS:
            check(view)
        self._note(root, view.errors)
        self._note(root, view.warnings, warn=True)
        found = self.reading(here, resolved.values)
        if found.problems:
            return found
        return replace(
            found,
            document=view.doc,
            fleet=build(view.doc, here, resolved.secrets, view.catalog),
            secrets=resolved.secrets,
        )

    def _note(self, root: Node, told: Iterable[Told], *, warn: bool = False) -> None:
        for each in told:
            mark = locate(root, each.path, at_key=each.at_key)
            self.tell(mark, each.path, each.message, each.hint, warn=warn)

    def _version(self, root: MapNode) -> bool:
        """Whether this is a format that can be read: of a newer one nothing else is known."""
        entry = root.entry("version")
        value = entry.node.value if entry is not None and isinstance(entry.node, Leaf) else None
        if entry is None or isinstance(value, bool) or not isinstance(value, int) or value <= VERSION:
            return True
        mark = entry.node.mark
        self.tell(
            mark,
            ("version",),
            f"version {value} is newer than this hostler, which reads {VERSION}",
            "upgrade",
        )
        return False

    def _here(self, root: MapNode) -> tuple[str, bool]:
        """The host that this is (CONF-6), and whether it is this machine's own."""
        names = keys_at(root, ("hosts",)) or (LOCAL,)
        asked = self.host or self.env.get("HOSTLER_HOST")
        if asked is not None:
            if asked not in names:
                what = "--host" if self.host else "$HOSTLER_HOST"
                self.tell(
                    START, ("hosts",), f"{what} is {asked}, which is no host here", nearest(asked, names)
                )
                return names[0], False
            return asked, True
        if self.machine in names or len(names) == 1:
            return (self.machine if self.machine in names else names[0]), True
        mark = locate(root, ("hosts",), at_key=True)
        hint = f"--host or $HOSTLER_HOST, one of {', '.join(names)}"
        message = f"this machine, {self.machine}, is none of the hosts"
        told = f"{message}; checked as {names[0]}" if self.anywhere else message
        self.tell(mark, ("hosts",), told, hint, warn=self.anywhere)
        return names[0], False

    def _view(self, root: Node, resolved: Resolved, here: str, lost: frozenset[Path]) -> View:
        """The filled document without its broken parts, for the checks."""
        wrong = {*lost, *(finding.path for finding in resolved.findings)}
        broken = {part_of(path) for path in (*lost, *(finding.path for finding in resolved.errors))}
        kept: dict[Path, tuple[int, ...]] = {}
        try:
            document = Document.model_validate(bare(resolved.tree))
        except ValidationError as error:
            told = [explain(each, resolved.tree, _schema) for each in error.errors(include_url=False)]
            broken |= {part_of(each.path, unknown=each.message == UNKNOWN) for each in told}
            document, kept = _pruned(resolved.tree, broken)
            wrong |= {each.path for each in told}
            # What is missing because its value could not be had has a problem of its own already.
            known = {
                *(path for path, _ in empty(root, ())),
                *lost,
                *(each.path for each in resolved.findings),
            }
            self._note(root, [each for each in told if each.message != MISSING or each.path not in known])
        return View(
            doc=fill(document, here),
            tree=root,
            here=here,
            references=frozenset(resolved.secrets),
            broken=frozenset(broken),
            wrong=frozenset({*wrong, *(path for path, _ in empty(root, ()))}),
            kept=kept,
            keyed=_has_keys(self.env, document, here),
            catalog=load_catalog(document.catalog, kept_catalog(_state_of(self.env, document, here))),
        )


@cache
def _schema() -> Schema:
    return json_schema()


def _state_of(env: Mapping[str, str], document: Document, here: str) -> File:
    return state_dir(env, node_of(document, here).state_dir)


def _has_keys(env: Mapping[str, str], document: Document, here: str) -> bool:
    """Whether `hostler keys create` made keys on this host: a file of more than an empty object."""
    file = _state_of(env, document, here) / "keys.json"
    try:
        return file.stat().st_size > len("{}\n")
    except OSError:
        return False


def _pruned(tree: Node, broken: Iterable[Path]) -> tuple[Document, dict[Path, tuple[int, ...]]]:
    """The document of what is right, and the original indices of lists that lost items."""
    lost: dict[Path, set[int]] = {}
    for path in sorted(broken, key=_last_first):
        if path and isinstance(path[-1], int):
            lost.setdefault(path[:-1], set()).add(path[-1])
        tree = without(tree, path)
    kept: dict[Path, tuple[int, ...]] = {}
    for path, indices in lost.items():
        rest = node_at(tree, path)
        count = len(rest.items) if isinstance(rest, ListNode) else 0
        kept[path] = tuple(index for index in range(count + len(indices)) if index not in indices)
    data = bare(tree)
    whole = {**data, "version": VERSION} if isinstance(data, dict) else {"version": VERSION}
    try:
        return Document.model_validate(whole), kept
    except ValidationError:
        # What is left does not stand alone: the problems that are known already are told.
        return Document(version=1), kept


def _last_first(path: Path) -> tuple[int, ...]:
    return (-path[-1],) if path and isinstance(path[-1], int) else (0,)


def _others(path: Path, here: str) -> bool:
    """Whether a secret is needed by other hosts only: one file serves the whole fleet (CONF-6)."""
    return path[0] == "hosts" and path[1:2] != (here,)


def _ordered(problems: Iterable[Problem], secrets: Iterable[str]) -> tuple[Problem, ...]:
    """Each once, in the order of the file, with every secret's text replaced."""
    clean: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        message, hint = problem.message, problem.hint
        for secret in secrets:
            message, hint = message.replace(secret, "****"), hint.replace(secret, "****")
        place = (problem.line, problem.column, problem.path, message)
        clean.setdefault(place, replace(problem, message=message, hint=hint))
    found = sorted(clean.values(), key=lambda each: (each.line, each.column))
    if len(found) <= MAX_PROBLEMS:
        return tuple(found)
    last = found[MAX_PROBLEMS]
    more = replace(last, path="", hint="", message=f"{len(found) - MAX_PROBLEMS} more from here on")
    return (*found[:MAX_PROBLEMS], more)
