import asyncio
import functools
import itertools
from typing import Any, cast

import h11
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.asgi import Receive, Scope, Send, adapted
from hostler.gateway.server import make_server
from tests.fakes.listening import part, read_all, start

Request = tuple[str, bytes, bytes]


class Transport(asyncio.Transport):
    """A transport that writes into memory."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closing = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("10.99.0.7", 1), "sockname": ("10.99.0.1", 2)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closing:
            self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def serve(pieces: list[bytes]) -> tuple[list[Request], bytes]:
    """What the application was asked, whole, and all that was answered, when these bytes come in."""
    asked: list[Request] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_all(receive)
        if body is not None:
            asked.append((scope["method"], scope["raw_path"], body))
            await send(start(200, (b"content-length", b"%d" % len(asked))))
            await send(part(b"." * len(asked)))

    async def run() -> bytes:
        server = make_server(adapted(app))
        server.config.load()
        factory = cast("functools.partial[Any]", server.config.http_protocol_class)
        loop = asyncio.get_running_loop()
        protocol = factory(config=server.config, server_state=server.server_state, app_state={}, _loop=loop)
        transport = Transport()
        protocol.connection_made(transport)
        for piece in pieces:
            if not transport.closing:
                protocol.data_received(piece)
            for _ in range(6):
                await asyncio.sleep(0)
        protocol.connection_lost(None)
        tasks = list(server.server_state.tasks)
        await asyncio.gather(*tasks)
        return bytes(transport.written)

    return asked, asyncio.run(run())


def by_h11(data: bytes) -> list[Request]:
    """The whole requests that another parser reads from the same bytes, up to its first error."""
    found: list[Request] = []
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    head: h11.Request | None = None
    body = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                found.append((head.method.decode(), bytes(head.target).split(b"?")[0], body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return found
                connection.start_next_cycle()
            else:
                return found
    except h11.ProtocolError:
        return found


def statuses(wire: bytes) -> list[int]:
    """The statuses of a row of answers, each read to its end: what is left over is no answer, and fails."""
    found = []
    while wire:
        head, separator, rest = wire.partition(b"\r\n\r\n")
        assert separator, wire
        found.append(int(head.split()[1]))
        length = next(int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
        assert len(rest) >= length
        wire = rest[length:]
    return found


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One valid request."""
    target = draw(st.sampled_from([b"/", b"/v1/chat/completions", b"/a?b=c"]))
    body = draw(
        st.one_of(st.just(b""), st.binary(max_size=40), st.just(b"GET /evil HTTP/1.1\r\nHost: b\r\n\r\n"))
    )
    head = b"POST " + target + b" HTTP/1.1\r\nHost: crow.lan\r\n"
    if draw(st.booleans()):
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    cut = draw(st.integers(0, len(body)))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[:cut], body[cut:]) if p)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


ROWS = st.lists(requests(), min_size=1, max_size=4).map(b"".join)
CUTS = st.lists(st.integers(0, 10_000), max_size=6)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(ROWS, CUTS)
def test_any_split_is_the_same_requests(data: bytes, cuts: list[int]) -> None:
    """SEC-3: however a row of requests is cut on its way, each is answered, in order, with its own body."""
    asked, wire = serve(split(data, cuts))
    assert asked == by_h11(data)
    assert statuses(wire) == [200] * len(asked)


SPLICES = st.sampled_from(
    [
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: x\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"0",
        b"+",
        b"Host: b\r\n",
        b"Connection: close\r\n",
        b"GET / HTTP/1.1\r\nHost: c\r\n\r\n",
    ]
)


@given(ROWS, CUTS, st.data())
def test_no_request_is_smuggled(data: bytes, cuts: list[int], more: st.DataObject) -> None:
    """SEC-3: of damaged requests, those served are the ones another parser reads, and each is answered."""
    damaged = data
    for _ in range(more.draw(st.integers(1, 3))):
        lines = [i for i in range(len(damaged)) if damaged[i - 1 : i] == b"\n"] or [0]
        at = more.draw(st.one_of(st.sampled_from(lines), st.integers(0, len(damaged))))
        gone = more.draw(st.integers(0, 2))
        damaged = damaged[:at] + more.draw(SPLICES) + damaged[at + gone :]
    asked, wire = serve(split(damaged, cuts))
    read = by_h11(damaged)
    shared = min(len(asked), len(read))
    assert asked[:shared] == read[:shared]
    assert [status for status in statuses(wire) if status != 100][: len(asked)] == [200] * len(asked)


def test_the_other_parser_reads_what_it_should() -> None:
    """SEC-3: the oracle of the test above reads a row of two requests as two."""
    row = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" * 2
    assert by_h11(row) == [("POST", b"/a", b"x")] * 2


AGAIN = b"POST /a HTTP/1.1\r\nHost: crow.lan\r\nX-A: b\r\nContent-Length: %d\r\n\r\n%b"
BODIES = st.lists(st.binary(max_size=20), min_size=4, max_size=6)


@given(BODIES, st.booleans(), CUTS, st.data())
def test_the_same_head_again(bodies: list[bytes], whole: bool, cuts: list[int], more: st.DataObject) -> None:
    """SEC-3, GW-11: a client that says the same again is read as another parser reads it, damaged or not."""
    row = [AGAIN % (len(body), body) for body in bodies]
    last = row.pop()
    if not whole:
        at = more.draw(st.integers(0, len(last)))
        gone = more.draw(st.integers(0, 2))
        last = last[:at] + more.draw(st.one_of(SPLICES, st.just(last), st.just(b""))) + last[at + gone :]
    asked, wire = serve([*row, *split(last, cuts)])
    read = by_h11(b"".join(row) + last)
    shared = len(row) + whole
    assert asked[:shared] == read[:shared] == [("POST", b"/a", body) for body in bodies[:shared]]
    both = min(len(asked), len(read))
    assert asked[:both] == read[:both]
    assert [status for status in statuses(wire) if status != 100][: len(asked)] == [200] * len(asked)
