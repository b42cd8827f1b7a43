"""A host in memory with its node, for the tests of what leases do there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.deadmen import FakeDeadmen
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import LocalRig, Teller, local_rig


@pytest.fixture
async def rig() -> AsyncIterator[LocalRig]:
    """A host in memory with its node: `big` is up, `cold` is not."""
    async with local_rig() as found:
        yield found


@pytest.fixture
def it(rig: LocalRig) -> Parts:
    """All that may be turned."""
    return rig.parts


@pytest.fixture
def deadmen(it: Parts) -> FakeDeadmen:
    """The deadmen of the host."""
    return it.deadmen


@pytest.fixture
def tell(rig: LocalRig) -> Teller:
    """A lease that tells the node what to do."""
    return Teller(rig)
