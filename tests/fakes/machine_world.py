"""Two hosts and configs that follow one another: what the state machine plays on.

Decides what there is, what a restart does to a host, and what should look like before again. What is done
in which order is the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final

from hostler.domain.fleet import EngineTarget, Fleet, Host, Plain, Route, UpstreamTarget, frozen
from hostler.domain.holding import Holding
from hostler.domain.resource import Action, Resource
from hostler.domain.step import (
    CallWebhook,
    DrainEngine,
    FoundHold,
    HoldHost,
    PointRoute,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.values import EngineId, HostName, RouteName
from tests.fakes.node import FakeEngine, FakeRoute, World
from tests.fakes.schedule_world import fleet

CROW: Final = HostName("crow")
RAVEN: Final = HostName("raven")


# ---------------------------------------------------------------- the hosts and the configs


def hosts() -> dict[str, World]:
    """Both hosts as they stand before anybody leases anything."""
    shared = FakeRoute("local", {"local": (("big",), ()), "away": ((), ("cloud",))})
    crow = World(
        engines={
            "big": FakeEngine(),
            "small": FakeEngine(),
            "coder": FakeEngine(up=False),
            "cold": FakeEngine(up=False),
            "spare": FakeEngine(),
        },
        routes={
            "chat": FakeRoute(
                "local",
                {
                    "local": (("big",), ()),
                    "away": ((), ("cloud",)),
                    "least": (("small",), ()),
                    "coder": (("coder",), ()),
                },
            ),
            "shared": shared,
        },
    )
    raven = World(
        engines={"tts": FakeEngine(), "asr": FakeEngine()},
        routes={
            "voice": FakeRoute(
                "local", {"local": (("tts",), ()), "away": ((), ("cloud",)), "least": (("asr",), ())}
            ),
            "shared": deepcopy(shared),
        },
    )
    return {"crow": crow, "raven": raven}


def _routes() -> Mapping[RouteName, Route]:
    """The same routes, as the config has them."""
    on: dict[str, list[HostName]] = {}
    known: dict[str, FakeRoute] = {}
    for host, world in hosts().items():
        for name, route in world.routes.items():
            on.setdefault(name, []).append(HostName(host))
            known[name] = route
    made = {}
    for name, route in known.items():
        profiles = {
            profile: Plain(
                targets=(
                    *(EngineTarget(engine=EngineId(it)) for it in engines),
                    *(UpstreamTarget(upstream=it) for it in upstreams),
                )
            )
            for profile, (engines, upstreams) in route.profiles.items()
        }
        made[RouteName(name)] = Route(name=RouteName(name), profiles=frozen(profiles), on=tuple(on[name]))
    return frozen(made)


def _named(name: str, actions: Sequence[Action] = (), *inner: Resource, **more: object) -> Resource:
    made = Resource(
        name=name,
        hosts=(CROW,),
        covers=(name, *(cover for it in inner for cover in it.covers)),
        actions=tuple(actions) or tuple(action for it in inner for action in it.actions),
        ttl_s=600.0,
        max_s=3600.0,
        warn=(300.0, 60.0),
        drain_s=30.0,
        queue_max=5,
        place_s=120.0,
        claim_s=300.0,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # a config names the fields that matter to it


_CROW_BOX: Final = (
    Action(verb="suspend", target="big", host=CROW),
    Action(verb="route", target="chat", host=CROW, to="away"),
    Action(verb="route", target="shared", host=CROW, to="away"),
    Action(verb="suspend", target="cold", host=CROW),
    Action(verb="hold", target="crow", host=CROW),
    Action(verb="exec", host=CROW, argv=("fans", "full"), undo=("fans", "auto"), check=("is-full",)),
)
_RAVEN_BOX: Final = (
    Action(verb="suspend", target="tts", host=RAVEN),
    Action(verb="route", target="voice", host=RAVEN, to="away"),
    Action(
        verb="webhook",
        target="https://board.example.net",
        host=RAVEN,
        undo_url="https://board.example.net/free",
    ),
)
_CODER_BOX: Final = (
    Action(verb="start", target="coder", host=CROW),
    Action(verb="stop", target="big", host=CROW),
    Action(verb="route", target="shared", host=CROW, to="away"),
    Action(verb="route", target="chat", host=CROW, to="coder"),
)
_DISK: Final = (
    Action(verb="suspend", target="spare", host=CROW),
    Action(verb="exec", host=CROW, argv=("lamp", "off"), undo=("lamp", "on"), check=("is-dark",)),
)
_HELD_RAVEN: Final = (
    Action(verb="hold", target="raven", host=RAVEN),
    Action(verb="route", target="voice", host=RAVEN, to="least"),
    Action(verb="stop", target="tts", host=RAVEN),
)


def _fleet(*resources: Resource) -> Fleet:
    found = frozen({CROW: Host(name=CROW), RAVEN: Host(name=RAVEN)})
    return fleet(*resources, hosts=found, routes=_routes())


def configs() -> Mapping[str, Fleet]:
    """The configs that daemons are started with: the same names, and what they do differs."""
    crow, raven, disk = _named("crow-box", _CROW_BOX), _named("raven-box", _RAVEN_BOX), _named("disk")
    coder, held = _named("crow-box", _CODER_BOX), _named("raven-box", _HELD_RAVEN)
    lock, more = _named("crow-box"), _named("disk", _DISK)
    return {
        "first": _fleet(crow, raven, _named("pair", (), crow, raven), disk),
        "edited": _fleet(coder, held, _named("pair", (), coder, held), replace(disk, indefinite=True)),
        "shrunk": _fleet(crow, disk),
        "grown": _fleet(lock, raven, more, _named("pair", (), lock, raven, more)),
        "moved": _fleet(_named("crow-box", _DISK), raven, disk),
    }


# ---------------------------------------------------------------- what is to be the same again

Thing = tuple[str, str]
"""A host and what may be changed on it: `engine big`, `route chat`, `hold`, `command is-full`."""


def things(plan: Sequence[Step]) -> Iterator[Thing]:
    """What a plan may change."""
    for step in plan:
        match step:
            case DrainEngine() | SuspendEngine() | StopEngine() | StartEngine():
                yield step.host, f"engine {step.engine}"
            case PointRoute():
                yield step.host, f"route {step.route}"
            case HoldHost():
                yield step.host, "hold"
            case RunCommand(argv=argv, check=check):
                yield step.host, f"command {(check or argv)[0]}"
            case CallWebhook(url=url):
                yield step.host, f"webhook {url}"


def values(worlds: Mapping[str, World]) -> dict[Thing, object]:
    """Everything that may be changed, and how it is now."""
    found: dict[Thing, object] = {}
    for host, world in worlds.items():
        for name, engine in world.engines.items():
            seen = engine.up, tuple(sorted(engine.suspended_by)), tuple(sorted(engine.draining_by))
            found[host, f"engine {name}"] = seen
        for name, route in world.routes.items():
            found[host, f"route {name}"] = route.active
        found[host, "hold"] = world.hold
        for check in ("is-full", "is-dark"):
            found[host, f"command {check}"] = check in world.commands
        found[host, "webhook https://board.example.net"] = "https://board.example.net" in world.webhooks
    return found


def down(worlds: Mapping[str, World]) -> set[Thing]:
    """Routes that lead to engines of which none is up (LEASE-4)."""
    engines = {name: engine for world in worlds.values() for name, engine in world.engines.items()}
    found = set()
    for host, world in worlds.items():
        for name, route in world.routes.items():
            targets, upstreams = route.profiles[route.active or ""]
            if targets and not upstreams and not any(engines[it].up for it in targets):
                found.add((host, f"route {name}"))
    return found


def poor(worlds: Mapping[str, World], standing: Mapping[Thing, object]) -> set[Thing]:
    """Routes that lead where they led to nothing before any lease, by a person's doing."""
    up = {thing[1]: it[0] for thing, it in standing.items() if isinstance(it, tuple)}
    found = set()
    for host, world in worlds.items():
        for name, route in world.routes.items():
            targets = route.profiles[route.active or ""][0]
            as_before = standing[host, f"route {name}"] == route.active
            if as_before and not any(up[f"engine {it}"] for it in targets):
                found.add((host, f"route {name}"))
    return found


def boot(world: World, held: Mapping[str, Holding], standing: Mapping[Thing, object]) -> None:
    """The host was restarted: its hold went, and every engine that a lease had started."""
    world.hold = FoundHold()
    for name, engine in world.engines.items():
        engine.draining_by.clear()
        stood = standing["crow", f"engine {name}"]
        if f"engine {name}" in held and isinstance(stood, tuple) and not stood[0]:
            engine.up = False
