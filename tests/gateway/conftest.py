"""The wire is tested on both loops: uvloop, which the daemon runs, and asyncio's own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from hostler.gateway.upstream import Upstream

_ON_BOTH_LOOPS = ("test_upstream", "test_server")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    name = item.nodeid.partition("::")[0].rpartition("/")[2]
    if name.startswith(_ON_BOTH_LOOPS):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def client() -> AsyncIterator[Upstream]:
    """Our HTTP client, closed at the end."""
    upstream = Upstream()
    yield upstream
    upstream.close()
