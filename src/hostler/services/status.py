"""The whole picture of this host: what runs, what is held, what is asked for, and how the daemon is.

Decides how each fact of `services.picture` is found. Changes nothing and probes nothing: every value is
what this daemon knows at the moment (API-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hostler.domain.distributed import Sight, members_of
from hostler.domain.engine import State
from hostler.domain.fleet import (
    HOST_POOL,
    Engine,
    Escalating,
    Host,
    Pool,
    Profile,
    Route,
    Target,
    UpstreamTarget,
)
from hostler.domain.hold import HoldView, seconds_left
from hostler.domain.memory import Reading, floor_of, reserve_of, total_of
from hostler.domain.uncurated import is_uncurated
from hostler.domain.values import EngineId, rfc3339
from hostler.services.catalog_views import affordance_of
from hostler.services.event_queue import EventQueue
from hostler.services.gate import Gate
from hostler.services.holds import Holds
from hostler.services.lanes import InFlight, Lane, Lanes
from hostler.services.left_behind import left_behind
from hostler.services.needs import Clock, MemoryReader
from hostler.services.picture import (
    Blocked,
    DaemonStatus,
    EngineMemory,
    EngineStatus,
    Health,
    HoldStatus,
    HostStatus,
    MemberStatus,
    Picture,
    PoolStatus,
    RequestStatus,
    RouteStatus,
    StartProgress,
    TargetStatus,
)
from hostler.services.requests import Requests
from hostler.services.residents_down import residents_down, waits
from hostler.services.routes import Routes
from hostler.services.starting import Starting
from hostler.services.strays import strays_here
from hostler.services.suspensions import UNREADABLE

STUCK_S = 30.0
"""A loop, a keeper or an event log this late is not well, whatever else answers (REL-7)."""


WAITS = frozenset({"accepted", "loading"})
"""Phases of a request that nobody serves yet: one that an upstream serves has no engine either."""


@dataclass(eq=False, slots=True, kw_only=True)
class Vitals:
    """How the daemon's own work is going, written by its tasks (REL-7). `Clock.elapsed` seconds."""

    loop_lag_s: float = 0.0
    keeper_at: float | None = None
    warnings: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """What is fixed for the life of this daemon."""

    pid: int
    version: str
    started: datetime
    listen: tuple[str, ...]
    state_dir: str
    config_file: str | None
    keys_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Draws the picture. `sights` are the last looks at the members of distributed engines."""

    facts: DaemonFacts
    lanes: Lanes
    gate: Gate
    starting: Starting
    requests: Requests
    routes: Routes
    holds: Holds
    memory: MemoryReader
    clock: Clock
    queue: EventQueue
    vitals: Vitals = field(default_factory=Vitals)
    sights: Mapping[EngineId, Sequence[Sight]] = field(default_factory=dict)

    def picture(self) -> Picture:
        """All of it now."""
        return Picture(
            at=self.at(),
            health=self.health(),
            host=self.host(),
            hold=self.hold(),
            engines=self.engines(),
            routes=self.route_list(),
            in_flight=len(self.requests.table),
            requests=self.request_list(),
            daemon=self.daemon(),
        )

    def at(self) -> str:
        """The daemon's wall clock: what the times of an answer are told against."""
        return rfc3339(self.clock.now())

    def health(self) -> Health:
        """How late things are. A waiter is a request that no engine has taken yet."""
        now = self.clock.elapsed()
        waiting = [now - it.started for it in self.requests.all() if it.phase in WAITS]
        beat = self.vitals.keeper_at
        keeper_lag = None if beat is None else max(0.0, now - beat)
        log_lag = self.queue.lag_s()
        late = max(self.vitals.loop_lag_s, keeper_lag or 0.0, log_lag) >= STUCK_S
        return Health(
            status="stuck" if late else "ok",
            version=self.facts.version,
            loop_lag_s=round(self.vitals.loop_lag_s, 3),
            keeper_lag_s=None if keeper_lag is None else round(keeper_lag, 3),
            log_lag_s=round(log_lag, 3),
            waiters=len(waiting),
            oldest_waiter_s=round(max(waiting, default=0.0), 3),
        )

    def host(self) -> HostStatus:
        """Memory as it is read now, and whether engines are ours to start here."""
        host = self.lanes.config.fleet.host
        off = self.gate.orchestration_off()
        try:
            pools, error = self.memory.read(), None
        except OSError as failure:
            pools, error = {}, f"memory cannot be read: {failure.strerror or failure}"
        memory = {name: _pool(host, name, reading) for name, reading in pools.items()}
        return HostStatus(
            name=host.name,
            memory=memory,
            memory_error=error,
            orchestration=off is None,
            orchestration_off=off,
        )

    def hold(self) -> HoldStatus:
        """The hold, and whom it has refused since it was first seen (HOLD-8)."""
        view = self.holds.view()
        same = view.held and self.holds.seen.identity == view.identity
        return HoldStatus(
            held=view.held,
            state=view.state.value,
            path=view.path,
            owner=view.owner if view.held else None,
            reason=view.reason,
            until=_moment(view.until),
            seconds_left=seconds_left(view, self.clock.now()),
            allow=tuple(sorted(view.allow)),
            unreadable=view.defect,
            overlong=view.overlong,
            record=None if view.record is None else dict(view.record.raw),
            refused=self.holds.seen.count if same else 0,
            refusals=tuple(self.holds.seen.refused) if same else (),
        )

    def engines(self) -> tuple[EngineStatus, ...]:
        """Every engine of this host, in the config's order."""
        view = self.holds.view()
        return tuple(self._engine(lane, view) for lane in self.lanes.by_id.values())

    def engine(self, engine: str) -> EngineStatus:
        """One engine. Refuses `engine_not_found`."""
        return self._engine(self.lanes.get(engine), self.holds.view())

    def _engine(self, lane: Lane, view: HoldView) -> EngineStatus:
        engine = lane.engine
        idle = lane.ready and not lane.requests
        whole = None if engine.of is None else self.lanes.config.fleet.engines.get(engine.of)
        return EngineStatus(
            id=engine.id,
            host=engine.host,
            driver=engine.driver.value,
            state=lane.state.value,
            since=_moment(lane.status.since),
            why=lane.status.why,
            blocked=_blocked(lane, view, self.gate),
            suspended_by=lane.suspended_by,
            model=lane.launch.model,
            task=engine.task.value,
            url=lane.launch.url,
            port=lane.launch.port,
            pid=(lane.run.pid or None) if lane.run is not None else None,
            in_flight=len(lane.requests),
            waiting=lane.waiters,
            idle_s=round(self.clock.elapsed() - lane.used) if idle else None,
            starting=self._progress(lane),
            memory=EngineMemory(
                claim=_claim(engine), peak=dict(lane.peak), steady=dict(lane.taken), residue=lane.residue
            ),
            group=engine.group,
            serving_class=engine.serving_class.value,
            entry=engine.entry,
            uncurated=is_uncurated(engine),
            proven=None if engine.curation is None else engine.curation.proven,
            affordance=affordance_of(engine.serving_class),
            resident=engine.resident,
            essential=engine.essential,
            enabled=engine.enabled,
            load_s=lane.load_s,
            members=self._members(engine),
            of=engine.of,
            of_host=None if whole is None else whole.host,
            config="removed" if lane.removed else "changed" if lane.pending is not None else "current",
        )

    def _members(self, engine: Engine) -> tuple[MemberStatus, ...]:
        """Its members: those of this host as they are, the others as they were seen last (ENG-11)."""
        seen = {it.member: it.state for it in self.sights.get(engine.id, ())}
        rows = []
        for member in members_of(self.lanes.config.fleet, engine):
            lane = self.lanes.by_id.get(member.id)
            state = seen.get(member.id, State.UNKNOWN) if lane is None else lane.state
            shown = "unreachable" if state is None else state.value
            rows.append(MemberStatus(id=member.id, host=member.host, state=shown))
        return tuple(rows)

    def _progress(self, lane: Lane) -> StartProgress | None:
        if lane.state is not State.STARTING and lane.engine.id not in self.starting.queue:
            return None
        begun = lane.state is State.STARTING
        return StartProgress(
            elapsed_s=round(self.clock.elapsed() - lane.changed_at) if begun else 0,
            budget_s=round(self.starting.budget_s(lane)),
            text=self.starting.progress(lane),
        )

    def route_list(self) -> tuple[RouteStatus, ...]:
        """Every route that this gateway offers, with its active profile."""
        return tuple(self.route(route) for route in self.routes.table.routes.values())

    def route(self, route: Route) -> RouteStatus:
        """One route."""
        return RouteStatus(
            name=route.name,
            description=route.description,
            aliases=route.aliases,
            active=self.routes.table.active.get(route.name),
            strategy=route.strategy.kind,
            fallback=route.fallback,
            request_class=route.request_class,
            profiles={name: self._targets(profile) for name, profile in route.profiles.items()},
        )

    def _targets(self, profile: Profile) -> tuple[TargetStatus, ...]:
        if isinstance(profile, Escalating):
            return (self._to_engine(profile.fast, "fast"), self._to_engine(profile.large, "large"))
        return tuple(self._target(target) for target in profile.targets)

    def _target(self, target: Target) -> TargetStatus:
        if isinstance(target, UpstreamTarget):
            return TargetStatus(
                kind="upstream", name=target.upstream, role=None, model=target.model, state=None
            )
        return self._to_engine(target.engine, None)

    def _to_engine(self, engine: EngineId, role: str | None) -> TargetStatus:
        lane = self.lanes.by_id.get(engine)
        state = lane.state.value if lane is not None else None
        return TargetStatus(kind="engine", name=engine, role=role, model=None, state=state)

    def request_list(self) -> tuple[RequestStatus, ...]:
        """Every request under way, oldest first."""
        now = self.clock.elapsed()
        return tuple(_request(entry, now) for entry in self.requests.all())

    def _warnings(self) -> tuple[str, ...]:
        """What a person should know though everything answers (REL-1)."""
        failing = self.queue.failing
        told = [] if failing is None else [f"the event log cannot be written: {failing}"]
        catalog = self.lanes.config.fleet.catalog
        if catalog.trouble:
            told.append(f"the catalog: {catalog.trouble}")
        if self.routes.broken is not None:
            told.append(
                f"routes.json: {self.routes.broken};"
                " a route that no lease pointed has the config's first profile"
            )
        told += [
            f"suspended.json of {lane.engine.id} cannot be read: it counts as suspended until"
            f" `hostler resume {lane.engine.id}`"
            for lane in self.lanes.by_id.values()
            if UNREADABLE in lane.suspended_by
        ]
        told += residents_down(self.gate)
        told += strays_here(self.gate)
        told += left_behind(self.gate, self.holds)
        known = self.vitals
        return (*known.config, *known.warnings, *known.leases, *known.nodes, *known.rows, *told)

    def daemon(self) -> DaemonStatus:
        """The daemon's own facts and warnings."""
        facts = self.facts
        return DaemonStatus(
            pid=facts.pid,
            version=facts.version,
            started=rfc3339(facts.started),
            uptime_s=max(0, round((self.clock.now() - facts.started).total_seconds())),
            listen=facts.listen,
            state_dir=facts.state_dir,
            config_file=facts.config_file,
            hold_path=self.holds.view().path,
            keys_open=facts.keys_open,
            events_dropped=self.queue.dropped,
            warnings=self._warnings(),
        )


