from pathlib import Path

import pytest

from tests.fakes.config_files import check_marked, read_config, told

TWO = """\
version: 1
schedule: {owner: crow}
engines:
  a: {host: crow, argv: [s, --port, "{port}"], memory: 10 GiB, resident: true, essential: true}
  b: {host: crow, argv: [s, --port, "{port}"], memory: 20 GiB, group: main}
  c: {host: raven, argv: [s, --port, "{port}"], memory: 30 GiB, group: main}
  d: {host: crow, argv: [s, --port, "{port}"], memory: 5 GiB, group: main}
  pair: {driver: distributed, members: [m1, m2]}
  m1: {host: crow, argv: [s, --port, "{port}"], memory: 60 GiB}
  m2: {host: raven, argv: [s, --port, "{port}"], memory: 60 GiB}
routes:
  chat: {profiles: {local: b, away: a}, active: local}
"""
HOSTS = """\
hosts:
  crow: {url: "https://crow.lan:7070", memory: {total: 100 GiB}, groups: {main: {}}}
  raven: {url: "https://raven.lan:7070", memory: {total: 100 GiB}, groups: {main: {}}}
"""


def both(hosts: str, first: str, second: str) -> str:
    """Two resources of the same hosts, each with one action; the second is where a clash is told."""
    return (
        f"  r: {{hosts: [{hosts}], actions: [{{{first}}}]}}\n"
        f"    »s: {{hosts: [{hosts}], actions: [{{{second}}}]}}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  »r: {}", "reservations.resources.r.hosts: is missing"),
        ("  r: {hosts: [»crwo]}", "reservations.resources.r.hosts[0]: nearest valid name: crow"),
        (
            "  r: {hosts: [crow], ttl: {default: »2h, max: 1h}}",
            "reservations.resources.r.ttl.default: longer than max",
        ),
        (
            "  r: {hosts: [crow], ttl: {max: 1h, warn: [»1h]}}",
            "reservations.resources.r.ttl.warn[0]: never given",
        ),
        (
            "  r: {hosts: [crow], contains: [»s]}",
            "reservations.resources.r.contains[0]: there is no resource s",
        ),
        ("  r: {hosts: [crow], contains: [»r]}", "reservations.resources.r.contains[0]: contain each other"),
        (
            "  r: {hosts: [crow], contains: [»s]}\n    s: {hosts: [raven]}",
            "reservations.resources.r.contains[0]: s covers raven",
        ),
        (
            "  r: {hosts: [crow], actions: [{hold: »raven}]}",
            "reservations.resources.r.actions[0].hold: does not cover",
        ),
        (
            "  r: {hosts: [crow], actions: [{hold: crow, allow: [»z]}]}",
            "reservations.resources.r.actions[0].allow[0]: no engine z",
        ),
        (
            "  r: {hosts: [crow], actions: [{route: »caht, to: away}]}",
            "reservations.resources.r.actions[0].route: nearest valid name: chat",
        ),
        (
            "  r: {hosts: [crow], actions: [{route: chat, to: »gone}]}",
            "reservations.resources.r.actions[0].to: there is no profile gone",
        ),
        (
            "  r: {hosts: [crow], actions: [{suspend: »z}]}",
            "reservations.resources.r.actions[0].suspend: there is no engine z",
        ),
        (
            "  r: {hosts: [crow], actions: [{start: »c}]}",
            "reservations.resources.r.actions[0].start: is on raven",
        ),
        (
            "  r: {hosts: [crow], actions: [{stop: »m1}]}",
            "reservations.resources.r.actions[0].stop: m1 is a member of pair",
        ),
        (
            "  r: {hosts: [crow], actions: [{stop: »pair}]}",
            "reservations.resources.r.actions[0].stop: is on raven",
        ),
        (
            "  r: {hosts: [crow, raven], actions: [»{exec: [x]}]}",
            "reservations.resources.r.actions[0].on: is missing",
        ),
        (
            "  r: {hosts: [crow], actions: [{exec: [x], on: »raven}]}",
            "reservations.resources.r.actions[0].on: does not cover",
        ),
        (
            "  r: {hosts: [crow], actions: [{webhook: »board}]}",
            "reservations.resources.r.actions[0].webhook: expected a URL",
        ),
        (
            "  r: {hosts: [crow], actions: [{stop: b}]}\n    »s: {hosts: [crow], actions: [{suspend: b}]}",
            "reservations.resources.s: s and r (line 18) both control engine b",
        ),
        (
            "  r: {hosts: [crow], actions: [{hold: crow}]}\n    »s: {hosts: [crow], actions: [{hold: crow}]}",
            "reservations.resources.s: both control hold of host crow",
        ),
        (
            both("crow", "route: chat, to: away", "route: chat, to: local"),
            "reservations.resources.s: both control route chat",
        ),
        (
            both("crow, raven", "stop: pair", "start: pair"),
            "reservations.resources.s: engine m1, engine m2, engine pair",
        ),
    ],
)
def test_a_relation_of_a_resource_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """LEASE-1, LEASE-3, R6: a resource acts on what is there and is its own, or says what it contains."""
    check_marked(tmp_path, f"{TWO}{HOSTS}reservations:\n  resources:\n  {text}\n", expected, machine="crow")


