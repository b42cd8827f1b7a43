"""A config and its catalog: what an entry makes of an engine."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.adapters.config.source import FileSource
from hostler.domain.curation import Crossing
from hostler.domain.errors import InvalidConfig
from hostler.domain.fleet import Engine, Fleet
from hostler.domain.values import EngineId, ServingClass
from tests.fakes.catalog import GIB, TEXT, write_entry
from tests.fakes.config_files import check_marked, read_config, told, warned, write_config

TWO_BOX = """\
version: 1
id: pair
family: pair
serving: {class: CLASS}
quants: {Q8: {files: [{name: pair.gguf}], min_ram: 200 GiB}}
variants:
  two:
    quant: Q8
    gates: {peak: {worker: 74 GiB, main: 78 GiB}}
topology: {roles: [worker, main], port: 50052, speed: 5 Gbit/s}
"""
FLEET = """\
version: 1
schedule: {owner: crow}
hosts:
  crow:
    url: https://crow.lan
    links: {raven: {interface: tb0, address: 10.99.0.1, peer: 10.99.0.2, speed: 10 Gbit/s}}
  raven:
    url: https://raven.lan
    links: {crow: {interface: tb0, address: 10.99.0.2, peer: 10.99.0.1}}
engines:
  w: {host: crow, argv: [rpc, "{port}"], address: 10.99.0.1, port: 50052, health: tcp}
  m: {host: raven, argv: [serve, "{port}"], port: 8031}
  p: {driver: distributed, members: [w, m], entry: pair#two}
"""


def fleet_of(folder: Path, text: str, machine: str = "box") -> Fleet:
    """The fleet of a config that is right, whose catalog is `folder`/catalog."""
    (folder / "catalog").mkdir(exist_ok=True)
    reading = read_config(folder, f"{text}catalog: {folder / 'catalog'}\n", machine=machine)
    assert reading.fleet is not None, told(reading)
    return reading.fleet


def engine_of(folder: Path, keys: str) -> Engine:
    """The engine `a` with those keys."""
    text = f'version: 1\nengines:\n  a: {{argv: [s, "{{port}}"], {keys}}}\n'
    return fleet_of(folder, text).engines[EngineId("a")]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder whose catalog has the entry `tiny`, a measured one."""
    text = TEXT.replace("context: 4096}", "context: 4096, gates: {peak: 3 GiB, available: 5 GiB}}")
    write_entry(tmp_path / "catalog", text)
    return tmp_path


def test_an_entry_says_what_an_engine_needs(tiny: Path) -> None:
    """CAT-7, CAT-8: an engine with an entry has its class, its peak, its context and no links."""
    found = engine_of(tiny, "entry: tiny#4k").curation
    assert found is not None
    assert (found.entry, found.peak, found.available, found.context_most) == (
        "tiny#4k",
        3 * GIB,
        5 * GIB,
        4096,
    )
    assert (found.crossings, found.proven) == ((), False)
    plain = engine_of(tiny, "memory: 1 GiB")
    assert (plain.entry, plain.curation) == (None, None)


def test_a_measured_peak_is_a_known_need(tiny: Path) -> None:
    """CAT-8, CONF-2: an engine whose entry has a measured peak is not warned of for its unknown need."""
    text = 'version: 1\nengines:\n  a: {argv: [s, "{port}"], entry: tiny#4k}\n'
    assert warned(read_config(tiny, f"{text}catalog: {tiny / 'catalog'}\n")) == []


def test_a_box_of_several_pools_has_no_peak(tiny: Path) -> None:
    """CAT-8: a figure of one size says nothing of a box whose memory is several pools."""
    text = 'version: 1\nhosts: {local: {memory: {gpu0: {}, ram: {}}}}\nengines:\n  a: {argv: [s, "{port}"], '
    found = fleet_of(tiny, text + "entry: tiny#4k}\n").engines[EngineId("a")].curation
    assert found is not None
    assert (found.peak, found.available, found.context_most) == (None, None, 4096)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("entry: »tiny#5k", "there is no tiny#5k in the catalog (nearest valid name: tiny#4k)"),
        ("entry: »tinny#4k", "there is no tinny#4k in the catalog (nearest valid name: tiny#4k)"),
        ("entry: »glm-5.3-flush#two-box", "nearest valid name: glm-5.3-flash#two-box"),
        ("entry: tiny#4k, context: »8192", "8192 is above what tiny#4k was made for: 8192 > 4096"),
        (
            "entry: glm-5.3-flash#two-box, serving_class: »resident",
            "a config narrows, never widens: by glm-5.3-flash#two-box this engine is windowed",
        ),
        (
            "entry: deepseek-v4-flash#two-box, resident: »true",
            "a is wedge-risk: nothing but an operator may start it",
        ),
    ],
)
def test_an_entry_that_does_not_go_is_told(tiny: Path, keys: str, words: str) -> None:
    """CAT-7, CAT-3: an unknown entry has the nearest name; what it forbids is an error in its place."""
    text = f'version: 1\nengines:\n  a: {{argv: [s, "{{port}}"], memory: 1 GiB, {keys}}}\n'
    path = f"engines.a.{keys.partition('»')[0].rstrip(': ').split(', ')[-1]}"
    check_marked(tiny, f"{text}catalog: {tiny / 'catalog'}\n", f"{path}: {words.partition(' (')[0]}")
    reading = read_config(tiny, f"{text}catalog: {tiny / 'catalog'}\n".replace("»", ""))
    assert words in told(reading)[0]


