"""The schedule, as a node answers for it that does not own it (R2, R3).

Decides nothing: every call is refused `not_head`, naming who owns the schedule. Asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hostler.domain.errors import NotHead
from hostler.wire.refusals import error_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """`ScheduleApi`, `WindowsApi`, `ModesApi`, `JobsApi` and `HistoryApi` of a host that owns no schedule.

    Its owners are `head`; `urls` has where they are asked.
    """

    head: Sequence[str]
    here: str
    urls: Callable[[], Mapping[str, str]] = dict

    async def refuse(self, *_: object, **__: object) -> NoReturn:
        """What every call comes to: refused `not_head`."""
        raise self._refusal()

    async def draw(self) -> Mapping[str, object]:
        """The schedule's part of a snapshot: no resource and no lease, but where they are."""
        return {"elsewhere": error_of(self._refusal())}

    def _refusal(self) -> NotHead:
        urls = self.urls()
        url = " or ".join(urls[it] for it in self.head if it in urls)
        return NotHead(head=" or ".join(self.head), here=self.here, url=url)

    reserve = renew = release = cancel = claim = register = lease = leases = refuse
    resources = why = fence = fence_now = refuse
    open = close = abort = windows = status = report = modes = plan = refuse
    start = update = finish = job = jobs = refuse
    read = backup = recover = refuse
