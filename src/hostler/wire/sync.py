"""What paired nodes say to each other of their rows, and what people are told of them (SYNC-1).

Decides the form of a row on the wire and in the state directory, and its bounds. What a row means is
`domain.registry`'s. No command, path, key or time of day has a place in it (SYNC-6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from hostler.domain.fleet import frozen
from hostler.domain.registry import (
    LONGEST_ID,
    LONGEST_NAME,
    LONGEST_URL,
    MAX_MODELS,
    MAX_NODES,
    MAX_OWN,
    Row,
)
from hostler.domain.values import shorten
from hostler.wire.values import dump

SYNC_API: Final = 1
"""The number of the sync calls that this version speaks. One more or less is understood (NODE-7)."""
ROW_BYTES: Final = 3072
"""The largest row as JSON, without its `reach`: that grows at every node that looks."""
REACH_BYTES: Final = 2 + MAX_NODES * 72
"""The largest `reach` as JSON: so many of our node names, of 63 characters, and what was seen."""
MAX_VERSION: Final = 1 << 62
LONGEST_DIGEST: Final = 64
MAX_ALLOWED: Final = 16

Api = Annotated[int, Meta(ge=1)]
Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
Url = Annotated[str, Meta(max_length=LONGEST_URL)]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Digest = Annotated[str, Meta(max_length=LONGEST_DIGEST)]
Rows = Annotated[tuple[Mapping[str, object], ...], Meta(max_length=MAX_OWN)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBody:
    """A row as it is written. `local_only` may be anything: only the value true is that flag (SYNC-2)."""

    id: Id
    url: Url
    host: Name = ""
    models: Annotated[tuple[Name, ...], Meta(max_length=MAX_MODELS)] = ()
    local_only: object = False
    retired: bool = False
    version: Annotated[int, Meta(ge=1, le=MAX_VERSION)]
    author: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    reach: Annotated[Mapping[Name, bool], Meta(max_length=MAX_NODES)] = field(default_factory=dict)
    allowed: Annotated[Mapping[Name, Name], Meta(max_length=MAX_ALLOWED)] = field(default_factory=dict)


def row_to(row: Row) -> Mapping[str, object]:
    """A row as plain data."""
    return {
        "id": row.id,
        "url": row.url,
        "host": row.host,
        "models": list(row.models),
        "local_only": row.local_only,
        "retired": row.retired,
        "version": row.version,
        "author": row.author,
        "reach": dict(row.reach),
        "allowed": dict(row.allowed),
    }


def sound_from(raw: object) -> Row:
    """The row of plain data; keys of a newer version are passed over. Raises ValueError, naming the row.

    Its flag is one (SYNC-2), and every type is looked at before anything walks through it: what is nested
    deeper than can be followed is not sound either.
    """
    try:
        body = msgspec.convert(raw, RowBody)
    except msgspec.ValidationError as error:
        raise ValueError(f"{_name(raw)}: {error}") from error
    if not isinstance(body.local_only, bool):
        raise ValueError(f"{_name(raw)}: its local_only is neither true nor false")  # noqa: TRY004 - one error for all defects
    texts = (body.id, body.url, body.host, body.author, *body.models, *body.reach, *body.allowed)
    if not all(text.isprintable() for text in (*texts, *body.allowed.values())):
        raise ValueError(f"{_name(raw)}: it holds what cannot be printed")
    row = Row(
        id=body.id,
        url=body.url,
        host=body.host,
        models=body.models,
        local_only=body.local_only,
        retired=body.retired,
        version=body.version,
        author=body.author,
        reach=frozen(body.reach),
        allowed=frozen(body.allowed),
    )
    size, seen = len(dump(row_to(replace(row, reach=frozen({}))))), len(dump(row.reach))
    if size > ROW_BYTES:
        raise ValueError(f"{_name(raw)}: it has {size} bytes, and {ROW_BYTES} are the most")
    if seen > REACH_BYTES:
        raise ValueError(f"{_name(raw)}: its reach has {seen} bytes, and {REACH_BYTES} are the most")
    return row


def _name(raw: object) -> str:
    """What a broken row is called."""
    id_ = raw.get("id") if isinstance(raw, Mapping) else None
    return shorten(id_) if isinstance(id_, str) and id_ else "a row without an id"


# ---------------------------------------------------------------- between nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that a node tells one peer: its own rows, and which of the peer's it reaches (SYNC-4)."""

    rows: Rows = ()
    reach: Annotated[Mapping[Name, bool], Meta(max_length=MAX_OWN)] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """What is the same while there is nothing new to tell."""
        return hashlib.sha256(dump(self)).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeCall:
    """What a node has to tell, and what it has of the other. `told` None: the other has that digest already.

    `have` is the digest of what the other told last, empty when nothing is known of it.
    """

    api: Api
    node: Name
    digest: Digest
    have: Digest = ""
    told: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeAnswer:
    """The other's side. `need`: it does not have what the caller has to tell. `told` None: nothing is new.

    `older` are rows of which the caller said later things before: its `clock` went back. `left` are rows that
    were not understood, a sentence each.
    """

    api: int
    node: str
    digest: str
    need: bool = False
    told: Told | None = None
    clock: int = 0
    older: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCall:
    """Ask a peer whether it reaches a URL."""

    api: Api
    node: Name
    url: Url


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """`owns`: the URL's address is on one of its interfaces (SYNC-3)."""

    api: int
    node: str
    up: bool
    why: str = ""
    owns: bool = False


# ---------------------------------------------------------------- for people


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBody:
    """What to publish: an engine of this host, or an upstream. `url`, `host` and `models` stand for its own.

    `allow` are nodes that need not reach it, `because` says who wants that, and why (SYNC-4).
    """

    id: Id
    url: Url | None = None
    host: Name | None = None
    models: Annotated[tuple[Name, ...], Meta(max_length=MAX_MODELS)] | None = None
    allow: Annotated[tuple[Name, ...], Meta(max_length=MAX_ALLOWED)] = ()
    because: Annotated[str, Meta(max_length=200)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireBody:
    """Which row to retire."""

    id: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenView:
    """What one node said of a URL. `up` None: it was not asked, or did not answer."""

    node: str
    up: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """A row for people. `state`: ours, offered, unreached, retired, shadowed, doubted or unpaired."""

    id: str
    url: str
    host: str
    author: str
    models: tuple[str, ...]
    version: int
    retired: bool
    state: str
    why: str
    reach: Mapping[str, bool]
    allowed: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerView:
    """A paired node. `up` None: nothing was said to it yet. `waiting`: it does not have our latest."""

    name: str
    url: str
    up: bool | None
    since: str | None
    why: str
    waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncView:
    """What this node shares and is told. `notes` are what a person should look at."""

    at: str
    node: str
    clock: int
    peers: tuple[PeerView, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainView:
    """Why a row travels or stays, and whose word counts of its id."""

    at: str
    id: str
    travels: bool
    why: str
    claims: tuple[RowView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The row as it is told from now on, and who reached it."""

    at: str
    row: RowView
    seen: tuple[SeenView, ...]
