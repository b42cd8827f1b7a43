from dataclasses import replace
from datetime import timedelta

import pytest

from hostler.domain.errors import InvalidConfig, NoKey, WrongScope
from hostler.domain.fleet import Key, Peer, Secret
from hostler.domain.values import HostName, rfc3339
from hostler.services.keys import (
    ANONYMOUS,
    GIVEN,
    INCLUDES,
    MAX_KEY,
    OPEN,
    Keyring,
    Scope,
    check_listen,
    digest_of,
    is_loopback,
    keyring,
)
from tests.fakes.clock import START, ManualClock

BOTS = Key(
    name="bots",
    digest=digest_of("hk_bots"),
    scopes=frozenset({"infer"}),
    routes=frozenset({"chat"}),
    request_class="chat",
    per_minute=600,
    concurrent=8,
)
WALL = Key(name="wall", digest=digest_of("hk_wall"), scopes=frozenset({"board"}))


def ring(*configured: Key, kept: tuple[Key, ...] | None = (), local: str | None = "hk_local") -> Keyring:
    return keyring(configured=configured, kept=kept, local=local, clock=ManualClock())


@pytest.mark.parametrize("header", ["hk_bots", "Bearer hk_bots", "bearer  hk_bots ", "BEARER hk_bots"])
def test_a_key_says_who_calls(header: str) -> None:
    """API-4: a key is known by its digest and brings its name, routes, class and limits."""
    who = ring(BOTS).authenticate(header)
    assert who is not None
    assert (who.name, who.routes, who.request_class) == ("bots", frozenset({"chat"}), "chat")
    assert (who.per_minute, who.concurrent) == (600, 8)
    assert who.rights == {Scope.INFER, Scope.MODELS}


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "hk_bot", "hk_botsx", "Basic hk_bots", "\udcff", "x" * 10_000]
)
def test_what_nobody_gave_out_is_nobody(header: str | None) -> None:
    """SEC-1: no key, half a key and a foreign one are all the same nobody."""
    assert ring(BOTS).authenticate(header) is None
    with pytest.raises(NoKey):
        ring(BOTS).check(header, "infer")


def test_an_overlong_key_is_not_even_hashed() -> None:
    """SEC-1: a text longer than any key is nobody's, even where its digest is known."""
    long = Key(name="long", digest=digest_of("x" * (MAX_KEY + 1)), scopes=frozenset({"infer"}))
    assert ring(long).authenticate("x" * (MAX_KEY + 1)) is None


def test_no_key_is_kept_in_clear() -> None:
    """SEC-1: the keyring holds digests; no key can be read from it, not even in its repr."""
    assert "hk_local" not in repr(ring(BOTS))
    assert digest_of("hk_local") in ring(BOTS).keys


def test_a_key_expires() -> None:
    """API-4: a key is good until its expiry, and from that moment nobody's."""
    clock = ManualClock()
    key = replace(BOTS, expires=rfc3339(START + timedelta(seconds=60)))
    known = keyring(configured=[key], kept=(), local=None, clock=clock)
    assert known.authenticate("hk_bots") is not None
    clock.jump(59)
    assert known.authenticate("hk_bots") is not None
    clock.jump(1)
    assert known.authenticate("hk_bots") is None


def test_loopback_without_keys_is_open_for_use_and_reading() -> None:
    """API-4: with no keys configured anybody on this machine infers and reads, but no logs and no changes."""
    for header in (None, "Bearer sk-anything"):
        assert ring().authenticate(header) == ANONYMOUS
        for scope in ("infer", "models", "status", "schedule:read"):
            assert ring().check(header, scope).name == "-"
        for scope in ("logs", "engines", "schedule:write", "operator", "admin", "node"):
            with pytest.raises(NoKey):
                ring().check(header, scope)


def test_the_local_key_is_admin_and_closes_nothing() -> None:
    """API-4: the local key may do all but a node's or a peer's work, and loopback stays open beside it."""
    who = ring().check("Bearer hk_local", "admin")
    assert who.name == "local"
    assert who.rights == frozenset(set(Scope) - {Scope.NODE, Scope.PEER})
    assert ring().open


