"""Memory readers, on recorded trees and calls. The machines that they were made for are not here (PLAT-1)."""

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostler.adapters.host import pools
from hostler.adapters.host.amd import AmdCards
from hostler.adapters.host.linux import LinuxMemory
from hostler.adapters.host.nvidia import NOT_SUPPORTED, NvidiaCards
from hostler.adapters.host.pools import FileMemory, MachineMemory
from hostler.deadman import kernel
from hostler.domain.memory import Reading

GIB = 1 << 30


def meminfo(root: Path, total: int, available: int) -> None:
    """A recorded /proc/meminfo, in GiB."""
    path = root / "proc/meminfo"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"MemTotal:       {total << 20} kB", "MemFree:         1000 kB"]
    lines += [f"MemAvailable:   {available << 20} kB", "HugePages_Total:       0"]
    path.write_text("\n".join(lines) + "\n")


def card(
    root: Path, number: int, *, vram: tuple[int, int], gtt: tuple[int, int], metrics: int | None
) -> Path:
    """A recorded amdgpu card: (total, used) in GiB; `metrics` is the table's revision, None for no table."""
    device = root / f"sys/class/drm/card{number}/device"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x1002\n")
    for name, (total, used) in {"vram": vram, "gtt": gtt}.items():
        (device / f"mem_info_{name}_total").write_text(f"{total * GIB}\n")
        (device / f"mem_info_{name}_used").write_text(f"{used * GIB}\n")
    if metrics is not None:
        (device / "gpu_metrics").write_bytes(bytes([120, 0, metrics, 1]) + bytes(116))
    return device


def machine(root: Path) -> MachineMemory:
    """The reader of a recorded tree, without NVIDIA."""
    return MachineMemory(linux=LinuxMemory(root=root), amd=AmdCards(root=root))


def test_main_memory(tmp_path: Path) -> None:
    """MEM-1: a host without cards has one pool: MemTotal and MemAvailable."""
    meminfo(tmp_path, 124, 17)
    assert dict(machine(tmp_path).read()) == {"host": Reading(total=124 * GIB, available=17 * GIB)}


def test_a_kernel_without_the_number_is_an_error(tmp_path: Path) -> None:
    """MEM-1: what the kernel does not tell is an error, never a guess."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\n")
    with pytest.raises(OSError, match="MemAvailable"):
        machine(tmp_path).read()
    with pytest.raises(FileNotFoundError):
        machine(tmp_path / "nowhere").read()


@pytest.mark.parametrize("metrics", [2, 3, None])
def test_a_unified_pool_is_counted_once(tmp_path: Path, metrics: int | None) -> None:
    """MEM-1: on a unified AMD box the host's memory is the one pool; VRAM and GTT are not added to it."""
    meminfo(tmp_path, 124, 60)
    card(tmp_path, 0, vram=(1, 0), gtt=(120, 50), metrics=metrics)
    pool = Reading(total=124 * GIB, available=60 * GIB, pinned=50 * GIB)
    assert dict(machine(tmp_path).read()) == {"host": pool}


def test_what_the_card_may_still_borrow_bounds_the_pool(tmp_path: Path) -> None:
    """MEM-1: on a unified box no more is available than the card may still take as GTT."""
    meminfo(tmp_path, 124, 110)
    card(tmp_path, 0, vram=(1, 0), gtt=(62, 40), metrics=3)
    assert machine(tmp_path).read()["host"].available == 22 * GIB


def test_a_large_carve_out_is_a_pool(tmp_path: Path) -> None:
    """MEM-1: VRAM that is larger than what may be borrowed is a pool of its own, on an APU too."""
    meminfo(tmp_path, 31, 20)
    card(tmp_path, 0, vram=(96, 30), gtt=(15, 1), metrics=3)
    found = machine(tmp_path).read()
    assert found["gpu0"] == Reading(total=96 * GIB, available=66 * GIB)
    assert found["host"].available == 20 * GIB


