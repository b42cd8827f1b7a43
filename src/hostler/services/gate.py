"""The gate's service: gathers the facts, asks `domain.gate`, and tells who was refused (GATE-1, HOLD-14).

Decides which facts are read when: the cheap ones first, so that a refusal by class, suspension or hold
never waits for the machine to be read. Starts and stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hostler.domain import eviction, gate
from hostler.domain.curation import asked, build_problem, topology_problem
from hostler.domain.engine import State
from hostler.domain.errors import Leased, NotLaunchable, Refusal
from hostler.domain.events import Event
from hostler.domain.eviction import Eviction, Running
from hostler.domain.fence import FenceUp
from hostler.domain.fleet import HOST_POOL, DriverKind, frozen
from hostler.domain.gate import Allow, Ask, Facts, Live
from hostler.domain.gate_words import Check, explain
from hostler.domain.holding import ENGINE, Holding, closing
from hostler.domain.memory import Pools, effective_need, never_fits, pool_of, reserve_of
from hostler.domain.moment import shown
from hostler.domain.start_policy import start_budget_s
from hostler.domain.uncurated import barred
from hostler.domain.values import EngineId, HostName
from hostler.services.guard import Guard
from hostler.services.holds import Holds
from hostler.services.lanes import Lane, Lanes
from hostler.services.needs import (
    Clock,
    Events,
    Links,
    MemberGates,
    MemoryReader,
    Models,
    PortTable,
    Programs,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether an engine of this host may start. `disabled` is why nothing may, None when it may (GATE-4).

    `members` asks the gates of a distributed engine's members, each on its own host (ENG-11).
    """

    lanes: Lanes
    holds: Holds
    memory: MemoryReader
    ports: PortTable
    models: Models
    programs: Programs
    links: Links
    clock: Clock
    events: Events
    disabled: str | None = None
    members: MemberGates | None = None
    guard: Guard = field(default_factory=Guard)
    deferred: dict[tuple[str, str], str] = field(default_factory=dict)

    def orchestration_off(self) -> str | None:
        """Why nothing is started or stopped on this host; None when it is ours to orchestrate."""
        if self.disabled is not None:
            return self.disabled
        return None if self.lanes.config.fleet.host.orchestration else "orchestration: false in the config"

    def startable(self, lane: Lane) -> None:
        """Refuses `not_launchable` for an engine that is only used, never started or stopped by us."""
        if lane.launch.driver == DriverKind.EXTERNAL:
            raise NotLaunchable(engine=lane.engine.id, why="it is external: only used, never touched")

    def admit(self, ask: Ask) -> None:
        """The checks that need no look at the machine; raises the refusal, and tells it (HOLD-14)."""
        refusal = self.peek(ask)
        if refusal is not None:
            self.tell(ask, refusal)
            raise refusal

    def peek(self, ask: Ask) -> Refusal | None:
        """As `admit`, but answers instead of raising, and tells nobody."""
        found = gate.decide(self.proven(ask), self._cheap(self.lanes.get(ask.engine)))
        return found if isinstance(found, Refusal) else None

    def probe(self, ask: Ask) -> Refusal | None:
        """The whole gate as it stands now, live facts too; answers instead of raising, tells nobody."""
        ask, cheap = self.proven(ask), self._cheap(self.lanes.get(ask.engine))
        found = gate.decide(ask, cheap)
        if isinstance(found, Allow) and cheap.state is not State.READY:
            found = gate.decide(ask, self._whole(cheap, ask.lease))
        return found if isinstance(found, Refusal) else None

    def unlaunchable(self, lane: Lane) -> Refusal | None:
        """Why none of its starts can come to anything here until the box or the config is mended."""
        return gate.unlaunchable(self._cheap(lane))

    async def survey(self, lane: Lane) -> None:
        """Ask its binary which build it is, where its entry needs one: the checks then know (CAT-8)."""
        found, argv = lane.engine.curation, lane.launch.argv
        if found is not None and found.build is not None and argv:
            await self.programs.ask(argv[0], lane.launch.env, lane.launch.cwd)

    async def topology(self, lane: Lane) -> str | None:
        """Why a link that its shape goes over is not good enough now; None when all are (CAT-8)."""
        found = lane.engine.curation
        if found is None or found.crossings == ():
            return None
        return topology_problem(found.crossings, await self.links.probe(found.crossings or ()))

    async def member_refusal(self, lane: Lane, ask: Ask) -> Refusal | None:
        """What the gate of one of its members says against the start of the whole, None when nothing is."""
        if self.members is None or not lane.engine.members:
            return None
        return await self.members.refusal(lane.engine, self.proven(ask))

    def decide(self, ask: Ask, topology: str | None = None, members: Refusal | None = None) -> Allow:
        """The whole gate, live; raises the refusal, and tells it.

        `topology` is what its links said now, `members` what the gates of its members did.
        """
        ask = self.proven(ask)
        self.admit(ask)
        lane = self.lanes.get(ask.engine)
        found = gate.decide(ask, self._whole(self._cheap(lane), ask.lease, topology, members))
        if isinstance(found, Refusal):
            self.tell(ask, found)
            raise found
        return found

    def closing(self, engine: EngineId) -> Refusal | None:
        """Why a running engine takes no new request: its window is past its soft deadline (WIN-2)."""
        lane = self.lanes.by_id.get(engine)
        held = self.guard.holding(ENGINE, engine) if lane is None else self.holding(lane)
        return None if held is None else closing(engine, held, self.clock.now())

    def holding(self, lane: Lane) -> Holding | None:
        """The lease that has the engine; of a distributed one also what has its member that answers."""
        held = self.guard.holding(ENGINE, lane.engine.id)
        return self.holding(lane.server) if held is None and lane.server is not None else held

    def explain(
        self, ask: Ask, topology: str | None = None, members: Refusal | None = None
    ) -> tuple[Check, ...]:
        """Every check with its result, live (GATE-2)."""
        ask, cheap = self.proven(ask), self._cheap(self.lanes.get(ask.engine))
        return explain(ask, self._whole(cheap, ask.lease, topology, members))

    def proven(self, ask: Ask) -> Ask:
        """The wish with the lease that its caller names, where it is theirs (LEASE-15)."""
        if ask.lease is not None or not ask.requester.lease:
            return ask
        return replace(ask, lease=self.guard.proven(ask.requester))

    def _cheap(self, lane: Lane) -> Facts:
        engine = lane.engine
        missing = [name for name in engine.files if self.models.size(name) is None]
        # What stands first in a container's words is an argument, and its program is in the image.
        words = lane.launch.argv if engine.driver is DriverKind.PROCESS else ()
        program = words[0] if words else None
        if program is not None and not self.programs.exists(program, lane.launch.env, lane.launch.cwd):
            missing.append(program)
        fleet, curated = self.lanes.config.fleet, engine.curation
        need = self.need(lane)
        pools = self._pools() if need and not lane.ready else None
        return Facts(
            engine=engine,
            here=fleet.here,
            state=lane.state,
            failed=lane.status.why if lane.state is State.FAILED else "",
            orchestration_off=self.orchestration_off(),
            barred=barred(fleet, engine),
            missing=tuple(missing),
            build=self._build(lane),
            context_most=curated.context_most if curated is not None else None,
            never=never_fits(need, fleet.host, pools) if need and pools is not None else None,
            suspended_by=lane.suspended_by,
            hold=self.holds.view(),
            leased=self.holding(lane),
            opened=self._opened(lane),
            fence=self._fence(),
            now=self.clock.now(),
        )

    def _opened(self, lane: Lane) -> bool:
        """Whether a window has it whose mode it is of: that was opened with its class named (CAT-5)."""
        held, fleet, engine = self.holding(lane), self.lanes.config.fleet, lane.engine
        mode = None if held is None else fleet.modes.get(held.mode)
        return mode is not None and (engine.of or engine.id) in mode.hosts.get(HostName(fleet.here), ())

    def _build(self, lane: Lane) -> str | None:
        """Why its binary is not the build that its entry needs; one that was not asked yet is left to later.

        A container or a unit has no binary of ours to ask.
        """
        found, argv = lane.engine.curation, lane.launch.argv
        if found is None or found.build is None or not argv:
            return None
        report = self.programs.report(argv[0], lane.launch.env, lane.launch.cwd)
        return None if report is None else build_problem(found.build, report)

    def _fence(self) -> FenceUp | None:
        now = self.clock.moment()
        fence = self.guard.fence(now)
        if fence is None:
            return None
        readable = fence.unreadable is None
        return FenceUp(
            reason=fence.reason if readable else f"its record {fence.unreadable}",
            by=fence.by,
            until=shown(fence.until, now) if readable else None,
        )

    def _whole(
        self,
        cheap: Facts,
        lease: str | None,
        topology: str | None = None,
        members: Refusal | None = None,
    ) -> Facts:
        """The facts with those of the machine; what `lease` itself has is no other's to it."""
        lane = self.lanes.get(cheap.engine.id)
        need, pools = self.need(lane), self._pools()
        plan = eviction.plan(
            lane.engine,
            self._asked(lane, need or {}, pools),
            [self._running(it, lease) for it in self.lanes.by_id.values() if _counts(it)],
            self.lanes.config.fleet.host,
            pools,
            self.clock.elapsed(),
        )
        live = Live(
            port_holder=self._port_holder(lane, plan),
            port=lane.launch.port,
            topology=topology,
            need=need,
            measuring=self._measuring(lane),
            eviction=plan,
            members=members,
        )
        return replace(cheap, live=live)

    def _pools(self) -> Pools:
        """The live readings; a machine that cannot be read has none, and what needs memory is refused."""
        try:
            return self.memory.read()
        except OSError:
            return {}

    def need(self, lane: Lane) -> Mapping[str, int] | None:
        """What it needs, by pool; None when nobody knows (MEM-2). A distributed one: only its members do."""
        if lane.engine.members:
            return frozen({})
        found = lane.engine.curation
        peak = frozen({HOST_POOL: found.peak}) if found is not None and found.peak is not None else None
        return effective_need(lane.engine.need, lane.peak, peak)

    def _asked(self, lane: Lane, need: Mapping[str, int], pools: Pools) -> Mapping[str, int]:
        """The need, and what its entry says must be available before its start (CAT-8)."""
        found, reading = lane.engine.curation, pools.get(HOST_POOL)
        if found is None or found.available is None or reading is None:
            return need
        reserve = reserve_of(pool_of(self.lanes.config.fleet.host, HOST_POOL), reading)
        return asked(need, HOST_POOL, found.available, reserve)

    def _running(self, lane: Lane, lease: str | None) -> Running:
        held = self.guard.holding(ENGINE, lane.engine.id)
        return Running(
            engine=lane.engine,
            state=lane.state,
            held=lane.taken or self.need(lane) or frozen({}),
            in_flight=len(lane.requests),
            used=lane.used,
            ready_at=lane.ready_at,
            load_s=lane.load_s or 0.0,
            changed_at=lane.changed_at,
            budget_s=start_budget_s(lane.engine, self._model_bytes(lane)),
            leased=held is not None and held.lease != lease,
        )

    def _model_bytes(self, lane: Lane) -> int:
        return sum(self.models.size(name) or 0 for name in lane.engine.files)

    def _port_holder(self, lane: Lane, plan: Eviction | eviction.Cannot) -> str | None:
        """Who else has the port: nobody when an engine of ours that must go first holds it.

        Where there is no plan the planner's refusal says which engine is in the way, and why. A distributed
        engine listens nowhere itself.
        """
        if lane.engine.members:
            return None
        others = (it for it in self.lanes.by_id.values() if it is not lane and it.run is not None)
        sharing = {it.engine.id for it in others if it.launch.port == lane.launch.port}
        if sharing and (isinstance(plan, eviction.Cannot) or sharing & set(plan.stop)):
            return None
        return self.ports.holder(lane.launch.address, lane.launch.port)

    def _measuring(self, lane: Lane) -> EngineId | None:
        """Another engine of this host that loads without anybody knowing its need (MEM-2)."""
        for other in self.lanes.by_id.values():
            if other is not lane and other.unmeasured:
                return other.engine.id
        return None

    def tell(self, ask: Ask, refusal: Refusal) -> None:
        """One event for each refused start, with who asked; a timer's once per hold or lease, and subject."""
        view = self.holds.view()
        if refusal.code == "box_reserved":
            self.holds.refused(view, ask.engine, ask.requester, ask.cause)
        if ask.cause.timer:
            key = (str(ask.engine), refusal.code)
            whose = refusal.lease if isinstance(refusal, Leased) else view.identity
            if self.deferred.get(key) == whose:
                return
            self.deferred[key] = whose
        self.events.emit(
            Event(
                type="deferred" if ask.cause.timer else "start_refused",
                at=self.clock.now(),
                actor=ask.requester.tag(),
                subject=frozen({"engine": str(ask.engine), "host": str(self.lanes.config.fleet.here)}),
                after=refusal.code,
                message=str(refusal),
                facts=frozen({"cause": ask.cause.value, "route": ask.route}),
            )
        )

    def forget(self, engine: EngineId | None = None) -> None:
        """A start succeeded, or a hold ended: the next deferral is told again."""
        for key in [key for key in self.deferred if engine is None or key[0] == engine]:
            del self.deferred[key]


def _counts(lane: Lane) -> bool:
    """Whether the planner has to do with it: what is gone, or is not ours to stop, makes no room (ENG-2)."""
    none_here = lane.launch.driver in (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)
    return not none_here and (lane.state.up or lane.run is not None)
