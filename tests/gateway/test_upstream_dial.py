import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from hostler.gateway.upstream import (
    Address,
    Upstream,
    UpstreamForbidden,
    UpstreamUnreachable,
    is_forbidden,
)
from hostler.gateway.upstream_dial import is_loopback, reached
from tests.fakes.raw_upstream import GET, HELLO, RawUpstream, answering


async def test_nodelay(client: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """GW-13: TCP_NODELAY is set on the connection to the upstream, whichever loop runs."""
    # Neither loop's own doing may hide that ours is missing.
    monkeypatch.setattr("asyncio.base_events._set_nodelay", lambda sock: None)
    async with RawUpstream(answering(HELLO)) as up:
        await (await client.request(up.address, GET)).read(5)
        (link,) = client.pools[up.address].idle
        assert link.transport is not None
        sock: socket.socket = link.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_cancelling_while_connecting(client: Upstream) -> None:
    """GW-9: a request cancelled while it connects leaves no connection behind."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = Address(host="127.0.0.1", port=full.getsockname()[1])
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        task = asyncio.create_task(client.request(address, GET))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.stats() == {}
        for filler in fillers:
            filler.close()


async def test_nothing_listens(client: Upstream) -> None:
    """GW-14: a port that nobody listens on is told as unreachable, with the system's reason."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with pytest.raises(UpstreamUnreachable, match="refused"):
        await client.request(Address(host="127.0.0.1", port=port), GET)


async def test_black_hole() -> None:
    """GW-14: an upstream that swallows connection attempts is told as unreachable after the time allowed."""
    client = Upstream(connect_s=60, local_connect_s=0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        with pytest.raises(UpstreamUnreachable, match=r"within 0\.05 s"):
            await client.request(Address(host="127.0.0.1", port=full.getsockname()[1]), GET)
        for filler in fillers:
            filler.close()
    client.close()


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (Address(host="127.0.0.1", port=1), True),
        (Address(host="127.9.9.9", port=1), True),
        (Address(host="::1", port=1), True),
        (Address(unix="/run/engine.sock"), True),
        (Address(host="10.99.0.2", port=1), False),
        (Address(host="12.7.0.1", port=1), False),
        (Address(host="localhost.example.net", port=1), False),
    ],
)
def test_whose_silence_is_a_full_queue(address: Address, local: bool) -> None:
    """GW-13: only an engine on this machine is given the time in which the kernel asks a full queue again."""
    assert is_loopback(address) is local


async def test_name_is_resolved(client: Upstream) -> None:
    """GW-16: a name is resolved when the connection is made, and all its addresses are tried."""
    async with RawUpstream(answering(HELLO)) as up:
        named = Address(host="localhost", port=up.address.port)
        assert await (await client.request(named, GET)).read(5) == b"hello"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `localhost` with its key, made now; skipped where there is no openssl to make it."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    argv = ["openssl", "req", "-x509", *curve, *names, "-keyout", f"{path}.key", "-out", f"{path}.crt"]
    subprocess.run(argv, check=True, capture_output=True)
    path.write_bytes(Path(f"{path}.key").read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


async def test_tls(client: Upstream, certificate: Path) -> None:
    """GW-16: an upstream is spoken to over TLS; one that cannot prove its name is unreachable."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with RawUpstream(answering(HELLO, HELLO), tls=serving) as up, asyncio.timeout(5):
        named = Address(host="127.0.0.1", port=up.address.port, tls=trusting, name="localhost")
        for _ in range(2):
            assert await (await client.request(named, GET)).read(5) == b"hello"
        assert up.connections == 1
        unproven = Address(host="127.0.0.1", port=up.address.port, tls=trusting)
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await client.request(unproven, GET)
        strict = Address(host="localhost", port=up.address.port, tls=ssl.create_default_context())
        with pytest.raises(UpstreamUnreachable):
            await client.request(strict, GET)


async def test_unix_socket(client: Upstream, tmp_path: Path) -> None:
    """GW-16: an upstream may listen on a Unix socket; one that is not there is unreachable."""
    path = str(tmp_path / "engine.sock")
    with pytest.raises(UpstreamUnreachable):
        await client.request(Address(unix=path), GET)
    async with RawUpstream(answering(HELLO, HELLO), unix=path) as up:
        for _ in range(2):
            assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 1


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "fd00:ec2::254",
        "fd00:0ec2:0:0::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
    ],
)
async def test_metadata_addresses(client: Upstream, host: str) -> None:
    """GW-16: a metadata address is refused in every spelling, before anything is sent."""
    with pytest.raises(UpstreamForbidden):
        await client.request(Address(host=host, port=80), GET)


def test_link_local_is_allowed() -> None:
    """GW-16: link-local addresses as such are no metadata addresses: a cabled pair of boxes uses them."""
    assert not is_forbidden("169.254.7.8")
    assert not is_forbidden("fe80::1%eth0")
    assert is_forbidden("2002:a9fe:a9fe::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0", "::1"])
async def test_another_nodes_url_never_leads_here(client: Upstream, host: str) -> None:
    """SYNC-2, SYNC-6: what another node told is not dialled where it means this machine."""
    address = Address(host=host, port=9, foreign=True)
    with pytest.raises(UpstreamForbidden, match="this machine"):
        await client.request(address, GET)
    assert "this machine" in await reached(address, 1.0)


async def test_a_look_sends_nothing(client: Upstream) -> None:
    """SYNC-4: a look is a connection and no more: nothing is sent, and why there is none is said."""
    del client
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await reached(Address(host="127.0.0.1", port=port), 1.0) == ""
        there, _ = server.accept()
        with there:
            assert there.recv(10) == b""
    assert "refused" in await reached(Address(host="127.0.0.1", port=port), 1.0)
    assert "looked up" in await reached(Address(host="a" * 70, port=port), 1.0)
    assert await reached(Address(host="127.0.0.1", port=port), -1.0) == "no connection within -1 s"
