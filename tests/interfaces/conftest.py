"""What many tests of the interfaces begin with: a daemon in memory, a head that listens, who uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.client.facade import Hostler
from hostler.interfaces.api.app import create_app
from hostler.wire.redaction import Redactor
from tests.fakes.head import KEY, Head, listening
from tests.fakes.jobs import JobHouse, job_house
from tests.interfaces.holders import hostler
from tests.interfaces.room import Room, room
from tests.interfaces.terminal import Shell, shell


@pytest.fixture
async def box() -> AsyncIterator[Room]:
    """A daemon's services and its API."""
    async with room() as it:
        yield it


@pytest.fixture
async def house(box: Room) -> JobHouse:
    """The room's API with the real jobs service behind it."""
    it = job_house(redact=Redactor(("hk_known-to-us",)))
    box.control = replace(box.control, jobs=it.jobs)
    box.app = create_app(box.control)
    return it


@pytest.fixture
def head() -> Iterator[Head]:
    """A head on a port of its own; it lets everybody in until it has a key."""
    with listening() as made:
        yield made


@pytest.fixture
def holder(head: Head, tmp_path: Path) -> Iterator[Hostler]:
    """The Python client of one user of that head."""
    with hostler(head, tmp_path) as made:
        yield made


@pytest.fixture
def user(head: Head, tmp_path: Path) -> Shell:
    """A terminal of ada's on a machine whose head that is; from here on it asks for its key."""
    head.key = KEY
    return shell(tmp_path, HOSTLER_HEAD_URL=head.url, HOSTLER_HEAD_API_KEY=KEY, USER="ada")
