"""What a host keeps of a window in files."""

from __future__ import annotations

import pytest

from hostler.domain.fleet import HOST_POOL
from hostler.services.window_files import Before, back_of, before_of

BEFORE = Before(
    up={"bots": {"host": 40}},
    standing=("bots", "voice"),
    checks=((("check", "db"), 9.0),),
    tool=True,
)


def test_how_it_was_before_is_read_as_it_was_written() -> None:
    """WIN-4, F26: engines, memory, commands and the script, whatever the config says by then."""
    assert before_of(BEFORE.row()) == BEFORE


@pytest.mark.parametrize(
    "row",
    [
        None,
        {},
        {"up": {"bots": {"host": 40}}},
        {**BEFORE.row(), "standing": "bots"},
        {**BEFORE.row(), "checks": None},
    ],
)
def test_a_file_of_another_version_says_nothing(row: dict[str, object] | None) -> None:
    """WIN-4: then every standing engine has to be up: fail closed."""
    assert before_of(row) is None


def test_a_check_that_is_none_is_left_out() -> None:
    """WIN-4: of damaged rows the good ones count."""
    found = before_of({**BEFORE.row(), "up": {"bots": 3}, "checks": [{"argv": []}, 7, {"argv": ["x"]}]})
    assert found is not None
    assert (found.checks, found.up) == ((), {"bots": {}})


def test_a_deadmans_row_has_the_memory_of_the_host_as_one_number() -> None:
    """WIN-4: of a deadman's report too each engine is told with its host, its memory and its seconds."""
    row = {"engine": "bots", "up": True, "verified": True, "memory": 40, "seconds": 3, "why": None}
    found = back_of(row, "crow")
    assert (found.host, found.memory, found.seconds, found.why) == ("crow", {HOST_POOL: 40}, 3.0, "")
