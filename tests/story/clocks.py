"""Clocks of a daemon that a test moves: the wall clock alone, all of them, or those of a later boot time.

A moved clock is libfaketime's; boot time at a start is a time namespace's. Both are of that daemon alone: the
test and the commands keep this machine's time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.story.house import House

LIBRARIES: Final = "usr/lib/*/faketime/libfaketimeMT.so.1"
PACKAGE: Final = "needs libfaketime (.ci/run installs it)"


@dataclass(kw_only=True)
class Clocks:
    """The clocks of a house's daemon. `boot`: the elapsed clocks move as well, as when it was suspended."""

    it: House
    boot: bool = False
    seconds: float = 0.0
    file: Path = field(init=False)

    def __post_init__(self) -> None:
        found = next(Path("/").glob(LIBRARIES), None)
        if found is None:
            pytest.skip(PACKAGE)
        self.file = self.it.root / "clock"
        self.jump(0.0)
        self.it.around |= {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            # A look at the file for each look at a clock is dear: only where the very first one counts.
            **({"FAKETIME_NO_CACHE": "1"} if self.boot else {"FAKETIME_CACHE_DURATION": "1"}),
            "FAKETIME_DONT_FAKE_MONOTONIC": "0" if self.boot else "1",
        }

    def jump(self, seconds: float) -> None:
        """So many seconds later than now, or earlier when negative."""
        self.seconds += seconds
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{self.seconds:+.3f}s\n")
        beside.replace(self.file)


def started_later(it: House, seconds: float) -> None:
    """The daemon's next start is so long after now, as its boot time tells; it is the same boot."""
    shift = f"{seconds:.0f}"
    unshare = shutil.which("unshare") or "unshare"
    rights = () if os.geteuid() == 0 else ("--user", "--map-current-user")
    wrap = (unshare, *rights, "--time", "--boottime", shift)
    try:
        subprocess.run((*wrap, "true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine makes no time namespace: {error}")
    it.wrap = wrap