def _claim(engine: Engine) -> dict[str, int]:
    """What it claims: its own `memory`, else its entry's measured peak (MEM-2)."""
    found = engine.curation
    if engine.need or found is None or found.peak is None:
        return dict(engine.need)
    return {HOST_POOL: found.peak}


def _pool(host: Host, name: str, reading: Reading) -> PoolStatus:
    """One pool as it is read, with what the gate leaves free of it (MEM-2, MEM-3)."""
    pool = next((pool for pool in host.pools if pool.name == name), Pool(name=name))
    return PoolStatus(
        total=total_of(pool, reading),
        available=reading.available,
        used=reading.used,
        reserve=reserve_of(pool, reading),
        floor=floor_of(pool, reading),
    )


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def _blocked(lane: Lane, view: HoldView, gate: Gate) -> Blocked | None:
    """What keeps a stopped engine down; one that runs, or is not ours, is kept by nothing.

    That it can never start here comes before the hold or lease that it waits for (GATE-1).
    """
    if not waits(lane):
        return None
    never = gate.unlaunchable(lane)
    if never is not None:
        return Blocked(code=never.code, owner="", until=None, why=str(never))
    if not view.allows(lane.engine.id):
        return Blocked(code="box_reserved", owner=view.owner, until=_moment(view.until))
    leased = gate.holding(lane)
    if leased is None:
        return None
    return Blocked(code="leased", owner=leased.holder, until=_moment(leased.until))


def _request(entry: InFlight, now: float) -> RequestStatus:
    first = entry.first_byte
    return RequestStatus(
        id=entry.id,
        key=entry.requester.key,
        client=entry.requester.client,
        ip=entry.requester.ip,
        route=entry.route,
        engine=entry.engine,
        path=entry.path,
        phase=entry.phase,
        seconds=round(now - entry.started, 3),
        first_byte_s=None if first is None else round(first - entry.started, 3),
        bytes_in=entry.bytes_in,
        bytes_out=entry.bytes_out,
        degraded=entry.degraded,
    )
