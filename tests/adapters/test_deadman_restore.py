"""What one engine's trouble does to the others, where nothing of it is foreseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.deadman import asking, engines, kernel, restore, written
from hostler.deadman.disk import Lines
from hostler.deadman.process import reported
from hostler.deadman.written import Engine, Hold, Written

UP = Engine(
    engine="up",
    argv=(),
    env={},
    cwd="/",
    record="",
    stop_argv=("true",),
    stop_timeout_s=1.0,
    url="http://127.0.0.1:1",
    health="none",
    model="m",
    task="chat",
    key="",
    budget_s=5.0,
    need=None,
)


def run_of(place: Path, *, end: tuple[Engine, ...] = (), start: tuple[Engine, ...] = ()) -> restore.Restore:
    """A restore of these engines that has run."""
    orders = Written(
        window="lease_1",
        mode="m",
        host="h",
        boot_id=kernel.boot_id(),
        cap_s=1.0,
        grace_s=0.0,
        end=end,
        start=start,
        verify=(),
        hold=Hold(path=str(place / "hold.json"), lease="lease_1", essential=()),
        look_s=0.01,
    )
    it = restore.Restore(written=orders, directory=place, cause="cap", lines=Lines(place / "restore.ndjson"))
    it.run()
    return it


@pytest.mark.parametrize("trouble", [OverflowError("much"), RecursionError("deep")])
def test_what_fails_unforeseen_for_one_engine_keeps_no_other_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """WIN-4, WIN-11: whatever one engine's end, start or measure raises is told, and the next ones are up."""
    asked = list[str]()

    def fails_once(*_: object) -> int | None:
        asked.append("x")
        if len(asked) == 1:
            raise trouble
        return None

    monkeypatch.setattr(kernel, "available", fails_once)
    names = ("one", "two")
    it = run_of(tmp_path, start=tuple(replace(UP, engine=name) for name in names))
    assert [it.rows[name]["up"] for name in names] == [False, True]
    asked.clear()
    monkeypatch.setattr(engines, "end", fails_once)
    it = run_of(tmp_path, end=tuple(replace(UP, engine=name) for name in names), start=(UP,))
    assert [it.rows[name].get("down") for name in names] == [False, True]
    assert it.rows["up"]["up"] is True
    assert it.failing == [f"one was not ended: {type(trouble).__name__}: {trouble}"]


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"[]", b'{"data": 3}'])
def test_an_answer_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """WIN-4, ENG-4: an engine whose answer cannot be understood is not ready, and has done no work."""
    monkeypatch.setattr(asking, "_ask", lambda *_: (200, body))
    assert asking.look(replace(UP, health="/health")) is not None
    assert asking.work(replace(UP, health="/health")) is not None


def test_orders_and_reports_that_are_nested_too_deep_are_none(tmp_path: Path) -> None:
    """WIN-1, WIN-7: a file of the window that cannot be followed is told as such, and proves nothing."""
    for name in (written.RESTORE, written.REPORT):
        (tmp_path / name).write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deep"):
        written.load(tmp_path)
    assert reported(tmp_path) is False
