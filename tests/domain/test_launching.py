from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hostler.domain.engine import Launch, Run, as_started, served_of
from hostler.domain.errors import LimitReached
from hostler.domain.fleet import DriverKind, Engine, Host
from hostler.domain.launching import assign_ports, fill, launch_of
from hostler.domain.values import EngineId, HostName

CROW = HostName("crow")
HOST = Host(name=CROW, port_range=(8100, 8103))


def engine(name: str, port: int | None = None, driver: DriverKind = DriverKind.PROCESS) -> Engine:
    return Engine(id=EngineId(name), host=CROW, port=port, driver=driver)


@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ({}, {"a": 8100, "b": 8102}),
        ({"b": 8100, "a": 8103}, {"a": 8103, "b": 8100}),
        ({"a": 8101}, {"a": 8100, "b": 8102}),
        ({"a": 9000, "b": 8099}, {"a": 8100, "b": 8102}),
        ({"a": 8102, "b": 8102}, {"a": 8102, "b": 8100}),
        ({"gone": 8100}, {"a": 8100, "b": 8102}),
    ],
)
def test_ports_are_given_once_and_kept(kept: Mapping[str, int], given: Mapping[str, int]) -> None:
    """ENG-2: a port that was given is kept while it is good; the others get the next that nobody has."""
    fixed = engine("fixed", 8101)
    outside = engine("outside", driver=DriverKind.EXTERNAL)
    wide = engine("wide", driver=DriverKind.DISTRIBUTED)
    assert assign_ports([engine("a"), fixed, engine("b"), outside, wide], HOST, kept) == given


def test_ports_of_others_are_not_given() -> None:
    """PORT-5: what the registry or a listener has is given to no engine; a port that was kept stays."""
    engines = [engine("a"), engine("b")]
    assert assign_ports(engines, HOST, {"b": 8101}, {8100, 8101}) == {"a": 8102, "b": 8101}
    with pytest.raises(LimitReached):
        assign_ports(engines, HOST, {}, range(8100, 8103))


def test_a_range_that_is_used_up() -> None:
    """ENG-2: when the host's range has no port left, that is refused with the range."""
    with pytest.raises(LimitReached, match="The limit of 4 ports in 8100-8103 of crow is reached"):
        assign_ports([engine(f"e{index}") for index in range(5)], HOST, {})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{file}", "/m/a.gguf"),
        ("http://{address}:{port}/{model}", "http://127.0.0.1:8100/qwen"),
        ('{{"a": {port}}}', '{"a": 8100}'),
        ("{{port}}", "{port}"),
        ("{other} { } {}", "{other} { } {}"),
        ("plain", "plain"),
    ],
)
def test_placeholders(text: str, filled: str) -> None:
    """ENG-2: our four placeholders are filled in, doubled braces are braces, and all else stays."""
    assert fill(text, file="/m/a.gguf", model="qwen", address="127.0.0.1", port=8100) == filled


def test_what_is_filled_in_is_not_filled_again() -> None:
    """SEC-2: a file whose name looks like a placeholder stays that file."""
    assert fill("{file}", file="{port}{{", model="", address="", port=1) == "{port}{{"


def url(engine_address: str | None, host_address: str = "127.0.0.1") -> str:
    host = Host(name=CROW, address=host_address)
    one = Engine(id=EngineId("a"), host=CROW, address=engine_address)
    return launch_of(one, host, port=8100, file="", directory="/s/a", log_size=1, log_files=1).url


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, "http://127.0.0.1:8100"),
        ("10.99.0.1", "http://10.99.0.1:8100"),
        ("0.0.0.0", "http://127.0.0.1:8100"),  # noqa: S104 - read by the test, never bound
        ("::", "http://[::1]:8100"),
        ("[::]", "http://[::1]:8100"),
        ("fd00::7", "http://[fd00::7]:8100"),
        ("[fd00::7]", "http://[fd00::7]:8100"),
        ("crow.lan", "http://crow.lan:8100"),
    ],
)
def test_where_an_engine_is_reached(address: str | None, expected: str) -> None:
    """ENG-2: an engine is reached where it listens; one that listens everywhere is reached by loopback."""
    assert url(address) == expected


def test_a_launch_has_nothing_left_to_resolve() -> None:
    """ENG-2: a launch has argv and args with everything filled in, and the engine's name as its model."""
    one = Engine(id=EngineId("a"), host=CROW, argv=("srv", "-m", "{file}"), args=("-p", "{port}", "{model}"))
    made = launch_of(one, HOST, port=8100, file="/m/a.gguf", directory="/s/a", log_size=7, log_files=3)
    assert made.argv == ("srv", "-m", "/m/a.gguf", "-p", "8100", "a")
    assert (made.model, made.cwd, made.directory, made.driver) == ("a", "/s/a", "/s/a", "process")
    assert (made.log_size, made.log_files) == (7, 3)


def test_a_launch_keeps_what_the_config_says() -> None:
    """ENG-2: the config's model id, directory and URL of an external engine are taken as they are."""
    one = Engine(
        id=EngineId("a"),
        host=CROW,
        driver=DriverKind.EXTERNAL,
        model="whisper-large",
        cwd="/srv",
        url="http://10.99.0.9:9000",
    )
    made = launch_of(one, HOST, port=0, file="", directory="/s/a", log_size=1, log_files=1)
    assert (made.model, made.cwd, made.url) == ("whisper-large", "/srv", "http://10.99.0.9:9000")


@pytest.mark.parametrize(
    ("url", "found"),
    [("http://127.0.0.1:8150", "http://127.0.0.1:8101"), ("http://box/fast", "http://box/fast")],
)
def test_a_record_that_has_only_the_port(url: str, found: str) -> None:
    """ENG-7: what an earlier version recorded, the port alone, is where the engine is looked at."""
    wanted = replace(launched(port=8150), url=url)
    run = replace(run_of(wanted), port=8101)
    assert as_started(wanted, run) == replace(wanted, port=8101, url=found)


def test_what_runs_is_known_as_it_was_started() -> None:
    """ENG-7: a run is used where and as what it was started, whatever the config says by now."""
    then = launched(port=8101)
    run = replace(run_of(then), served=served_of(then))
    now = replace(
        then, driver="compose", argv=("b",), address="::1", port=1, url="u", health="none", model="m"
    )
    assert as_started(now, run) == then


def launched(port: int) -> Launch:
    return launch_of(
        engine("a"), HOST, port=port, file="", directory="/state/engines/a", log_size=1, log_files=1
    )


def run_of(launch: Launch) -> Run:
    return Run(
        engine=launch.engine,
        driver=launch.driver,
        pid=7,
        start_ticks=1,
        supervisor_pid=6,
        supervisor_ticks=1,
        boot_id="b",
        port=launch.port,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
