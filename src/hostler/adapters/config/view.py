"""What the checks of relations look at, and where they write what they find.

Decides nothing itself. Parts of the document that have errors of their own are left out of it; their
names are still known, so that one error does not bring others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hostler.adapters.config.curate import class_of, owner_of
from hostler.adapters.config.explain import Told, nearest
from hostler.adapters.config.schema.document import Document
from hostler.adapters.config.schema.engines import EngineKeys, PoolNeeds
from hostler.adapters.config.schema.hosts import HostKeys, HostMemory
from hostler.adapters.config.schema.node import NodeKeys
from hostler.adapters.config.tree import Node, Path, keys_at, locate
from hostler.domain.catalog import NO_CATALOG, Catalog
from hostler.domain.fleet import HOST_POOL, Pool
from hostler.domain.values import ServingClass, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A filled document beside the tree that it came from.

    `references` are the paths that held `${…}`; `broken` the parts that were left out; `kept` the
    original indices of lists that lost items; `wrong` where exactly the errors are;
    `keyed`: keys were made by `hostler keys create`.
    """

    doc: Document
    tree: Node
    here: str
    references: frozenset[Path] = frozenset()
    broken: frozenset[Path] = frozenset()
    wrong: frozenset[Path] = frozenset()
    kept: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)
    keyed: bool = False
    catalog: Catalog = NO_CATALOG
    errors: list[Told] = field(default_factory=list)
    warnings: list[Told] = field(default_factory=list)

    def error(self, path: Path, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Note an error, unless its part has one already."""
        if not self.is_broken(path):
            self.errors.append(Told(path=path, message=message, hint=hint, at_key=at_key))

    def warn(self, path: Path, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Note a warning, unless something of what it speaks of is left out."""
        if not self.is_broken(path) and not self.is_cut(path):
            self.warnings.append(Told(path=path, message=message, hint=hint, at_key=at_key))

    def is_broken(self, path: Path) -> bool:
        """Whether `path` lies in a part that was left out."""
        return any(path[: len(part)] == part for part in self.broken)

    def is_cut(self, path: Path) -> bool:
        """Whether something at or below `path` was left out, or has no value."""
        return any(part[: len(path)] == path for part in (*self.broken, *self.wrong))

    def refer(self, path: Path, what: str, name: str, names: Iterable[str], *, at_key: bool = False) -> bool:
        """Whether `name` is one of `names`; an error at `path` with the nearest one if not."""
        valid = list(names)
        if name in valid:
            return True
        self.error(path, f"there is no {what} {shorten(name)}", nearest(name, valid), at_key=at_key)
        return False

    def index(self, path: Path, number: int) -> Path:
        """The path of item `number` of the list at `path`, as it is in the file."""
        return (*path, self.kept[path][number] if path in self.kept else number)

    def given(self, path: Path) -> frozenset[str]:
        """The keys that are written in the mapping at `path`."""
        return frozenset(keys_at(self.tree, path))

    def line(self, path: Path, *, at_key: bool = True) -> str:
        """`line 12` of what stands at `path`."""
        return f"line {locate(self.tree, path, at_key=at_key).line}"

    @property
    def hosts(self) -> Mapping[str, HostKeys]:
        """The hosts that are right, by name."""
        return self.doc.hosts or {}

    def node(self, host: str) -> NodeKeys:
        """`node` as it is on `host`."""
        keys = self.hosts.get(host)
        return self.doc.node if keys is None or keys.node is None else keys.node

    def host_names(self) -> tuple[str, ...]:
        """All hosts, those with errors too."""
        return keys_at(self.tree, ("hosts",)) if "hosts" in self.given(()) else tuple(self.hosts)

    def engine_names(self) -> tuple[str, ...]:
        """All engines, those with errors too."""
        return keys_at(self.tree, ("engines",))

    def group_names(self, host: str) -> tuple[str, ...]:
        """All groups of a host, those with errors too."""
        return keys_at(self.tree, ("hosts", host, "groups"))

    def owner_of(self, member: str) -> str | None:
        """The distributed engine that `member` belongs to, or None."""
        return owner_of(self.doc, member)

    def class_of(self, engine: str) -> ServingClass:
        """The class of an engine that is right: all that speaks of it, merged (CAT-3)."""
        return class_of(self.doc, self.catalog, engine)

    def hosts_of(self, engine: str) -> frozenset[str]:
        """The hosts that an engine runs on: several for a distributed one."""
        keys = self.doc.engines.get(engine)
        if keys is None:
            return frozenset()
        parts = [self.doc.engines[each] for each in keys.members or () if each in self.doc.engines]
        return frozenset(each.host for each in parts or [keys] if each.host is not None)

    def parts_of(self, engine: str, host: str) -> tuple[str, ...]:
        """The engine itself, or its members, that run on `host`."""
        keys = self.doc.engines.get(engine)
        if keys is None:
            return ()
        names = keys.members or (engine,)
        return tuple(each for each in names if self._host_of(each) == host)

    def _host_of(self, engine: str) -> str | None:
        keys = self.doc.engines.get(engine)
        return None if keys is None else keys.host


def needs_of(engine: EngineKeys) -> Mapping[str, int]:
    """Bytes that an engine claims, by pool of its host; empty where it does not say (MEM-2)."""
    if engine.memory is None:
        return {}
    if isinstance(engine.memory, PoolNeeds):
        return {pool_name(name): need for name, need in engine.memory.by_pool().items()}
    return {HOST_POOL: engine.memory}


def pool_name(name: str) -> str:
    """The fleet's name of a pool: `ram` is the host's main pool (MEM-1)."""
    return HOST_POOL if name == "ram" else name


def pools_of(memory: HostMemory) -> dict[str, Pool]:
    """The pools that a host's config describes, by the fleet's names (MEM-1)."""
    named = memory.pools()
    if not named:
        return {HOST_POOL: Pool(total=memory.total, reserve=memory.reserve, floor=memory.floor)}
    return {
        pool_name(name): Pool(name=pool_name(name), total=each.total, reserve=each.reserve, floor=each.floor)
        for name, each in named.items()
    }