def test_contained_resources_may_share(tmp_path: Path) -> None:
    """LEASE-3: a resource that contains another, through a third too, may control the same engine."""
    text = f"""{TWO}{HOSTS}reservations:
  resources:
    outer: {{hosts: [crow], contains: [middle], actions: [{{stop: b}}]}}
    middle: {{hosts: [crow], contains: [inner]}}
    inner: {{hosts: [crow], actions: [{{suspend: b}}]}}
"""
    assert told(read_config(tmp_path, text, machine="crow")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  n: {serving_class: windowed, hosts: {crow: [a]}}", "modes: one mode is the standing one"),
        (
            "  s: {standing: true, hosts: {crow: [a]}}\n  t: {standing: »true, hosts: {crow: [a]}}",
            "modes.t.standing: s is the standing mode already",
        ),
        (
            "  s: {standing: true, hosts: {crow: [a], »rven: []}}",
            "modes.s.hosts.rven: nearest valid name: raven",
        ),
        ("  s: {standing: true, hosts: {crow: [a, »z]}}", "modes.s.hosts.crow[1]: there is no engine z"),
        ("  s: {standing: true, hosts: {crow: [a, »b]}}", "modes.s.hosts.crow[1]: b is not resident"),
        ("  s: {standing: true, »cap: {max: 1h}, hosts: {crow: [a]}}", "modes.s.cap: this one is standing"),
        (
            "  s: {standing: true, hosts: {crow: [a]}, routes: {chat: »gone}}",
            "modes.s.routes.chat: there is no profile gone",
        ),
        (
            "  s: {standing: true, hosts: {crow: [a]}, routes: {»caht: local}}",
            "modes.s.routes.caht: there is no route caht",
        ),
    ],
)
def test_a_relation_of_a_mode_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """MODE-1: one mode is standing, keeps up the residents, and its engines, hosts and routes are there."""
    head = "»modes:" if "»" not in text else "modes:"
    check_marked(tmp_path, f"{TWO}{HOSTS}{head}\n{text}\n", expected, machine="crow")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hosts: {crow: [a, »c]}", "hosts.crow[1]: c runs on raven, not on crow"),
        ("hosts: {crow: [a, »m1]}", "hosts.crow[1]: m1 is a member of pair"),
        (
            "hosts: {crow: [a, »pair], raven: [»pair]}",
            "hosts.crow[1]: pair is windowed, more than the mode's resident",
        ),
        ("hosts: {»crow: [b]}", "hosts.crow: a is essential on crow: every mode lists it"),
        ("hosts: {»crow: [a, b, d]}", "hosts.crow: b and d exclude each other: both are in group main"),
        ("hosts: {crow: [a]}, resource: »r2", "resource: there is no resource r2"),
        ("hosts: {crow: [a], raven: []}, resource: »r", "resource: r does not cover raven"),
        ("hosts: {crow: [a]}, »cap: {default: 2h, max: 1h}", "cap: longer than max"),
        (
            "hosts: {crow: [a]}, cap: {default: 5m, max: 10m}, drain_before: »10m",
            "drain_before: before the longest window opens",
        ),
        (
            "hosts: {crow: [a]}, gates: {available: {»raven: 1 GiB}}",
            "gates.available.raven: there is no host of this mode",
        ),
        ("hosts: {crow: [a]}, verify: [{on: »kite, exec: [x]}]", "verify[0].on: there is no host kite"),
        (
            "hosts: {crow: [a]}, tool: »{open: {exec: [x]}, close: {exec: [x]}}".replace("»", "").replace(
                "tool", "»tool"
            ),
            "tool.status: is missing",
        ),
    ],
)
def test_a_relation_of_a_window_mode_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """MODE-1, CAT-3: a mode that a window enters fits its hosts, its resource and its class."""
    body = f"modes:\n  s: {{standing: true, hosts: {{crow: [a]}}}}\n  n: {{{text}}}\n"
    body += "reservations: {resources: {r: {hosts: [crow]}}}\n"
    both = [expected, expected.replace("crow[1]", "raven[0]")] if "raven: [»" in text else [expected]
    check_marked(tmp_path, f"{TWO}{HOSTS}{body}", *(f"modes.n.{each}" for each in both), machine="crow")


