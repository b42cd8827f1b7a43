from pathlib import Path

import pytest

from tests.fakes.config_files import check_marked, read_config, told, warned

ENGINE = 'argv: [s, --port, "{port}"], memory: 1 GiB'
TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow: {url: "https://crow.lan:7070", groups: {main: {}, rpc: {}}}
  raven: {url: "https://raven.lan:7070", groups: {main: {}}}
"""
PAIR = "  a: {E, host: crow}\n  c: {E, host: raven}\n"
PAIR_X = "  b: {driver: distributed, members: [a, »x]}\n"


def one(text: str) -> str:
    """A one-box config with engines; `E` stands for a sound engine's keys."""
    return "version: 1\nengines:\n" + text.replace("E,", f"{ENGINE},").replace("E}", f"{ENGINE}}}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  »a: {memory: 1 GiB}\n", "engines.a.argv: is missing: a process engine"),
        ("  »a: {driver: container, port: 1, memory: 1 GiB}\n", "engines.a.container: is missing"),
        ("  »a: {driver: compose, port: 1, memory: 1 GiB}\n", "engines.a.compose: is missing"),
        ("  »a: {driver: systemd, port: 1, memory: 1 GiB}\n", "engines.a.unit: is missing"),
        ("  »a: {driver: external}\n", "engines.a.url: is missing"),
        ("  »a: {driver: distributed}\n", "engines.a.members: is missing"),
        ("  a: {E, »unit: x.service}\n", "engines.a.unit: is for systemd engines; this one is process"),
        ("  a: {E, »args: [x]}\n", "engines.a.args: is for container engines"),
        ("  a: {E, »url: 'http://h:1'}\n", "engines.a.url: is for external engines"),
        (
            "  a: {driver: external, url: 'http://h:1', »resident: true}\n",
            "engines.a.resident: never started",
        ),
        ("  a: {driver: external, url: 'http://h:1', »port: 1}\n", "engines.a.port: is not for external"),
        ("  a: {driver: external, url: »'ftp://h'}\n", "engines.a.url: expected a URL"),
        ("  a: {driver: external, url: »'http://u:p@h'}\n", "engines.a.url: a URL with credentials in clear"),
        ("  a: {driver: external, url: »'http://169.254.169.254/x'}\n", "engines.a.url: a metadata address"),
        ("  a: {driver: external, url: »'http://[::ffff:169.254.169.254]/'}\n", "engines.a.url: metadata"),
        ("  »a: {driver: systemd, unit: a.service, memory: 1 GiB}\n", "engines.a.port: is missing: the unit"),
        ("  a: {E, group: »main}\n", "engines.a.group: there is no group main on local"),
        ("  a: {E, serving_class: windowed, resident: »true}\n", "engines.a.resident: a is windowed"),
        ("  a: {E, serving_class: wedge-risk, essential: »true}\n", "engines.a.essential: a is wedge-risk"),
        ("  a: {E, enabled: false, resident: »true}\n", "engines.a.resident: it is never started"),
        (
            "  a: {argv: [s, »'{prot}'], memory: 1 GiB, port: 1, health: none}\n",
            "engines.a.argv[1]: nearest valid name: port",
        ),
        (
            "  a: {argv: [s, '{port}', »'{\"x\": 1}'], memory: 1 GiB}\n",
            "engines.a.argv[2]: a lone brace ({{ is a brace",
        ),
        (
            "  a: {argv: [s, '{port}', -m, »'{file}'], memory: 1 GiB}\n",
            "engines.a.argv[3]: {file} is the first of files",
        ),
        ("  a: {argv: »[s], memory: 1 GiB}\n", "engines.a.argv: {port} is nowhere in the command"),
    ],
)
def test_a_relation_of_an_engine_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-2: an engine's keys go with its driver, host, group and class; each that does not is told."""
    check_marked(tmp_path, one(text), expected)


