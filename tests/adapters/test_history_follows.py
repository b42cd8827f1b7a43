"""The history beside a real store: over restarts, a store that went back, one that was begun anew."""

from pathlib import Path

from hostler.adapters.history import HistoryFiles
from hostler.adapters.store import care
from hostler.adapters.store.sqlite import SqliteStore
from hostler.services.event_queue import EventQueue
from hostler.services.history import History
from tests.adapters.stores import START, event
from tests.fakes.clock import ManualClock
from tests.fakes.ids import CountingIds


class Day:
    """One run of a daemon: its store, its history."""

    def __init__(self, folder: Path, ids: CountingIds) -> None:
        self.store = SqliteStore(folder / "schedule.db", ids)
        self.files = HistoryFiles(folder=folder / "history", max_bytes=5000)
        self.history = History(
            queue=EventQueue(store=self.store, clock=ManualClock(), ids=ids),
            store=self.store,
            log=self.files,
            clock=ManualClock(),
            events=EventQueue(store=self.store, clock=ManualClock(), ids=ids),
            ids=ids,
        )

    async def work(self, *numbers: int) -> None:
        for number in numbers:
            await self.store.record([event(number)])
        await self.history.catch_up()

    def told(self) -> list[object]:
        """The numbers of events, the types of lines that have none."""
        found = []
        for line in self.files.read():
            facts = line["facts"]
            assert isinstance(facts, dict)
            found.append(facts.get("number", line["type"]))
        return found


async def test_a_store_that_went_back_is_followed(tmp_path: Path) -> None:
    """F25, HIST-1: after a restore the history tells the gap, then what is new, and nothing a second time."""
    ids = CountingIds()
    day = Day(tmp_path, ids)
    await day.work(1, 2, 3)
    await day.store.backup(tmp_path / "backup.db")
    await day.work(4, 5)
    await day.store.close()
    care.restore(care.file_at(tmp_path / "schedule.db", ids), tmp_path / "backup.db", now=START)
    day = Day(tmp_path, ids)
    await day.work(6)
    await day.work(7)
    assert day.told() == [1, 2, 3, 4, 5, "history_gap", "schedule_recovered", 6, 7]
    await day.store.close()


async def test_a_store_that_went_back_before_it_was_written(tmp_path: Path) -> None:
    """F25, HIST-1: what was not written yet when the store went back comes from the restored one."""
    ids = CountingIds()
    day = Day(tmp_path, ids)
    await day.work(1)
    await day.store.record([event(2), event(3)])
    await day.store.backup(tmp_path / "backup.db")
    await day.store.close()
    care.restore(care.file_at(tmp_path / "schedule.db", ids), tmp_path / "backup.db", now=START)
    day = Day(tmp_path, ids)
    await day.work(4)
    assert day.told() == [1, "history_gap", 2, 3, "schedule_recovered", 4]
    await day.store.close()


async def test_a_store_that_was_begun_anew_is_followed(tmp_path: Path) -> None:
    """REL-4, HIST-1: after a recovery under the running daemon the history tells the gap and goes on."""
    day = Day(tmp_path, CountingIds())
    await day.work(*range(1, 60))
    await day.store.close()
    (tmp_path / "schedule.db").write_bytes(b"")
    day = Day(tmp_path, CountingIds())
    await day.store.recover(START, known=["ep_9"])
    await day.work(60)
    assert day.told() == [*range(1, 60), "history_gap", "schedule_recovered", 60]
    assert len(list(day.files.folder.glob("*.gz"))) > 1
    await day.store.recover(START)
    await day.work(61)
    assert day.told()[60:] == ["schedule_recovered", 60, "history_gap", "schedule_recovered", 61]
    await day.store.close()