def test_residents_of_a_mode_stand_in_it(tmp_path: Path) -> None:
    """MODE-1: a resident that the standing mode leaves out is an error at that mode's host."""
    text = (
        TWO.replace("essential: true", "order: 1")
        + HOSTS
        + "modes: {s: {standing: true, hosts: {»crow: []}}}\n"
    )
    check_marked(tmp_path, text, "modes.s.hosts.crow: a is resident on crow", machine="crow")


def test_sets_that_do_not_fit_show_their_sum(tmp_path: Path) -> None:
    """MEM-6: residents and modes are summed per host against its total, and the message has the sum."""
    hosts = HOSTS.replace("total: 100 GiB", "total: 60 GiB").replace("  crow:", "  »crow:")
    engines = TWO.replace("memory: 10 GiB", "memory: 55 GiB")
    modes = """\
modes:
  s: {standing: true, hosts: {»crow: [a]}}
  big: {serving_class: windowed, hosts: {»crow: [a, pair], »raven: [pair]}}
"""
    check_marked(
        tmp_path,
        engines + hosts + modes,
        "hosts.crow: the residents do not fit: a 55.0 + reserve 6.0 = 61.0 GiB of crow's 60.0",
        "modes.s.hosts.crow: mode s do not fit",
        "modes.big.hosts.crow: a 55.0 + m1 60.0 + reserve 6.0 = 121.0 GiB",
        "modes.big.hosts.raven: m2 60.0 + reserve 6.0 = 66.0 GiB of raven's 60.0",
        machine="crow",
    )


def test_pools_are_summed_apart(tmp_path: Path) -> None:
    """MEM-1, MEM-6: GPU memory and RAM are each summed, and a pool that the host lacks is an error."""
    text = """\
        version: 1
        hosts:
          »local: {memory: {gpu0: {total: 24 GiB}, ram: {total: 64 GiB, reserve: 4 GiB}}}
        engines:
          a: {argv: [s, "{port}"], memory: {gpu0: 20 GiB, ram: 30 GiB}, resident: true}
          b: {argv: [s, "{port}"], memory: {gpu0: 4 GiB}, resident: true}
          c: {argv: [s, "{port}"], memory: {gpu1: »4 GiB}}
          d: {argv: [s, "{port}"], memory: 30 GiB, resident: true}
        """
    check_marked(
        tmp_path,
        text,
        "hosts.local: a 20.0 + b 4.0 + reserve 0.5 = 24.5 GiB of local's gpu0's 24.0",
        "engines.c.memory.gpu1: no memory pool on local named gpu1",
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("{main: {}}", "engines.c.resident: b is resident too (line 3), and main holds one at a time"),
        (
            "{main: {evicts: [extra]}, extra: {}}",
            "engines.c.resident: each start of b stops it: main evicts extra",
        ),
    ],
)
def test_residents_do_not_exclude_each_other(tmp_path: Path, groups: str, expected: str) -> None:
    """EVICT-1: two residents that would stop each other for ever are an error."""
    group = "extra" if "extra" in groups else "main"
    text = f"""\
version: 1
engines:
  b: {{argv: [s, "{{port}}"], memory: 1 GiB, group: main, resident: true}}
  c: {{argv: [s, "{{port}}"], memory: 1 GiB, group: {group}, resident: »true}}
hosts: {{local: {{groups: {groups}}}}}
"""
    check_marked(tmp_path, text, expected)
