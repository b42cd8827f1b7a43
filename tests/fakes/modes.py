"""A fleet with modes for tests: crow alone, its standing engines, and a heavy mode that takes all of it."""

from __future__ import annotations

from dataclasses import replace

from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Fleet,
    Plain,
    Route,
    UpstreamTarget,
    frozen,
)
from hostler.domain.mode import Mode
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass
from tests.fakes.node import FakeEngine, FakeNode, FakeRoute
from tests.fakes.node import World as FakeWorld
from tests.fakes.schedule_world import CROW, fleet, resource

GIB = 1 << 30


def engine(name: str, need: float = 1.0, *, host: str = "crow", **more: object) -> Engine:
    """An engine of `host` that claims `need` GiB."""
    made = Engine(id=EngineId(name), host=HostName(host), need=frozen({"host": round(need * GIB)}))
    return replace(made, **more)  # type: ignore[arg-type]  # a test names the fields that matter to it


def mode(name: str = "heavy", *engines: str, **more: object) -> Mode:
    """A mode of crow; without engines it is `embed` and `glm`."""
    names = engines or ("embed", "glm")
    made = Mode(
        name=name,
        hosts=frozen({CROW: tuple(EngineId(it) for it in names)}),
        routes=frozen({RouteName("chat"): "away"}),
        resource="box",
    )
    return replace(made, **more)  # type: ignore[arg-type]  # as above


STANDARD = mode("standard", "embed", "bots", "voice", standing=True, resource=None, routes=frozen({}))
HEAVY = mode(serving_class=ServingClass.WINDOWED, cap_s=3600.0, cap_max_s=10 * 3600.0)


def moded(*modes: Mode, **more: object) -> Fleet:
    """Crow with five engines, route `chat`, resource `box`, and these modes beside a standing one."""
    local = Plain(targets=(EngineTarget(engine=EngineId("bots")),))
    away = Plain(targets=(UpstreamTarget(upstream="cloud"),))
    glm = Plain(targets=(EngineTarget(engine=EngineId("glm")),))
    chat = Route(
        name=RouteName("chat"),
        profiles=frozen({"local": local, "away": away, "glm": glm}),
        active="local",
    )
    engines = (
        engine("embed", essential=True, resident=True, order=10),
        engine("bots", 43, resident=True, order=30),
        engine("voice", 15, resident=True, order=20),
        engine("bench", 10),
        engine("glm", 74, serving_class=ServingClass.WINDOWED),
    )
    return fleet(
        resource("box", drain_s=30.0),
        resource("disk"),
        engines=frozen({it.id: it for it in engines}),
        routes=frozen({chat.name: chat}),
        modes=frozen({it.name: it for it in (STANDARD, *(modes or (HEAVY,)))}),
        **more,
    )


def crow_node() -> FakeNode:
    """Crow in the standing mode: bench and glm are down."""
    return FakeNode(
        "crow",
        FakeWorld(
            engines={
                "embed": FakeEngine(),
                "bots": FakeEngine(),
                "voice": FakeEngine(),
                "bench": FakeEngine(up=False),
                "glm": FakeEngine(up=False),
            },
            routes={
                "chat": FakeRoute(
                    active="local",
                    profiles={"local": (("bots",), ()), "away": ((), ("cloud",)), "glm": (("glm",), ())},
                )
            },
        ),
    )
