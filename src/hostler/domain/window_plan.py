"""The plan of a window: how a mode is entered, in which order, and on which resource (MODE-2, MODE-3, WIN-5).

Decides the steps from the config alone, as `hostler.domain.plan` does for a resource; their undo, in reverse,
restores the standing mode. Performs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.fleet import DriverKind, Engine, Fleet, frozen
from hostler.domain.mode import Mode, Tool, standing
from hostler.domain.plan import route_steps
from hostler.domain.resource import Action, Resource
from hostler.domain.start_policy import start_budget_s
from hostler.domain.step import (
    ArmDeadman,
    CheckMemory,
    DrainEngine,
    HoldHost,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    VerifyRestore,
)
from hostler.domain.values import EngineId, HostName, ServingClass, gib

SCRIPT: Final = "the script of the mode "
"""The name of a window's script among the definitions that travel, before that of its mode (CONF-6)."""
AFTER_S: Final = 600.0
"""How long the hold outlives the cap at least (WIN-5)."""
_UNTOUCHED: Final = (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What a window changes on one host: `out` goes down, of which `back` comes up again, `into` starts."""

    host: HostName
    stays: tuple[Engine, ...]
    out: tuple[Engine, ...]
    back: tuple[Engine, ...]
    into: tuple[Engine, ...]

    @property
    def restore_s(self) -> float:
        """The restore budget: the sum of the start budgets of what comes back, one at a time (WIN-5)."""
        return sum(budget_s(engine) for engine in self.back)


def shifts(fleet: Fleet, mode: Mode) -> tuple[Shift, ...]:
    """What entering `mode` changes, host by host. Engines in both modes are left alone."""
    usual = standing(fleet.modes)
    return tuple(_shift(fleet, mode, usual, host) for host in mode.hosts)


def _shift(fleet: Fleet, mode: Mode, usual: Mode | None, host: HostName) -> Shift:
    wanted = members(fleet, mode, host)
    before = () if usual is None else members(fleet, usual, host)
    others = [
        it
        for it in fleet.engines.values()
        if it.host == host and it.driver not in _UNTOUCHED and it.id not in wanted
    ]
    back = sorted((it for it in others if it.id in before), key=lambda it: it.order)
    beyond = [it for it in others if it.id not in before]
    return Shift(
        host=host,
        stays=tuple(fleet.engines[it] for it in wanted if it in before),
        # The undo runs backwards: what is suspended last comes back first.
        out=(*beyond, *reversed(back)),
        back=tuple(back),
        into=tuple(fleet.engines[it] for it in wanted if it not in before),
    )


def members(fleet: Fleet, mode: Mode, host: HostName) -> tuple[EngineId, ...]:
    """The engines of `mode` on `host`, a distributed one by its members there, in the config's order."""
    named = (fleet.engines[it] for it in mode.hosts.get(host, ()))
    parts = (part for engine in named for part in engine.members or (engine.id,))
    return tuple(dict.fromkeys(it for it in parts if fleet.engines[it].host == host))


def by_members(fleet: Fleet, mode: Mode) -> Mode:
    """The mode with its distributed engines as their members: these are what is seen to run (ENG-11)."""
    return replace(mode, hosts=frozen({host: members(fleet, mode, host) for host in mode.hosts}))


def budget_s(engine: Engine) -> float:
    """The start budget of an engine; of one without a time of its own by what it claims, 8 ms for a MB."""
    return start_budget_s(engine, max(engine.need.values(), default=0))


def window_resource(fleet: Fleet, mode: Mode) -> Resource:
    """What a window of `mode` leases: the resource that it names, else the one that covers exactly its hosts.

    Else one that is not in the config and contains every resource that touches its hosts (MODE-3). Each
    covers its hosts besides, so that two windows never share one.
    """
    hosts = frozenset(mode.hosts)
    places = tuple(f"host {it}" for it in mode.hosts)
    named = None if mode.resource is None else fleet.resources.get(mode.resource)
    exact = [it for it in fleet.resources.values() if frozenset(it.hosts) == hosts]
    found = named or (exact[0] if len(exact) == 1 else None)
    if found is not None:
        return replace(found, covers=(*found.covers, *places))
    name = f"window {mode.name}"
    touching = [it for it in fleet.resources.values() if hosts.intersection(it.hosts)]
    covers = dict.fromkeys((name, *(cover for it in touching for cover in it.covers), *places))
    return Resource(name=name, title=f"the mode {mode.name}", hosts=tuple(mode.hosts), covers=tuple(covers))


def window_plan(
    fleet: Fleet, mode: Mode, cap_s: float, drain_s: float, up: Collection[EngineId] = ()
) -> tuple[Step, ...]:
    """The steps of a window, in this order (WIN-1 to WIN-5); `ArmDeadman.window` is `named` at the grant.

    Deadmen, holds, what is verified at the end, routes away; all drains, then what goes down; a look at the
    memory, the mode's engines, and the routes that lead to them. A `tool` does the evicting and restoring
    by itself (MODE-4). What it would start and is `up` already is none of the standing mode: it goes first,
    as everything outside it does, and is not up again afterwards (WIN-8).
    """
    every = shifts(fleet, mode)
    left = [down for it in every for down in it.into if down.id in up]
    early, late = route_steps(fleet, _actions(mode, every))
    holds: tuple[Step, ...] = tuple(
        HoldHost(
            host=it.host,
            allow=tuple(engine.id for engine in (*it.stays, *it.into)),
            after_s=max(AFTER_S, it.restore_s),
        )
        for it in every
    )
    verified = tuple(VerifyRestore(host=it.host, mode=mode.name) for it in every)
    if mode.tool is not None:
        return (*holds, *verified, *early, script(mode, mode.tool, script_host(fleet, mode), cap_s), *late)
    return (
        *(_deadman(it, mode, cap_s) for it in every),
        *holds,
        *verified,
        *early,
        *(DrainEngine(host=it.host, engine=it.id, drain_s=drain_s) for it in left),
        *(DrainEngine(host=it.host, engine=down.id, drain_s=drain_s) for it in every for down in it.out),
        *(StopEngine(host=it.host, engine=it.id, back=False) for it in left),
        *(_suspend(it, down) for it in every for down in it.out),
        *(
            CheckMemory(host=it.host, available=mode.available.get(it.host), max_residue=mode.max_residue)
            for it in every
        ),
        *_starts(fleet, mode, every),
        *late,
    )


def named(plan: Sequence[Step], lease: str) -> tuple[Step, ...]:
    """The plan with its deadmen told whose window it is."""
    return tuple(replace(it, window=lease) if isinstance(it, ArmDeadman) else it for it in plan)


def _actions(mode: Mode, every: Sequence[Shift]) -> list[Action]:
    """What the window does to engines and routes, in the words that routes are ordered by."""
    routes = [
        Action(verb="route", target=route, to=profile, host=every[0].host)
        for route, profile in mode.routes.items()
    ]
    out = [
        Action(verb="suspend", target=name, host=it.host)
        for shift in every
        for it in shift.out
        for name in _known_as(it)
    ]
    into = [
        Action(verb="start", target=name, host=it.host)
        for shift in every
        for it in shift.into
        for name in _known_as(it)
    ]
    return [*routes, *out, *into]


def _known_as(engine: Engine) -> tuple[EngineId, ...]:
    """What a route calls the engine: a member goes by the distributed engine that it is of (ENG-11)."""
    return (engine.id,) if engine.of is None else (engine.id, engine.of)


def _deadman(shift: Shift, mode: Mode, cap_s: float) -> ArmDeadman:
    return ArmDeadman(
        host=shift.host,
        window="",
        mode=mode.name,
        cap_s=cap_s,
        bring_back=tuple(it.id for it in shift.back),
        end=tuple(it.id for it in reversed(shift.into)),
    )


def _suspend(shift: Shift, engine: Engine) -> SuspendEngine:
    back = any(it.id == engine.id for it in shift.back)
    return SuspendEngine(host=shift.host, engine=engine.id, back=back)


def script(mode: Mode, tool: Tool, host: HostName, cap_s: float | None) -> RunCommand:
    """The step that runs a window's script on `host`; to another host only its name travels (CONF-6)."""
    return RunCommand(
        host=host,
        argv=tool.open.argv,
        undo=tool.close.argv,
        timeout_s=tool.open.timeout_s,
        undo_timeout_s=tool.close.timeout_s,
        definition=f"{SCRIPT}{mode.name}",
        digest=tool.digest,
        cap_s=cap_s,
    )


def script_host(fleet: Fleet, mode: Mode) -> HostName:
    """Where a window's script runs: on the head where the window has it, else on its first host."""
    return next((it for it in mode.hosts if it in fleet.head), next(iter(mode.hosts)))


def script_of(fleet: Fleet, definition: str, host: HostName, cap_s: float | None) -> RunCommand | None:
    """The script of that name in this config; None when it has none."""
    mode = fleet.modes.get(definition.removeprefix(SCRIPT)) if definition.startswith(SCRIPT) else None
    return None if mode is None or mode.tool is None else script(mode, mode.tool, host, cap_s)


def _starts(fleet: Fleet, mode: Mode, every: Sequence[Shift]) -> Iterator[StartEngine]:
    """The mode's engines: members of a distributed one in their order, the others by host (ENG-11)."""
    todo = {it.id: it for shift in every for it in shift.into}
    named_engines = dict.fromkeys(it for shift in every for it in mode.hosts[shift.host])
    ranked = sorted(named_engines, key=lambda it: fleet.engines[it].order)
    for part in (part for it in ranked for part in fleet.engines[it].members or (it,)):
        engine = todo.pop(part, None)
        if engine is not None:
            override = "" if engine.serving_class is ServingClass.RESIDENT else engine.serving_class.value
            yield StartEngine(host=engine.host, engine=engine.id, override=override)


# ---------------------------------------------------------------- for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What a host needs in the mode, in GiB, as a sum that anybody can redo (MODE-2)."""

    host: str
    need: int
    text: str


def sums(fleet: Fleet, mode: Mode) -> tuple[Sum, ...]:
    """The memory of each host in `mode`: its engines, what is kept free, and what there is."""
    return tuple(_sum(fleet, it) for it in shifts(fleet, mode))


def _sum(fleet: Fleet, shift: Shift) -> Sum:
    engines = (*shift.stays, *shift.into)
    parts = [f"{it.id} {gib(sum(it.need.values()))}" if it.need else f"{it.id} unknown" for it in engines]
    need = sum(sum(it.need.values()) for it in engines)
    total = sum(pool.total or 0 for pool in fleet.hosts[shift.host].pools)
    of = f" of {gib(total)}" if total else ""
    return Sum(host=shift.host, need=need, text=f"{' + '.join(parts) or 'nothing'} = {gib(need)} GiB{of}")
