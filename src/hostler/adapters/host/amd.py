"""The memory of AMD cards, from amdgpu's sysfs (MEM-1). rocm-smi would see the carve-out only.

Decides which cards have memory of their own and which share the host's. VRAM is never part of
MemTotal, be it chips on a card or a carve-out of the firmware's: it is a pool of its own. GTT is
the host's memory lent to the card: it is already in MemAvailable, so it is never added, it only
bounds what a unified card may get.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.domain.memory import Reading

VENDOR: Final = "0x1002"
APU_METRICS: Final = frozenset({2, 3})
"""Revisions of the `gpu_metrics` table that APUs have (its third byte); cards of their own have 1."""
SMALL_CARVE_OUT: Final = 4 << 30
"""Bytes of VRAM up to which a card that shows no metrics is taken for an APU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One AMD card. `vram` and `gtt` in bytes; `unified`: works in the host's memory."""

    name: str
    vram: Reading
    gtt: Reading
    unified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdCards:
    """Reads below `root`: `/` on a real machine, a recorded tree in tests."""

    root: Path = Path("/")

    def read(self) -> tuple[Card, ...]:
        """Every amdgpu card, by its number; empty where there is none. Raises OSError when one breaks off."""
        found = (self.root / "sys/class/drm").glob("card[0-9]*/device/mem_info_vram_total")
        devices = sorted((path.parent for path in found), key=_number)
        return tuple(_card(device) for device in devices if _is_amd(device))


def _number(device: Path) -> int:
    return int(device.parent.name.removeprefix("card"))


def _is_amd(device: Path) -> bool:
    return (device / "vendor").read_text().strip() == VENDOR


def _card(device: Path) -> Card:
    vram, gtt = _reading(device, "vram"), _reading(device, "gtt")
    unified = vram.total < gtt.total and _is_apu(device, vram)
    return Card(name=device.parent.name, vram=vram, gtt=gtt, unified=unified)


def _reading(device: Path, kind: str) -> Reading:
    total = _bytes(device / f"mem_info_{kind}_total")
    return Reading(total=total, available=total - _bytes(device / f"mem_info_{kind}_used"))


def _bytes(path: Path) -> int:
    text = path.read_text().strip()
    if not text.isdigit():
        raise OSError(f"{path} is no number of bytes: {text!r}")
    return int(text)


def _is_apu(device: Path, vram: Reading) -> bool:
    try:
        header = (device / "gpu_metrics").read_bytes()[:4]
    except OSError:  # Not every kernel shows the table, and not for every card.
        header = b""
    if len(header) == 4:
        return header[2] in APU_METRICS
    return vram.total <= SMALL_CARVE_OUT
