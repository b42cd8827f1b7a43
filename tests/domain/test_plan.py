from typing import get_args

import pytest

from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Escalating,
    Fleet,
    Host,
    Node,
    Plain,
    Profile,
    Route,
    Upstream,
    UpstreamTarget,
    frozen,
)
from hostler.domain.plan import activation, aim, depends, text, upstreams_of
from hostler.domain.resource import Action, Resource
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    HoldHost,
    PointRoute,
    RemoveHold,
    ResumeEngine,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)
from hostler.domain.values import EngineId, HostName, RouteName

CROW, RAVEN = HostName("crow"), HostName("raven")


def to(*engines: str) -> Plain:
    """A profile of those engines."""
    return Plain(targets=tuple(EngineTarget(engine=EngineId(it)) for it in engines))


CLOUD = Plain(targets=(UpstreamTarget(upstream="cloud"),))


def fleet(route: Route) -> Fleet:
    """Two hosts with engines and one route."""
    return Fleet(
        here=CROW,
        head=(CROW,),
        node=Node(),
        hosts=frozen({it: Host(name=it) for it in (CROW, RAVEN)}),
        engines=frozen(
            {EngineId(it): Engine(id=EngineId(it), host=CROW) for it in ("big", "coder", "small")}
        ),
        upstreams=frozen({"cloud": Upstream(name="cloud", url="https://llm.example.net")}),
        routes=frozen({route.name: route}),
    )


def chat(*, on: tuple[HostName, ...] = (CROW,), **profiles: Profile) -> Route:
    """The route `chat`."""
    return Route(name=RouteName("chat"), profiles=frozen(profiles), on=on)


def does(verb: str, target: str = "", **more: object) -> Action:
    """One action on crow."""
    return Action(**{"verb": verb, "target": target, "host": CROW, **more})  # type: ignore[arg-type] # a test's brevity


def plan(route: Route, *actions: Action, drain_s: float = 60.0) -> list[str]:
    """The plan in words."""
    made = Resource(name="r", hosts=(CROW,), covers=("r",), actions=actions, drain_s=drain_s)
    return [text(step) for step in activation(fleet(route), made)]


def test_the_order_of_a_plan_is_fixed() -> None:
    """LEASE-4, R11: hold, routes, drains, suspends and stops, starts, commands, webhooks, in that order."""
    assert plan(
        chat(local=to("big"), away=CLOUD),
        does("webhook", "https://board.example.net/x"),
        does("exec", argv=("fans",)),
        does("start", "coder"),
        does("stop", "small"),
        does("suspend", "big"),
        does("route", "chat", to="away"),
        does("hold", "crow"),
    ) == [
        "hold crow",
        "route chat to away on crow",
        "drain small",
        "drain big",
        "stop small",
        "suspend big",
        "start coder",
        "run fans on crow",
        "call https://board.example.net",
    ]


def test_a_plan_keeps_what_its_actions_say() -> None:
    """LEASE-2: what an action says of its engine, command or call is in its steps."""
    actions = (
        does("hold", "crow", allow=("small",)),
        does("suspend", "big", memory_back=True),
        does("stop", "small", memory_back=True),
        does("exec", argv=("a",), undo=("b",), check=("c",), timeout_s=7.0),
        does("webhook", "https://a.example.net", undo_url="https://b.example.net", timeout_s=3.0),
    )
    made = Resource(name="r", hosts=(CROW,), covers=("r",), actions=actions, drain_s=42.0)
    assert activation(fleet(chat(local=CLOUD)), made) == (
        HoldHost(host="crow", allow=("small",)),
        DrainEngine(host="crow", engine="big", drain_s=42.0),
        DrainEngine(host="crow", engine="small", drain_s=42.0),
        SuspendEngine(host="crow", engine="big", memory_back=True),
        StopEngine(host="crow", engine="small", memory_back=True),
        RunCommand(host="crow", argv=("a",), undo=("b",), check=("c",), timeout_s=7.0),
        CallWebhook(host="crow", url="https://a.example.net", undo="https://b.example.net", timeout_s=3.0),
    )


def test_a_route_is_moved_at_every_gateway_that_offers_it() -> None:
    """LEASE-4: a route step is done at each host of the route, without such at every host of the fleet."""
    away = does("route", "chat", to="away")
    assert plan(chat(on=(RAVEN,), away=CLOUD), away) == ["route chat to away on raven"]
    assert plan(chat(on=(), away=CLOUD), away) == [
        "route chat to away on crow",
        "route chat to away on raven",
    ]


def test_a_route_to_what_is_started_goes_away_first() -> None:
    """LEASE-4: a route that may lead to what is stopped goes away first, and there once it is up."""
    route = chat(local=to("big"), mixed=to("small", "coder"), away=CLOUD, coder=to("coder"))
    actions = (does("route", "chat", to="coder"), does("stop", "big"), does("start", "coder"))
    assert plan(route, *actions) == [
        "route chat to away on crow",
        "drain big",
        "stop big",
        "start coder",
        "route chat to coder on crow",
    ]


