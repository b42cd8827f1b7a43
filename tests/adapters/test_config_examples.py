import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from hostler.adapters.config.explain import Schema, expand, parts_at
from hostler.adapters.config.reading import Reading, examine
from hostler.adapters.config.schema.document import json_schema, schema_text
from hostler.adapters.config.tree import plain
from hostler.adapters.config.yaml import compose
from hostler.domain.fleet import EngineTarget, Escalating, Plain, UpstreamTarget
from hostler.domain.step import StartEngine
from hostler.domain.values import EngineId, HostName, RouteName, ServingClass
from hostler.domain.window_plan import window_plan
from tests.docs.tree import ROOT
from tests.fakes.config_files import told, warned, with_secrets, write_config

EXAMPLES = ROOT / "examples"
SHIPPED = ROOT / "src/hostler/hostler.schema.json"
ENV = {"CLOUD_KEY": "cloud-key-1234", "ASR_KEY": "asr-key-1234"}

NOT_SHOWN = {
    **{
        f"hosts.*.memory.{pool}": "memory is one pool there"
        for pool in ("ram", *(f"gpu{n}" for n in range(8)))
    },
    **{
        f"engines.*.memory.{pool}": "memory is one pool there"
        for pool in ("ram", *(f"gpu{n}" for n in range(8)))
    },
    "hosts.*.memory.reader": "a test bed's alone",
    "ports.file": "stands instead of ports.rows",
    **{
        f"hosts.*.node.{key}": "stands under node"
        for key in ("tls", "state_dir", "models_dir", "hold_path", "hold_mode", "on_exit", "shutdown", "log")
    },
}
"""Keys that no example has, each with the reason."""


def read_example(folder: Path, name: str, host: str | None = None) -> Reading:
    """What an example says on one of its hosts; its secrets are files in `folder`."""
    text = (EXAMPLES / name / "hostler.yaml").read_text(encoding="utf-8")
    text = text.replace("/srv/hostler-catalog", str(EXAMPLES / name / "catalog"))
    return examine(write_config(folder, with_secrets(folder, text)), ENV, host, machine="elsewhere")


@pytest.mark.parametrize(("name", "host"), [("one-box", None), ("two-host", "crow"), ("two-host", "raven")])
def test_an_example_is_right(tmp_path: Path, name: str, host: str | None) -> None:
    """CONF-2: each example loads on each of its hosts, without an error and without a warning."""
    reading = read_example(tmp_path, name, host)
    assert (told(reading), warned(reading)) == ([], [])


def test_the_fleet_is_what_the_example_says(tmp_path: Path) -> None:
    """CONF-2: the fleet has seconds, bytes and names where the file has texts."""
    fleet = read_example(tmp_path, "two-host", "crow").fleet
    assert fleet is not None
    crow, bots = fleet.host, fleet.engines[EngineId("bots-35b")]
    assert (fleet.here, fleet.name, fleet.head, fleet.timezone) == (
        "crow",
        "roundhouse",
        ("crow",),
        "Europe/Berlin",
    )
    assert (fleet.node.hold_mode, fleet.node.hold_writers) == (0o640, ("bench",))
    assert (crow.pools[0].name, crow.pools[0].total, crow.on_floor) == ("host", 124 << 30, ("draft-7b",))
    assert crow.groups["main"].idle_revert == "bots-35b"
    assert (crow.groups["main"].idle_s, crow.groups["main"].yield_after_s) == (1200.0, 90.0)
    assert (bots.host, bots.port, bots.stop_timeout_s) == ("crow", 8003, 300.0)
    assert bots.need == {"host": 43 << 30}
    assert bots.container is not None
    assert bots.container.memory_limit == 64 << 30
    assert fleet.engines[EngineId("glm-5.3-flash")].host == "raven"
    assert fleet.engines[EngineId("glm-5.3-flash")].serving_class is ServingClass.WINDOWED
    assert fleet.engines[EngineId("small")].port is None
    assert fleet.engines[EngineId("small")].model == "small"
    assert fleet.essentials() == {"embed"}
    assert fleet.hosts[HostName("raven")].on_floor == ()
    assert (fleet.classes["batch"].max_wait_s, fleet.classes["chat"].rank) == (900.0, 2)
    chat, voice = fleet.routes[RouteName("chat")], fleet.routes[RouteName("voice")]
    assert chat.profiles["spread"] == Plain(
        targets=(
            EngineTarget(engine=EngineId("bots-35b")),
            UpstreamTarget(upstream="cloud", model="qwen3.6-35b"),
        )
    )
    assert (chat.active, chat.fallback, chat.strategy.kind) == ("local", "least", "first_ready")
    assert voice.profiles["local"] == Escalating(fast=EngineId("voice-4b"), large=EngineId("bots-35b"))
    assert voice.escalate is not None
    assert voice.escalate.lookback == 8
    assert voice.patches["voice-4b"] == {"chat_template_kwargs": {"enable_thinking": False}}
    pool = fleet.routes[RouteName("pool")]
    assert (pool.active, pool.strategy.kind, pool.strategy.spill) == ("all", "spill", 4)
    assert sorted(fleet.keys[0].routes or ()) == ["chat", "nomic-embed", "voice"]
    assert (fleet.keys[0].per_minute, fleet.keys[3].expires) == (600, "2027-06-30T00:00:00.000Z")


