"""The history's files: whole lines, bounded size, nothing lost at a torn end or a rotation cut short."""

import gzip
import json
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.adapters.history import CURRENT, HistoryFiles
from hostler.domain.values import rfc3339
from tests.adapters.schedule_rows import START
from tests.adapters.test_schedule_sqlite import no_room


def line(n: int, **more: object) -> Mapping[str, object]:
    """An event's line of about 200 bytes, a second after the one before."""
    return {
        "cursor": f"ep_1:{n}",
        "seq": n,
        "time": rfc3339(START + timedelta(seconds=n)),
        "type": "lease_active",
        "subject": {"lease": f"ls_{n % 3}"},
        "message": "ü\u2028" * 20,
        "facts": {},
    } | more


def seqs(lines: object) -> list[object]:
    assert isinstance(lines, tuple)
    return [each["seq"] for each in lines]


@pytest.fixture
def files(tmp_path: Path) -> HistoryFiles:
    return HistoryFiles(folder=tmp_path / "history", max_bytes=4000, kept=3)


def fill(files: HistoryFiles, start: int, end: int, at_once: int = 7) -> None:
    for first in range(start, end, at_once):
        files.append([line(n) for n in range(first, min(end, first + at_once))])


def test_lines_come_back(files: HistoryFiles) -> None:
    """HIST-1: what was written is read back, line by line as JSON, and the last cursor is known."""
    assert files.last() is None
    assert files.read() == ()
    fill(files, 1, 6)
    assert files.last() == "ep_1:5"
    assert files.read() == tuple(line(n) for n in range(1, 6))
    text = (files.folder / CURRENT).read_text(encoding="utf-8")
    assert [json.loads(each)["seq"] for each in text.split("\n")[:-1]] == [1, 2, 3, 4, 5]


def test_files_are_rotated_and_capped(files: HistoryFiles) -> None:
    """R81, HIST-1: no file outgrows its size, so many compressed ones are kept, all are 0600 and whole."""
    fill(files, 1, 201)
    found = {each.name: each for each in files.folder.iterdir()}
    assert len(found) == 4
    assert files.folder.stat().st_mode & 0o777 == 0o700
    for name, path in found.items():
        assert path.stat().st_mode & 0o777 == 0o600
        data = path.read_bytes() if name == CURRENT else gzip.decompress(path.read_bytes())
        assert len(data) <= files.max_bytes
        assert data.endswith(b"\n")
        for each in data.split(b"\n")[:-1]:
            json.loads(each)
    kept = seqs(files.read())
    assert kept == list(range(201 - len(kept), 201))
    assert files.last() == "ep_1:200"


@pytest.mark.parametrize("torn", [1, 5, 100, 199])
def test_a_torn_last_line_is_cut(files: HistoryFiles, torn: int) -> None:
    """R82: a last line without its end is cut off, and the line before it says where writing goes on."""
    fill(files, 1, 4)
    path = files.folder / CURRENT
    whole = path.read_bytes()
    path.write_bytes(whole[:-torn])
    assert seqs(files.read()) == [1, 2]
    assert files.last() == "ep_1:2"
    files.append([line(3)])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("end", [b"\0" * 512, b"{}\n", b'{"cursor": 1}\n\xff\xfe\n', b'{"cursor": "ep_1:9"'])
def test_what_is_no_line_at_the_end_is_cut(files: HistoryFiles, end: bytes) -> None:
    """R82: zeros of a power cut, or lines that are no events, are cut off the end before writing goes on."""
    fill(files, 1, 4)
    path = files.folder / CURRENT
    whole = path.read_bytes()
    path.write_bytes(whole + end)
    assert seqs(files.read()) == [1, 2, 3]
    assert files.last() == "ep_1:3"
    assert path.read_bytes() == whole


