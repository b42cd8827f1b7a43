"""What nodes with configs of their own tell each other: routable rows, and nothing else (SYNC-1).

Decides which rows travel, which of two versions wins, whose word counts of an id, and which are offered. A
row says where something can be asked: it never starts, commands or opens anything here (SYNC-6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hostler.domain.addresses import is_link_local, is_metadata, is_this_machine, meanings, place_of
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen

EXTERNAL: Final = "external"
"""The `host` of a row whose address is on none of our boxes."""
MAX_ROWS: Final = 1000
"""Rows that a node keeps, its own and its peers'.

Of each at most 3 KiB, 4.5 KiB of what nodes saw, and 1 KiB of line ends and indents: 9 MiB, and a state file
has at most 16.
"""
MAX_OWN: Final = 64
"""Rows of one author: at 3 KiB each 192 KiB, and the body of a call has at most 256."""
MAX_MODELS: Final = 64
MAX_NODES: Final = 64
LONGEST_ID: Final = 128
LONGEST_URL: Final = 512
LONGEST_NAME: Final = 256
JUMP: Final = 1 << 32
"""How far a version may be beyond our clock: 4 billion changes that nobody told of did not happen, and a row
that says so would keep its id from everybody else's later word.
"""

Key = tuple[str, str]
"""Whose word a row is, and its id: nobody but its author changes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something that can be asked for models at a URL.

    `local_only` is the flag as it came: only the value true is one (SYNC-2). `version` and `author` are the
    Lamport clock and the node that wrote it last. `reach` is what each node saw when it last probed the URL,
    `allowed` who said why of a node that need not reach it.
    """

    id: str
    url: str
    host: str = ""
    models: tuple[str, ...] = ()
    local_only: object = False
    retired: bool = False
    version: int = 0
    author: str = ""
    reach: Mapping[str, bool] = field(default_factory=lambda: frozen({}))
    allowed: Mapping[str, str] = field(default_factory=lambda: frozen({}))

    @property
    def key(self) -> Key:
        """Under which a registry keeps it."""
        return self.author, self.id

    @property
    def order(self) -> tuple[int, str]:
        """Which of two versions is later (SYNC-5)."""
        return self.version, self.author

    def same(self, other: Row) -> bool:
        """Whether both say the same, whoever wrote it when, and whatever was seen of it."""
        plain = {"version": 0, "author": "", "reach": frozen({})}
        return replace(self, **plain) == replace(other, **plain)  # type: ignore[arg-type]  # three of its fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a row travels, and the sentence that `sync explain` shows."""

    travels: bool
    why: str


def should_sync(row: Row) -> Verdict:
    """Whether a row may leave this node, and be taken from another: the one question for both (SYNC-2)."""
    if row.local_only is True:
        return _stays("it is marked local_only")
    if not row.url:
        return _stays("it has no URL")
    place = place_of(row.url)
    if place is None or place.scheme not in ("http", "https"):
        return _stays("its URL cannot be understood")
    if place.user is not None:
        return _stays("its URL carries a user or a password")
    host = place.host
    if is_this_machine(host):
        why = f"{host} is each node's own machine: such a row is per node, and retired on each"
        return _stays(why)
    if is_metadata(host):
        return _stays(f"{host} is a cloud's metadata service")
    if is_link_local(host):
        return _stays(f"{host} means something on one link only")
    return Verdict(travels=True, why="its URL is one that other machines can ask")


def _stays(why: str) -> Verdict:
    return Verdict(travels=False, why=why)


def checked(row: Row, *, owners: Sequence[str] = ()) -> Row:
    """A row that may be published. `owners` are the nodes that have its address on one of their interfaces.

    Refuses `invalid_request`: a URL that others can ask needs its host, named and never guessed (SYNC-3).
    """
    if not row.id or len(row.id) > LONGEST_ID or not row.id.isprintable():
        raise _invalid("A row needs an id.", f"a printable name of at most {LONGEST_ID} characters", "id")
    if len(row.url) > LONGEST_URL or len(row.models) > MAX_MODELS:
        bounds = f"a URL of at most {LONGEST_URL} characters and {MAX_MODELS} models"
        raise _invalid(f"The row {row.id} is too large.", bounds, "url")
    verdict = should_sync(row)
    if verdict.travels and not row.host:
        known = f"{' or '.join(owners)} has that address; " if owners else ""
        raise _invalid(
            f"The row {row.id} does not say on which host {row.url} is.",
            f"{known}name the host, or say `external`: an address proves nothing",
            "host",
        )
    return row


