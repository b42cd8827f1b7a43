import io
import re
from pathlib import Path

import pytest

from hostler.domain import errors
from hostler.domain.errors import Refusal
from hostler.interfaces.cli import engines, lease_text, requests, routes, schedule_text
from hostler.interfaces.cli.engines import COLUMNS, SPARE
from hostler.interfaces.cli.failure import FOR_PEOPLE
from hostler.interfaces.cli.tables import CELL, FOLDED, fitting, say_table
from tests.interfaces.room import Room, room
from tests.interfaces.terminal import served

WIDTHS = dict(zip(COLUMNS, (9, 8, 17, 4, 5, 14, 21, 90), strict=True))


@pytest.mark.parametrize("room", [20, 40, 60, 80, 100, 120, 200])
def test_a_table_fits_its_terminal(room: int) -> None:
    """INTERFACE-2: whatever the width, a table's columns and gaps fit it."""
    kept = fitting(WIDTHS, SPARE, room)
    assert sum(kept.values()) + 2 * (len(kept) - 1) <= room
    assert {"ENGINE", "STATE", "NOTE"} <= kept.keys()


def test_what_is_short_stays_whole_at_80_columns() -> None:
    """INTERFACE-2: at 80 columns names, states and the engine's load are whole, and the note is folded."""
    kept = fitting(WIDTHS, SPARE, 80)
    assert {name: kept[name] for name in ("ENGINE", "STATE", "BUSY", "IDLE")} == {
        "ENGINE": 9,
        "STATE": 8,
        "BUSY": 4,
        "IDLE": 5,
    }
    assert kept["NOTE"] >= FOLDED


def test_the_id_of_a_lease_is_whole_at_80_columns() -> None:
    """INTERFACE-2: what a person copies is not folded; the title and the count of who waits go before it."""
    widths = dict(zip(schedule_text.COLUMNS, (8, 6, 6, 29, 16, 7, 13), strict=True))
    kept = fitting(widths, schedule_text.SPARE, 80)
    assert kept["LEASE"] == 29
    assert set(schedule_text.COLUMNS) - set(kept) == {"TITLE", "WAITING"}


def test_a_wide_terminal_shows_everything() -> None:
    """INTERFACE-2: where there is room no column goes and none is folded."""
    assert fitting(WIDTHS, SPARE, 182) == WIDTHS


@pytest.mark.parametrize("module", [engines, routes, requests, lease_text, schedule_text])
def test_what_a_narrow_terminal_does_without_is_a_column(module: object) -> None:
    """INTERFACE-2: the columns that may go are columns, and the first one, the name, is none of them."""
    columns, spare = module.COLUMNS, module.SPARE  # type: ignore[attr-defined]  # each of them has both
    assert set(spare) < set(columns[1:])


@pytest.mark.parametrize("width", ["60", "80", "100"])
async def test_status_can_be_read_on_a_narrow_terminal(tmp_path: Path, width: str) -> None:
    """INTERFACE-2: on a narrow terminal under a hold every engine and state is in one piece, nothing cut."""
    async with room() as box, served(box.app, tmp_path) as user:
        box.held("bench")
        code, seen = await user.on_terminal("status", COLUMNS=width, NO_COLOR="1")
    assert code == 0
    assert "\u2026" not in seen
    assert [
        it for it in ("ENGINE", "STATE", "BUSY", "NOTE", "stopped", "large", "fast") if it not in seen
    ] == []
    if width != "100":
        assert re.search(r"Not shown for want of width: .*URL; --json has everything\.", seen)


def test_a_pipe_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERFACE-2: on a pipe a long value is whole, and pads no other row."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    say_table(("WHAT", "WHERE", "X"), [("a", "/" + "p" * 500, "1"), ("b", "/q", "2")], empty="none")
    lines = out.getvalue().splitlines()
    assert lines[1].split() == ["a", "/" + "p" * 500, "1"]
    assert len(lines[2]) == len("WHAT") + CELL + len("1") + 4


def shown_hints() -> list[str]:
    every = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, Refusal)]
    return [FOR_PEOPLE.get(it.code, it.hint) for it in every]


def test_people_are_told_of_no_header_and_no_path() -> None:
    """INTERFACE-2: no hint that the command line prints names a header or a path of the API."""
    words = ("retry-after", "x-hostler-", "/gateway", "{snapshot}", "/v1/")
    assert [hint for hint in shown_hints() if any(word in hint.lower() for word in words)] == []


def held(box: Room) -> str:
    """The name in the log of whoever suspended fast."""
    return ", ".join(box.lane("fast").suspended_by)


@pytest.mark.parametrize(
    ("env", "name"),
    [({"USER": "ada"}, "ada"), ({"LOGNAME": "bo b\n"}, "bo_b_"), ({"USER": "", "LOGNAME": "c"}, "c")],
)
async def test_the_daemon_learns_who_it_was(tmp_path: Path, env: dict[str, str], name: str) -> None:
    """HOLD-14: the command line tells the daemon the user's name, with other characters as `_`."""
    async with room() as box, served(box.app, tmp_path) as user:
        ended = await user.run("suspend", "fast", **env)
        assert ended.code == 0, ended.err
        assert held(box) == f"person:{name}"
