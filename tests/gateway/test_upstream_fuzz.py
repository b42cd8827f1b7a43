import asyncio
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.upstream_again import TRIES, Memory
from hostler.gateway.upstream_answer import Response
from hostler.gateway.upstream_wire import Address, UpstreamError


class Line:
    """A connection that only counts."""

    def __init__(self) -> None:
        self.address = Address(host="crow.lan", port=1)
        self.loop = asyncio.new_event_loop()
        self.aborted = 0

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted += 1


def read(response: Response) -> tuple[bytes, UpstreamError | None]:
    """All that a reader gets now, and the error it ends with; an answer that is not over ends with none."""
    body = b""
    while response.waiting or response.is_over:
        step = response.next()
        try:
            step.send(None)
        except StopIteration as got:
            if not got.value:
                return body, None
            body += got.value
        except UpstreamError as error:
            return body, error
    return body, None


INTERIM = st.lists(
    st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"]),
    max_size=3,
)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """An answer's bytes, its body, and whether only the connection's end ends it."""
    head = b"".join(draw(INTERIM)) + b"HTTP/1.1 200 OK\r\nX-A: b\r\n"
    pieces = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=5))
    body = b"".join(pieces)
    match draw(st.sampled_from(["length", "chunks", "eof"])):
        case "length":
            return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, body, False
        case "eof":
            return head + b"\r\n" + body, body, True
        case _:
            extension = draw(st.sampled_from([b"", b";a=b", b';c="d e"']))
            chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces)
            trailer = draw(st.sampled_from([b"", b"X-T: 1\r\n"]))
            return (
                head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailer + b"\r\n",
                body,
                False,
            )


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(answers(), CUTS)
def test_any_split_is_the_same_answer(answer: tuple[bytes, bytes, bool], cuts: list[int]) -> None:
    """GW-11: however an answer is cut on its way, its head and body are the same, and its end is seen."""
    wire, body, by_eof = answer
    line = Line()
    response = Response(line, head_only=False)
    over = [response.feed(piece) for piece in split(wire, cuts)]
    line.loop.close()
    assert over[-1] is not by_eof
    assert not any(over[:-1])
    if by_eof:
        response.lost(clean=True, stale=False)
    assert read(response) == (body, None)
    assert response.at_end
    assert response.is_clean is not by_eof
    assert (response.status, response.headers[0]) == (200, (b"X-A", b"b"))


@given(answers(), CUTS, st.data())
def test_cut_answers_are_never_whole(
    answer: tuple[bytes, bytes, bool], cuts: list[int], data: st.DataObject
) -> None:
    """GW-14: an answer whose connection ends before its end is never whole, and gives a start of the body."""
    wire, body, by_eof = answer
    kept = data.draw(st.integers(0, len(wire) - 1))
    line = Line()
    response = Response(line, head_only=False)
    for piece in split(wire[:kept], cuts):
        assert not response.feed(piece)
    line.loop.close()
    response.lost(clean=not by_eof, stale=False)
    got, error = read(response)
    assert body.startswith(got)
    assert isinstance(error, UpstreamError)
    assert not response.at_end
    assert not response.is_clean


@given(answers(), CUTS, st.data())
def test_junk_never_soils_the_next_answer(
    answer: tuple[bytes, bytes, bool], cuts: list[int], data: st.DataObject
) -> None:
    """SEC-3: bytes after a whole answer do not change it, and its connection is not used again."""
    wire, body, by_eof = answer
    if by_eof:
        return
    junk = data.draw(st.sampled_from([b"x", b"HTTP/1.1 200 OK\r\n\r\nevil", b"\0", wire]))
    line = Line()
    response = Response(line, head_only=False)
    pieces = split(wire, cuts)
    for piece in pieces[:-1]:
        response.feed(piece)
    assert response.feed(pieces[-1] + junk)
    line.loop.close()
    assert read(response) == (body, None)
    assert not response.is_clean


