"""What a room has: a fleet of one box, and a lane for each of its engines."""

from __future__ import annotations

from dataclasses import replace

from hostler.domain.engine import EngineState, Launch
from hostler.domain.fleet import (
    DriverKind,
    Engine,
    EngineTarget,
    Escalating,
    Fleet,
    Gateway,
    Group,
    Host,
    Node,
    Plain,
    Route,
    Upstream,
    UpstreamTarget,
    frozen,
)
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass
from hostler.services.lanes import Lane

HOST = HostName("crow")
GIB = 1 << 30


def fleet() -> Fleet:
    """One box: fast and large exclude each other, embed is essential, heavy is dangerous, far is not ours."""
    engines = (
        engine("fast", 8101, group="main", order=20, need=4),
        engine("large", 8102, group="main", need=12),
        engine("embed", 8103, essential=True, resident=True, order=10, need=1),
        engine("heavy", 8104, serving_class=ServingClass.WEDGE_RISK, need=90),
        replace(engine("far", 8105), driver=DriverKind.EXTERNAL, url="http://10.99.0.9:8000"),
    )
    target = EngineTarget(engine=EngineId("fast"))
    cloud = UpstreamTarget(upstream="cloud", model="big")
    routes = (
        Route(
            name=RouteName("chat"),
            aliases=("gpt-4o-mini",),
            profiles=frozen(
                {
                    "local": Escalating(fast=EngineId("fast"), large=EngineId("large")),
                    "cloud": Plain(targets=(cloud,)),
                }
            ),
            active="local",
        ),
        Route(
            name=RouteName("team/embed v1"),
            profiles=frozen({"local": Plain(targets=(EngineTarget(engine=EngineId("embed")),))}),
        ),
        Route(
            name=RouteName("idle"),
            profiles=frozen({"a": Plain(targets=(target,)), "b": Plain(targets=(cloud,))}),
        ),
    )
    groups = frozen({"main": Group(name="main", host=HOST)})
    return Fleet(
        here=HOST,
        head=(HOST,),
        node=Node(),
        hosts=frozen({HOST: Host(name=HOST, url="https://crow.lan:7070", groups=groups)}),
        engines=frozen({it.id: it for it in engines}),
        upstreams=frozen({"cloud": Upstream(name="cloud", url="https://example.net/v1")}),
        routes=frozen({it.name: it for it in routes}),
        gateway=Gateway(cors=("https://app.example.net",)),
    )


def engine(name: str, port: int, *, need: int = 2, **settings: object) -> Engine:
    made = Engine(id=EngineId(name), host=HOST, model=name, port=port, need=frozen({"host": need * GIB}))
    return replace(made, **settings)  # type: ignore[arg-type]  # a test's shorthand for some of its fields


def lane(it: Engine) -> Lane:
    launch = Launch(
        engine=it.id,
        driver=it.driver.value,
        argv=("llama-server",),
        cwd="/",
        address="127.0.0.1",
        port=it.port or 0,
        url=it.url or f"http://127.0.0.1:{it.port}",
        model=it.model,
        directory=f"/state/engines/{it.id}",
    )
    return Lane(engine=it, launch=launch, status=EngineState(engine=it.id))
