"""Keys: who a caller is, and what it may do (API-4, SEC-1, SEC-4).

Decides which right a scope includes, what is open without any key, and whether the daemon may listen
where it was told to. Knows keys by their SHA-256 only. Where keys come from is not decided here.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from hostler.domain.errors import InvalidConfig, NoKey, WrongScope
from hostler.domain.fleet import Key, Peer, frozen
from hostler.services.needs import Clock

LOCAL_NAME: Final = "local"
"""The name of the key in `local.key`."""
NODE_NAME: Final = "node"
"""The name of `hosts.<name>.key`, with which other nodes come."""
PEER_NAME: Final = "peer:"
"""What begins the name of `sync.peers.<name>.key`: no other key has a colon in its name."""
ANONYMOUS_NAME: Final = "-"
MAX_KEY: Final = 512
"""Characters of a key: ours have 46, and what is longer is not hashed at all."""


class Scope(StrEnum):
    """What a key is given, and what an endpoint asks for. The last four are asked for only."""

    INFER = "infer"
    SCHEDULE_READ = "schedule:read"
    SCHEDULE_WRITE = "schedule:write"
    ENGINES = "engines"
    OPERATOR = "operator"
    ADMIN = "admin"
    NODE = "node"
    BOARD = "board"
    PEER = "peer"
    """What a paired node does with the key of the pair: the sync calls, and nothing else (SYNC-6)."""
    MODELS = "models"
    """Which models there are."""
    STATUS = "status"
    """What the boxes do."""
    LOGS = "logs"
    """Log lines, requests under way and captures: they may hold what others wrote."""


GIVEN: Final = frozenset(set(Scope) - {Scope.PEER, Scope.MODELS, Scope.STATUS, Scope.LOGS})
"""The scopes that a key may be given."""

_READING: Final = frozenset({Scope.BOARD, Scope.MODELS, Scope.STATUS, Scope.SCHEDULE_READ})

INCLUDES: Final[Mapping[Scope, frozenset[Scope]]] = frozen(
    {
        Scope.INFER: frozenset({Scope.INFER, Scope.MODELS}),
        Scope.BOARD: _READING,
        Scope.SCHEDULE_READ: _READING,
        Scope.SCHEDULE_WRITE: _READING | {Scope.SCHEDULE_WRITE},
        Scope.ENGINES: _READING | {Scope.ENGINES, Scope.LOGS},
        Scope.OPERATOR: _READING | {Scope.SCHEDULE_WRITE, Scope.OPERATOR, Scope.LOGS},
        Scope.ADMIN: frozenset(set(Scope) - {Scope.NODE, Scope.PEER}),
        Scope.NODE: frozenset({Scope.NODE}),
        Scope.PEER: frozenset({Scope.PEER}),
        Scope.MODELS: frozenset({Scope.MODELS}),
        Scope.STATUS: frozenset({Scope.STATUS}),
        Scope.LOGS: frozenset({Scope.LOGS}),
    }
)
"""What may be done with each scope: the one table (SEC-4). A node's key does a node's work, nothing else."""

OPEN: Final = INCLUDES[Scope.INFER] | _READING
"""What loopback may do while no keys are configured: ask models, read; not logs, not requests (API-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls. `routes` None: every route. `request_class` is the key's own, `rights` what it may do."""

    name: str
    rights: frozenset[Scope]
    routes: frozenset[str] | None = None
    request_class: str | None = None
    per_minute: int | None = None
    concurrent: int | None = None

    @property
    def peer(self) -> str:
        """The paired node whose key it is; empty for everybody else."""
        return self.name.removeprefix(PEER_NAME) if self.name.startswith(PEER_NAME) else ""

    def may(self, scope: str) -> bool:
        """Whether it has that right; False for a scope that there is not."""
        return scope in self.rights


ANONYMOUS: Final = Principal(name=ANONYMOUS_NAME, rights=OPEN)


def digest_of(key: str) -> bytes:
    """The SHA-256 by which a key is known. Plain: our keys are 256 random bits, not passwords (SEC-1)."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Shown:
    """A key as somebody sent it, hashed: who sends it again is not hashed again. None: no key."""

    digest: bytes | None


def shown(key: str | None) -> Shown:
    """`Bearer …` or the key alone, as it was sent."""
    sent = _bare(key)
    return Shown(digest_of(sent) if sent and len(sent) <= MAX_KEY else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A key as it is looked up."""

    digest: bytes
    principal: Principal
    expires: datetime | None


@dataclass(eq=False, slots=True, kw_only=True)
class Keyring:
    """All keys of this daemon by digest. `open`: no keys are configured, so loopback may do `OPEN`.

    A reload gives it the keys of another one (CONF-3): who holds this one need not be told.
    """

    keys: Mapping[bytes, Known]
    open: bool
    clock: Clock

    def become(self, other: Keyring) -> None:
        """From here on these are the keys."""
        self.keys, self.open = other.keys, other.open

    def authenticate(self, key: str | Shown | None) -> Principal | None:
        """Who sent `key` (`Bearer …` or the key alone); None when nobody known did, or it has expired.

        The digest is looked up and compared whole: how long it takes says nothing about any key.
        """
        digest = (key if isinstance(key, Shown) else shown(key)).digest
        found = self._find(digest) if digest is not None else None
        if found is not None:
            return found
        return ANONYMOUS if self.open else None

    def check(self, key: str | Shown | None, scope: str | None) -> Principal:
        """Who calls, once it is seen that it may. Scope None needs no key.

        Refuses `no_key` (nobody known, or what is open to nobody does not suffice), `wrong_scope`.
        """
        who = self.authenticate(key)
        if scope is None:
            return who or Principal(name=ANONYMOUS_NAME, rights=frozenset())
        if who is None:
            raise NoKey
        if not who.may(scope):
            if who.name == ANONYMOUS_NAME:
                raise NoKey
            raise WrongScope(key=who.name, scope=_enough_for(scope))
        return who

    def check_either(self, key: str | Shown | None, scope: str, other: str) -> Principal:
        """As `check`, for who has one right or the other."""
        who = self.authenticate(key)
        return who if who is not None and who.may(other) else self.check(key, scope)

    def _find(self, digest: bytes) -> Principal | None:
        key = self.keys.get(digest)
        if key is None or not hmac.compare_digest(key.digest, digest):
            return None
        if key.expires is not None and key.expires <= self.clock.now():
            return None
        return key.principal


def keyring(
    *,
    configured: Iterable[Key],
    kept: Iterable[Key] | None,
    local: str | None,
    clock: Clock,
    node: str | None = None,
    peers: Iterable[Peer] = (),
) -> Keyring:
    """The keyring of a daemon. `kept` are those of keys.json, None when that file cannot be read.

    What cannot be read is not "no keys": nothing is open then (fail closed). The local key opens
    nothing and closes nothing: it is there from the first start. Nor do `node`, this host's own key, by
    which other nodes come in (NODE-2), and the keys of `peers`, each that of one pair (SYNC-1).
    """
    given = [*configured, *(kept or ())]
    every = list(given)
    if local is not None:
        every.append(Key(name=LOCAL_NAME, digest=digest_of(local), scopes=frozenset({Scope.ADMIN.value})))
    if node is not None:
        every.append(Key(name=NODE_NAME, digest=digest_of(node), scopes=frozenset({Scope.NODE.value})))
    every += [
        Key(
            name=f"{PEER_NAME}{it.name}", digest=digest_of(it.key.value), scopes=frozenset({Scope.PEER.value})
        )
        for it in peers
    ]
    known = frozen({key.digest: _known(key) for key in every})
    return Keyring(keys=known, open=kept is not None and not given, clock=clock)


def _known(key: Key) -> Known:
    rights = frozenset[Scope]().union(*(INCLUDES[Scope(scope)] for scope in key.scopes))
    return Known(
        digest=key.digest,
        principal=Principal(
            name=key.name,
            rights=rights,
            routes=key.routes,
            request_class=key.request_class,
            per_minute=key.per_minute,
            concurrent=key.concurrent,
        ),
        expires=None if key.expires is None else datetime.fromisoformat(key.expires),
    )


def check_listen(listen: Sequence[str], ring: Keyring, *, file: str) -> None:
    """Refuses `invalid_config` when the daemon would listen beyond this machine without keys (API-4)."""
    if not ring.open:
        return
    problems = tuple(
        f"{file}: node.listen: {address} is reached from other machines, and there are no keys:"
        " add one under `keys`, or listen on 127.0.0.1"
        for address in listen
        if not is_loopback(address)
    )
    if problems:
        raise InvalidConfig(file=file, count=len(problems), problems=problems)


def is_loopback(address: str) -> bool:
    """Whether `HOST:PORT` or `unix:PATH` is reached from this machine only. A name is not, but localhost."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bare(key: str | None) -> str:
    scheme, space, rest = (key or "").strip().partition(" ")
    return rest.strip() if space and scheme.lower() == "bearer" else (key or "").strip()


def _enough_for(scope: str) -> str:
    """The scope to ask for: the one itself where keys are given it, else the least that includes it."""
    if scope in GIVEN:
        return scope
    given = [each for each in sorted(GIVEN) if scope in INCLUDES[each]]
    return min(given, key=lambda each: len(INCLUDES[each])).value if given else scope
