"""The memory of NVIDIA cards, through NVML (MEM-1). Never ran on the real thing: tested from recordings.

Decides only what an answer means: a card that says NOT_SUPPORTED (most drivers of unified boxes do) has no
memory of its own, so the host's MemAvailable is its pool. Nor has one whose name is a unified chip's, should
its driver answer: what it tells is the host's memory once more.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Final, Protocol, cast

from hostler.domain.memory import Reading

PACKAGE: Final = "pynvml"
NOT_SUPPORTED: Final = 3
"""NVML's return code of a question that this device does not answer."""

UNIFIED: Final = ("GB10", "Thor", "Orin", "Xavier", "Tegra")
"""Words in the names of chips that work in the host's memory."""


class MemoryInfo(Protocol):
    """NVML's answer, in bytes."""

    @property
    def total(self) -> int: ...
    @property
    def free(self) -> int: ...


class Nvml(Protocol):
    """The calls of NVML that are made, by the names of its Python binding."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - NVML's name
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802 - NVML's name
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802 - NVML's name
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...  # noqa: N802 - NVML's name
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> MemoryInfo: ...  # noqa: N802 - NVML's name


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaCards:
    """Reads through `calls`."""

    calls: Nvml

    def read(self) -> tuple[Reading | None, ...]:
        """One entry per card by its index, None for one without memory of its own. Raises OSError."""
        try:
            count = self.calls.nvmlDeviceGetCount()
            return tuple(self._card(index) for index in range(count))
        except self.calls.NVMLError as error:
            raise OSError(f"NVML: {error}") from error

    def _card(self, index: int) -> Reading | None:
        handle = self.calls.nvmlDeviceGetHandleByIndex(index)
        if _unified(self.calls.nvmlDeviceGetName(handle)):
            return None
        try:
            info = self.calls.nvmlDeviceGetMemoryInfo(handle)
        except self.calls.NVMLError as error:
            if getattr(error, "value", None) == NOT_SUPPORTED:
                return None
            raise
        return Reading(total=info.total, available=info.free)


def _unified(name: str | bytes) -> bool:
    """Whether a card of that name has no memory of its own. Old bindings give bytes."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return any(chip in text.split() for chip in UNIFIED)


def nvml() -> Nvml | None:
    """NVML ready for use; None where its binding is not installed or no driver answers."""
    try:
        calls = cast("Nvml", importlib.import_module(PACKAGE))
    except ImportError:
        return None
    try:
        calls.nvmlInit()
    except calls.NVMLError:  # The binding is there, the driver is not: a host without such cards.
        return None
    return calls
