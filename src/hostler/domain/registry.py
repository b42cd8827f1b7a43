"""What nodes with configs of their own tell each other: routable rows, and nothing else (SYNC-1).

Decides which rows travel, which of two versions wins, whose word a row is, and which are offered. A row says
where something can be asked: it never starts, commands or opens anything here (SYNC-6).
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
MAX_ROWS: Final = 2000
"""Rows that a node keeps, its own and its peers'."""
MAX_MODELS: Final = 64
LONGEST_ID: Final = 128
LONGEST_URL: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something that can be asked for models at a URL.

    `local_only` is the flag as it came: only the value true is one (SYNC-2). `version` and `author` are the
    Lamport clock and the node that wrote it last. `reach` is what each node saw when it last probed the URL.
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
    """The rows of one node by id, and the highest Lamport number that it has seen."""

    node: str
    rows: Mapping[str, Row] = field(default_factory=lambda: frozen({}))
    clock: int = 0

    def write(self, row: Row, *, owns: bool = False) -> Registry:
        """The registry in which this node says `row` now; equal content writes nothing (SYNC-5).

        `owns`: the row's address is this node's. Refuses `invalid_request` when there are too many, and for a
        row that another node wrote: its author, or whose address it is, says it again, all others leave it.
        """
        known = self.rows.get(row.id)
        if known is not None and known.same(row):
            return self
        if known is None and len(self.rows) >= MAX_ROWS:
            raise _invalid("The registry is full.", f"at most {MAX_ROWS} rows", "id")
        if known is not None and known.author != self.node and not owns:
            expected = f"change it on {known.author}, or on the node that has its address"
            raise _invalid(f"The row {row.id} is {known.author}'s.", expected, "id")
        clock = self.clock + 1
        mine = replace(row, version=clock, author=self.node, reach=known.reach if known else row.reach)
        return replace(self, rows=frozen({**self.rows, row.id: mine}), clock=clock)

    def take(self, rows: Iterable[Row]) -> tuple[Registry, tuple[Row, ...]]:
        """What a peer sent, merged: the registry, and the rows that are new here (SYNC-5).

        What may not travel is left where it is, whatever its version (SYNC-2).
        """
        known, clock, news = dict(self.rows), self.clock, list[Row]()
        for row in rows:
            if not should_sync(row).travels or not row.author:
                continue
            clock = max(clock, row.version)
            mine = known.get(row.id)
            if mine is None and len(known) >= MAX_ROWS:
                continue
            if mine is not None and not should_sync(mine).travels:
                continue
            if mine is None or row.order > mine.order:
                own = (
                    {}
                    if mine is None
                    else {name: saw for name, saw in mine.reach.items() if name == self.node}
                )
                known[row.id] = replace(row, reach=frozen({**row.reach, **own}))
                news.append(known[row.id])
        if not news and clock == self.clock:
            return self, ()
        return replace(self, rows=frozen(known), clock=clock), tuple(news)

    def told(self) -> tuple[Row, ...]:
        """What this node tells its peers, by id."""
        return tuple(row for _, row in sorted(self.rows.items()) if should_sync(row).travels)

    def seen(self, id_: str, node: str, *, reachable: bool) -> Registry:
        """The registry in which `node` could, or could not, reach that row (SYNC-4). Not a new version."""
        row = self.rows.get(id_)
        if row is None or row.reach.get(node) == reachable:
            return self
        seen = replace(row, reach=frozen({**row.reach, node: reachable}))
        return replace(self, rows=frozen({**self.rows, id_: seen}))

    def offered(self, peers: Iterable[str]) -> tuple[Row, ...]:
        """The rows that this node's gateway forwards to (SYNC-4, SYNC-5, SYNC-6).

        Alive, of a paired node or our own, with their host named, reachable from here as far as is known, and
        with a URL that may travel: a peer's word opens nothing of this machine.
        """
        paired = {self.node, *peers}
        return tuple(
            row
            for _, row in sorted(self.rows.items())
            if not row.retired
            and row.host
            and row.author in paired
            and should_sync(row).travels
            and row.reach.get(self.node) is not False
        )


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