@pytest.mark.parametrize(
    ("route", "actions"),
    [
        (chat(local=to("small"), coder=to("coder")), [does("stop", "big")]),
        (
            chat(local=to("big"), coder=Escalating(fast=EngineId("coder"), large=EngineId("big"))),
            [does("stop", "big")],
        ),
    ],
)
def test_a_route_that_needs_no_detour_takes_one_step(route: Route, actions: list[Action]) -> None:
    """LEASE-4: a route of which no other profile leads to what is stopped, or which has none, moves once."""
    steps = plan(route, does("route", "chat", to="coder"), *actions, does("start", "coder"))
    assert [it for it in steps if it.startswith("route")] == ["route chat to coder on crow"]


def test_a_detour_of_the_config_is_the_one_that_is_taken() -> None:
    """LEASE-4: two actions on a route are its two steps; no third is made up."""
    route = chat(local=to("big"), away=CLOUD, least=to("small"), coder=to("coder"))
    steps = plan(
        route,
        does("route", "chat", to="coder"),
        does("route", "chat", to="least"),
        does("suspend", "big"),
        does("start", "coder"),
    )
    assert [it for it in steps if it.startswith("route")] == [
        "route chat to least on crow",
        "route chat to coder on crow",
    ]


def test_what_a_profile_leads_to_elsewhere() -> None:
    """LEASE-11: the upstreams of a profile are told beside its engines; an escalating one has none."""
    both = Plain(targets=(EngineTarget(engine=EngineId("big")), UpstreamTarget(upstream="cloud")))
    assert upstreams_of(both) == ("cloud",)
    assert upstreams_of(Escalating(fast=EngineId("a"), large=EngineId("b"))) == ()


def test_a_route_depends_on_the_engines_that_its_found_profile_names() -> None:
    """LEASE-11: of the engines of a profile the first that drifted is what keeps the route away."""
    assert depends(("a", "b"), {"b", "c"}) == "b"
    assert depends(("a",), {"b"}) is None


WORKS: list[tuple[Step | Undo, str, str]] = [
    (HoldHost(host="crow"), "hold crow", "crow held by the lease"),
    (RemoveHold(host="crow"), "remove the hold of crow", "no hold of the lease on crow"),
    (
        PointRoute(host="crow", route="chat", profile="away"),
        "route chat to away on crow",
        "route chat on away",
    ),
    (DrainEngine(host="crow", engine="e", drain_s=1), "drain e", "e without requests"),
    (EndDrain(host="crow", engine="e"), "end the drain of e", "e not drained by the lease"),
    (SuspendEngine(host="crow", engine="e"), "suspend e", "e suspended and gone"),
    (
        ResumeEngine(host="crow", engine="e", start=True),
        "resume e",
        "e not suspended by the lease, and serving as itself where it was up",
    ),
    (StopEngine(host="crow", engine="e"), "stop e", "e gone"),
    (StartEngine(host="crow", engine="e"), "start e", "e serving as itself"),
    (RunCommand(host="crow", argv=("/bin/x", "--key=1")), "run /bin/x on crow", "exit code 0"),
    (UndoCommand(host="crow", argv=("/bin/y", "k")), "run the undo /bin/y on crow", "exit code 0"),
    (
        CallWebhook(host="crow", url="https://me:pw@h.example.net:8/t/SECRET?k=1"),
        "call https://h.example.net:8",
        "an answer of 2xx",
    ),
    (
        UndoWebhook(host="crow", url="https://h.example.net?k=1"),
        "call the undo at https://h.example.net",
        "an answer of 2xx",
    ),
    (
        ArmDeadman(host="crow", window="ls_1", mode="heavy", cap_s=60.0, bring_back=(), end=()),
        "arm the deadman of crow",
        "a deadman that lives",
    ),
    (
        DisarmDeadman(host="crow", window="ls_1"),
        "disarm the deadman of crow",
        "no deadman of the window",
    ),
    (
        CheckMemory(host="crow"),
        "look at the memory of crow",
        "the memory of crow back, and as much available as the mode asks for",
    ),
    (
        VerifyRestore(host="crow", mode="heavy"),
        "verify what is back on crow",
        "every verify command of crow with exit code 0, and the standing engines there serving",
    ),
]


@pytest.mark.parametrize(("work", "phrase", "wanted"), WORKS)
def test_every_step_has_its_phrase(work: Step | Undo, phrase: str, wanted: str) -> None:
    """LEASE-14, SEC-1: a phrase tells a step without the arguments of a command or the path of a URL."""
    assert text(work) == phrase
    assert aim(work) == wanted


def test_no_kind_of_step_is_without_a_phrase() -> None:
    """LEASE-14: every kind of step and undo that there is has a phrase."""
    assert {type(work) for work, _, _ in WORKS} == {*get_args(Step), *get_args(Undo)}
