"""This machine as the client sees it: its elapsed clock, its dice. Decides nothing.

The only module of the client that reads a clock or draws a secret; everything else is handed a `Machine`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_BOOTTIME counts while the machine sleeps (LEASE-21); macOS' CLOCK_MONOTONIC does so, too."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
SECRET_BYTES: Final = 32
"""256 random bits, as keys have (SEC-1)."""
REQUEST_BYTES: Final = 16


def elapsed() -> float:
    """Seconds since this machine was started, sleep included; no wall clock moves it (LEASE-21)."""
    return time.clock_gettime(_CLOCK)


def boot() -> str:
    """The name of this run of the machine; `unknown` where the kernel tells none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _jitter() -> float:
    return secrets.randbits(53) / (1 << 53)


def _secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def _request_id() -> str:
    return secrets.token_hex(REQUEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Clocks and dice, to be replaced in tests.

    `jitter` is from 0 to 1. `secret` proves who holds a lease, `request_id` names one request for ever.
    """

    elapsed: Callable[[], float] = elapsed
    boot: Callable[[], str] = boot
    jitter: Callable[[], float] = _jitter
    secret: Callable[[], str] = _secret
    request_id: Callable[[], str] = _request_id
