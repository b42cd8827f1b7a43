"""Two hosts whose daemons serve TLS: the head, the gateways and the commands know each by its pin."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.fakes.fake_engine import eventually
from tests.testbed.bed import Bed
from tests.testbed.box import PORT
from tests.testbed.telling import code, lease_is, taken
from tests.testbed.window_bed import as_before, modes, opened, standing

pytestmark = pytest.mark.slow

OTHER_PIN = "sha256/QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="


async def test_daemons_that_serve_tls(both: Bed) -> None:
    """NODE-2, NODE-6, R16, WIN-1: requests, a lease and a window cross the cable, all of it in TLS."""
    modes(both)
    both.secure()
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=raven.door)) as plain:
        with pytest.raises(httpx2.RemoteProtocolError):
            await plain.get(f"http://127.0.0.1:{PORT}/health")
    assert [await it.said("far") for it in (crow, raven)] == ["I am raven-work."] * 2
    assert await raven.said("near") == "I am crow-work."
    lease = await taken(crow, "raven_box")
    await lease_is(crow, lease, "active")
    assert raven.hold.exists()
    await crow.told("release", "raven_box")
    assert not raven.hold.exists()
    await opened(both, "--cap", "5m")
    assert [await it.said("big") for it in (crow, raven)] == ["I am giant."] * 2
    await crow.told("window", "close")
    await as_before(both)


async def test_another_certificate_is_no_node(both: Bed) -> None:
    """NODE-2: a daemon that does not show the pinned key is away, by that reason, and is told nothing."""
    both.secure()
    host = both.part("hosts")["raven"]
    assert isinstance(host, dict)
    host["tls_pin"] = OTHER_PIN
    both.write()
    crow, raven = both.crow, both.raven
    for box in (crow, raven):
        await box.start()
    await raven.is_state("raven-work", "ready")

    async def told() -> bool:
        return "pin" in json.dumps(await crow.node("raven"))

    await eventually(told, f"the pin is named\n{crow.words()}")
    assert (await crow.node("raven"))["up"] is False
    refused = await crow.chat("far")
    assert code(refused) == (502, "node_unreachable")
    assert await crow.said("near") == "I am crow-work."
    now = await crow.run("reserve", "raven_box", "--now", "--reason", "bench")
    assert now.code != 0
    assert "raven" in now.err
    assert not raven.hold.exists()
    await raven.is_state("raven-work", "ready")
