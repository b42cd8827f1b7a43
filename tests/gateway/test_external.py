from dataclasses import replace

from hostler.domain.fleet import DriverKind, EngineTarget, Plain
from hostler.domain.values import EngineId
from tests.gateway.front import a_fleet, a_route, front
from tests.interfaces.room_fleet import engine

CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("fast")),))})


async def test_an_external_engine_that_is_down() -> None:
    """GW-14: a request for an external engine that does not answer is told where it was looked for."""
    away = replace(engine("fast", 9), driver=DriverKind.EXTERNAL, url="http://127.0.0.1:9")
    async with front(a_fleet(CHAT, engines=(away,))) as it:
        answer = await it.chat()
        assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert "nothing answers at http://127.0.0.1:9 as fast" in str(answer.error["message"])
        assert (answer["retry-after"], it.driver.started) == ("10", [])
