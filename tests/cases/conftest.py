"""Where inputs of others lie. They are read in place, never copied into the project."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cases_dir(pytestconfig: pytest.Config) -> Path:
    """The folder that `--cases` or $HOSTLER_CASES names; the test is skipped where none is."""
    given: Path | None = pytestconfig.getoption("--cases")
    named = str(given or os.environ.get("HOSTLER_CASES") or "")
    if not named:
        pytest.skip("no folder of cases: HOSTLER_CASES and --cases name none")
    if not Path(named).is_dir():
        pytest.skip(f"no folder of cases: {named} is not there")
    return Path(named)
