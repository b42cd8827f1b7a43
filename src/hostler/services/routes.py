"""Routes of this node: the present table, and the switch of a profile (GW-1, GW-3).

Decides nothing about requests. The table is swapped by reference; the active profiles are kept in
`routes.json`, so that a switch survives restarts. A file that cannot be read is kept as found; a route that a
lease has is then where that lease pointed it (REL-1), and of the others the config's first values are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hostler.domain.errors import StoreFull
from hostler.domain.events import Event
from hostler.domain.fleet import Fleet, frozen
from hostler.domain.holding import ROUTE
from hostler.domain.registry import Row
from hostler.domain.route import Table, build, switched, with_rows
from hostler.domain.values import Requester, shorten
from hostler.services.guard import Guard
from hostler.services.lanes import heard
from hostler.services.needs import Clock, Events, StateFiles

FILE = "routes"


@dataclass(eq=False, slots=True, kw_only=True)
class Current:
    """The one reference that is swapped. `kept` are the profiles that somebody switched to, by route.

    `rows` are peers' rows that an id leads to. `lost`: what was kept was not there, or could not be read, and
    no lease was asked yet for its routes.
    """

    table: Table
    kept: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    broken: str | None = None
    rows: Sequence[Row] = ()
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The routes that this node's gateway offers."""

    files: StateFiles
    clock: Clock
    events: Events
    current: Current
    guard: Guard = field(default_factory=Guard)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def table(self) -> Table:
        """The table now. Take it once per request."""
        return self.current.table

    @property
    def broken(self) -> str | None:
        """Why routes.json could not be read; None when it could."""
        return self.current.broken

    def retable(self, fleet: Fleet) -> None:
        """The routes of another config, with what was switched (CONF-3). To be called under `lock`.

        A switch to a profile that the config before had no more is forgotten: whoever puts such a profile in
        again does not switch to it. While a lease has the route it is the lease's (F26).
        """
        before = self.table.routes
        kept = {
            name: profile
            for name, profile in self.current.kept.items()
            if name not in before
            or profile in before[name].profiles
            or self.guard.holding(ROUTE, name) is not None
        }
        self.current.kept = frozen(kept)
        self.current.table = build(fleet, self.current.kept, self.current.rows)

    async def share(self, rows: Sequence[Row]) -> None:
        """From here on these rows of peers are resolved, and no others (SYNC-5)."""
        async with self.lock:
            self.begin(rows)

    def begin(self, rows: Sequence[Row]) -> None:
        """As `share`, before anybody asks anything."""
        self.current.rows = rows
        self.current.table = with_rows(self.current.table, rows)

    def recall(self, pointed: Mapping[str, str]) -> None:
        """Let routes be where leases `pointed` them, of which nothing was kept that could be read (REL-1)."""
        self.current.lost = False
        lacking = {name: it for name, it in pointed.items() if name not in self.current.kept}
        if not lacking:
            return
        self.current.kept = frozen({**lacking, **self.current.kept})
        self.current.table = build(self.current.table.fleet, self.current.kept, self.current.rows)
        if self.current.broken is None:
            self.current.broken = "it is not there, and was when a lease pointed a route"

    def active(self, name: str) -> str | None:
        """The active profile of a route; None when it has none."""
        return self.table.active.get(name)

    async def switch(self, name: str, profile: str, by: Requester) -> None:
        """Make `profile` the active one, unless somebody's lease has the route (LEASE-15): 409 `leased`.

        Otherwise as `point`.
        """
        self.guard.check(ROUTE, name, by, self.clock.now())
        await self.point(name, profile, by)

    async def point(self, name: str, profile: str, by: Requester) -> None:
        """Make `profile` the active one: durable, then swapped; also when the caller leaves meanwhile.

        Refuses unknown routes and profiles, and `store_full`; the old profile stays active then. A step of a
        lease comes here: it was fenced.
        """
        task = asyncio.create_task(self._switch(name, profile, by))
        task.add_done_callback(heard)
        await asyncio.shield(task)

    async def _switch(self, name: str, profile: str, by: Requester) -> None:
        async with self.lock:
            before = self.active(name)
            table = switched(self.table, name, profile)
            kept = {**self.current.kept, name: profile}
            try:
                if self.current.broken is not None:
                    await asyncio.to_thread(self.files.set_aside, FILE)
                await asyncio.to_thread(self.files.save, FILE, {"active": kept})
            except OSError as error:
                raise StoreFull(file=f"{FILE}.json", why=error.strerror or str(error)) from error
            self.current.table, self.current.kept, self.current.broken = table, frozen(kept), None
        self.events.emit(
            Event(
                type="route_switched",
                at=self.clock.now(),
                actor=by.tag(),
                subject=frozen({"route": name}),
                before=before,
                after=profile,
            )
        )


def load(fleet: Fleet, files: StateFiles) -> Current:
    """The table of `fleet` with the active profiles that were kept, as far as they can be read."""
    try:
        found = files.load(FILE)
    except ValueError as error:
        return Current(table=build(fleet, {}), broken=str(error), lost=True)
    kept = found.get("active") if found is not None else {}
    if not isinstance(kept, dict):
        return Current(table=build(fleet, {}), broken="it has no object `active`", lost=True)
    good = {name: profile for name, profile in kept.items() if isinstance(profile, str)}
    odd = ", ".join(shorten(name) for name in kept if name not in good)
    return Current(
        table=build(fleet, good),
        kept=frozen(good),
        broken=f"it has no profile of {odd}" if odd else None,
        lost=found is None or bool(odd),
    )