def test_members_are_as_many_as_roles(tmp_path: Path) -> None:
    """CAT-8, CONF-2: a distributed engine has a member for each role of its entry."""
    write_entry(tmp_path / "catalog", TWO_BOX.replace("CLASS", "windowed"))
    extra = FLEET.replace("[w, m], entry: ", "[w, m, x], entry: »").replace(
        "  p: ", '  x: {host: crow, argv: [s, "{port}"]}\n  p: '
    )
    check_marked(
        tmp_path,
        f"{extra}catalog: {tmp_path / 'catalog'}\n",
        "engines.p.entry: pair#two runs on 2 boxes (worker, main), and there are 3 members",
        machine="crow",
    )


def test_a_distributed_engine_gives_its_members_their_parts(tmp_path: Path) -> None:
    """CAT-8, CAT-3: each member has its role's peak, its owner's class, and the links to the others."""
    write_entry(tmp_path / "catalog", TWO_BOX.replace("CLASS", "wedge-risk"))
    engines = fleet_of(tmp_path, FLEET, "crow").engines
    worker, main, pair = (engines[EngineId(name)] for name in ("w", "m", "p"))
    assert {it.serving_class for it in (worker, main, pair)} == {ServingClass.WEDGE_RISK}
    assert {it.entry for it in (worker, main, pair)} == {"pair#two"}
    assert worker.curation is not None
    assert main.curation is not None
    assert pair.curation is not None
    assert (worker.curation.peak, main.curation.peak) == (74 * GIB, 78 * GIB)
    assert worker.curation.crossings == (
        Crossing(to="raven", interface="tb0", address="10.99.0.1", peer="10.99.0.2", speed=10 * 10**9),
    )
    assert main.curation.crossings == (
        Crossing(
            to="crow",
            interface="tb0",
            address="10.99.0.2",
            peer="10.99.0.1",
            speed=5 * 10**9,
            port=50052,
        ),
    )
    assert pair.curation.crossings == ()


def test_a_missing_link_is_warned_of(tmp_path: Path) -> None:
    """CAT-8: a shape over two boxes on hosts without a link to each other is warned of, and has none."""
    write_entry(tmp_path / "catalog", TWO_BOX.replace("CLASS", "windowed"))
    text = FLEET.replace("    links: {raven:", "    #").replace("    links: {crow:", "    #")
    reading = read_config(tmp_path, f"{text}catalog: {tmp_path / 'catalog'}\n", machine="crow")
    assert len([it for it in warned(reading) if "has no link to the other" in it]) == 2
    assert reading.fleet is not None
    made = reading.fleet.engines[EngineId("m")].curation
    assert made is not None
    assert made.crossings is None


@pytest.mark.parametrize(("links", "count"), [("raven: LINK", 1), ("", None)])
def test_one_process_of_a_two_box_shape_needs_a_link(tmp_path: Path, links: str, count: int | None) -> None:
    """CAT-8: an engine that is no distributed one goes over its host's own link to the worker's port."""
    write_entry(tmp_path / "catalog", TWO_BOX.replace("CLASS", "windowed"))
    text = (
        FLEET[: FLEET.index("engines:")]
        + 'engines:\n  a: {host: crow, argv: [s, "{port}"], entry: pair#two}\n'
    )
    if not links:
        text = text.replace("    links: {raven:", "    #")
    found = fleet_of(tmp_path, text, "crow").engines[EngineId("a")]
    assert found.curation is not None
    crossings = found.curation.crossings
    assert (None if crossings is None else len(crossings)) == count
    if crossings:
        assert (crossings[0].peer, crossings[0].port) == ("10.99.0.2", 50052)


def test_an_unreadable_catalog_is_a_warning(tmp_path: Path) -> None:
    """CAT-7: a config whose catalog cannot be read is right, warns, and bars engines with an entry."""
    text = 'version: 1\nengines:\n  a: {argv: [s, "{port}"], memory: 1 GiB, entry: x#y}\ncatalog: /nowhere\n'
    reading = read_config(tmp_path, text)
    assert told(reading) == []
    assert [it.split(": ")[1] for it in warned(reading)] == ["engines.a.entry", "catalog"]
    assert reading.fleet is not None
    found = reading.fleet.engines[EngineId("a")]
    assert (found.entry, found.curation, reading.fleet.catalog.known) == ("x#y", None, False)


