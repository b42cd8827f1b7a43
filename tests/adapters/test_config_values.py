from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.adapters.config.explain import nearest
from hostler.adapters.config.schema.base import duration_text, size_text
from hostler.domain.values import parse_duration, parse_size
from tests.fakes.config_files import check_marked, marked, read_config, told, warned

HEAD = "version: 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node: »3", "node: expected a mapping of keys, not the number 3"),
        (
            "node: {on_exit: »kep}",
            "node.on_exit: expected keep or stop, not the text 'kep' (nearest valid name: keep)",
        ),
        ("node: {»on_exti: keep}", "node.on_exti: no such key (nearest valid name: on_exit)"),
        ("»engins: {}", "engins: nearest valid name: engines"),
        ("node: {hold_mode: »0640}", "node.hold_mode: unquoted, 0640 is the number 640"),
        ("node: {hold_mode: »'0660'}", 'node.hold_mode: expected the quoted text "0600", "0640" or "0644"'),
        (
            "node: {shutdown: »90}",
            "node.shutdown: expected a duration such as 90s, 15m or 2h30m, not the number 90",
        ),
        ("node: {shutdown: »'5 minutes'}", "node.shutdown: expected a duration"),
        ("node: {shutdown: »9000d}", "node.shutdown: expected a duration of at most ten years"),
        ("node: {log: {size: »10}}", "node.log.size: expected a size such as 512 MiB"),
        ("node: {log: {size: »10 MB/s}}", "node.log.size: expected a size"),
        ("node: {log: {size: »-1 MiB}}", "node.log.size: expected a size"),
        ("node: {log: {files: »0}}", "node.log.files: expected a number of at least 1, not the number 0"),
        ("node: {log: {files: »1.5}}", "node.log.files: expected a whole number, not the number 1.5"),
        ("node: {log: {files: »yes}}", "node.log.files: expected a whole number, not the text 'yes'"),
        ("gateway: {capture: »yes}", "gateway.capture: expected true or false, not the text 'yes'"),
        ("gateway: {capture: »1}", "gateway.capture: expected true or false, not the number 1"),
        ("node: {listen: »7070}", "node.listen: expected an address and a port"),
        ("node: {listen: »'crow.lan:7070'}", "node.listen: expected an address and a port"),
        ("node: {listen: »'::1:7070'}", "node.listen: [::1]:7070"),
        ("node: {listen: [»'127.0.0.1:70700']}", "node.listen[0]: expected an address and a port"),
        ("node: {state_dir: »state}", "node.state_dir: expected an absolute path"),
        ("node: {state_dir: »/var/../etc}", "node.state_dir: without .."),
        ("node: {hold_writers: »bench}", "node.hold_writers: expected a list, not the text 'bench'"),
        ("node: {hold_writers: [»'Bench Mark']}", "node.hold_writers[0]: expected the name of a user"),
        ("»node:", "node: has no value"),
        ("fleet: {»name: }", "fleet.name: has no value"),
        ("fleet: {name: »''}", "fleet.name: not empty"),
        ("hosts: {»Crow: {}}", "hosts.Crow: expected a name of [a-z0-9]"),
        ("hosts: {»'a b': {}}", 'hosts["a b"]: expected a name of [a-z0-9]'),
        ("hosts: »{}", "hosts: expected at least one host"),
        ("hosts: {crow: {ports: {range: »8100}}}", "hosts.crow.ports.range: expected a range of ports"),
        ("hosts: {crow: {ports: {range: »8199-8100}}}", "hosts.crow.ports.range: expected a range of ports"),
        ("hosts: {crow: {address: »crow.lan}}", "hosts.crow.address: expected an IP address"),
        ("hosts: {crow: {memory: {reader: »DIR}}}", "hosts.crow.memory.reader: files:"),
        ("hosts: {crow: {memory: {on_floor: »stop}}}", "hosts.crow.memory.on_floor: expected notify"),
        ("hosts: {crow: {memory: {»gpu9: {}}}}", "hosts.crow.memory.gpu9: no such key"),
        ("hosts: {crow: {tls_pin: »sha256/abc=, url: 'https://a.lan'}}", "hosts.crow.tls_pin: 32 bytes"),
        ("engines: {a: {argv: »llama-server --port 1}}", "engines.a.argv: expected a list, not the text"),
        (
            "engines: {a: {argv: [s, -c, »16384]}}",
            "engines.a.argv[2]: expected text, not the number 16384; quote it",
        ),
        ("engines: {a: {argv: »[]}}", "engines.a.argv: expected at least 1 of them"),
        ("engines: {a: {driver: »proces}}", "engines.a.driver: nearest valid name: process"),
        (
            "engines: {a: {argv: [s, '{port}'], health: »health}}",
            "engines.a.health: expected a path such as /health, tcp, or none",
        ),
        ("engines: {a: {argv: [s], port: »0}}", "engines.a.port: expected a port from 1 to 65535, or auto"),
        (
            "engines: {a: {argv: [s, '{port}'], memory: »{vram: 1 GiB}}}".replace("»{", "{»"),
            "engines.a.memory.vram: no such key",
        ),
        ("engines: {a: {argv: [s, '{port}'], memory: »4}}", "engines.a.memory: expected a size"),
        ("engines: {a: {argv: [s], files: [»../x.gguf]}}", "engines.a.files[0]: below models_dir"),
        ("engines: {a: {argv: [s, '{port}'], env: {»A-B: x}}}", "engines.a.env.A-B: the name of a variable"),
        ("engines: {a: {argv: [s, '{port}'], env: {A: »1}}}", "engines.a.env.A: quote it"),
        ("engines: {a: {driver: systemd, unit: »x}}", "engines.a.unit: a systemd unit"),
        ("engines: {a: {argv: [s], entry: »x}}", "engines.a.entry: a catalog entry"),
        (
            "engines: {a: {driver: compose, compose: »{file: /a, project: b}}}".replace("»", "").replace(
                "compose: {", "»compose: {"
            ),
            "engines.a.compose.service: is missing",
        ),
        ("routes: {»a: {}}", "routes.a.profiles: is missing"),
        (
            "engines: {x: {argv: [s, '{port}']}}\nroutes: {a: {profiles: {p: x}, »request_class: chat}}",
            "routes.a.request_class: no such key",
        ),
        ("routes: {a: {profiles: »{}}}", "routes.a.profiles: expected at least 1 of them"),
        ("routes: {a: {profiles: {p: »[]}}}", "routes.a.profiles.p: expected at least 1 of them"),
        (
            "engines: {a: {argv: [s], container: {name: a, »imgae: b}}}",
            "engines.a.container.imgae: nearest valid name: image",
        ),
        (
            "engines: {a: {driver: container, container: {name: a, mounts: [»'models:/models']}}}",
            "engines.a.container.mounts[0]: a mount as /HOST:/CONTAINER",
        ),
        (
            "engines: {a: {driver: container, container: {name: a, mounts: [»'/models:/models:rw']}}}",
            "engines.a.container.mounts[0]: a mount as /HOST:/CONTAINER",
        ),
        ("routes: {»'': {profiles: {p: a}}}", 'routes[""]: 1 to 256 bytes'),
        ("routes: {»../x: {profiles: {p: a}}}", 'routes["../x"]: without . or ..'),
        ("routes: {».: {profiles: {p: a}}}", 'routes["."]: without . or ..'),
        ("routes: {»a/%2e%2E/b: {profiles: {p: a}}}", 'routes["a/%2e%2E/b"]: without . or ..'),
        ('routes: {»"a\\x85b": {profiles: {p: a}}}', 'routes["a\\x85b"]: without control characters'),
        ("classes: {a: {max_wait: 1s, rank: »0}}", "classes.a.rank: at least 1"),
        (
            "reservations: {resources: {r: {actions: [»{}]}}}",
            "reservations.resources.r.actions[0]: one of the verbs hold, route",
        ),
        (
            "reservations: {resources: {r: {actions: [{suspend: a, »memory: true}]}}}",
            "reservations.resources.r.actions[0].memory: memory_back",
        ),
        (
            "modes: {m: {hosts: {local: []}, not_between: [»2:15-4:15]}}",
            "modes.m.not_between[0]: hours such as",
        ),
        ("ports: {rows: [{host: local, port: »a, service: s}]}", "ports.rows[0].port: a range of ports"),
        ("keys: [{name: a, key: '${env:K}', scope: [»infr]}]", "keys[0].scope[0]: nearest valid name: infer"),
        (
            "keys: [{name: a, key: '${env:K}', scope: [infer], expires: »'2027-06-30'}]",
            "keys[0].expires: with its zone",
        ),
        (
            "notices: {events: {stuck: {priority: »hihg}}}",
            "notices.events.stuck.priority: nearest valid name: high",
        ),
        ("catalog: »catalog", "catalog: expected an absolute path"),
        ("policy: {uncurated: »deny}", "policy.uncurated: expected allow or refuse"),
        ("store: »mysql", "store: expected sqlite or postgresql://"),
    ],
)
def test_a_value_of_another_kind_is_told(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-2: each wrong value or key is one error with what was expected and the nearest name."""
    check_marked(tmp_path, HEAD + text.replace("${env:K}", "${env:HOME}"), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("»node: {}", "version: is missing"),
        ("version: »2\nwheels: {}", "version: version 2 is newer than this hostler, which reads 1"),
        ("version: »0", "version: expected 1, not the number 0"),
        ("version: »'1'", "version: expected 1, not the text '1'"),
        ("version: »true", "version: expected 1, not the truth value true"),
    ],
)
def test_the_version_comes_first(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-1: `version: 1` is needed, and of a newer format nothing else is judged."""
    check_marked(tmp_path, text, expected)


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    """CONF-2: errors of YAML, of values, of secrets and of relations are told at once, in order."""
    check_marked(
        tmp_path,
        """\
        version: 1
        node: {on_exit: »kep}
        engines:
          a: {argv: [s, --port, "{port}"], memory: 1 GiB}
          »a: {argv: [s]}
          b: {argv: [s, --port, "{port}"], group: »none, memory: 1 GiB}
          c: {»agrv: [s]}
        upstreams:
          cloud: {url: "https://llm.example.net", key: »"${env:UNSET}", host: external}
        routes:
          chat: {profiles: {local: »bb, other: c}}
        """,
        "node.on_exit: nearest valid name: keep",
        "engines.a: given twice",
        "engines.b.group: there is no group none on local",
        "engines.c.agrv: nearest valid name: argv",
        "upstreams.cloud.key: the variable UNSET is not set",
        "routes.chat.profiles.local: there is no engine bb (nearest valid name: b)",
    )


TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow: {url: "https://crow.lan", key: »in-clear, memory: {reserve: »lots}}
  raven: {url: "https://raven.lan", key: »in-clear-too}
engines:
  a: {host: crow, argv: [s, "{port}"], port: 8101, memory: »lots}
  b: {host: crow, argv: [s, "{port}"], port: »8101, »memorry: 1 GiB}
reservations:
  resources:
    box:
      hosts: [crow]
      »titel: the box
      ttl: {default: »13h, max: 12h}
      drain: »5
      actions: [{suspend: »7}, {hold: »locl}, »{suspned: a}, {suspend: »nothere}]
keys: [{name: ann, key: »in-clear, scope: [»infr]}]
"""


def test_what_stands_beside_a_wrong_value_is_checked(tmp_path: Path) -> None:
    """CONF-2: a wrong value leaves out itself alone where it can: what else is wrong is told with it."""
    check_marked(
        tmp_path,
        TWO,
        "hosts.crow.key: a secret in clear",
        "hosts.crow.memory.reserve: expected a size",
        "hosts.raven.key: a secret in clear",
        "engines.a.memory: expected a size",
        "engines.b.port: port 8101 of crow is a's as well",
        "engines.b.memorry: nearest valid name: memory",
        "reservations.resources.box.titel: nearest valid name: title",
        "reservations.resources.box.ttl.default: default is longer than max",
        "reservations.resources.box.drain: expected a duration",
        "reservations.resources.box.actions[0].suspend: expected a name",
        "reservations.resources.box.actions[1].hold: there is no host locl",
        "reservations.resources.box.actions[2]: expected one of the verbs",
        "reservations.resources.box.actions[3].suspend: there is no engine nothere",
        "keys[0].key: a secret in clear",
        "keys[0].scope[0]: expected",
        machine="crow",
    )


A_AND_B = """\
engines:
  a: {argv: [s, "{port}"], memory: 1 GiB}
  b: {argv: [s, "{port}"], memory: 1 GiB}
"""
MANY = "engines:\n" + "".join(f"  e{n}: {{argv: [s, '{{port}}'], memory: 1 GiB}}\n" for n in range(101))
"""More than there are ports for, where a config does not say which."""
ROUTE = "routes: {chat: {profiles: {one: a, two: b}, active: one}}\n"
HELD = "actions: [{hold: local}]"
MOVED = "actions: [{suspend: a}, {start: b}, {route: chat, to: two}, {route: chat, to: »7}]"


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {local: {ports: {range: »lots}}}\n" + MANY,
        "hosts: {local: {»portz: {range: 8100-8300}}}\n" + MANY,
        "hosts: {local: {groups: {g: {idle_revert: c}}}}\n"
        + A_AND_B
        + '  c: {argv: [s, "{port}"], group: g, memory: »lots}\n',
        "engines:\n  a: {argv: [s, '{port}'], »memorry: 1 GiB}\n",
        "engines:\n  a: {»drivr: external, url: 'http://127.0.0.1:9'}\n",
        "engines:\n  a: {driver: »extern, url: 'http://127.0.0.1:9'}\n",
        "engines:\n  a: {argv: [s, '{file}', '{port}'], files: [»7], memory: 1 GiB}\n",
        f"{A_AND_B}{ROUTE}reservations: {{resources: {{box: {{{MOVED}}}}}}}\n",
        f"reservations: {{resources: {{in: {{{HELD}}}, out: {{»contians: [in], {HELD}}}}}}}\n",
    ],
)
def test_what_is_left_out_accuses_nobody(tmp_path: Path, text: str) -> None:
    """CONF-2: one error brings no others, and no warning of what is missing because it was left out."""
    clean, places = marked(HEAD + text)
    reading = read_config(tmp_path, clean)
    assert ([(it.line, it.column) for it in reading.problems], warned(reading)) == (places, [])


def test_one_error_brings_no_others(tmp_path: Path) -> None:
    """CONF-2: what is broken is still known by name, so that who names it is not accused."""
    check_marked(
        tmp_path,
        """\
        version: 1
        hosts:
          local: {groups: {main: {idle_revert: a}}, orchestration: »maybe}
        engines:
          a: {argv: [s], port: »x, group: main, resident: true, essential: true}
          a2: {argv: [s, --port, "{port}"], memory: »3}
        keys:
          - {name: one, key: "${env:HOME}", scope: [»x]}
          - {name: two, key: "${env:PATH}", scope: [infer], routes: [chat, »tchat]}
        routes:
          chat: {profiles: {local: a}, class: slow}
        classes: {slow: {max_wait: 1s, rank: »none}}
        modes:
          m: {standing: true, hosts: {local: [a]}}
        """.replace('"${env:PATH}"', '"${env:HOME}"'),
        "hosts.local.orchestration: expected true or false",
        "engines.a.port: expected a port",
        "engines.a2.memory: expected a size",
        "keys[0].scope[0]: expected",
        "keys[1].routes[1]: nearest valid name: chat",
        "classes.slow.rank: expected a whole number",
    )


def test_a_flood_of_errors_is_cut(tmp_path: Path) -> None:
    """CONF-2: of a thousand errors two hundred are told, and how many more there are."""
    rows = "\n".join(f"  e{n}: {{argv: 1}}" for n in range(1000))
    reading = read_config(tmp_path, f"version: 1\nengines:\n{rows}\n")
    assert len(reading.problems) == 201
    assert "800 more" in told(reading)[-1]


def test_a_long_value_is_shortened(tmp_path: Path) -> None:
    """CONF-2: a value in a message is cut and its control characters are escaped (BG-22)."""
    reading = read_config(tmp_path, 'version: 1\nnode: {on_exit: "' + "\\x1b[2J" + "x" * 5000 + '"}\n')
    assert "\\x1b[2J" in told(reading)[0]
    assert len(told(reading)[0]) < 300


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2027-06-30T00:00:00Z", "2027-06-30T00:00:00.000Z"),
        ("2027-06-30T02:00:00.5+02:00", "2027-06-30T00:00:00.500Z"),
        ("2027-06-30T00:00:00", None),
        ("2027-06-30", None),
        ("2027-06-30 00:00:00Z", None),
        ("2027-02-30T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
    ],
)
def test_a_moment_is_kept_in_utc(tmp_path: Path, text: str, moment: str | None) -> None:
    """TIME-1: a time of the config needs its zone, and is kept in UTC with milliseconds and Z."""
    key = f"{{name: a, key: '${{env:HOME}}', scope: [infer], expires: '{text}'}}"
    reading = read_config(tmp_path, f"{HEAD}keys: [{key}]\n")
    kept = None if reading.fleet is None else reading.fleet.keys[0].expires
    assert (kept, [each.path for each in reading.problems]) == (moment, [] if moment else ["keys[0].expires"])


@given(st.integers(0, 10**10).map(lambda n: n / 1000))
def test_a_duration_reads_back(seconds: float) -> None:
    """CONF-1: what `config show` writes for a duration is read as the same duration."""
    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds, abs=0.0005)


@given(st.integers(0, 1 << 50) | st.integers(0, 4000).map(lambda n: n << 28))
def test_a_size_reads_back(size: int) -> None:
    """CONF-1: what `config show` writes for a size is read as the same number of bytes."""
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("exti", ["exit", "stop"], "nearest valid name: exit"),
        ("zzz", ["exit", "stop"], "valid: exit, stop"),
        ("zzz", [f"name-{n}" for n in range(20)], "20 are known, none is near"),
        ("zzz", [], ""),
    ],
)
def test_the_nearest_name(name: str, names: list[str], hint: str) -> None:
    """CONF-2: the hint is the nearest valid name, else the few that there are."""
    assert nearest(name, names) == hint