def test_a_placeholder_is_told_beside_another_error_of_its_engine(tmp_path: Path) -> None:
    """CONF-2: all errors at once; an engine that a wrong key leaves out has its words looked at still."""
    words = "argv: [s, '{port}', '{adress}', '${env:NOT_SET}'], args: ['{'], memory: 1 GiB, resdent: true"
    problems = told(read_config(tmp_path, one(f"  a: {{{words}}}\n")))
    assert [it.split(": ")[1:3] for it in problems] == [
        ["engines.a.argv[2]", "there is no placeholder {adress} (nearest valid name"],
        ["engines.a.argv[3]", "the variable NOT_SET is not set"],
        ["engines.a.args[0]", "a lone brace ({{ is a brace, {port} a placeholder)"],
        ["engines.a.resdent", "no such key (nearest valid name"],
    ]


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("argv: [s, --port, »'9101'], port: 9102", "argv[2]"),
        ("argv: [s, »--port=9101], port: 9102", "argv[1]"),
        ("argv: [s, --port, »'9101']", "argv[2]"),
        ("argv: [s, --port, »nine], port: 9102", "argv[2]"),
        ("driver: container, container: {name: a, image: i}, args: [--port, »'9101'], port: 9102", "args[1]"),
    ],
)
def test_a_port_in_the_command_that_is_not_the_port_is_refused(tmp_path: Path, words: str, at: str) -> None:
    """BG-09, CONF-2: a command that listens on 9101 while 9102 is watched never loads."""
    check_marked(
        tmp_path, one(f"  a: {{{words}, memory: 1 GiB}}\n"), f"engines.a.{at}: the command listens on"
    )


@pytest.mark.parametrize(
    "words",
    [
        "argv: [s, --port, '9102'], port: 9102",
        "argv: [s, --port=9102], port: 9102",
        "argv: [s, --port, '{port}'], port: 9102",
        "argv: [s, '{{\"a\": {port}}}']",
        "argv: [s, -p, '512', --port, '{port}']",
        "argv: [s], port: 9102, health: none",
    ],
)
def test_a_port_in_the_command_that_is_the_port_passes(tmp_path: Path, words: str) -> None:
    """BG-09, CONF-2: the same number, or the placeholder, is right; -p is not taken for a port."""
    assert told(read_config(tmp_path, one(f"  a: {{{words}, memory: 1 GiB}}\n"))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  »a: {E}\n", "engines.a.host: is missing: there are several hosts (valid: crow, raven)"),
        ("  a: {E, host: »crwo}\n", "engines.a.host: there is no host crwo (nearest valid name: crow)"),
        (
            "  a: {E, host: raven, group: »rpc}\n",
            "engines.a.group: there is no group rpc on raven; crow has one, and groups do not cross hosts",
        ),
        (
            "  a: {E, host: crow}\n  b: {driver: distributed, members: [a, »c]}\n",
            "engines.b.members[1]: there is no engine c",
        ),
        (
            "  a: {E, host: crow}\n  b: {driver: distributed, members: [a, »a]}\n",
            "engines.b.members[1]: a is listed twice",
        ),
        (
            "  a: {E, host: crow}\n  b: {driver: distributed, members: [a, »b]}\n",
            "engines.b.members[1]: no member of itself",
        ),
        (
            PAIR
            + "  x: {E, host: crow}\n  b: {driver: distributed, members: [a, c]}\n"
            + "  d: {driver: distributed, members: [x, »a]}\n",
            "engines.d.members[1]: a is a member of b",
        ),
        (
            "  a: {E, host: crow}\n  x: {host: crow, driver: external, url: 'http://h:1'}\n" + PAIR_X,
            "engines.b.members[1]: x is external",
        ),
        (
            PAIR + "  b: {driver: distributed, members: [a, c], »host: crow}\n",
            "engines.b.host: is not for distributed",
        ),
        (
            PAIR.replace("crow}", "crow, resident: »true}") + "  b: {driver: distributed, members: [a, c]}\n",
            "engines.a.resident: a is a member of b: it does not start alone",
        ),
        (
            PAIR + "  b: {driver: distributed, members: [a, c], serving_class: »resident}\n",
            "engines.b.serving_class: narrows, never widens",
        ),
        (
            PAIR + "  b: {driver: distributed, members: [a, c]}\nroutes:\n  r: {profiles: {p: »a}}\n",
            "routes.r.profiles.p: a is a member of b",
        ),
    ],
)
def test_an_engine_of_a_fleet_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """EVICT-1, CONF-2: an engine is on one host, in that host's groups only, and its members are engines."""
    body = one(text).removeprefix("version: 1\n")
    check_marked(tmp_path, TWO + body, expected, machine="crow")


