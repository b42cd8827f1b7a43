"""The gate inside an open window."""

from dataclasses import replace

import pytest

from hostler.domain.errors import Leased, ServingClassRefused
from hostler.domain.fleet import frozen
from hostler.domain.holding import Holding
from hostler.domain.mode import Mode
from hostler.domain.values import Cause, EngineId, ServingClass
from tests.fakes.world import BOT, CROW, engine, world


async def test_a_window_s_engine_starts_again_for_its_holder() -> None:
    """CAT-5, LEASE-15: by hand, with the window's lease and no class; others are told whose it is."""
    async with world(engine("glm", serving_class=ServingClass.WINDOWED), engine("b")) as it:
        mode = Mode(name="heavy", hosts=frozen({CROW: (EngineId("glm"),)}))
        it.lanes.config.fleet = replace(it.fleet, modes=frozen({"heavy": mode}))
        window = Holding(lease="ls_1", resource="box", holder="ann", key=BOT.key, mode="heavy")
        it.gate.guard.adopt({"engine glm": window, "engine b": window})
        ask = it.ask("glm", Cause.API)
        with pytest.raises(Leased, match="ann has box"):
            await it.starting.ensure_ready(it.lane("glm"), ask, wait_s=60)
        own = replace(ask, requester=replace(BOT, lease="ls_1"))
        await it.starting.ensure_ready(it.lane("glm"), own, wait_s=60)
        assert it.lane("glm").ready
        it.gate.guard.adopt({"engine glm": replace(window, mode="plain")})
        await it.engines.stopping.stop(it.lane("glm"), actor="test", why="")
        with pytest.raises(ServingClassRefused):
            await it.starting.ensure_ready(it.lane("glm"), own, wait_s=60)