@given(st.one_of(st.binary(max_size=200), answers().map(lambda a: a[0])), CUTS, st.data())
def test_damaged_answers(wire: bytes, cuts: list[int], data: st.DataObject) -> None:
    """SEC-3: whatever bytes an upstream sends, the answer is whole or ends with an error of ours."""
    damaged = bytearray(wire)
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    head_only, clean = data.draw(st.booleans()), data.draw(st.booleans())
    line = Line()
    response = Response(line, head_only=head_only)
    for piece in split(bytes(damaged), cuts):
        if response.feed(piece):
            break
    line.loop.close()
    response.lost(clean=clean, stale=False)
    _, error = read(response)
    assert response.at_end is (error is None)


def test_the_reader_sleeps_only_when_nothing_is_there() -> None:
    """GW-13: an answer that is not over and has no bytes waiting makes its reader wait."""
    line = Line()
    response = Response(line, head_only=False)
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
    assert read(response) == (b"a", None)
    step = response.next()
    assert isinstance(step.send(None), asyncio.Future)
    with pytest.raises(GeneratorExit):
        step.throw(GeneratorExit)
    line.loop.close()


AGAIN = b"HTTP/1.1 200 OK\r\nX-A: %b\r\nContent-Length: %d\r\nContent-Type: a/b\r\n\r\n%b"
Read = tuple[int, bytes, list[tuple[bytes, bytes]], bytes, bytes, bool, bool, str]


def answered(line: Line, memory: Memory | None, wire: bytes, *, head_only: bool = False) -> tuple[Read, bool]:
    """All of an answer that came in one read, as its link has it read, and whether without a parser."""
    response = Response(line, head_only=head_only)
    recalled = memory is not None and memory.recall(response, wire)
    if not recalled and response.feed(wire) and memory is not None:
        memory.keep(response, wire)
    clean = response.is_clean
    if not response.is_over:
        response.lost(clean=True, stale=False)
    body, error = read(response)
    head = (response.status, response.reason, response.headers, response.content_type)
    return (*head, body, clean, response.at_end, str(error)), recalled


@given(st.lists(st.binary(max_size=9), min_size=2, max_size=4), st.booleans(), st.data())
def test_the_same_head_again(bodies: list[bytes], head_only: bool, data: st.DataObject) -> None:
    """GW-11, SEC-3: an upstream that says the same head again is read as by the parser, damaged or not."""
    line, memory = Line(), Memory()
    line.loop.close()
    for body in bodies:
        wire = AGAIN % (b"b", len(body), body)
        assert answered(line, memory, wire)[0] == answered(line, None, wire)[0]
    last = data.draw(st.binary(max_size=9))
    damaged = bytearray(AGAIN % (b"b", len(last), last))
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    wire = bytes(damaged)[: data.draw(st.one_of(st.none(), st.integers(0, len(damaged))))]
    wire += data.draw(st.sampled_from([b"", b"x", wire]))
    found, _ = answered(line, memory, wire, head_only=head_only)
    assert found == answered(line, None, wire, head_only=head_only)[0]


def test_what_is_known_by_its_bytes() -> None:
    """GW-11: the second answer with the same head needs no parser; heads that differ are soon not tried."""
    line, memory = Line(), Memory()
    line.loop.close()
    steady = [answered(line, memory, AGAIN % (b"b", n, b"a" * n))[1] for n in range(4)]
    assert steady == [False, True, True, True]
    for n in range(TRIES + 1):
        assert not answered(line, memory, AGAIN % (b"%d" % n, 0, b""))[1]
    assert not answered(line, memory, AGAIN % (b"%d" % TRIES, 0, b""))[1]
    line.loop.close()


def test_who_takes_pieces_failed_already() -> None:
    """GW-14: nothing more is given to who failed, also before that was heard where the pieces are awaited."""
    line, got = Line(), list[bytes]()
    response = Response(line, head_only=False)
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")

    def sink(piece: bytes) -> bool:
        got.append(piece)
        raise LookupError("a bug")

    step = response.pass_to(sink)
    step.send(None)
    assert not response.feed(b"a")
    assert not response.feed(b"b")
    assert got == [b"a"]
    with pytest.raises(LookupError):
        step.send(None)
    line.loop.close()