def test_later_parts_are_kept_as_plain_data(tmp_path: Path) -> None:
    """CONF-2: keys of parts that read them for themselves are validated data that nobody can change."""
    fleet = read_example(tmp_path, "two-host", "crow").fleet
    assert fleet is not None
    assert set(fleet.later) >= {
        "reservations",
        "ports",
        "notices",
        "fleet",
    }
    notices = cast("dict[str, dict[str, object]]", fleet.later["notices"])
    with pytest.raises(TypeError):
        notices["channels"]["phone"] = None


def test_the_modes_of_two_boxes(tmp_path: Path) -> None:
    """MODE-1: three states and a script, each as it is written."""
    fleet = read_example(tmp_path, "two-host", "crow").fleet
    assert fleet is not None
    assert list(fleet.modes) == ["standard", "heavy-glm", "heavy-dsv4", "script-glm"]
    assert fleet.modes["standard"].standing
    glm = fleet.modes["heavy-glm"]
    assert (glm.resource, glm.serving_class, glm.cap_s, glm.cap_max_s, glm.drain_before_s) == (
        "pair",
        ServingClass.WINDOWED,
        3600.0,
        3 * 3600.0,
        600.0,
    )
    assert dict(glm.hosts) == {"crow": ("embed", "glm-5.3-flash"), "raven": ("glm-5.3-flash",)}
    assert dict(glm.available) == {"crow": 84 << 30, "raven": 88 << 30}
    assert [(it.host, it.argv[0], it.timeout_s) for it in glm.verify] == [("crow", "sqlite3", 60.0)]
    assert [str(it) for it in glm.not_between] == ["02:15-04:15"]
    assert fleet.modes["heavy-dsv4"].serving_class is ServingClass.WEDGE_RISK
    script = fleet.modes["script-glm"].tool
    assert script is not None
    assert (script.open.argv[1], script.open.timeout_s, script.status.timeout_s) == ("open", 1200.0, 10.0)
    steps = window_plan(fleet, glm, glm.cap_s, 300.0)
    assert [it.engine for it in steps if isinstance(it, StartEngine)] == ["glm-worker", "glm-master"]


def test_a_mode_names_a_route_by_its_alias(tmp_path: Path) -> None:
    """MODE-1: it means the route."""
    text = (
        "version: 1\nengines: {a: {argv: [s], port: 8101, resident: true}}\n"
        "routes: {chat: {aliases: [gpt], profiles: {local: a}}}\n"
        "modes: {usual: {standing: true, hosts: {local: [a]}, routes: {chat: local}}}\n"
    )
    fleet = examine(write_config(tmp_path, text), ENV, None, machine="elsewhere").fleet
    assert fleet is not None
    assert dict(fleet.modes["usual"].routes) == {"chat": "local"}


def test_defaults_of_one_box(tmp_path: Path) -> None:
    """CONF-2: without `hosts:` there is one host, `local`, which is its own head and has every engine."""
    fleet = read_example(tmp_path, "one-box").fleet
    assert fleet is not None
    assert (fleet.here, fleet.head, list(fleet.hosts)) == ("local", ("local",), ["local"])
    assert {engine.host for engine in fleet.engines.values()} == {"local"}
    assert fleet.routes[RouteName("chat")].active == "local"
    assert fleet.routes[RouteName("chat")].request_class == "chat"
    assert fleet.node.listen == ("127.0.0.1:7070",)


