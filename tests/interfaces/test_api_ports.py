from hostler.domain.errors import InvalidConfig
from hostler.services.ports_live import Listening
from tests.fakes.listeners import FakeListeners
from tests.fakes.ports import row
from tests.interfaces.room import Room

PORTS = "/v1/hostler/ports"


def listeners(box: Room) -> FakeListeners:
    found = box.control.ports.listeners
    assert isinstance(found, FakeListeners)
    return found


async def test_ports_over_http(box: Room) -> None:
    """PORT-5: the node API tells who listens on its host, with its owner and its row."""
    listeners(box).found = [
        Listening(
            address="127.0.0.1", port=9000, protocol="tcp", uid=0, pid=7, process="serve", unit="web.service"
        )
    ]
    listeners(box).rows = [row(9000, "web"), row(9001, "gone", line=4)]
    async with box.client() as client:
        shown = (await client.get(PORTS, params={"host": "crow"})).json()
    assert shown["host"] == "crow"
    assert shown["ports"] == [
        {
            "address": "127.0.0.1",
            "port": 9000,
            "protocol": "tcp",
            "pid": 7,
            "process": "serve",
            "unit": "web.service",
            "container": "",
            "engine": "",
            "service": "web",
            "status": "production",
            "known": True,
        }
    ]
    assert shown["silent"] == [
        {"port": 9001, "last": 9001, "protocol": "tcp", "service": "gone", "place": "ports.yaml:4"}
    ]


async def test_a_host_that_is_none_is_told(box: Room) -> None:
    """PORT-5: a daemon answers for its own host and asks those of the fleet, and no other."""
    async with box.client() as client:
        answer = await client.get(PORTS, params={"host": "raven"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


async def test_a_broken_registry_is_told(box: Room) -> None:
    """PORT-5: a file of rows that cannot be read is the answer's refusal, with its problems."""
    problems = ("ports.yaml:1: no YAML",)
    listeners(box).refusal = InvalidConfig(file="ports.yaml", count=1, problems=problems)
    async with box.client() as client:
        answer = await client.get(PORTS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_config")
    assert answer.json()["error"]["facts"]["problems"] == list(problems)
