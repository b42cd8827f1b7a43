import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.config.reading import examine
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.bootstrap.engines import lanes_of
from hostler.bootstrap.ports import port_watch, taken_ports
from hostler.domain.fleet import Fleet
from hostler.domain.values import HostName
from hostler.services.lanes import Lanes
from hostler.services.present import Present
from tests.fakes.clock import ManualClock
from tests.fakes.config_files import write_config
from tests.fakes.events import EventList

CONFIG = """\
version: 1
engines:
  one: {argv: [s, "{port}"], port: auto}
  two: {argv: [s, "{port}"], port: auto}
ports:
  rows:
    - {host: local, port: 8100-8101, service: x, status: avoid}
    - {host: local, port: 8102, service: x, status: freed}
"""


def fleet_of(folder: Path, text: str = CONFIG) -> tuple[Fleet, Path]:
    file = write_config(folder, text)
    fleet = examine(file, {"HOME": str(folder)}, machine="local").fleet
    assert fleet is not None
    return fleet, file


def given(fleet: Fleet, folder: Path, taken: frozenset[int]) -> dict[str, int]:
    files = DirectoryStateFiles(root=folder / "state")
    lanes = lanes_of(fleet, files, ModelsDir(root=folder), 0.0, lambda: taken)
    return {str(name): lane.launch.port for name, lane in lanes.items()}


def test_automatic_ports_keep_off_the_registry(tmp_path: Path) -> None:
    """PORT-5: `port: auto` takes no port that a row has, a freed one it may; what was given is kept."""
    fleet, file = fleet_of(tmp_path)
    taken = taken_ports(fleet, file) - {8102, 8103, 8104}
    assert {8100, 8101} <= taken
    assert given(fleet, tmp_path, taken) == {"one": 8102, "two": 8103}
    assert given(fleet, tmp_path, frozenset(range(8100, 8200))) == {"one": 8102, "two": 8103}


def test_automatic_ports_keep_off_listeners(tmp_path: Path) -> None:
    """PORT-5: a port on which somebody listens now is taken."""
    fleet, file = fleet_of(tmp_path)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        assert port in taken_ports(fleet, file)
    assert port not in taken_ports(fleet, file)


def test_a_registry_that_cannot_be_read_takes_nothing(tmp_path: Path) -> None:
    """PORT-5: a broken file of rows is no reason not to serve: it takes no port from anybody."""
    fleet, file = fleet_of(tmp_path, "version: 1\nports: {file: ports.yaml}\n")
    (tmp_path / "ports.yaml").write_text("rows: {")
    (tmp_path / "ports.yaml").chmod(0o600)
    assert not taken_ports(fleet, file) & {8100, 8101}


async def test_the_watch_reads_the_registry_anew(tmp_path: Path) -> None:
    """PORT-5: a row that is written while the daemon runs is known at the next look."""
    fleet, file = fleet_of(tmp_path, "version: 1\nports: {file: ports.yaml}\n")
    lanes = Lanes(config=Present(fleet=fleet), clock=ManualClock(), events=EventList(), by_id={})
    watch = port_watch(file, lanes, ())
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]

        async def known() -> bool:
            return next(it.known for it in (await watch.look()).ports if it.port == port)

        assert not await known()
        (tmp_path / "ports.yaml").write_text(f"- {{host: local, port: {port}, service: x}}\n")
        (tmp_path / "ports.yaml").chmod(0o600)
        assert await known()


@pytest.mark.parametrize("host", ["local", "raven"])
def test_only_this_hosts_rows_count(tmp_path: Path, host: str) -> None:
    """PORT-5: rows of another host take nothing here: a number without a host is no allocation."""
    fleet, file = fleet_of(tmp_path)
    here = replace(fleet, here=HostName("local"))
    text = f"- {{host: {host}, port: 8110, service: x}}\n"
    (tmp_path / "ports.yaml").write_text(text)
    (tmp_path / "ports.yaml").chmod(0o600)
    later = {"ports": {"file": "ports.yaml"}}
    assert (8110 in taken_ports(replace(here, later=later), file)) is (host == "local")
