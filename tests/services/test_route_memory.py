from datetime import timedelta
from itertools import count

import pytest

from hostler.domain.holding import Holding
from hostler.domain.step import PointRoute
from tests.fakes.world import World
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller, local_rig

AWAY = PointRoute(host=HOST, route="chat", profile="away")
BACK = PointRoute(host=HOST, route="chat", profile="local")


def holding(it: World) -> Holding:
    until = it.clock.now() + timedelta(hours=1)
    return Holding(lease=LEASE, resource="pair", holder="ann", key="ann", until=until)


@pytest.mark.parametrize(
    "text", ["", "{torn", "[1]", "{}", '{"active": 7}', '{"active": {"chat": -1, "x": "y"}}', None]
)
async def test_a_route_of_a_lease_is_where_it_pointed_it(text: str | None) -> None:
    """REL-1, LEASE-4: with a damaged routes.json a leased route is where its lease pointed it last."""
    async with local_rig() as rig:
        it, tell = rig.parts, Teller(rig)
        held = {"engine big": holding(it.world), "route chat": holding(it.world)}
        await it.node.adopt(held)
        await tell.do(AWAY)
        files = it.world.files
        assert files.texts.pop("routes") == '{"active": {"chat": "away"}}'
        if text is not None:
            files.texts["routes"] = text
        late = it.again()
        assert late.routes.active("chat") == "away"
        assert late.routes.broken
        files.texts["held"] = "{torn"
        told = it.again()
        assert told.routes.active("chat") == "local"
        await told.node.adopt(held)
        assert told.routes.active("chat") == "away"
        await Teller(LocalRig(told), numbers=count(5)).do(BACK)
        assert (told.routes.active("chat"), told.routes.broken) == ("local", None)
        assert files.texts.get("routes.unreadable") == text
        files.texts["routes"] = "{torn"
        assert it.again().routes.active("chat") == "local"


async def test_a_route_that_no_lease_has_is_as_the_config_says() -> None:
    """GW-1: with a damaged routes.json what an ended lease, or nobody, pointed has the config's profile."""
    async with local_rig() as rig:
        await Teller(rig).do(AWAY)
        rig.parts.records.texts["lease_1.7.9"] = "{torn"
        rig.parts.world.files.texts["routes"] = "{torn"
        late = rig.parts.again()
        await late.node.adopt({"engine big": holding(late.world), "route other": holding(late.world)})
        assert late.routes.active("chat") == "local"
