"""The schedule without its daemon: what `history --offline` and `schedule restore` ask for (INTERFACE-3).

Decides nothing: it is the seam between the commands and what does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class OfflineSchedule(Protocol):
    """The files of the schedule, as commands use them that need no daemon."""

    def history(
        self, *, lease: str | None, job: str | None, since_s: float | None
    ) -> Sequence[Mapping[str, object]]:
        """Events as the feed tells them, oldest first, from the history files alone (HIST-2)."""
        ...

    def restore(self, file: str) -> Mapping[str, object]:
        """Put the backup `file` in the place of the schedule's store, which gets a new epoch (REL-4).

        What was there is kept beside; the answer says where (`file`, `kept_as`, `epoch`). Refuses
        `daemon_runs` while the daemon runs, `invalid_request` for what is no backup.
        """
        ...
