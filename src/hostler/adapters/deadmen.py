"""Deadmen as processes of this host, and the files of their windows: the need `Deadmen` (WIN-1).

Decides what of ours goes into a window's directory, so that no upgrade reaches it, and how the process is
started, seen and ended. The format of the files and what the process does are `hostler.deadman`'s.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import hostler
from hostler import deadman
from hostler.adapters.deadman_files import object_at, report_at
from hostler.adapters.drivers import run_record, transient
from hostler.adapters.drivers.process import KIND, lock_holder
from hostler.adapters.host import process_table
from hostler.adapters.state_files import make_private, write_whole
from hostler.deadman import disk, kernel, written
from hostler.domain.errors import DeadmanFailed
from hostler.domain.values import NAME, shorten
from hostler.services.deadman_needs import DeadmanState, Orders, PhaseName, Words

BASE: Final[str] = sys._base_executable  # type: ignore[attr-defined]  # noqa: SLF001 - it has no other name
"""The interpreter itself: the one of a virtual environment may be replaced or removed with it."""
GONE_S: Final = 5.0
LOOK_S: Final = 0.05
KEPT: Final = 20
"""Windows that are over whose reports stay: the oldest go."""
_PACKAGE: Final = Path(hostler.__file__).parent
_PROGRAM: Final = Path(deadman.__file__).parent
VERIFIED: Final = "verified.json"
"""What the daemon wrote down of its own restore: a deadman that was disarmed left no report."""
_LEFT: Final = (written.REPORT, written.TEARDOWN, written.DONE, written.DEADMAN, written.LOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDeadmen:
    """The deadmen whose windows are below `root`, the state directory.

    `units` is the systemd manager in whose transient scopes they are started, None where there is none.
    `python` is the interpreter without any environment of ours, `meminfo` what says how much memory is free.
    """

    root: Path
    host: str
    hold_path: Path
    environment: Mapping[str, str]
    units: transient.Manager | None = None
    python: str = BASE
    meminfo: str = "/proc/meminfo"

    # ------------------------------------------------------------ looking

    def windows(self) -> Sequence[DeadmanState]:
        names = sorted(path.name for path in (self.root / "windows").glob("*"))
        return [it for name in names if NAME.fullmatch(name) and (it := self.state(name)) is not None]

    def state(self, window: str) -> DeadmanState | None:
        place = self._place(window)
        phase = object_at(place / written.PHASE)
        orders = _orders(place)
        if phase is None and orders is None:
            return None
        seen = written.seen(place)
        process = self._process(place)
        report = report_at(place)
        ended = report.row if report is not None else object_at(place / VERIFIED) or {}
        mode = orders.mode if orders is not None else str(ended.get("mode", ""))
        marker = object_at(place / written.TEARDOWN) or {}
        this_boot = orders is None or orders.boot_id == kernel.boot_id()
        return DeadmanState(
            window=window,
            mode=mode,
            alive=process is not None,
            pid=None if process is None else process[0],
            phase=seen.phase.value,
            left_s=0.0 if orders is None else orders.cap_s - kernel.boot_s(),
            ours=phase is not None and phase.get("pid") == os.getpid() and seen.lives,
            daemon_lives=seen.lives,
            restoring=this_boot and report is None and marker.get("by") == "deadman",
            this_boot=this_boot,
            start=() if orders is None else tuple(it.engine for it in orders.start),
            end=() if orders is None else tuple(it.engine for it in orders.end),
            report=None if report is None else report.told(place),
        )

    def _process(self, place: Path) -> tuple[int, int] | None:
        """Pid and start time of the deadman that lives: by its own words, else by its lock."""
        mark = object_at(place / written.DEADMAN) or {}
        pid, ticks, boot = mark.get("pid"), mark.get("ticks"), mark.get("boot_id")
        known = isinstance(pid, int) and isinstance(ticks, int) and boot == kernel.boot_id()
        if known and process_table.alive(int(str(pid)), int(str(ticks))):
            return int(str(pid)), int(str(ticks))
        holder = lock_holder(place)
        found = None if holder is None else process_table.read(holder)
        if found is None or found.gone or not _has_open(found.pid, place):
            return None
        return found.pid, found.start_ticks

    # ------------------------------------------------------------ arming

    def write(self, orders: Orders) -> None:
        place = self._place(orders.window)
        make_private(place, self.root)
        for name in _LEFT:
            (place / name).unlink(missing_ok=True)
        program = place / written.PROGRAM
        shutil.rmtree(program, ignore_errors=True)
        package = program / "hostler" / "deadman"
        package.mkdir(mode=0o700, parents=True)
        (program / "hostler" / "__init__.py").touch()
        for source in sorted(_PROGRAM.glob("*.py")):
            shutil.copyfile(source, package / source.name)
        shutil.copyfile(_PROGRAM / "__main__.py", program / "__main__.py")
        restore = self._restore(orders, place)
        self.note(orders.window, "opening")
        write_whole(place / written.RESTORE, json.dumps(restore, indent=1).encode())

    def _restore(self, orders: Orders, place: Path) -> Mapping[str, object]:
        environment = run_record.clean_environment(self.environment, {})
        return asdict(
            written.Written(
                window=orders.window,
                mode=orders.mode,
                host=orders.host,
                boot_id=kernel.boot_id(),
                cap_s=kernel.boot_s() + orders.cap_s,
                grace_s=orders.grace_s,
                end=tuple(self._engine(it, place) for it in orders.end),
                start=tuple(self._engine(it, place) for it in orders.start),
                verify=tuple(
                    written.Check(argv=it.argv, env=environment, timeout_s=it.timeout_s)
                    for it in orders.verify
                ),
                hold=written.Hold(path=str(self.hold_path), lease=orders.window, essential=orders.essential),
                look_s=orders.look_s,
                memory_s=orders.memory_s,
                meminfo=self.meminfo,
            )
        )

    def _engine(self, words: Words, place: Path) -> written.Engine:
        launch, restore = words.launch, words.restore
        by_record = launch.driver == KIND
        return written.Engine(
            engine=launch.engine,
            argv=tuple(self._kept(it, launch.engine, place) for it in restore.argv),
            env=dict(restore.env),
            cwd=restore.cwd,
            record=str(Path(launch.directory) / run_record.RUN_FILE) if by_record else "",
            stop_argv=restore.stop_argv,
            stop_timeout_s=words.stop_timeout_s,
            url=launch.url,
            health=launch.health,
            model=restore.model,
            task=words.task,
            key=words.key,
            budget_s=words.budget_s,
            need=words.need,
        )

    def _kept(self, word: str, engine: str, place: Path) -> str:
        """A word of an argv as it stays true: our interpreter and files of ours would go with an upgrade."""
        if word == sys.executable:
            return self.python
        file = Path(word)
        if not file.is_absolute() or not file.is_file():
            return word
        if not any(file.is_relative_to(it) for it in (_PACKAGE, self.root / "engines")):
            return word
        kept = place / written.PROGRAM / f"{engine}.{file.name}"
        shutil.copyfile(file, kept)
        kept.chmod(0o600)
        return str(kept)

    async def start(self, window: str, *, at_once: bool = False) -> None:
        place = self._place(window)
        plain = (self.python, "-I", "-S", str(place / written.PROGRAM), str(place), *(["now"] * at_once))
        try:
            child = await asyncio.create_subprocess_exec(
                *transient.wrapped(self.units, f"hostler-deadman-{window}", plain),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=run_record.clean_environment(self.environment, {}),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise self._failed(window, f"it cannot be run: {error}") from error
        told, complaint = await child.communicate()
        why = _complaint(told, complaint)
        if why is None and self._process(place) is None and not at_once:
            why = "it ended at once"
        if why is not None:
            raise self._failed(window, why)

    def _failed(self, window: str, why: str) -> DeadmanFailed:
        log = str(self._place(window) / written.LOG)
        return DeadmanFailed(window=window, host=self.host, why=why, log=log)

    # ------------------------------------------------------------ meanwhile

    def note(self, window: str, phase: PhaseName) -> None:
        me = process_table.read(os.getpid())
        row = {
            "phase": phase,
            "pid": os.getpid(),
            "ticks": 0 if me is None else me.start_ticks,
            "boot_id": kernel.boot_id(),
            "beat_s": round(kernel.boot_s(), 3),
            "at": kernel.wall(),
        }
        write_whole(self._place(window) / written.PHASE, json.dumps(row).encode())

    def claim(self, window: str) -> Callable[[], None] | None:
        lock = disk.claim(self._place(window) / written.LOCK, take_over=False)
        if lock is None:
            return None
        if lock == disk.UNLOCKED:
            raise OSError(f"{written.LOCK} cannot be opened")
        return lambda: os.close(lock)

    # ------------------------------------------------------------ disarming

    async def end(self, window: str) -> str | None:
        place = self._place(window)
        if not place.is_dir():
            return None
        await asyncio.to_thread(self.note, window, "over")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GONE_S
        while (process := await asyncio.to_thread(self._process, place)) is not None:
            process_table.send(*process, signal.SIGKILL)
            if loop.time() >= deadline:
                return f"pid {process[0]} did not end"
            await asyncio.sleep(LOOK_S)
        await asyncio.to_thread(self._tidy, place)
        return None

    def _tidy(self, place: Path) -> None:
        """Away with what may hold keys and with the program; the reports of the last windows stay."""
        (place / written.RESTORE).unlink(missing_ok=True)
        shutil.rmtree(place / written.PROGRAM, ignore_errors=True)
        over = [it for it in (self.root / "windows").glob("*") if not (it / written.RESTORE).exists()]
        for old in sorted(over, key=lambda it: it.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _place(self, window: str) -> Path:
        """ValueError for what cannot be one of ours: nothing from outside leads elsewhere (SEC-2)."""
        if not NAME.fullmatch(window):
            raise ValueError(f"{shorten(window)!r} is no id of a window")
        return self.root / "windows" / window


def _has_open(pid: int, place: Path) -> bool:
    """Whether that process has the directory open: the kernel's table of locks names files by number only."""
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if link.samefile(place):
                return True
        except OSError:  # Closed since the listing, or not ours to look into.
            continue
    return False


def _orders(place: Path) -> written.Written | None:
    try:
        return written.load(place)
    except (OSError, ValueError, RecursionError):
        return None


def _complaint(told: bytes, complaint: bytes) -> str | None:
    """What the started command says is wrong, None for nothing."""
    try:
        value = json.loads(told)
        return str(value["error"]) if "error" in value else None
    except (ValueError, TypeError):
        return shorten(complaint.decode(errors="replace").strip() or "it told nothing", 300)
