"""The whole program, each test with its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.story.house import House, house


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[House]:
    """A house with fake engines, for what real ones cannot be told to do."""
    async with house(tmp_path) as it:
        yield it


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[House]:
    """A house with real ones."""
    async with house(tmp_path, real=True) as it:
        yield it