def _invalid(what: str, expected: str, where: str) -> InvalidRequest:
    return InvalidRequest(what=what, expected=expected, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The rows of one node by author and id, and the highest Lamport number that it has seen."""

    node: str
    rows: Mapping[Key, Row] = field(default_factory=lambda: frozen({}))
    clock: int = 0

    def claims(self, id_: str, homes: Mapping[str, str] | None = None) -> tuple[Row, ...]:
        """Every author's row of that id, the one that counts first.

        What is believed comes first, then what is not retired, then the last writer's (SYNC-5).
        """
        return self._ordered([row for row in self.rows.values() if row.id == id_], homes)

    def every_claim(self, homes: Mapping[str, str] | None = None) -> Mapping[str, tuple[Row, ...]]:
        """The claims of every id, by id."""
        grouped: dict[str, list[Row]] = {}
        for row in self.rows.values():
            grouped.setdefault(row.id, []).append(row)
        return frozen({id_: self._ordered(grouped[id_], homes) for id_ in sorted(grouped)})

    def _ordered(self, found: Sequence[Row], homes: Mapping[str, str] | None) -> tuple[Row, ...]:
        trusted = {row.key for row in found if not self.doubt(row, homes)}
        ranked = sorted(found, key=lambda row: (row.key in trusted, not row.retired, row.order), reverse=True)
        return tuple(ranked)

    def row(self, id_: str, homes: Mapping[str, str] | None = None) -> Row | None:
        """The row that counts of that id."""
        return next(iter(self.claims(id_, homes)), None)

    def doubt(self, row: Row, homes: Mapping[str, str] | None = None) -> str:
        """Why a row's word does not count, empty when it does: others leave what is not theirs (SYNC-5).

        `homes` says whose an address is, as far as this node knows by itself. Of a row that another node
        wrote the node that the row itself names as its host has the last word, whatever the versions.
        """
        place = place_of(row.url)
        owner = _home(place.host, homes) if place is not None and homes else None
        if owner is not None and owner != row.host:
            return f"it says {row.host or 'nothing'} of an address that is {owner}'s"
        if row.host != row.author and (row.host, row.id) in self.rows:
            return f"{row.host} has its address, and says another"
        return ""

    def write(self, row: Row, *, owns: bool = False, homes: Mapping[str, str] | None = None) -> Registry:
        """The registry in which this node says `row` now; equal content writes nothing (SYNC-5).

        `owns`: the row's address is this node's. Refuses `invalid_request` when there are too many, and for a
        row that another node wrote: its author, or whose address it is, says it again, all others leave it.
        """
        mine = self.rows.get((self.node, row.id))
        ours = mine is not None and not self.doubt(mine, homes)
        known = mine if ours else self.row(row.id, homes)
        if known is not None and known.same(row):
            return self
        if mine is None and not self._room(self.node):
            expected = f"at most {MAX_OWN} rows of one node, and {MAX_ROWS} of all"
            raise _invalid("The registry is full.", expected, "id")
        if known is not None and known.author != self.node and not owns:
            expected = f"change it on {known.author}, or on the node that has its address"
            raise _invalid(f"The row {row.id} is {known.author}'s.", expected, "id")
        if mine is not None and should_sync(mine).travels and not should_sync(row).travels:
            expected = "retire it; what only this node can ask has another id"
            raise _invalid(
                f"Peers know the row {row.id}, and what it says now does not travel.", expected, "url"
            )
        reach = known.reach if known is not None and known.url == row.url else row.reach
        said = replace(row, version=self.clock + 1, author=self.node, reach=reach)
        return replace(self, rows=frozen({**self.rows, said.key: said}), clock=said.version)

    def again(self, ids: Iterable[str]) -> Registry:
        """The registry in which this node's rows of `ids` are new versions of what they are.

        For a node whose clock went back: a peer has later versions of its rows than it has itself.
        """
        rows, clock = dict(self.rows), self.clock
        for id_ in sorted(set(ids)):
            mine = rows.get((self.node, id_))
            if mine is not None:
                clock += 1
                rows[mine.key] = replace(mine, version=clock)
        return self if clock == self.clock else replace(self, rows=frozen(rows), clock=clock)

    def seen_clock(self, clock: int) -> Registry:
        """The registry that has seen a peer's clock."""
        ahead = max(self.clock, min(clock, self.clock + JUMP))
        return self if ahead == self.clock else replace(self, clock=ahead)

    def take(self, peer: str, rows: Iterable[Row]) -> tuple[Registry, tuple[Row, ...]]:
        """What a peer said of its own rows, merged: the registry, and the rows that are new here (SYNC-5).

        A peer speaks for itself: a row of another author is left. So is what may not travel, whatever its
        version (SYNC-2), and a version that nobody can have come to.
        """
        merged, news = self, list[Row]()
        for row in rows:
            if row.author != peer or peer == self.node or not should_sync(row).travels:
                continue
            if self.far_off(row):
                continue
            mine = merged.rows.get(row.key)
            if mine is None and not merged._room(peer):
                continue
            new = mine is None or row.version > mine.version
            later = row if mine is None or new else replace(mine, reach=row.reach)
            kept = {} if mine is None or mine.url != later.url else mine.reach
            own = {name: saw for name, saw in kept.items() if name == self.node}
            others = [it for it in row.reach.items() if it[0] != self.node][: MAX_NODES - len(own)]
            later = replace(later, reach=frozen({**dict(others), **own}))
            if later == mine or (mine is not None and row.version < mine.version):
                continue
            clock = max(merged.clock, row.version)
            merged = replace(merged, rows=frozen({**merged.rows, row.key: later}), clock=clock)
            if new:
                news.append(later)
        return merged, tuple(news)

    def far_off(self, row: Row) -> bool:
        """Whether its version is further beyond this node's clock than any history leads (SYNC-5)."""
        return row.version > self.clock + JUMP

    def _room(self, author: str) -> bool:
        own = sum(name == author for name, _ in self.rows)
        return own < MAX_OWN and len(self.rows) < MAX_ROWS

    def told(self) -> tuple[Row, ...]:
        """What this node tells its peers: its own rows, by id."""
        own = (row for key, row in sorted(self.rows.items()) if row.author == self.node)
        return tuple(row for row in own if should_sync(row).travels)

    def older(self, peer: str, rows: Iterable[Row]) -> tuple[str, ...]:
        """The ids of which a peer says less, or another thing, than it said before: its clock went back."""
        found = ((self.rows.get((peer, row.id)), row) for row in rows)
        return tuple(row.id for mine, row in found if mine is not None and _went_back(mine, row))

    def seen(self, key: Key, node: str, *, reachable: bool) -> Registry:
        """The registry in which `node` could, or could not, reach that row (SYNC-4). Not a new version."""
        row = self.rows.get(key)
        if row is None or row.reach.get(node) == reachable:
            return self
        if node not in row.reach and len(row.reach) >= MAX_NODES:
            return self
        seen = replace(row, reach=frozen({**row.reach, node: reachable}))
        return replace(self, rows=frozen({**self.rows, key: seen}))

    def resolved(self, peers: Iterable[str], homes: Mapping[str, str] | None = None) -> tuple[Row, ...]:
        """The rows of others that an id leads to here, by id (SYNC-5, SYNC-6).

        Alive, of a paired node, with their host named, and with a URL that may travel: a peer's word opens
        nothing of this machine. An id that this node says itself leads to no peer's row.
        """
        paired = frozenset(peers) - {self.node}
        found = (self._leads(claims, paired, homes) for claims in self.every_claim(homes).values())
        return tuple(row for row in found if row is not None)

    def _leads(
        self, claims: Sequence[Row], paired: frozenset[str], homes: Mapping[str, str] | None
    ) -> Row | None:
        for row in claims:
            if row.retired or self.doubt(row, homes):
                continue
            if row.author == self.node:
                return None
            if row.author in paired and row.host and should_sync(row).travels:
                return row
        return None

    def offered(self, peers: Iterable[str], homes: Mapping[str, str] | None = None) -> tuple[Row, ...]:
        """Those of them that are reached from here, as far as is known (SYNC-4)."""
        return tuple(row for row in self.resolved(peers, homes) if row.reach.get(self.node) is not False)


def _went_back(mine: Row, row: Row) -> bool:
    return row.version < mine.version or (row.version == mine.version and not mine.same(row))


def _home(host: str, homes: Mapping[str, str]) -> str | None:
    """Whose node an address or a name is, in any spelling."""
    names = (host, *map(str, meanings(host)))
    return next((homes[name] for name in names if name in homes), None)


def homes_of(urls: Mapping[str, str], here: str, interfaces: Iterable[str]) -> Mapping[str, str]:
    """Whose each address is, by what this node knows itself: its interfaces, and where it asks other nodes.

    `urls` are those of other nodes, by name. What is each node's own machine is nobody's (SYNC-2).
    """
    found: dict[str, str] = {}
    for name, url in urls.items():
        place = place_of(url)
        if place is not None and not is_this_machine(place.host):
            found |= dict.fromkeys((place.host, *map(str, meanings(place.host))), name)
    return frozen({**found, **dict.fromkeys(interfaces, here)})


def is_ours(url: str, interfaces: Iterable[str]) -> bool:
    """Whether a URL's address is on one of `interfaces`: this machine's, without bridges (SYNC-3)."""
    place = place_of(url)
    if place is None:
        return False
    own = {found for address in interfaces for found in meanings(address)}
    return any(found in own for found in meanings(place.host))


def unreached(row: Row, nodes: Iterable[str]) -> tuple[str, ...]:
    """The nodes that could not reach a row, or were not asked, and were not allowed to (SYNC-4)."""
    return tuple(node for node in nodes if row.reach.get(node) is not True and node not in row.allowed)