def test_cards_of_their_own(tmp_path: Path) -> None:
    """MEM-1: each card with VRAM of its own is a pool, numbered as the cards are; its GTT bounds nothing."""
    meminfo(tmp_path, 64, 50)
    card(tmp_path, 10, vram=(24, 4), gtt=(32, 31), metrics=1)
    card(tmp_path, 2, vram=(16, 1), gtt=(32, 0), metrics=1)
    found = machine(tmp_path).read()
    assert [(name, pool.total // GIB, pool.available // GIB) for name, pool in found.items()] == [
        ("host", 64, 50),
        ("gpu0", 16, 15),
        ("gpu1", 24, 20),
    ]


def test_cards_of_others_are_not_read(tmp_path: Path) -> None:
    """MEM-1: a card of another vendor, or a connector of a card, is no AMD pool."""
    meminfo(tmp_path, 64, 50)
    device = card(tmp_path, 0, vram=(24, 4), gtt=(32, 0), metrics=1)
    (device / "vendor").write_text("0x8086\n")
    (tmp_path / "sys/class/drm/card0-DP-1").mkdir()
    assert set(machine(tmp_path).read()) == {"host"}


def test_a_card_that_says_nonsense_is_an_error(tmp_path: Path) -> None:
    """MEM-1: a counter that is no number is an error that names its file."""
    meminfo(tmp_path, 64, 50)
    device = card(tmp_path, 0, vram=(24, 4), gtt=(32, 0), metrics=1)
    (device / "mem_info_vram_used").write_text("\n")
    with pytest.raises(OSError, match="mem_info_vram_used"):
        machine(tmp_path).read()


# ---------------------------------------------------------------- NVIDIA


class RecordedError(Exception):
    """NVML's error, with its return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


@dataclass(frozen=True, slots=True)
class Info:
    """NVML's answer."""

    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """What was recorded of one card: its name and its memory, an error's code where that call failed."""

    memory: Info | int
    name: str | bytes = "NVIDIA GeForce RTX 4090"


@dataclass(slots=True)
class RecordedNvml:
    """Calls as recorded: one entry per card, a code alone where not even its handle was given.

    `init` and `count` are codes of these calls, None where they succeed.
    """

    cards: Sequence[Gpu | int] = ()
    init: int | None = None
    count: int | None = None
    NVMLError: type[Exception] = field(default=RecordedError)
    begun: int = 0

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        """Counted."""
        if self.init is not None:
            raise RecordedError(self.init)
        self.begun += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
        """How many were recorded."""
        if self.count is not None:
            raise RecordedError(self.count)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802 - NVML's name
        """The entry itself."""
        found = self.cards[index]
        if isinstance(found, int):
            raise RecordedError(found)
        return found

    def nvmlDeviceGetName(self, handle: object) -> str | bytes:  # noqa: N802 - NVML's name
        """What was recorded."""
        assert isinstance(handle, Gpu)
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> Info:  # noqa: N802 - NVML's name
        """What was recorded."""
        assert isinstance(handle, Gpu)
        if isinstance(handle.memory, int):
            raise RecordedError(handle.memory)
        return handle.memory


def with_nvidia(root: Path, calls: RecordedNvml) -> MachineMemory:
    """The reader of a recorded tree and of recorded calls."""
    nvidia = NvidiaCards(calls=calls)
    return MachineMemory(linux=LinuxMemory(root=root), amd=AmdCards(root=root), nvidia=nvidia)


def test_nvidia_cards_follow_amds(tmp_path: Path) -> None:
    """MEM-1: NVIDIA cards are pools by NVML's total and free, numbered after AMD's."""
    meminfo(tmp_path, 64, 50)
    card(tmp_path, 0, vram=(16, 1), gtt=(32, 0), metrics=1)
    found = with_nvidia(tmp_path, RecordedNvml([Gpu(Info(24 * GIB, 20 * GIB))])).read()
    assert found["gpu1"] == Reading(total=24 * GIB, available=20 * GIB)


def test_several_nvidia_cards(tmp_path: Path) -> None:
    """MEM-1: each NVIDIA card is a pool of its own, in NVML's order; none is added to another."""
    meminfo(tmp_path, 64, 50)
    cards = [Gpu(Info(24 * GIB, 20 * GIB)), Gpu(Info(48 * GIB, GIB)), Gpu(Info(24 * GIB, 0))]
    found = with_nvidia(tmp_path, RecordedNvml(cards)).read()
    assert [(name, pool.available // GIB) for name, pool in found.items()] == [
        ("host", 50),
        ("gpu0", 20),
        ("gpu1", 1),
        ("gpu2", 0),
    ]


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu(NOT_SUPPORTED, name="NVIDIA GB10"),
        Gpu(NOT_SUPPORTED, name="NVIDIA of a later year"),
        Gpu(Info(119 * GIB, 90 * GIB), name="NVIDIA GB10"),
        Gpu(Info(119 * GIB, 90 * GIB), name=b"NVIDIA Thor"),
    ],
)
def test_a_unified_nvidia_box_has_one_pool(tmp_path: Path, gpu: Gpu) -> None:
    """MEM-1: a card without memory of its own, by NOT_SUPPORTED or its name, adds no pool to MemAvailable."""
    meminfo(tmp_path, 119, 100)
    found = with_nvidia(tmp_path, RecordedNvml([gpu])).read()
    assert dict(found) == {"host": Reading(total=119 * GIB, available=100 * GIB)}


