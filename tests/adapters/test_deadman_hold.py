"""The deadman's reading of the hold beside the daemon's: two readers of one file must not differ."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.adapters.hold_file import HoldFile
from hostler.deadman import box, kernel
from hostler.deadman.written import Hold

NOW = datetime.now(UTC)
SOON, PAST = (NOW + timedelta(hours=1)).isoformat(), (NOW - timedelta(hours=1)).isoformat()
LIVE = {"owner": "bench", "expires_at": SOON}

CONTENTS = {
    "none": None,
    "live": LIVE,
    "lapsed": {**LIVE, "expires_at": PAST},
    "allows": {**LIVE, "allow": ["small"]},
    "allows another": {**LIVE, "allow": ["big"]},
    "this boot": {**LIVE, "boot_id": kernel.boot_id()},
    "another boot": {**LIVE, "boot_id": "8c1c"},
    "another lease": {**LIVE, "lease": "ls_9"},
    "no owner": {"expires_at": SOON},
    "no expiry": {"owner": "bench"},
    "no zone": {**LIVE, "expires_at": "2999-01-01T00:00:00"},
    "zulu": {**LIVE, "expires_at": "2999-01-01T00:00:00Z"},
    "a list": [1],
    "a number": 7,
    "empty": "",
    "torn": '{"owner": "bench", "expi',
    "deep": "[" * 9000,
    "huge": json.dumps({**LIVE, "reason": "x" * 70_000}),
    "a mark": "\ufeff" + json.dumps(LIVE),
}


def put(path: Path, content: object) -> None:
    """The file with that content: a text as it is, anything else as JSON."""
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(0o600)


def held(path: Path) -> bool:
    """Whether the deadman of ls_1 may not start `small`."""
    return box.in_the_way(Hold(path=str(path), lease="ls_1", essential=()), "small") is not None


@pytest.mark.parametrize("name", CONTENTS)
def test_both_read_the_same(tmp_path: Path, name: str) -> None:
    """HOLD-2, HOLD-3, HOLD-4, HOLD-5: what refuses a start by the daemon keeps the deadman from it too."""
    path = tmp_path / "box.json"
    put(path, CONTENTS[name])
    view = HoldFile(path=str(path)).read()
    assert held(path) is not view.allows("small")


def test_what_is_no_file_counts_as_held(tmp_path: Path) -> None:
    """HOLD-4: a link, a pipe and a file that everybody may write are believed by neither."""
    link, pipe, open_ = tmp_path / "link", tmp_path / "pipe", tmp_path / "open"
    link.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    put(open_, {**LIVE, "expires_at": PAST})
    open_.chmod(0o666)
    for path in (link, pipe, open_):
        assert held(path), path
        assert HoldFile(path=str(path)).read().held, path


def test_an_unreadable_record_ages_out(tmp_path: Path) -> None:
    """HOLD-4: what cannot be read holds for 8 h after it was written, and no longer."""
    path = tmp_path / "box.json"
    put(path, "torn")
    assert held(path)
    eight_hours_ago = NOW.timestamp() - 8 * 3600 - 60
    os.utime(path, (eight_hours_ago, eight_hours_ago))
    assert not held(path)


def test_an_essential_engine_may_start_under_every_hold(tmp_path: Path) -> None:
    """HOLD-5: the engines that the config calls essential are no matter of the record."""
    path = tmp_path / "box.json"
    put(path, LIVE)
    assert box.in_the_way(Hold(path=str(path), lease="ls_1", essential=("small",)), "small") is None


def test_only_the_own_record_is_removed(tmp_path: Path) -> None:
    """WIN-5: the window's record goes, another's stays, and a missing one is nothing to remove."""
    path = tmp_path / "box.json"
    own = Hold(path=str(path), lease="ls_1", essential=())
    assert not box.remove_own(own)
    put(path, {**LIVE, "lease": "ls_9"})
    assert not box.remove_own(own)
    assert path.exists()
    put(path, {**LIVE, "lease": "ls_1"})
    assert box.remove_own(own)
    assert not path.exists()


def test_a_writer_that_keeps_the_lock_is_not_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9, WIN-5: the record is removed under the writers' lock; one that is kept is told as trouble."""
    path = tmp_path / "box.json"
    put(path, {**LIVE, "lease": "ls_1"})
    monkeypatch.setattr(box, "LOCK_WAIT_S", 0.05)
    with box._locked(path), pytest.raises(OSError, match=r"box\.json\.lock"):  # noqa: SLF001 - its own lock, as a writer has it
        box.remove_own(Hold(path=str(path), lease="ls_1", essential=()))
    assert path.exists()
