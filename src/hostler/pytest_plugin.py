"""A lease for the length of a test: the fixture `hostler_lease` and the marker `hostler` (CLIENT-1).

    @pytest.mark.hostler("pair", ttl="30m", wait="1h")
    def test_throughput(hostler_lease):
        hostler_lease.check()

Decides nothing of leases: the marker's arguments are those of `Hostler.lease`. Loading it loads no client.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hostler.client.holding import Lease

MARKER = "hostler(resource, ttl=None, wait=None, reason='', …): what `hostler_lease` leases for the test"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, also where unknown ones are errors."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def hostler_lease(request: pytest.FixtureRequest) -> Iterator[Lease]:
    """An active lease on the resource that the marker names; renewed during the test, given back after it.

    The test fails when the lease cannot be had, or was lost before the test had ended.
    """
    from hostler.client.facade import Hostler  # noqa: PLC0415 - whoever uses no lease loads no client

    marker = request.node.get_closest_marker("hostler")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError('hostler_lease needs @pytest.mark.hostler("RESOURCE", ttl=…, wait=…)')
    wish = {"reason": request.node.nodeid, **marker.kwargs}
    with Hostler() as client, client.lease(marker.args[0], **wish) as lease:
        yield lease
