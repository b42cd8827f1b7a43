"""All memory pools of this host under the names that the config uses (MEM-1).

Decides how readings become pools: `host` is the main memory, and the one pool of a unified box;
`gpu0`, `gpu1`, … are cards with memory of their own, AMD's first. No byte is in two pools.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.host.amd import AmdCards
from hostler.adapters.host.linux import LinuxMemory
from hostler.adapters.host.nvidia import NvidiaCards, nvml
from hostler.domain.fleet import HOST_POOL, frozen
from hostler.domain.memory import Pools, Reading
from hostler.domain.values import parse_size

FILES: Final = "files:"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """The MemoryReader of a Linux host. `nvidia` None where no NVML answers."""

    linux: LinuxMemory
    amd: AmdCards
    nvidia: NvidiaCards | None = None

    def read(self) -> Pools:
        """Every pool now. Raises OSError when the machine cannot be read."""
        host = self.linux.read()
        own: list[Reading] = []
        for card in self.amd.read():
            if card.unified:
                lent = min(host.available, card.gtt.available)
                host = Reading(total=host.total, available=lent, pinned=(host.pinned or 0) + card.gtt.used)
            else:
                own.append(card.vram)
        if self.nvidia is not None:
            own += [reading for reading in self.nvidia.read() if reading is not None]
        return frozen({HOST_POOL: host} | {f"gpu{index}": reading for index, reading in enumerate(own)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMemory:
    """`memory.reader: files:DIR`, the test bed: one file per pool, named as it, with two lines.

    `total: 124 GiB` and `available: 17.7 GiB`; a third, `gtt: 0 GiB`, is what GPU drivers hold of it. Names
    that begin with a dot are not read.
    """

    directory: Path

    def read(self) -> Pools:
        """Every pool that has a file now. Raises OSError when there is none or one is not as above."""
        paths = sorted(path for path in self.directory.iterdir() if not path.name.startswith("."))
        if not paths:
            raise OSError(f"{self.directory} has no file: one per pool is needed, such as {HOST_POOL}")
        return frozen({path.name: self._pool(path) for path in paths})

    def _pool(self, path: Path) -> Reading:
        pairs = (line.partition(":") for line in path.read_text().splitlines())
        found = {name.strip(): value for name, _, value in pairs}
        try:
            return Reading(
                total=parse_size(found["total"]),
                available=parse_size(found["available"]),
                pinned=parse_size(found["gtt"]) if "gtt" in found else None,
            )
        except (KeyError, ValueError) as error:
            raise OSError(f"{path} needs the lines `total: SIZE` and `available: SIZE`: {error}") from None


def reader(configured: str | None, root: Path = Path("/")) -> MachineMemory | FileMemory:
    """The reader that a host's `memory.reader` asks for; None is the machine itself."""
    if configured is not None:
        return FileMemory(directory=Path(configured.removeprefix(FILES)))
    calls = nvml()
    nvidia = NvidiaCards(calls=calls) if calls else None
    return MachineMemory(linux=LinuxMemory(root=root), amd=AmdCards(root=root), nvidia=nvidia)


def available_file(configured: str | None) -> str:
    """The file by which the deadman, which has no reader, knows what is available of the main pool.

    It says the same as the `reader` of that `memory.reader`, but what a card of a unified box lends.
    """
    if configured is None:
        return "/proc/meminfo"
    return str(Path(configured.removeprefix(FILES)).absolute() / HOST_POOL)