def test_a_name_that_only_looks_unified_is_a_card() -> None:
    """MEM-1: a card of its own whose name begins like a unified chip's keeps its pool."""
    found = NvidiaCards(calls=RecordedNvml([Gpu(Info(GIB, GIB), name="NVIDIA GB100 80GB")])).read()
    assert found == (Reading(total=GIB, available=GIB),)


@pytest.mark.parametrize("lost", [15, Gpu(15)])
def test_a_lost_nvidia_card_is_an_error(lost: Gpu | int) -> None:
    """MEM-1: a card that fell off its bus is an error, at its handle or its memory: the rest is not all."""
    with pytest.raises(OSError, match="NVML: code 15"):
        NvidiaCards(calls=RecordedNvml([Gpu(Info(GIB, GIB)), lost])).read()


def test_a_driver_that_goes_is_an_error() -> None:
    """MEM-1: an NVML that no longer counts its cards is an error of the reading, not a host without cards."""
    with pytest.raises(OSError, match="NVML: code 9"):
        NvidiaCards(calls=RecordedNvml(count=9)).read()


def test_an_unplugged_card_is_no_pool_any_more(tmp_path: Path) -> None:
    """MEM-1: cards are counted at each reading: one that was taken away is no pool, one that came is."""
    meminfo(tmp_path, 64, 50)
    calls = RecordedNvml([Gpu(Info(24 * GIB, GIB)), Gpu(Info(48 * GIB, GIB))])
    reader = with_nvidia(tmp_path, calls)
    assert set(reader.read()) == {"host", "gpu0", "gpu1"}
    calls.cards = calls.cards[:1]
    assert set(reader.read()) == {"host", "gpu0"}


def binding(monkeypatch: pytest.MonkeyPatch, calls: RecordedNvml | None) -> None:
    """Stand `calls` in the place of NVML's Python binding; None: it is not installed."""

    def load(name: str) -> RecordedNvml:
        assert name == "pynvml"
        if calls is None:
            raise ModuleNotFoundError(name)
        return calls

    monkeypatch.setattr(importlib, "import_module", load)


def test_the_default_reader_asks_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MEM-1: the reader of a machine has the pools of its NVIDIA cards, NVML being begun once."""
    meminfo(tmp_path, 64, 50)
    calls = RecordedNvml([Gpu(Info(24 * GIB, 20 * GIB))])
    binding(monkeypatch, calls)
    reader = pools.reader(None, tmp_path)
    assert [set(reader.read()) for _ in range(2)] == [{"host", "gpu0"}] * 2
    assert calls.begun == 1


@pytest.mark.parametrize("calls", [None, RecordedNvml([Gpu(Info(GIB, GIB))], init=9)])
def test_without_binding_or_driver_there_are_no_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: RecordedNvml | None
) -> None:
    """MEM-1: a machine without NVML's binding, or without its driver, is read as one without such cards."""
    meminfo(tmp_path, 64, 50)
    binding(monkeypatch, calls)
    assert set(pools.reader(None, tmp_path).read()) == {"host"}


