import pytest

from hostler.gateway.again import MOST_BYTES, seen

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\nX: y\r\n\r\n"
BEGUN = b"POST / HTTP/1.1\r\n"


def test_the_same_head() -> None:
    """GW-11: a head that was seen is known by its bytes with any length, and just that much body."""
    head = seen(HEAD % b"2" + b"ab")
    assert head is not None
    for body in (b"", b"ab", b"a" * 1000):
        data = HEAD % b"%d" % len(body) + body
        assert data[head.body_at(data) :] == body
        assert head.body_at(data) == len(data) - len(body)
        assert head.body_at(data + b"G") == -1
        assert head.body_at(data[:-1]) == -1


@pytest.mark.parametrize(
    "data",
    [
        HEAD % b"" + b"ab",
        HEAD % b"-2" + b"ab",
        HEAD % b"+2" + b"ab",
        HEAD % b"2 " + b"ab",
        HEAD % b" 2" + b"ab",
        HEAD % b"0x2" + b"ab",
        HEAD % b"2_0" + b"a" * 20,
        HEAD % "²".encode() + b"ab",
        HEAD % b"2\n" + b"ab",
        HEAD % b"2\r\nContent-Length: 2" + b"ab",
        HEAD % b"0000000000002" + b"ab",
        (HEAD % b"2").replace(b"y", b"z") + b"ab",
        (HEAD % b"2").replace(b"POST", b"post") + b"ab",
        (HEAD % b"2").replace(b"Host", b"host") + b"ab",
        (HEAD % b"2")[1:] + b"ab",
        b"",
    ],
)
def test_another_head(data: bytes) -> None:
    """SEC-3: what differs in a byte from the head that was seen, but for plain digits, goes to the parser."""
    head = seen(HEAD % b"2" + b"ab")
    assert head is not None
    assert head.body_at(data) == -1


@pytest.mark.parametrize(
    "data",
    [
        BEGUN + b"\r\n",
        BEGUN + b"X: content-length: 2\r\n\r\nab",
        BEGUN + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        BEGUN + b"Content-Length: 2\r\nX: Content-Length\r\n\r\nab",
        BEGUN + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        BEGUN + b"X: " + b"y" * MOST_BYTES + b"\r\nContent-Length: 0\r\n\r\n",
        BEGUN + b"Content-Length: 2\r\n",
    ],
)
def test_a_head_that_is_not_kept(data: bytes) -> None:
    """SEC-3: a head without just one length is not known by its bytes, nor is a long one."""
    assert seen(data) is None