def test_a_known_class_counts_while_the_catalog_is_broken(tmp_path: Path) -> None:
    """CAT-3, CAT-7: what a shipped entry says of a class counts also where nobody knows the rest."""
    text = (
        'version: 1\nengines:\n  a: {argv: [s, "{port}"], memory: 1 GiB, entry: deepseek-v4-flash#two-box}\n'
    )
    fleet = read_config(tmp_path, f"{text}catalog: /nowhere\n").fleet
    assert fleet is not None
    assert fleet.engines[EngineId("a")].serving_class is ServingClass.WEDGE_RISK


def test_the_policy_is_told_where_it_bites(tmp_path: Path) -> None:
    """CAT-7: under `uncurated: refuse` an engine without an entry is warned of; one that is used is not."""
    text = (
        'version: 1\nengines:\n  a: {argv: [s, "{port}"], memory: 1 GiB}\n'
        '  x: {driver: external, url: "http://127.0.0.1:9"}\npolicy: {uncurated: refuse}\n'
    )
    reading = read_config(tmp_path, text)
    assert len(warned(reading)) == 1
    assert "engines.a: is uncurated, and policy.uncurated is refuse" in warned(reading)[0]
    assert reading.fleet is not None
    assert reading.fleet.uncurated == "refuse"


# ---------------------------------------------------------------- nothing widens

CLASSES = st.sampled_from(list(ServingClass))
DANGER = ("resident", "windowed", "wedge-risk")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entry=CLASSES,
    config=st.none() | CLASSES,
    policy=st.sampled_from(["allow", "refuse"]),
    env=st.dictionaries(
        st.sampled_from(
            ["HOSTLER_FORCE", "HOSTLER_OVERRIDE", "HOSTLER_SERVING_CLASS", "HOSTLER_ORCHESTRATION"]
        ),
        st.sampled_from(["1", "resident", "windowed", "true"]),
    ),
)
def test_no_config_widens(
    tmp_path: Path, entry: ServingClass, config: ServingClass | None, policy: str, env: dict[str, str]
) -> None:
    """CAT-3: no key of the config and nothing in the environment makes a class less than its entry's."""
    write_entry(tmp_path / "catalog", TEXT.replace("{class: resident}", f"{{class: {entry}}}"))
    said = "" if config is None else f", serving_class: {config}"
    text = f'version: 1\nengines:\n  a: {{argv: [s, "{{port}}"], memory: 1 GiB, entry: tiny#4k{said}}}\n'
    reading = read_config(
        tmp_path,
        f"{text}policy: {{uncurated: {policy}}}\ncatalog: {tmp_path / 'catalog'}\n",
        env=env,
    )
    if config is not None and DANGER.index(config) < DANGER.index(entry):
        assert "a config narrows, never widens" in told(reading)[0]
        return
    assert reading.fleet is not None
    assert reading.fleet.engines[EngineId("a")].serving_class == max(entry, config or entry, key=DANGER.index)


# ---------------------------------------------------------------- read again


def test_a_changed_catalog_is_a_changed_config(tmp_path: Path) -> None:
    """CONF-3, CAT-7: a file of the catalog that changes, comes or goes makes the config look changed."""
    place = tmp_path / "catalog"
    write_entry(place)
    config = write_config(tmp_path, f"version: 1\ncatalog: {place}\n")
    source = FileSource(file=config, env={"HOME": str(tmp_path)})
    fresh = source.looks()
    source.read()
    seen = source.looks()
    assert seen != fresh
    assert source.looks() == seen
    write_entry(place, TEXT.replace("8192", "16384"))
    changed = source.looks()
    assert changed != seen
    (place / "tiny.yaml").unlink()
    gone = source.looks()
    assert gone not in (changed, seen)
    place.rmdir()
    assert source.looks() == gone
    config.unlink()
    assert source.looks() != gone


def test_an_entry_that_went_is_a_config_that_is_not_right(tmp_path: Path) -> None:
    """CAT-7, CONF-3: a directory without an entry that an engine names is no config to take up."""
    place = tmp_path / "catalog"
    path = write_entry(place)
    text = f'version: 1\nengines: {{a: {{argv: [s, "{{port}}"], entry: tiny#4k}}}}\ncatalog: {place}\n'
    source = FileSource(file=write_config(tmp_path, text), env={"HOME": str(tmp_path)})
    assert source.read().catalog.find("tiny#4k") is not None
    path.unlink()
    with pytest.raises(InvalidConfig, match="1 error"):
        source.read()
