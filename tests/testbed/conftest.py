"""Both hosts, each test with its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.testbed.bed import Bed, bed
from tests.testbed.cable import NoNamespaces, needed
from tests.testbed.trio import Trio, trio


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Bed]:
    """Two hosts that are furnished and not yet started."""
    try:
        async with bed(tmp_path) as it:
            yield it
    except NoNamespaces as error:
        needed(error)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Trio]:
    """Three hosts with configs of their own that are paired and not yet started."""
    try:
        async with trio(tmp_path) as it:
            yield it
    except NoNamespaces as error:
        needed(error)
