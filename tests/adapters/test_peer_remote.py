"""A paired node over its sync calls: which key is sent where, and what an answer is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import pytest

from hostler.adapters.nodes.lines import MOST_ANSWER, Lines
from hostler.adapters.nodes.peer import RemotePeer, RemotePeers
from hostler.bootstrap.place import listen_on
from hostler.domain.errors import InvalidRequest, NodeOutdated, NodeUnreachable, StoreFull
from hostler.domain.fleet import Fleet, Peer, Secret, Tls, frozen
from hostler.domain.values import HostName
from hostler.gateway.asgi import Receive, Scope, Send, adapted
from hostler.gateway.server import make_server
from hostler.services.present import Present
from hostler.wire.refusals import control_answer
from hostler.wire.sync import ExchangeAnswer, ExchangeCall, ProbeAnswer, ProbeCall
from hostler.wire.values import dump
from tests.fakes.certificate import PIN, written
from tests.fakes.paired import a_fleet

ANNEX = HostName("annex")
OTHER = "sha256/" + "A" * 43 + "="
CALL = ExchangeCall(api=1, node="crow", digest="d")
GOOD = ExchangeAnswer(api=1, node="annex", digest="e")


@dataclass(slots=True)
class Cable(httpx2.AsyncBaseTransport):
    """What is sent, and the answer to it."""

    answer: Callable[[httpx2.Request], httpx2.Response]
    seen: list[httpx2.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        return self.answer(request)


def fleet(**more: object) -> Fleet:
    """Crow's config, with annex as its peer."""
    peer = Peer(name=ANNEX, url="https://annex.test:7070", key=Secret("hk_pair"))
    return replace(a_fleet("crow"), peers=frozen({ANNEX: replace(peer, **more)}))  # type: ignore[arg-type]  # a test's shorthand


def peer(status: int, content: bytes, **more: object) -> tuple[RemotePeer, Cable]:
    cable = Cable(lambda request: httpx2.Response(status, content=content, request=request))
    found = RemotePeer(name=ANNEX, config=Present(fleet=fleet(**more)), lines=Lines(transport=cable))
    return found, cable


async def test_a_call_has_the_key_of_the_pair_and_no_other() -> None:
    """SYNC-1, SEC-1: each call goes to the peer's address with the key of the pair alone."""
    found, cable = peer(200, dump(GOOD))
    assert await found.exchange(CALL) == GOOD
    (sent,) = cable.seen
    assert str(sent.url) == "https://annex.test:7070/v1/hostler/sync/exchange"
    assert sent.headers["authorization"] == "Bearer hk_pair"
    assert "cookie" not in sent.headers
    probed, cable = peer(200, dump(ProbeAnswer(api=1, node="annex", up=True)))
    assert (await probed.probe(ProbeCall(api=1, node="crow", url="http://10.0.0.1"))).up
    assert cable.seen[0].url.path == "/v1/hostler/sync/probe"


@pytest.mark.parametrize(
    ("status", "content", "why"),
    [
        (200, dump(replace(GOOD, node="owl")), "the node of owl answers"),
        (200, b"<html>", "no Hostler daemon"),
        (200, b"{}", "not of this version"),
        (307, b"", "redirect"),
        (403, b"{}", "does not accept the key in sync.peers.annex.key"),
        (404, b"{}", "knows no such call"),
        (200, b"x" * (MOST_ANSWER + 1), "larger than"),
    ],
)
async def test_what_is_no_answer_of_that_node(status: int, content: bytes, why: str) -> None:
    """SYNC-1, NODE-3: whoever else answers, or answers otherwise, is told as unreachable, without the key."""
    found, _ = peer(status, content)
    with pytest.raises(NodeUnreachable, match=why) as refused:
        await found.exchange(CALL)
    assert "hk_pair" not in str(refused.value)


async def test_its_own_refusals_are_told_as_they_are() -> None:
    """NODE-3, NODE-7: what the peer refuses is raised as its class, and another version is named."""
    for refusal in (InvalidRequest(what="no"), StoreFull(file="sync.json", why="full")):
        status, _, body = control_answer(refusal)
        found, _ = peer(status, body)
        with pytest.raises(type(refusal)):
            await found.exchange(CALL)
    found, _ = peer(200, dump(replace(GOOD, api=9)))
    with pytest.raises(NodeOutdated):
        await found.exchange(CALL)


async def test_nothing_is_sent_in_the_clear_or_to_whom_the_config_lost() -> None:
    """NODE-2, SYNC-6: plain HTTP beyond loopback has to be allowed; a peer that is gone is not spoken to."""
    found, cable = peer(200, dump(GOOD), url="http://annex.test:7070")
    with pytest.raises(NodeUnreachable, match=r"sync\.peers\.annex\.allow_plain_http"):
        await found.exchange(CALL)
    found.config.fleet = fleet(url="http://annex.test:7070", allow_plain_http=True)
    assert await found.exchange(CALL) == GOOD
    found.config.fleet = replace(fleet(), peers=frozen({}))
    with pytest.raises(NodeUnreachable, match=r"no sync\.peers\.annex any more"):
        await found.exchange(CALL)
    assert len(cable.seen) == 1


@pytest.mark.parametrize(("pin", "good"), [(PIN, True), (OTHER, False), (None, False)])
async def test_a_pinned_peer(tmp_path: Path, pin: str | None, *, good: bool) -> None:
    """NODE-2, SYNC-1: over TLS a peer is who has the pinned key; anybody else is sent nothing."""
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(scope["path"])
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": dump(GOOD)})

    cert, key = written(tmp_path)
    sock = listen_on("127.0.0.1:0")
    server = make_server(adapted(app), tls=Tls(cert=cert, key=key))
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    url = f"https://127.0.0.1:{sock.getsockname()[1]}"
    peers = RemotePeers(config=Present(fleet=fleet(url=url, tls_pin=pin)))
    try:
        if good:
            assert await peers.at("annex").exchange(CALL) == GOOD
            assert peers.at("annex") is peers.at("annex")
        else:
            with pytest.raises(NodeUnreachable):
                await peers.at("annex").exchange(CALL)
            assert heard == []
    finally:
        await peers.close()
        server.should_exit = True
        await serving
