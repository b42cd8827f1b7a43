"""A node over real sockets and TLS: who has the pinned key is spoken to, nobody else hears anything."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from hostler.adapters.nodes.lines import Lines
from hostler.bootstrap.place import check_tls, listen_on
from hostler.client import Address, AsyncClient
from hostler.domain.errors import DaemonUnreachable, InvalidConfig, NodeUnreachable
from hostler.domain.fleet import Tls
from hostler.domain.step import FoundRoute, PointRoute
from hostler.gateway.asgi import AsgiApp, Receive, Scope, Send, adapted
from hostler.gateway.places import Places
from hostler.gateway.server import make_server
from hostler.gateway.upstream import RequestHead, Upstream, UpstreamUnreachable
from hostler.wire.pinning import pin_of, pin_of_file
from tests.fakes.certificate import CERTIFICATE, PIN, written
from tests.fakes.far_host import FarHost, far_host
from tests.services.node_conformance import HOST, RemoteRig, Teller, local_rig

AWAY = PointRoute(host=HOST, route="chat", profile="away")
OTHER = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@dataclass(slots=True)
class Served:
    """A far host that is really listened for. `heard` are the paths that came."""

    far: FarHost
    url: str
    heard: list[str]


@asynccontextmanager
async def served(root: Path, *, tls: bool) -> AsyncIterator[Served]:
    """The node API on a socket of loopback."""
    async with local_rig() as local:
        far = far_host(local.parts)
        heard: list[str] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            heard.append(scope["path"])
            await cast("AsgiApp", far.app)(scope, receive, send)

        sock = listen_on("127.0.0.1:0")
        port = sock.getsockname()[1]
        server = make_server(adapted(app), tls=_tls(root) if tls else None)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        far.remote = replace(far.remote, lines=Lines(), spoken=[])
        url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
        far.as_crow(url=url, allow_plain_http=False)
        try:
            yield Served(far, url, heard)
        finally:
            await far.remote.close()
            server.should_exit = True
            await serving


def _tls(root: Path) -> Tls:
    cert, key = written(root)
    return Tls(cert=cert, key=key)


async def told(it: Served) -> FoundRoute | object:
    """One lease's step there, from preflight to what is seen."""
    tell = Teller(RemoteRig(it.far))
    operation = tell.operation(AWAY)
    await it.far.remote.preflight(operation)
    found = await it.far.remote.observe(operation)
    await it.far.remote.perform(operation)
    assert await it.far.remote.verify(operation) is None
    assert (await it.far.remote.memory()).leases == ()
    return found


async def test_a_node_over_a_real_socket(tmp_path: Path) -> None:
    """NODE-1, NODE-2: over plain HTTP on loopback a node does what it is told."""
    async with served(tmp_path, tls=False) as it:
        assert await told(it) == FoundRoute(profile="local", engines=("big",))


async def test_a_pinned_node(tmp_path: Path) -> None:
    """NODE-2: a certificate that no authority knows is accepted when its key is the pinned one."""
    async with served(tmp_path, tls=True) as it:
        it.far.as_crow(tls_pin=PIN)
        assert await told(it) == FoundRoute(profile="local", engines=("big",))


@pytest.mark.parametrize("pin", [OTHER, None])
async def test_another_key_hears_nothing(tmp_path: Path, pin: str | None) -> None:
    """NODE-2: who has another key than the pinned one, or nobody's word, is sent nothing at all."""
    async with served(tmp_path, tls=True) as it:
        it.far.as_crow(tls_pin=pin)
        with pytest.raises(NodeUnreachable):
            await it.far.remote.now()
        assert it.heard == []


@pytest.mark.parametrize(("pin", "good"), [(PIN, True), (OTHER, False)])
async def test_the_gateway_pins_too(tmp_path: Path, pin: str, *, good: bool) -> None:
    """NODE-2, NODE-6: a gateway forwards to a host's gateway only when that has the pinned key."""
    async with served(tmp_path, tls=True) as it:
        upstream, address = Upstream(), Places().node(it.url, pin)
        head = RequestHead(method=b"GET", target=b"/health", headers=[])
        if good:
            response = await upstream.request(address, head, b"")
            assert response.status == 200
            response.close()
        else:
            with pytest.raises(UpstreamUnreachable, match="certificate"):
                await upstream.request(address, head, b"")
            assert it.heard == []
        upstream.close()


@pytest.mark.parametrize(("pin", "good"), [(PIN, True), (OTHER, False)])
async def test_commands_believe_their_own_daemon(tmp_path: Path, pin: str, *, good: bool) -> None:
    """NODE-2, INTERFACE-3: a client with the pin that its daemon wrote speaks to that daemon and no other."""
    async with served(tmp_path, tls=True) as it, AsyncClient(Address(url=it.url, pin=pin)) as client:
        if good:
            assert await client.get("/health")
            return
        with pytest.raises(DaemonUnreachable):
            await client.get("/health")
        assert it.heard == []


def test_the_pin_of_a_certificate(tmp_path: Path) -> None:
    """NODE-2: a pin is the SHA-256 of the certificate's public key, as other tools tell it."""
    der = ssl.PEM_cert_to_DER_cert(CERTIFICATE)
    assert pin_of(der) == PIN
    assert pin_of_file(written(tmp_path)[0]) == PIN
    for broken in (b"", der[:40], b"\x30\x03\x02\x01\x01", der[4:]):
        with pytest.raises(ValueError, match="no certificate"):
            pin_of(broken)
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    with pytest.raises(ValueError, match="holds no certificate"):
        pin_of_file(str(empty))


def test_a_certificate_that_cannot_be_served_is_a_config_error(tmp_path: Path) -> None:
    """NODE-2, CONF-2: a certificate or key that cannot be used is one clear error of the config."""
    cert, key = written(tmp_path)
    check_tls(None, "hostler.yaml")
    check_tls(Tls(cert=cert, key=key), "hostler.yaml")
    (tmp_path / "other.pem").write_text("nothing\n")
    for name in ("none.pem", "other.pem"):
        wrong = Tls(cert=str(tmp_path / name), key=key)
        with pytest.raises(InvalidConfig) as refused:
            check_tls(wrong, "hostler.yaml")
        (problem,) = refused.value.problems
        assert problem.startswith(f"hostler.yaml: node.tls: {wrong.cert} with {key} cannot be used")