def test_the_binding_is_not_loaded_for_recorded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MEM-1: `files:DIR` asks no NVML: the test bed has only the pools of its files."""
    (tmp_path / "host").write_text("total: 1 GiB\navailable: 1 GiB\n")
    calls = RecordedNvml()
    binding(monkeypatch, calls)
    assert set(pools.reader(f"files:{tmp_path}").read()) == {"host"}
    assert calls.begun == 0


# ---------------------------------------------------------------- the test bed


def test_files_are_pools(tmp_path: Path) -> None:
    """MEM-1: `files:DIR` reads one pool per file, anew each time."""
    (tmp_path / "host").write_text("total: 124 GiB\navailable: 17.5 GiB\n")
    (tmp_path / ".hidden").write_text("not read")
    reader = pools.reader(f"files:{tmp_path}")
    assert dict(reader.read()) == {"host": Reading(total=124 * GIB, available=int(17.5 * GIB))}
    (tmp_path / "host").write_text("total: 124 GiB\navailable: 100 GiB\n")
    assert reader.read()["host"].available == 100 * GIB


@pytest.mark.parametrize("text", ["", "total: 1 GiB\n", "total: 1 GiB\navailable: much\n"])
def test_a_broken_file_is_an_error(tmp_path: Path, text: str) -> None:
    """MEM-1: a pool's file without both sizes is an error that names the file."""
    (tmp_path / "gpu0").write_text(text)
    with pytest.raises(OSError, match="gpu0"):
        FileMemory(directory=tmp_path).read()


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    """MEM-1: a folder without a file is an error, not a host without memory."""
    with pytest.raises(OSError, match="one per pool"):
        FileMemory(directory=tmp_path).read()


def test_this_machine_can_be_read() -> None:
    """MEM-1: the default reader reads the machine that it runs on."""
    found = pools.reader(None).read()
    assert 0 < found["host"].available <= found["host"].total


def test_what_drivers_hold_is_read_from_a_file_too(tmp_path: Path) -> None:
    """MEM-1, WIN-3: on the test bed a third line says what GPU drivers hold of the pool."""
    (tmp_path / "host").write_text("total: 124 GiB\navailable: 30 GiB\ngtt: 86 GiB\n")
    assert pools.reader(f"files:{tmp_path}").read()["host"].pinned == 86 * GIB


# ---------------------------------------------------------------- the deadman, which has no reader


@pytest.mark.parametrize(
    "size", ["17.7 GiB", "157 GB", "512MiB", "2 MB", "3.5 TiB", "2 TB", "9 KiB", "64 KB", "0 B"]
)
def test_the_deadman_reads_the_figures_of_the_test_bed(tmp_path: Path, size: str) -> None:
    """MEM-1, WIN-4: where memory is read from files, the deadman reads the same number as the daemon."""
    (tmp_path / "host").write_text(f"total: 4 TiB\navailable: {size}\ngtt: 1 GiB\n")
    configured = f"files:{tmp_path}"
    found = pools.reader(configured).read()["host"].available
    assert kernel.available(pools.available_file(configured)) == found


def test_the_deadman_reads_the_kernel_as_the_daemon_does(tmp_path: Path) -> None:
    """MEM-1, WIN-4: MemAvailable of the kernel is the same number to both; without a reader it is read."""
    meminfo(tmp_path, 124, 17)
    found = machine(tmp_path).read()["host"].available
    assert kernel.available(str(tmp_path / "proc/meminfo")) == found == 17 * GIB
    assert pools.available_file(None) == "/proc/meminfo"


@pytest.mark.parametrize(
    "text",
    ["", "available: much\n", "MemAvailable: 4\n", "total: 1 GiB\n", "\xff", f"available: {'9' * 400} B\n"],
)
def test_the_deadman_knows_nothing_by_a_broken_file(tmp_path: Path, text: str) -> None:
    """WIN-4: a file that does not say how much is free is no number: nothing is guessed."""
    (tmp_path / "host").write_bytes(text.encode("latin-1"))
    assert kernel.available(str(tmp_path / "host")) is None
    assert kernel.available(str(tmp_path / "none")) is None


def test_the_deadman_waits_for_nobody_to_learn_what_is_free(tmp_path: Path) -> None:
    """WIN-4: what is no regular file is not read, a pipe that nobody writes to least of all."""
    os.mkfifo(tmp_path / "host")
    assert kernel.available(str(tmp_path / "host")) is None
    handle = os.open(tmp_path / "host", os.O_RDWR)
    os.write(handle, b"available: 2 GiB\n")
    assert kernel.available(str(tmp_path / "host")) is None
    os.close(handle)
    assert kernel.available(str(tmp_path)) is None
    assert kernel.available("/dev/zero") is None


def test_the_deadman_reads_a_figure_behind_an_editors_mark(tmp_path: Path) -> None:
    """WIN-4, BG-18: a byte order mark hides no figure, and of a file without end the beginning counts."""
    (tmp_path / "host").write_bytes(b"\xef\xbb\xbfavailable: 2 GiB\n" + b"x" * (1 << 20))
    assert kernel.available(str(tmp_path / "host")) == 2 * GIB
