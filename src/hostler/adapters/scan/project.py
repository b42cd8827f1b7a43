"""A compose project put together: override file, `extends`, `include`, `!reset` and `!override` (PORT-2).

Decides which `ports` a service has in the end. What one of its ports says is `compose_ports`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hostler.adapters.scan.texts import Unread, read_text
from hostler.adapters.scan.tree import Broken, Items, Keys, Text, Tree, read_tree
from hostler.adapters.scan.variables import env_file, fill
from hostler.domain.ports import Trouble

DEEPEST: Final = 8
MOST_FILES: Final = 200
OVERRIDES: Final = ("compose.override.yaml", "compose.override.yml")
OVERRIDES_OLD: Final = ("docker-compose.override.yml", "docker-compose.override.yaml")
MAINS: Final = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item of a service's list, with the file that it stands in."""

    tree: Tree
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What of a service bears on its ports. `known` are the variables of the file that it comes from."""

    name: str
    file: str
    line: int
    known: Mapping[str, str]
    ports: tuple[Entry, ...] = ()
    network: str = ""
    container: str = ""
    image: str = ""
    command: Entry | None = None
    entrypoint: Entry | None = None
    environment: Entry | None = None
    expose: tuple[Entry, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Project:
    """One project while it is read. `given` are variables from outside; they win over `.env`."""

    given: Mapping[str, str]
    services: dict[str, Service] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def read(self, main: Path) -> None:
        """The project whose main file this is, with the override file that compose takes by itself."""
        known = self._known(main.parent)
        self._file(main, known, 0)
        for other in beside(main):
            self._file(other, known, 0)

    def _known(self, folder: Path) -> Mapping[str, str]:
        """The variables of a folder: its `.env`, then what was given."""
        try:
            text = read_text(folder / ".env")
        except Unread:
            return self.given
        self.files.append(str(folder / ".env"))
        return {**env_file(text), **self.given}

    def _tree(self, path: Path) -> Keys | None:
        """The mapping in a file; None, and a trouble, where there is none."""
        if len(self.files) >= MOST_FILES:
            self._trouble(path, 1, f"not read: more than {MOST_FILES} files in one project")
            return None
        try:
            tree = read_tree(read_text(path))
        except Unread as error:
            self._trouble(path, 1, f"cannot be read: {error}")
            return None
        except Broken as error:
            self._trouble(path, error.line, f"cannot be parsed: {error}")
            return None
        self.files.append(str(path))
        if isinstance(tree, Keys):
            return tree
        self._trouble(path, tree.line, "cannot be parsed: a compose file is a mapping")
        return None

    def _trouble(self, path: Path | str, line: int, message: str) -> None:
        found = Trouble(file=str(path), line=line, message=message)
        if found not in self.troubles:
            self.troubles.append(found)

    def _file(self, path: Path, known: Mapping[str, str], depth: int) -> None:
        """The services of a file, and of those that it includes, merged into those known."""
        tree = self._tree(path)
        if tree is None:
            return
        for each in listed(tree.get("include")):
            self._include(each, path, known, depth)
        services = tree.get("services")
        if services is not None and not isinstance(services, Keys):
            self._trouble(path, services.line, "services is no mapping")
            return
        for name, each in services.entries.items() if services is not None else ():
            if isinstance(each, Keys):
                before = self.services.get(name)
                self.services[name] = self._service(before, name, each, path, known, depth)
            elif not isinstance(each, Text) or not each.nothing:
                self._trouble(path, each.line, f"the service {name} is no mapping")

    def _include(self, tree: Tree, path: Path, known: Mapping[str, str], depth: int) -> None:
        """`include: [file]` or `{path: file or files}`; what is not on this disk is not read."""
        names = listed(tree.get("path")) if isinstance(tree, Keys) else [tree]
        for each in names:
            if not isinstance(each, Text):
                continue
            name = fill(each.value, known).text
            if depth >= DEEPEST or "://" in name or not name:
                self._trouble(path, each.line, f"include {name} is not read")
                continue
            other = path.parent / name
            if str(other) not in self.files:
                self._file(
                    other, self._known(other.parent) if other.parent != path.parent else known, depth + 1
                )

    def _service(
        self,
        before: Service | None,
        name: str,
        tree: Keys,
        path: Path,
        known: Mapping[str, str],
        depth: int,
    ) -> Service:
        base = before or Service(name=name, file=str(path), line=tree.line, known=known)
        extended = self._extended(tree, name, path, known, depth)
        if extended is not None:
            base = _stacked(extended, base)
        return _merged(base, tree, str(path))

    def _extended(
        self, tree: Keys, name: str, path: Path, known: Mapping[str, str], depth: int
    ) -> Service | None:
        """The service that this one extends, from its own file or another."""
        given = tree.get("extends")
        if given is None:
            return None
        file = given.get("file") if isinstance(given, Keys) else None
        service = given.get("service") if isinstance(given, Keys) else given
        wanted = service.value if isinstance(service, Text) else ""
        other = path.parent / fill(file.value, known).text if isinstance(file, Text) else path
        there = self._tree(other) if depth < DEEPEST else None
        services = there.get("services") if there is not None else None
        found = services.get(wanted) if isinstance(services, Keys) else None
        if not isinstance(found, Keys):
            self._trouble(path, given.line, f"{name} extends {wanted} of {other}, which is not there")
            return None
        return self._service(None, wanted, found, other, known, depth + 1)


def beside(main: Path) -> list[Path]:
    """The override file that compose reads beside a main file without being asked."""
    if main.name not in MAINS:
        return []
    names = OVERRIDES if main.name.startswith("compose.") else OVERRIDES_OLD
    return [path for name in names if (path := main.parent / name).is_file()][:1]


def listed(tree: Tree | None) -> Sequence[Tree]:
    """The items of a list, a single value as one."""
    if tree is None:
        return ()
    return tree.items if isinstance(tree, Items) else (tree,)


def _stacked(lower: Service, upper: Service) -> Service:
    """What a service extends, below what is known of it."""
    return replace(
        lower,
        name=upper.name,
        file=upper.file,
        line=upper.line,
        known=upper.known,
        ports=tuple(_once([*lower.ports, *upper.ports])),
    )


def _merged(base: Service, tree: Keys, file: str) -> Service:
    """A service with the keys of one more mapping: lists are added to, single values replaced."""

    def single(key: str, before: Entry | None) -> Entry | None:
        found = tree.get(key)
        return before if found is None else None if _reset(found) else Entry(tree=found, file=file)

    def text(key: str, before: str) -> str:
        found = tree.get(key)
        return fill(found.value, base.known).text if isinstance(found, Text) else before

    return replace(
        base,
        ports=_list(base.ports, tree.get("ports"), file),
        expose=_list(base.expose, tree.get("expose"), file),
        network=text("network_mode", base.network),
        container=text("container_name", base.container),
        image=text("image", base.image),
        command=single("command", base.command),
        entrypoint=single("entrypoint", base.entrypoint),
        environment=single("environment", base.environment),
        profiles=tuple(_texts(tree.get("profiles"))) or base.profiles,
    )


def _reset(tree: Tree) -> bool:
    return tree.tag == "!reset"


def _list(before: tuple[Entry, ...], tree: Tree | None, file: str) -> tuple[Entry, ...]:
    """A list of a lower file with that of an upper one: added, or `!override`n, or `!reset`."""
    if tree is None:
        return before
    if _reset(tree):
        return ()
    own = [Entry(tree=each, file=file) for each in listed(tree)]
    return tuple(own) if tree.tag == "!override" else tuple(_once([*before, *own]))


def _once(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Each entry once: compose counts what is written the same way as one."""
    seen = set()
    for each in entries:
        key = each.tree.value if isinstance(each.tree, Text) else None
        if key is None or key not in seen:
            yield each
        seen.add(key)


def _texts(tree: Tree | None) -> list[str]:
    return [each.value for each in listed(tree) if isinstance(each, Text)]