def test_a_class_is_narrowed_and_never_widened(tmp_path: Path) -> None:
    """CAT-3: the class is the most dangerous of what is declared, of its shape, and of what it is part of."""
    text = TWO + one(
        "  a: {E, host: crow}\n  c: {E, host: raven}\n  w: {E, host: crow, serving_class: wedge-risk}\n"
        "  e: {E, host: crow}\n  f: {E, host: raven}\n"
        "  b: {driver: distributed, members: [e, f]}\n"
        "  d: {driver: distributed, members: [a, c], serving_class: wedge-risk}\n"
    ).removeprefix("version: 1\n")
    fleet = read_config(tmp_path, text, machine="crow").fleet
    assert fleet is not None
    classes = {str(name): str(engine.serving_class) for name, engine in fleet.engines.items()}
    assert classes == {
        "a": "wedge-risk",
        "c": "wedge-risk",
        "w": "wedge-risk",
        "e": "windowed",
        "f": "windowed",
        "b": "windowed",
        "d": "wedge-risk",
    }
    assert {str(name): engine.of for name, engine in fleet.engines.items() if engine.of} == {
        "a": "d",
        "c": "d",
        "e": "b",
        "f": "b",
    }


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("port: 1", "port: 1", True),
        ("port: 1, group: main", "port: 1, group: main", False),
        ("port: 1, group: main", "port: 1", True),
        ("port: 1, group: main", "port: 1, group: rpc", True),
        ("port: 1, address: 10.99.0.1", "port: 1, address: 10.99.0.2", False),
        ("port: 1, address: 0.0.0.0", "port: 1, address: 10.99.0.2", True),
        ("port: 1, address: '::'", "port: 1, address: 10.99.0.2", True),
        ("port: 1, address: 0.0.0.0", "port: 1, address: '::1'", False),
        ("port: 1, address: 0.0.0.0", "port: 1, address: '::'", True),
        ("port: 1", "port: 2", False),
        ("port: 7070", "port: 2", True),
        ("port: 7070, address: 10.99.0.1", "port: 2", False),
    ],
)
def test_two_on_one_port_exclude_each_other(tmp_path: Path, first: str, second: str, *, clash: bool) -> None:
    """BG-09, PORT-3: one port of one address is two engines' only in one group, and never the daemon's."""
    text = TWO + one(f"  a: {{E, host: crow, {first}}}\n  b: {{E, host: crow, {second}}}\n").removeprefix(
        "version: 1\n"
    )
    assert bool(told(read_config(tmp_path, text, machine="crow"))) == clash


def test_a_port_clash_names_both_places(tmp_path: Path) -> None:
    """BG-09: the second of two on one port is told with the line of the first; another host is no clash."""
    text = TWO + one(
        "  a: {E, host: crow, port: 8003}\n  b: {E, host: raven, port: 8003}\n"
        "  c: {E, host: crow, port: »8003}\n"
    ).removeprefix("version: 1\n")
    check_marked(tmp_path, text, "engines.c.port: port 8003 of crow is a's as well (line 7)", machine="crow")


def test_ports_for_auto_suffice(tmp_path: Path) -> None:
    """PORT-5: more engines with `port: auto` than free ports in the range are an error of the range."""
    text = one("  a: {E}\n  b: {E}\n  c: {E, port: 8101}\nhosts: {local: {ports: {range: »8100-8101}}}\n")
    check_marked(tmp_path, text, "hosts.local.ports.range: 2 engines want a port of 8100-8101, 1 are free")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("  a: {argv: [s, '{port}']}\n", "engines.a: no memory: while it is measured"),
        ("  a: {argv: [s, '{port}'], resident: true}\n", "engines.a: resident without memory"),
        ("  a: {E, resident: true, ttl: 5m}\n", "engines.a.ttl: a resident engine is brought back"),
        ("  a: {E, env: {HF_TOKEN: abc}}\n", "engines.a.env.HF_TOKEN: reads like a secret"),
        (
            "  a: {argv: [s, '{port}', --api-key, abc], memory: 1 GiB}\n",
            "engines.a.argv[2]: a secret in a command line",
        ),
        ("  a: {argv: [s], port: 9, memory: 1 GiB}\n", "engines.a.argv: neither {port} nor 9"),
        ("  a: {E}\nhosts: {local: {memory: {total: 512 MiB}}}\n", "engines.a.memory: can never start"),
    ],
)
def test_what_works_but_surprises_is_a_warning(tmp_path: Path, text: str, warning: str) -> None:
    """CONF-2: what may work and is seldom meant is a warning, and the config loads."""
    reading = read_config(tmp_path, one(text))
    assert told(reading) == []
    assert len(reading.warnings) == 1
    assert warning in warned(reading)[0]


def test_an_engine_that_says_all_is_warned_of_nothing(tmp_path: Path) -> None:
    """CONF-2: a sound engine brings no warning."""
    reading = read_config(tmp_path, one("  a: {E}\n"))
    assert (told(reading), warned(reading)) == ([], [])
