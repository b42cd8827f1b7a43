from dataclasses import replace

import pytest

from hostler.domain.fleet import DriverKind, EngineTarget, Fleet, Host, Plain, frozen
from hostler.domain.mode import Mode, Present, Tool, ToolCommand, difference
from hostler.domain.plan import text
from hostler.domain.step import (
    ArmDeadman,
    CheckMemory,
    DrainEngine,
    HoldHost,
    RunCommand,
    StartEngine,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass
from hostler.domain.window_plan import (
    SCRIPT,
    by_members,
    named,
    script_of,
    shifts,
    sums,
    window_plan,
    window_resource,
)
from tests.fakes.modes import GIB, HEAVY, engine, mode, moded
from tests.fakes.schedule_world import resource

CROW, RAVEN = HostName("crow"), HostName("raven")


def planned(fleet: Fleet, given: Mode = HEAVY) -> list[str]:
    return [text(it) for it in window_plan(fleet, given, 3600.0, 30.0)]


def pair() -> Fleet:
    """Crow and raven; the heavy mode has an engine with a worker on crow and its master on raven."""
    made = moded()
    engines = [
        engine("flash", 106, host="raven", resident=True, order=5),
        engine("worker", 70, order=1),
        engine("master", 78, host="raven", order=2),
        engine(
            "both",
            0,
            host="raven",
            driver=DriverKind.DISTRIBUTED,
            members=(EngineId("worker"), EngineId("master")),
        ),
        engine("asr", host="raven", driver=DriverKind.EXTERNAL),
    ]
    heavy = replace(
        HEAVY,
        hosts=frozen({CROW: (EngineId("embed"), EngineId("both")), RAVEN: (EngineId("both"),)}),
        available=frozen({RAVEN: 88 * GIB}),
        resource=None,
    )
    usual = made.modes["standard"]
    standard = replace(usual, hosts=frozen({**usual.hosts, RAVEN: (EngineId("flash"),)}))
    return replace(
        made,
        hosts=frozen({CROW: Host(name=CROW), RAVEN: Host(name=RAVEN)}),
        engines=frozen({**made.engines, **{it.id: it for it in engines}}),
        modes=frozen({"standard": standard, "heavy": heavy}),
    )


def test_each_kind_of_step_is_done_on_every_host_before_the_next() -> None:
    """WIN-1, WIN-3, MODE-2: deadmen on all, holds on all, …, memory on all, then the distributed engine."""
    fleet = pair()
    assert planned(fleet, fleet.modes["heavy"]) == [
        "arm the deadman of crow",
        "arm the deadman of raven",
        "hold crow",
        "hold raven",
        "verify what is back on crow",
        "verify what is back on raven",
        "route chat to away on crow",
        "route chat to away on raven",
        "drain bench",
        "drain glm",
        "drain bots",
        "drain voice",
        "drain flash",
        "suspend bench",
        "suspend glm",
        "suspend bots",
        "suspend voice",
        "suspend flash",
        "look at the memory of crow",
        "look at the memory of raven",
        "start worker",
        "start master",
    ]


def test_what_was_up_beyond_the_standing_mode_is_not_started_again() -> None:
    """WIN-8: the restore brings back the standing mode, in its order, one at a time."""
    out = [it for it in window_plan(moded(), HEAVY, 3600.0, 30.0) if isinstance(it, SuspendEngine)]
    assert [(it.engine, it.back) for it in out] == [("bench", False), ("bots", True), ("voice", True)]
    (crow,) = shifts(moded(), HEAVY)
    assert [it.id for it in crow.back] == ["voice", "bots"]
    assert [it.id for it in crow.stays] == ["embed"]


def test_the_deadman_knows_what_to_end_and_to_bring_back() -> None:
    """WIN-1: ids only; whose window it is, is told at the grant."""
    (deadman,) = (it for it in window_plan(moded(), HEAVY, 3600.0, 30.0) if isinstance(it, ArmDeadman))
    assert (deadman.cap_s, deadman.bring_back, deadman.end) == (3600.0, ("voice", "bots"), ("glm",))
    (told,) = (it for it in named((deadman, HoldHost(host="crow")), "ls_1") if isinstance(it, ArmDeadman))
    assert told == replace(deadman, window="ls_1")


def test_the_hold_outlives_the_cap_by_the_restore_budget() -> None:
    """WIN-5: the sum of the start budgets of what comes back, at least 10 min; 106 GiB are about 16 min."""
    fleet = pair()
    holds = {
        it.host: it
        for it in window_plan(fleet, fleet.modes["heavy"], 3600.0, 30.0)
        if isinstance(it, HoldHost)
    }
    assert holds["raven"].after_s == pytest.approx(120 + 106 * GIB / 1e6 * 0.008)
    assert 15 < holds["raven"].after_s / 60 < 18
    assert holds["crow"].after_s == pytest.approx(240 + 58 * GIB / 1e6 * 0.008)
    quick = replace(
        moded(),
        engines=frozen({name: replace(it, start_timeout_s=5.0) for name, it in moded().engines.items()}),
    )
    (short,) = (it for it in window_plan(quick, HEAVY, 3600.0, 30.0) if isinstance(it, HoldHost))
    assert short.after_s == 600.0
    assert short.allow == ("embed", "glm")


def test_memory_is_looked_at_with_the_modes_gates() -> None:
    """WIN-3: each host's own number, and none where none is given."""
    fleet = pair()
    looks = [
        it for it in window_plan(fleet, fleet.modes["heavy"], 3600.0, 30.0) if isinstance(it, CheckMemory)
    ]
    assert [(it.host, it.available, it.max_residue) for it in looks] == [
        ("crow", None, 2 * GIB),
        ("raven", 88 * GIB, 2 * GIB),
    ]


def test_a_start_names_the_class_of_its_engine() -> None:
    """CAT-5: the mode's plan carries the override, and none for what is resident."""
    (start,) = (it for it in window_plan(moded(), HEAVY, 3600.0, 30.0) if isinstance(it, StartEngine))
    assert start.override == "windowed"
    resident = mode("other", "embed", "bench")
    (start,) = (it for it in window_plan(moded(), resident, 3600.0, 30.0) if isinstance(it, StartEngine))
    assert (start.engine, start.override) == ("bench", "")


def test_a_route_leads_to_the_modes_engine_once_it_is_up() -> None:
    """LEASE-4: and away from what goes down before that."""
    leads = replace(HEAVY, routes=frozen({RouteName("chat"): "glm"}))
    plan = planned(moded(), leads)
    assert plan.index("route chat to away on crow") < plan.index("drain bots")
    assert plan[-2:] == ["start glm", "route chat to glm on crow"]


def test_a_mode_is_seen_by_the_members_of_its_distributed_engines() -> None:
    """MODE-2, ENG-11: what runs is the members: the mode is entered when each of them is up on its host."""
    made = pair()
    whole = by_members(made, made.modes["heavy"])
    assert whole.hosts == {CROW: ("embed", "worker"), RAVEN: ("master",)}
    seen = Present(up={CROW: {EngineId("embed"), EngineId("worker")}, RAVEN: set()}, routes={})
    assert difference(whole, seen).missing == ("master on raven",)


def test_a_tool_does_the_evicting_itself() -> None:
    """MODE-4: ours are the hold, the routes and the verification; the script's times are its own."""
    tool = Tool(
        open=ToolCommand(argv=("win", "open"), timeout_s=20.0),
        close=ToolCommand(argv=("win", "close"), timeout_s=30.0),
        status=ToolCommand(argv=("win", "status")),
    )
    scripted = replace(HEAVY, tool=tool)
    assert planned(moded(), scripted) == [
        "hold crow",
        "verify what is back on crow",
        "route chat to away on crow",
        "run win on crow",
    ]
    (run,) = (it for it in window_plan(moded(), scripted, 60.0, 30.0) if isinstance(it, RunCommand))
    assert (run.argv, run.undo, run.timeout_s, run.undo_timeout_s, run.cap_s) == (
        ("win", "open"),
        ("win", "close"),
        20.0,
        30.0,
        60.0,
    )
    there = replace(scripted, hosts=frozen({RAVEN: (EngineId("flash"),)}), routes=frozen({}))
    far = replace(pair(), modes=frozen({}))
    (run,) = (it for it in window_plan(far, there, 60.0, 30.0) if isinstance(it, RunCommand))
    assert run.host == "raven"
    named_so = replace(pair(), modes=frozen({"heavy": there}))
    assert script_of(named_so, run.definition, RAVEN, 60.0) == run
    for other in ("box/1", f"{SCRIPT}standard"):
        assert script_of(named_so, other, RAVEN, 60.0) is None
    assert script_of(replace(pair(), modes=frozen({"heavy": HEAVY})), run.definition, RAVEN, 60.0) is None


def test_a_window_leases_what_its_mode_names() -> None:
    """MODE-3: else the one resource of exactly its hosts, else an implicit one of all that touch them."""
    made = moded()
    assert window_resource(made, HEAVY).name == "box"
    assert window_resource(made, HEAVY).covers == ("box", "host crow")
    unnamed = replace(HEAVY, resource=None)
    implicit = window_resource(made, unnamed)
    assert (implicit.name, implicit.covers) == ("window heavy", ("window heavy", "box", "disk", "host crow"))
    only = replace(made, resources=frozen({"box": resource("box")}))
    assert window_resource(only, unnamed).name == "box"


def test_the_sum_of_a_mode_can_be_redone() -> None:
    """MODE-2, MEM-6: each engine's claim, and what there is where the config says it."""
    made = moded()
    (crow,) = sums(made, HEAVY)
    assert (crow.text, crow.need) == ("embed 1.0 + glm 74.0 = 75.0 GiB", 75 * GIB)
    total = replace(made.hosts[CROW].pools[0], total=124 * GIB)
    sized = replace(made, hosts=frozen({CROW: Host(name=CROW, pools=(total,))}))
    assert sums(sized, HEAVY)[0].text == "embed 1.0 + glm 74.0 = 75.0 GiB of 124.0"
    unknown = replace(made.engines[EngineId("glm")], need=frozen({}))
    vague = replace(made, engines=frozen({**made.engines, unknown.id: unknown}))
    assert sums(vague, HEAVY)[0].text == "embed 1.0 + glm unknown = 1.0 GiB"
    empty = replace(HEAVY, hosts=frozen({CROW: ()}))
    assert sums(made, empty)[0].text == "nothing = 0.0 GiB"


def test_without_a_standing_mode_nothing_comes_back() -> None:
    """MODE-1: a config check asks for one; the plan holds without."""
    bare = replace(moded(), modes=frozen({"heavy": HEAVY}))
    (crow,) = shifts(bare, HEAVY)
    assert (crow.back, crow.restore_s) == ((), 0.0)
    assert {it.serving_class for it in crow.into} == {ServingClass.RESIDENT, ServingClass.WINDOWED}


def test_a_route_waits_for_the_members_of_its_engine() -> None:
    """ENG-11, LEASE-4: a route leads to a distributed engine once the window has started its members."""
    made = pair()
    members = {
        name: replace(it, of=EngineId("both")) if name in ("worker", "master") else it
        for name, it in made.engines.items()
    }
    chat = made.routes[RouteName("chat")]
    wide = Plain(targets=(EngineTarget(engine=EngineId("both")),))
    route = replace(chat, profiles=frozen({**chat.profiles, "wide": wide}))
    fleet = replace(made, engines=frozen(members), routes=frozen({chat.name: route}))
    heavy = replace(fleet.modes["heavy"], routes=frozen({chat.name: "wide"}))
    plan = planned(fleet, heavy)
    assert plan[-4:] == [
        "start worker",
        "start master",
        "route chat to wide on crow",
        "route chat to wide on raven",
    ]


def test_what_was_left_up_of_the_mode_goes_first() -> None:
    """WIN-8: like all that is outside the standing mode it is stopped; its undo starts nothing."""
    fleet = pair()
    heavy = fleet.modes["heavy"]
    plan = window_plan(fleet, heavy, 3600.0, 30.0, {EngineId("worker"), EngineId("embed")})
    added = [it for it in plan if it not in window_plan(fleet, heavy, 3600.0, 30.0)]
    assert added == [
        DrainEngine(host="crow", engine="worker", drain_s=30.0),
        StopEngine(host="crow", engine="worker", back=False),
    ]
    kinds = [it.kind for it in plan]
    assert kinds.index("stop") < kinds.index("suspend") < kinds.index("memory") < kinds.index("start")
    assert kinds.index("drain") == plan.index(added[0])