@pytest.mark.parametrize("given", [{"configured": (BOTS,)}, {"kept": (BOTS,)}, {"kept": None}])
def test_any_key_closes_the_door(given: dict[str, tuple[Key, ...] | None]) -> None:
    """API-4: one key in the config or in keys.json closes what was open, and so does a broken keys.json."""
    known = ring(*(given.get("configured") or ()), kept=given.get("kept", ()))
    assert known.authenticate(None) is None
    assert known.authenticate("hk_local") is not None


def test_a_key_without_the_scope_is_told_which() -> None:
    """API-4: a known key that lacks a right is told the scope to ask for, one that is given to keys."""
    for scope, told in (
        ("engines", "engines"),
        ("logs", "engines"),
        ("models", "infer"),
        ("status", "board"),
    ):
        key = Key(name="none", digest=digest_of("hk_none"), scopes=frozenset({"node"}))
        with pytest.raises(WrongScope) as refused:
            ring(key).check("hk_none", scope)
        assert refused.value.facts() == {"key": "none", "scope": told}


def test_an_endpoint_without_a_scope_takes_everybody() -> None:
    """API-4: what needs no key is open to nobody in particular, and a known caller is still known."""
    assert ring(BOTS).check(None, None).rights == frozenset()
    assert ring(BOTS).check("hk_bots", None).name == "bots"


def test_scopes_are_least_power() -> None:
    """API-4: the board only reads, inference reads no schedule, a node's key does a node's work only."""
    assert set(INCLUDES) == set(Scope)
    assert INCLUDES[Scope.BOARD] == {Scope.BOARD, Scope.MODELS, Scope.STATUS, Scope.SCHEDULE_READ}
    assert INCLUDES[Scope.NODE] == {Scope.NODE}
    assert Scope.SCHEDULE_READ not in INCLUDES[Scope.INFER]
    assert Scope.LOGS not in OPEN | INCLUDES[Scope.SCHEDULE_WRITE] | INCLUDES[Scope.BOARD]
    for scope in GIVEN - {Scope.ADMIN}:
        assert Scope.ADMIN not in INCLUDES[scope]
    for scope in GIVEN:
        assert scope in INCLUDES[scope]


def test_an_unknown_right_is_nobodys() -> None:
    """API-4: a right that there is not is refused to everybody, the admin too."""
    with pytest.raises(WrongScope):
        ring().check("hk_local", "everything")


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:7070", True),
        ("127.8.9.1:7070", True),
        ("[::1]:7070", True),
        ("localhost:7070", True),
        ("unix:/run/hostler.sock", True),
        ("0.0.0.0:7070", False),
        ("[::]:7070", False),
        ("10.99.0.1:7070", False),
        ("crow.lan:7070", False),
        ("127.0.0.1.example.net:7070", False),
    ],
)
def test_listening_beyond_loopback_needs_keys(address: str, loopback: bool) -> None:
    """API-4: without keys the daemon refuses to listen where other machines reach it, naming the address."""
    assert is_loopback(address) == loopback
    check_listen([address], ring(BOTS), file="hostler.yaml")
    if loopback:
        check_listen([address], ring(), file="hostler.yaml")
        return
    with pytest.raises(InvalidConfig) as refused:
        check_listen(["127.0.0.1:7070", address], ring(), file="hostler.yaml")
    assert refused.value.count == 1
    assert refused.value.problems[0].startswith(f"hostler.yaml: node.listen: {address} is reached from other")


def test_the_key_of_a_pair_is_a_peers_and_opens_the_sync_calls_alone() -> None:
    """SYNC-6, SEC-4: who comes with the key of a pair is that peer, and may do nothing but the sync calls."""
    peer = Peer(name=HostName("annex"), url="https://annex.lan", key=Secret("hk_pair"))
    made = keyring(configured=(), kept=(), local=None, clock=ManualClock(), peers=[peer])
    who = made.check("Bearer hk_pair", Scope.PEER)
    assert (who.peer, who.rights) == ("annex", frozenset({Scope.PEER}))
    for scope in set(Scope) - {Scope.PEER}:
        with pytest.raises(WrongScope):
            made.check("Bearer hk_pair", scope)
    assert made.open
    assert all(Scope.PEER not in INCLUDES[scope] for scope in GIVEN)
    assert ring().check("Bearer hk_local", Scope.ADMIN).peer == ""
