import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.hold import HoldState
from hostler.domain.hold_plan import Removal
from tests.interfaces.box_calls import Calls, calls, soon

pytestmark = pytest.mark.cases

CLOCKS = tuple(
    datetime(2026, 9, 4, 21, minute, second, tzinfo=UTC) for minute, second in ((0, 0), (15, 11), (15, 12))
)
HELD, LAPSED, UNREADABLE = HoldState.HELD, HoldState.LAPSED, HoldState.UNREADABLE
UNTIL_THEN, NEVER, ALWAYS = (HELD, LAPSED, LAPSED), (LAPSED,) * 3, (HELD,) * 3
EXPIRIES = {
    **dict.fromkeys(("z", "offset-plus", "offset-minus", "lower-z", "space"), UNTIL_THEN),
    "fraction": (HELD, HELD, LAPSED),
    **dict.fromkeys(("past", "before-start"), NEVER),
    **dict.fromkeys(("far-future", "hour-24", "leap-second", "dst-fold"), ALWAYS),
}
"""What each file means at each clock; every other one has no valid expiry."""
FLAGGED = {"far-future", "leap-second", "dst-fold"}


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The reader's time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def box(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Calls:
    return calls(tmp_path, capsys, monkeypatch)


def inputs(folder: Path, count: int) -> dict[str, bytes]:
    """The files of a folder by their names; there must be as many as when this was written."""
    found = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.json"))}
    assert len(found) == count, sorted(found)
    return found


def test_expiries(cases_dir: Path, box: Calls, zone: str) -> None:
    """HOLD-3: each odd expiry of BG-17 means the same at each clock in each time zone, and none crashes."""
    for name, data in inputs(cases_dir / "bugs/BG-17", 26).items():
        for clock, expected in zip(CLOCKS, EXPIRIES.get(name, (UNREADABLE,) * 3), strict=True):
            box.put(data)
            os.utime(box.path, (CLOCKS[0].timestamp(), CLOCKS[0].timestamp()))
            reader = HoldFile(path=str(box.path), now=iter([clock] * 99).__next__)
            view = reader.read()
            assert view.state is expected, (name, clock, zone)
            assert view.overlong == (name in FLAGGED), name
            assert view.allows("large") == (not view.held), name
            if name == "fraction":
                assert view.until == CLOCKS[1] + timedelta(microseconds=123456)
            ended = HoldWriter(reader=reader).release(owner="w1", force=False, by="user ada")
            assert (ended.plan.removal is not Removal.NOTHING) == view.held, name


def test_expiries_on_the_screen(cases_dir: Path, box: Calls, zone: str) -> None:
    """HOLD-8: `status` and `release` work for each file of BG-17, today, in each time zone."""
    for name, data in inputs(cases_dir / "bugs/BG-17", 26).items():
        box.put(data)
        document = box("status", "--json").json()
        said = box("status")
        assert said.code == 0, (name, zone)
        assert said.out.startswith("held" if document["held"] else "free"), name
        assert box("release", "--owner", "w1").code == 0, name
        assert box("status", "--json").json()["held"] is False, name


def test_broken_files(cases_dir: Path, box: Calls) -> None:
    """HOLD-4: each broken file of BG-18 holds the box, is not overwritten, and is released with its bytes."""
    for name, data in inputs(cases_dir / "bugs/BG-18", 12).items():
        box.put(data)
        document = box("status", "--json").json()
        view = HoldFile(path=str(box.path)).read()
        assert document["held"] is True, name
        assert not view.allows("large"), name
        assert not view.allows("crow-embed"), name
        assert box("hold", "--owner", "w2").code == 75, name
        assert box.path.read_bytes() == data, name
        if name == "bom":
            assert (document["unreadable"], view.owner, view.overlong) == (None, "w1", True)
            assert box("release", "--owner", "w1").code == 0
            continue
        assert isinstance(document["unreadable"], str), name
        cleared = box("release", "--json")
        assert cleared.code == 0, name
        assert Path(str(cleared.json()["kept_as"])).read_bytes() == data, name
        assert box("status").out == "free\n", name


UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\ud800-\udfff]")


def test_strange_names(cases_dir: Path, box: Calls) -> None:
    """HOLD-8: no name of BG-22 moves a cursor, hides or adds a row; JSON has it as it is."""
    names = json.loads((cases_dir / "bugs/BG-22/owners.json").read_bytes())
    assert len(names) >= 12
    box.put({"owner": "plain", "reason": "plain", "expires_at": soon(), "allow": ["plain"], "x": "plain"})
    rows = [len(call.out.splitlines()) for call in (box("status"), box("release", "--owner", "plain"))]
    for name in names:
        record = {"owner": name, "reason": name, "expires_at": soon(), "allow": [name], "x": name}
        box.put({**record, "k" + name: name, "by": "cli"})
        document = box("status", "--json")
        assert document.json()["record"] == {**record, "k" + name: name, "by": "cli"}
        assert not UNSAFE.search(document.out), name
        refused = box("hold", "--owner", "other")
        shown, released = box("status"), box("release")
        assert (refused.code, released.code) == (75, 0)
        assert len(refused.err.splitlines()) == 2
        assert [len(shown.out.splitlines()) - 2, len(released.out.splitlines())] == rows, name
        for text in (refused.err, shown.out, released.out):
            assert not UNSAFE.search(text), name
            assert max(map(len, text.splitlines())) < 700
        if name.isprintable() and len(name) < 100:
            assert f"by {name}\n" in shown.out
        held = box("hold", "--owner", name, "--reason", name, "--allow", name)
        assert held.code == (0 if name.strip() else 2)
        assert not UNSAFE.search(held.out + held.err), name
        assert box("release", "--force").code == 0