@pytest.mark.cases
@pytest.mark.parametrize(("number", "host"), [(0, None), (1, "crow"), (1, "raven")])
def test_the_reference_loads(tmp_path: Path, cases: Path, number: int, host: str | None) -> None:
    """CONF-1: both documents load; the second warns of its two free ports that do not fit together."""
    path = cases.parent / "reference/hostler.yaml"
    if not path.is_file():
        pytest.skip(f"there is no reference: {path}")
    document = path.read_text(encoding="utf-8").split("\n---\n")[1:][number]
    # Its directory is of that fleet; ours has the one entry that is not shipped.
    document = document.replace("/srv/hostler-catalog", str(EXAMPLES / "two-host" / "catalog"))
    config = write_config(tmp_path, with_secrets(tmp_path, document))
    reading = examine(config, ENV, host, machine="elsewhere")
    assert told(reading) == []
    assert ["8030 and 8036 are both free" in line for line in warned(reading)] == [True] * number


def test_the_shipped_schema_is_current() -> None:
    """CONF-1: the JSON Schema that is shipped is the one that the keys give: `hostler config schema`."""
    assert SHIPPED.read_text(encoding="utf-8") == schema_text()


def test_every_key_is_described() -> None:
    """CONF-2: each key and each kind of mapping has a sentence in the JSON Schema."""
    schema = json_schema()
    definitions = cast("dict[str, dict[str, object]]", schema["$defs"])
    bare = [name for name, part in definitions.items() if not part.get("description")]
    for name, part in {"": schema, **definitions}.items():
        for key, each in cast("dict[str, Schema]", part.get("properties", {})).items():
            described = each.get("description") or all(one.get("description") for one in expand(schema, each))
            bare += [] if described else [f"{name}.{key}"]
    assert bare == []


def test_no_key_may_be_null() -> None:
    """CONF-1: the JSON Schema allows no null, as the reader allows no key without a value."""
    assert '"null"' not in json.dumps(json_schema())


def test_every_key_is_in_an_example() -> None:
    """CONF-2: each key of the schema is in one of the examples, or stands in the list with its reason."""
    schema = json_schema()
    known = set(_schema_keys(schema, schema, ()))
    shown: set[str] = set()
    for path in EXAMPLES.glob("*/hostler.yaml"):
        root, _ = compose(path.read_text(encoding="utf-8"))
        shown |= set(_used_keys(schema, plain(root), ()))
    missing = known - shown
    assert {
        key for key in missing if not any(f"{key}.".startswith(f"{each}.") for each in NOT_SHOWN)
    } == set()
    assert set(NOT_SHOWN) <= missing, "shown by now: take it off the list"


def _schema_keys(schema: Schema, part: Schema, path: tuple[str, ...]) -> Iterator[str]:
    """Every key that the schema knows, `*` for names and items: `engines.*.argv`."""
    for each in expand(schema, part):
        for key, inner in cast("Mapping[str, Schema]", each.get("properties", {})).items():
            yield ".".join((*path, key))
            yield from _schema_keys(schema, inner, (*path, key))
        named = cast("Mapping[str, Schema]", each.get("patternProperties", {}))
        others = (each.get("additionalProperties"), each.get("items"))
        for below in (
            *named.values(),
            *(cast("Schema", other) for other in others if isinstance(other, dict)),
        ):
            yield from _schema_keys(schema, below, (*path, "*"))


def _used_keys(
    schema: Schema, value: object, path: tuple[str, ...], at: tuple[str | int, ...] = ()
) -> Iterator[str]:
    """Every key that a document has, written as `_schema_keys` does."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _used_keys(schema, item, (*path, "*"), (*at, index))
    elif isinstance(value, dict):
        own = {
            key
            for part in parts_at(schema, at)
            for key in cast("Mapping[str, Schema]", part.get("properties", {}))
        }
        for key, item in value.items():
            step = key if key in own else "*"
            if key in own:
                yield ".".join((*path, key))
            yield from _used_keys(schema, item, (*path, step), (*at, key))