def test_a_line_that_cannot_be_read_hides_no_other(files: HistoryFiles) -> None:
    """HIST-2: a broken line in the middle, or a damaged compressed file, leaves out itself only."""
    fill(files, 1, 60)
    path = files.folder / CURRENT
    first, *rest = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, b"{broken", *rest]))
    before = seqs(files.read())
    assert before == list(range(1, 60))
    middle = sorted(files.folder.glob("*.gz"))[1]
    lost = [json.loads(each)["seq"] for each in gzip.decompress(middle.read_bytes()).splitlines()]
    middle.write_bytes(middle.read_bytes()[:-9])
    after = seqs(files.read())
    assert set(before) - set(after) <= set(lost)
    assert after[-1] == 59


def test_a_file_of_something_else_is_set_aside(files: HistoryFiles) -> None:
    """R84: a file in the history's place that holds no event is kept as found, under another name."""
    files.folder.mkdir()
    (files.folder / CURRENT).write_bytes(b"notes\nof mine\n")
    assert files.last() is None
    files.append([line(1)])
    assert files.last() == "ep_1:1"
    (aside,) = files.folder.glob("history-damaged-*")
    assert aside.read_bytes() == b"notes\nof mine\n"


def test_after_a_rotation_the_compressed_file_says_where(files: HistoryFiles) -> None:
    """HIST-1: with the newest file gone or torn in its first line, the one before says where to go on."""
    fill(files, 1, 40)
    path = files.folder / CURRENT
    first = json.loads(path.read_bytes().split(b"\n")[0])["seq"]
    path.write_bytes(path.read_bytes()[:50])
    assert files.last() == f"ep_1:{first - 1}"
    path.unlink()
    assert files.last() == f"ep_1:{first - 1}"


def test_a_rotation_that_was_cut_short_tells_nothing_twice(files: HistoryFiles) -> None:
    """HIST-1: a crash when the file was compressed and not removed yet doubles and loses no line."""
    fill(files, 1, 12)
    path = files.folder / CURRENT
    packed = files.folder / "history-000001.ndjson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert seqs(files.read()) == list(range(1, 12))
    assert files.last() == "ep_1:11"
    assert not path.exists()
    fill(files, 12, 15)
    assert seqs(files.read()) == list(range(1, 15))


def test_reading_filters(files: HistoryFiles) -> None:
    """HIST-2: of a lease, a job, a time; gaps are told whatever is asked for."""
    fill(files, 1, 30)
    files.append(
        [
            line(30, subject={"job": "jb_1"}, facts={"lease": "ls_1"}),
            line(31, subject={"job": "jb_1", "lease": "ls_2"}),
            line(32, type="history_gap", subject={}),
            line(33, subject={}, message="ls_1 jb_1"),
        ]
    )
    assert seqs(files.read(lease="ls_1")) == [*range(1, 30, 3), 30, 32]
    assert seqs(files.read(job="jb_1")) == [30, 31, 32]
    assert seqs(files.read(job="jb_1", lease="ls_2")) == [31, 32]
    assert seqs(files.read(since=START + timedelta(seconds=31))) == [31, 32, 33]
    assert seqs(files.read(lease="none")) == [32]
    assert seqs(files.read(limit=2)) == [32, 33]


def test_reading_while_it_is_written(files: HistoryFiles) -> None:
    """HIST-2: a reader beside the writer sees, through rotations, every line once and in order."""
    files = HistoryFiles(folder=files.folder, max_bytes=4000, kept=1000)
    fill(files, 1, 20)
    writer = threading.Thread(target=fill, args=(files, 20, 1000, 3))
    writer.start()
    while writer.is_alive():
        found = seqs(files.read())
        assert found == list(range(1, len(found) + 1))
    writer.join()
    assert seqs(files.read()) == list(range(1, 1000))


def test_no_room_leaves_whole_lines(files: HistoryFiles) -> None:
    """R87: a disk without room fails the write; then the files say how far it came, and it goes on there."""
    fill(files, 1, 4)
    with no_room(1500), pytest.raises(OSError, match="File too large"):
        files.append([line(n) for n in range(4, 15)])
    cursor = files.last()
    assert cursor is not None
    done = int(cursor.partition(":")[2])
    assert 3 <= done < 14
    fill(files, done + 1, 15)
    assert seqs(files.read()) == list(range(1, 15))
