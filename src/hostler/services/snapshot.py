"""The schedule's part of a snapshot: resources, leases, jobs, the fence, from one view of the store (FEED-1).

Decides that each lease and job says by `seq` which event changed it last: the snapshot's cursor may be older,
and a reader passes over the events of a lease or job up to its `seq` (FEED-3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.job import Job
from hostler.domain.journal import Entry
from hostler.domain.lease import Lease, LeaseId, State
from hostler.services.job_rows import JobRows
from hostler.services.needs import Clock
from hostler.services.present import Present
from hostler.services.scene import Scene
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.services.schedule_views import fence_view, lease_view, resource_view

RUNNING: Final = frozenset({State.ACTIVATING, State.RELEASING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Draws what the store has. `wrong` tells what of an active lease is not as it should be now."""

    config: Present
    store: ScheduleStore
    clock: Clock
    wrong: Callable[[Lease], tuple[str, ...]] = lambda _: ()
    rows: JobRows = field(default_factory=JobRows)

    async def draw(self) -> Mapping[str, object]:
        """`resources`, `leases`, `jobs`, `fence` as the wire's values. Refuses `schedule_unavailable`."""
        found = await self.store.read(self._found)
        # Thousands of rows take their time: neither the loop nor the store's thread waits for it.
        return await asyncio.to_thread(self._told, found)

    def _found(self, tx: Tx) -> Found:
        live = tx.live()
        return Found(
            scene=Scene(
                fleet=self.config.fleet,
                live=live,
                fence=tx.fence(),
                now=self.clock.moment(),
                wrong=self.wrong,
            ),
            journals={it.id: tx.journal(it.id) for it in live if it.plan},
            jobs=tx.open_jobs(),
        )

    def _told(self, found: Found) -> Mapping[str, object]:
        scene, journals = found.scene, found.journals
        running = [it.id for it in scene.live if it.state in RUNNING]
        return {
            "resources": [resource_view(it, scene) for it in scene.fleet.resources.values()],
            "leases": [lease_view(it, scene, journal=journals.get(it.id, ())) for it in scene.live],
            "jobs": self.rows.told(found.jobs, scene.now),
            "fence": fence_view(scene.fence, running, scene.now),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one view of the store has. `journals` of the leases that have a plan."""

    scene: Scene
    journals: Mapping[LeaseId, Sequence[Entry]]
    jobs: Sequence[Job]
