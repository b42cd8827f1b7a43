from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.adapters.config.reading import examine, load
from hostler.adapters.config.tree import plain
from hostler.adapters.config.yaml import compose
from hostler.domain.errors import InvalidConfig
from tests.fakes.config_files import write_config

TEXT = """\
version: 1
schedule: {owner: crow}
node: {listen: 127.0.0.1:7070, hold_mode: "0640", log: {size: 1 MiB}}
hosts:
  crow:
    url: https://crow.lan
    memory: {total: 64 GiB, on_floor: {stop: [a]}}
    links: {raven: {interface: e, address: 10.99.0.1, peer: 10.99.0.2, speed: 1 Gbit/s}}
    groups: {main: {evicts: [extra], idle_revert: a, idle: 5m}, extra: {}}
  raven:
    url: https://raven.lan
    memory: {ram: {total: 9 GiB}, gpu0: {floor: 1 GiB}}
    node: {on_exit: stop}
engines:
  a:
    host: crow
    argv: [s, -m, "{file}", "{port}"]
    files: [f.gguf]
    memory: 1 GiB
    group: main
    resident: true
  b:
    host: raven
    argv: [s, --port, "8001"]
    port: 8001
    memory: {gpu0: 1 GiB}
    essential: true
    resident: true
    order: 2
  c: {host: crow, driver: container, container: {name: c, image: i}, args: [--port, "{port}"], memory: 2 GiB}
  d: {driver: distributed, members: [e, c]}
  e: {host: raven, argv: [s, "{port}"], memory: {gpu0: 1 GiB}, health: tcp}
  x: {host: raven, driver: external, url: "http://127.0.0.1:9"}
upstreams: {cloud: {url: "https://llm.example.net", host: external, on: [crow]}}
classes: {slow: {max_wait: 1m, rank: 9}}
routes:
  chat:
    aliases: [m/x]
    profiles: {p: a, q: [a, {upstream: cloud}]}
    active: p
    strategy: {spill: 2}
    class: slow
  voice:
    profiles: {p: {fast: a, large: x}}
    escalate: {token: "!", when_tools: true, intent: [a]}
    patches: {a: {k: 1}}
reservations:
  resources:
    r:
      hosts: [crow]
      ttl: {default: 1h}
      actions: [{hold: crow}, {route: chat, to: q}, {suspend: a}, {exec: [x]}]
    s: {hosts: [crow, raven], contains: [r], actions: [{webhook: "https://h.lan"}, {start: d}]}
modes:
  m: {standing: true, hosts: {crow: [a], raven: [b]}, routes: {chat: p}}
  n: {serving_class: windowed, resource: s, hosts: {crow: [d], raven: [b, d]}, cap: {max: 2h}}
ports:
  rows: [{host: crow, port: 1-2, service: s}]
  scan: {allow: [{host: crow, port: 1, services: [a], why: w}]}
keys: []
notices: {channels: {a: "ntfy:t"}, events: {stuck: {to: [a]}}}
"""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 70000)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["a", "b", "crow", "raven", "main", "1 GiB", "5m", "auto", "${env:HOME}", "${file:/x}", "=list"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(["a", "host"]), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS: list[tuple[str | int, ...]] = []


def _collect(value: object, path: tuple[str | int, ...]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        PATHS.append((*path, key))
        _collect(item, (*path, key))


DATA = plain(compose(TEXT)[0])
_collect(DATA, ())


def replaced(value: object, path: tuple[str | int, ...], new: object, *, drop: bool) -> object:
    """A copy of `value` in which what stands at `path` is `new`, or is left out."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    gone = drop and not rest
    if isinstance(value, dict):
        return {
            key: replaced(item, rest, new, drop=drop) if key == step else item
            for key, item in value.items()
            if not (gone and key == step)
        }
    assert isinstance(value, list)
    return [
        replaced(item, rest, new, drop=drop) if index == step else item
        for index, item in enumerate(value)
        if not (gone and index == step)
    ]


def flow(value: object) -> str:
    """A value as YAML in one line; texts as JSON writes them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(char):08x}" if not char.isalnum() else char for char in value) + '"'
    return "null" if value is None else str(value).lower()


def loads_or_refuses(text: str) -> bool:
    """Whether a config of that text loads; anything but InvalidConfig is passed on."""
    with TemporaryDirectory() as folder:
        path = write_config(Path(folder), "version: 1\n")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        env = {"HOME": folder}
        reading = examine(path, env, "crow")
        assert all(problem.line >= 1 and problem.column >= 1 for problem in reading.problems)
        if not reading.problems:
            return load(path, env, "crow") == reading.fleet
        with pytest.raises(InvalidConfig) as caught:
            load(path, env, "crow")
        assert len(caught.value.problems) == len(reading.problems)
        return False


def test_the_document_that_is_mutated_is_right() -> None:
    """CONF-2: the starting point of the mutations loads, so that one mutation is one step from right."""
    assert loads_or_refuses(TEXT)
    assert loads_or_refuses(flow(DATA) + "\n")


@settings(max_examples=120)
@given(st.sampled_from(PATHS), VALUES, st.booleans())
def test_no_value_breaks_the_reader(path: tuple[str | int, ...], value: object, drop: bool) -> None:
    """CONF-2: whatever stands where in a config, loading it gives a fleet or InvalidConfig, never more."""
    loads_or_refuses(flow(replaced(DATA, path, value, drop=drop)) + "\n")


@settings(max_examples=120)
@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 40),
    st.text(max_size=6)
    | st.sampled_from(["&a ", "*a", "- ", "\t", "{", "!x ", "---\n", "<<: ", "? ", "|\n", ": "]),
)
def test_no_text_breaks_the_reader(start: int, length: int, new: str) -> None:
    """CONF-1: whatever the bytes of a config, loading it gives a fleet or InvalidConfig, never more."""
    loads_or_refuses(TEXT[:start] + new + TEXT[start + length :])
