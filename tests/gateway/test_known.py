from typing import Any

import pytest

from hostler.gateway.known import Fields, Known
from hostler.gateway.upstream import Address, RequestHead

HOME = Address(host="127.0.0.1", port=8101)
KEY = [(b"authorization", b"Bearer sk-1")]


def known(*fields: tuple[bytes, bytes]) -> Known:
    return Known("POST", [(b"host", b"a"), (b"x-a", b"b"), *fields], "10.99.0.7")


def head_of(it: Known, **other: Any) -> RequestHead:  # noqa: ANN401 # one of four
    """The head for a target of the tests, some of it different."""
    usual: dict[str, Any] = {"address": HOME, "target": b"/a", "added": KEY, "silence_s": 3.0}
    return it.head_to(**{**usual, **other})


def test_the_same_target_again() -> None:
    """GW-11: the same target is sent the same head; it has what is added and the hop, and no host of ours."""
    it = known()
    head = head_of(it)
    assert head.headers == [(b"x-a", b"b"), *KEY, (b"x-hostler-hop", b"1")]
    assert (head.method, head.target, head.silence_s) == (b"POST", b"/a", 3.0)
    assert head_of(it, added=list(KEY)) is head


NO_KEY: Fields = []


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("address", Address(host="127.0.0.1", port=8102)),
        ("target", b"/upstream/large/a"),
        ("added", [(b"authorization", b"Bearer sk-2")]),
        ("added", NO_KEY),
        ("silence_s", 4.0),
    ],
)
def test_another_target(what: str, other: object) -> None:
    """GW-11, GW-13: another address, path, key or silence is never taken from the request before."""
    it = known()
    assert head_of(it) is not head_of(it, **{what: other})
    found, fresh = head_of(it, **{what: other}), head_of(known(), **{what: other})
    assert (found.target, found.headers, found.silence_s) == (fresh.target, fresh.headers, fresh.silence_s)
    assert head_of(it).target == b"/a"
