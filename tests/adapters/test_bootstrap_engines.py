import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.config.paths import Paths
from hostler.adapters.drivers import run_record
from hostler.adapters.host import process_table
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.bootstrap.engines import BUILT, drivers_of, lanes_of, launches_of, strays
from hostler.domain.fleet import DriverKind, Engine, Fleet, Host, Node, frozen
from hostler.domain.values import EngineId, HostName
from tests.fakes.world import CROW, engine


def paths(root: Path) -> Paths:
    return Paths(state_dir=root, runtime_dir=root / "run", models_dir=root, hold_path=root / "hold.json")


def fleet() -> Fleet:
    fast = engine("fast")
    return Fleet(
        here=CROW,
        head=(CROW,),
        node=Node(),
        hosts=frozen({HostName(CROW): Host(name=CROW)}),
        engines=frozen({fast.id: fast}),
    )


def record(root: Path, name: str, *, ticks_off: int = 0, boot: str | None = None) -> None:
    """A run.json that names this very process as an engine; `ticks_off` makes it another one's."""
    me = process_table.read(os.getpid())
    assert me is not None
    directory = root / "engines" / name
    directory.mkdir(parents=True, exist_ok=True)
    value = {
        "v": run_record.FORMAT,
        "engine": name,
        "pid": me.pid,
        "start_ticks": me.start_ticks + ticks_off,
        "supervisor_pid": 2620,
        "supervisor_ticks": 1,
        "boot_id": process_table.boot_id() if boot is None else boot,
        "port": 8102,
        "started_at": "2026-09-04T20:05:11Z",
        "output": "pipe:[1]",
        "argv_sha256": "0",
        "exit": None,
    }
    (directory / run_record.RUN_FILE).write_text(json.dumps(value))


def test_every_driver_that_is_built_is_there() -> None:
    """ENG-2: each driver that the config's page calls built is there for the daemon, and no other.

    That of distributed engines is joined later: it acts through the nodes.
    """
    assert {*drivers_of({}), DriverKind.DISTRIBUTED} == set(BUILT)


def test_what_runs_and_is_not_in_the_config_is_told(tmp_path: Path) -> None:
    """ENG-7: an engine that an earlier config started and this one lacks is named, with how to end it."""
    record(tmp_path, "extra")
    record(tmp_path, "fast")
    (told,) = strays(fleet(), paths(tmp_path))
    assert told.startswith(f"extra still runs (pid {os.getpid()}, port 8102) and is not in the config")
    assert told.endswith("`hostler stop extra`, or end its supervisor, pid 2620")


@pytest.mark.parametrize(("ticks_off", "boot"), [(1, None), (0, "another boot")])
def test_a_pid_that_is_somebody_elses_is_no_engine(tmp_path: Path, ticks_off: int, boot: str | None) -> None:
    """ENG-6: a recorded pid that another process has now, or of another boot, is not told as an engine."""
    record(tmp_path, "extra", ticks_off=ticks_off, boot=boot)
    assert strays(fleet(), paths(tmp_path)) == ()


def test_a_distributed_engine_answers_where_its_last_member_does(tmp_path: Path) -> None:
    """ENG-11: the whole listens on no port of its own: its URL is that of the member that answers."""
    crow, raven = HostName("crow"), HostName("raven")
    names = EngineId("worker"), EngineId("master")
    engines = (
        Engine(id=names[0], host=raven, port=9000),
        Engine(id=names[1], host=crow, port=8103, model="big"),
        Engine(id=EngineId("wide"), host=crow, driver=DriverKind.DISTRIBUTED, model="big", members=names),
    )
    made = replace(fleet(), hosts=frozen({crow: Host(name=crow), raven: Host(name=raven)}))
    made = replace(made, here=crow, engines=frozen({it.id: it for it in engines}))
    lanes = lanes_of(made, DirectoryStateFiles(root=tmp_path), ModelsDir(root=tmp_path), 0.0)
    wide = lanes[EngineId("wide")]
    assert set(lanes) == {"master", "wide"}
    assert (wide.launch.url, wide.launch.port, wide.launch.model) == ("http://127.0.0.1:8103", 0, "big")
    assert wide.server is lanes[EngineId("master")]


def given(root: Path, *engines: Engine) -> dict[str, int]:
    """The ports that a daemon with these engines gives, and what it keeps in that state directory."""
    made = replace(fleet(), engines=frozen({it.id: it for it in engines}))
    files, models = DirectoryStateFiles(root=root), ModelsDir(root=root)
    return {str(name): launch.port for name, launch in launches_of(made, files, models).items()}


def test_an_engine_that_comes_back_has_its_port(tmp_path: Path) -> None:
    """ENG-7: an engine with `port: auto` that leaves the config while it runs comes back with its port."""
    a, b, c, d = engine("a"), engine("b"), engine("c"), engine("d")
    before = given(tmp_path, a, b)
    record(tmp_path, "a")
    assert given(tmp_path, b, c) == {"b": before["b"], "c": before["b"] + 1}
    assert given(tmp_path, b, c, d)["d"] == before["b"] + 2
    assert given(tmp_path, a, b)["a"] == before["a"]
    assert given(tmp_path, replace(a, port=9000), b)["a"] == 9000
    assert given(tmp_path, a)["a"] == before["a"]


def test_a_port_of_what_has_ended_is_given_again(tmp_path: Path) -> None:
    """ENG-2: the port of an engine that left the config and does not run is given to the next."""
    before = given(tmp_path, engine("a"))
    record(tmp_path, "a", ticks_off=1)
    assert given(tmp_path, engine("c")) == {"c": before["a"]}


def test_a_port_that_is_listened_on_is_kept(tmp_path: Path) -> None:
    """ENG-7: an engine that left no record here, a unit or a container, keeps the port that it listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (tmp_path / "ports.json").write_text(json.dumps({"a": port, "x": 10**400, "y": True, "z": "8100"}))
        assert given(tmp_path, engine("c")) == {"c": 8100}
        assert json.loads((tmp_path / "ports.json").read_text()) == {"a": port, "c": 8100}
