from pathlib import Path

import pytest

from tests.fakes.config_files import check_marked, read_config, told, warned, write_secret

ONE = """\
version: 1
engines:
  a: {argv: [s, --port, "{port}"], memory: 1 GiB}
  b: {argv: [s, --port, "{port}"], memory: 2 GiB}
  x: {driver: external, url: "http://127.0.0.1:9"}
upstreams:
  cloud: {url: "https://llm.example.net/v1", host: external}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hosts: {crow: {»rul: x}}\n", "hosts.crow.rul: nearest valid name: url"),
        ("hosts: {crow: {url: »crow.lan}}\n", "hosts.crow.url: expected a URL"),
        ("hosts: {crow: {url: »'http://crow.lan:7070'}}\n", "hosts.crow.url: plain http:// beyond loopback"),
        ("hosts: {crow: {url: »'https://me:pw@crow.lan'}}\n", "hosts.crow.url: credentials in clear"),
        ("hosts: {crow: {url: »'https://crow.lan/x'}}\n", "hosts.crow.url: scheme, host and port alone"),
        ("hosts: {crow: {url: »'https://crow.lan:x'}}\n", "hosts.crow.url: expected a URL"),
        ("hosts: {crow: {key: »abc}}\n", "hosts.crow.key: a secret in clear"),
        (
            "hosts: {crow: {links: {»raven: {interface: e, address: 10.99.0.1, peer: 10.99.0.2}}}}\n",
            "hosts.crow.links.raven: there is no host raven",
        ),
        (
            "hosts: {crow: {links: {»crow: {interface: e, address: 10.99.0.1, peer: 10.99.0.2}}}}\n",
            "hosts.crow.links.crow: no link to itself",
        ),
        (
            "hosts: {crow: {groups: {g: {evicts: [»h]}}}}\n",
            "hosts.crow.groups.g.evicts[0]: there is no group h on crow",
        ),
        ("hosts: {crow: {groups: {g: {evicts: [»g]}}}}\n", "hosts.crow.groups.g.evicts[0]: without evicts"),
        (
            "hosts: {crow: {groups: {g: {idle_revert: »aa}}}}\n",
            "hosts.crow.groups.g.idle_revert: there is no engine aa",
        ),
        (
            "hosts: {crow: {groups: {g: {idle_revert: »a}}}}\n",
            "hosts.crow.groups.g.idle_revert: a is no member of the group g on crow",
        ),
        (
            "hosts: {crow: {memory: {reserve: »8 GiB, total: 8 GiB}}}\n",
            "hosts.crow.memory.reserve: leaves nothing",
        ),
        ("hosts: {crow: {memory: {total: »8 GiB, ram: {}}}}\n", "hosts.crow.memory.total: not both"),
        (
            "hosts: {crow: {memory: {ram: {total: 8 GiB, floor: »8 GiB}}}}\n",
            "hosts.crow.memory.ram.floor: leaves nothing",
        ),
        (
            "hosts: {crow: {memory: {on_floor: {stop: [»c]}}}}\n",
            "hosts.crow.memory.on_floor.stop[0]: there is no engine c",
        ),
        ("schedule: {owner: »crow}\n", "schedule.owner: there is no host crow"),
        ("schedule: {owner: »[local, local]}\n", "schedule.owner: several heads share one schedule"),
        ("fleet: {timezone: »Europe/Berln}\n", "fleet.timezone: nearest valid name: Europe/Berlin"),
        ("node: {listen: »'0.0.0.0:7070'}\n", "node.listen: is not loopback and there are no keys"),
        ("node: {listen: »'[::]:7070'}\n", "node.listen: is not loopback and there are no keys"),
        ("node: {listen: »[]}\n", "node.listen: at least one"),
        ("node: {tls: {cert: /c, key: »/k}}\n", "node.tls.key: a secret in clear"),
        ("store: »'postgresql://u:p@db.lan/h'\n", "store: credentials in clear"),
    ],
)
def test_a_relation_of_a_host_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-2: hosts, their groups, links, memory, listeners and the head are checked in their places."""
    check_marked(tmp_path, ONE + text, expected)


def test_several_hosts_need_a_head_and_urls(tmp_path: Path) -> None:
    """CONF-2, NODE-1: of several hosts one is the head, and each says where its node is."""
    text = "»version: 1\nhosts:\n  »crow: {}\n  raven: {url: 'https://raven.lan:7070'}\n"
    check_marked(tmp_path, text, "schedule: one is the head", "hosts.crow.url: is missing", machine="crow")


def test_links_meet(tmp_path: Path) -> None:
    """CONF-2: the two ends of a link name the same two addresses."""
    text = """\
        version: 1
        schedule: {owner: crow}
        hosts:
          crow:
            url: https://crow.lan
            links: {»raven: {interface: e, address: 10.99.0.1, peer: 10.99.0.2}}
          raven:
            url: https://raven.lan
            links: {»crow: {interface: e, address: 10.99.0.3, peer: 10.99.0.1}}
        """
    check_marked(
        tmp_path, text, "hosts.crow.links.raven: line 9", "hosts.raven.links.crow: line 6", machine="crow"
    )


def test_keys_open_a_listener(tmp_path: Path) -> None:
    """API-4: beyond loopback needs keys: of the config, or those made by `hostler keys create`."""
    listen = "version: 1\nnode: {listen: '0.0.0.0:7070'}\n"
    secret = write_secret(tmp_path, "key")
    keyed = f"{listen}keys: [{{name: a, key: '${{file:{secret}}}', scope: [infer]}}]\n"
    assert told(read_config(tmp_path, keyed)) == []
    assert len(told(read_config(tmp_path, listen))) == 1
    state = tmp_path / ".local/state/hostler"
    state.mkdir(parents=True)
    (state / "keys.json").write_text('{"keys": [1]}', encoding="utf-8")
    assert told(read_config(tmp_path, listen)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r: {profiles: {p: »c}}", "routes.r.profiles.p: there is no engine c"),
        ("r: {profiles: {p: »cloud}}", "routes.r.profiles.p: {upstream: cloud}"),
        ("r: {profiles: {p: {upstream: »clod}}}", "routes.r.profiles.p.upstream: nearest valid name: cloud"),
        ("r: {profiles: {p: [a, »c]}}", "routes.r.profiles.p[1]: there is no engine c"),
        (
            "r: {profiles: {p: {fast: a, large: »c}}, escalate: {token: '!'}}",
            "routes.r.profiles.p.large: there is no engine c",
        ),
        (
            "r: {profiles: {p: {fast: a, large: »a}}, escalate: {token: '!'}}",
            "routes.r.profiles.p.large: fast and large are both a",
        ),
        (
            "r: {profiles: {p: {fast: a, large: b}}, escalate: {when_tools: »true}}",
            "routes.r.escalate.when_tools: needs intent",
        ),
        (
            "r: {profiles: {p: {fast: a, large: b}}, escalate: {when_tools: true, intent: [»'(']}}",
            "routes.r.escalate.intent[0]: a regular expression",
        ),
        (
            "r: {profiles: {p: a}, »escalate: {token: '!'}}",
            "routes.r.escalate: needs a profile that is {fast: ENGINE, large: ENGINE}",
        ),
        ("r: {profiles: {p: a}, active: »q}", "routes.r.active: there is no profile q (valid: p)"),
        ("r: {profiles: {p: a}, fallback: »q}", "routes.r.fallback: there is no profile q"),
        (
            "r: {profiles: {p: a}, strategy: »firstready}",
            "routes.r.strategy: nearest valid name: first_ready",
        ),
        ("r: {profiles: {p: [a, b]}, strategy: {spill: »0}}", "routes.r.strategy.spill: at least 1"),
        ("r: {profiles: {p: a}, class: »chta}", "routes.r.class: nearest valid name: chat"),
        ("r: {profiles: {p: a}, on: [»crow]}", "routes.r.on[0]: there is no host crow"),
        ("r: {profiles: {p: a}, patches: {»b: {x: 1}}}", "routes.r.patches.b: b is no target of this route"),
        (
            "r: {profiles: {p: a}, patches: {a: {model: »x}}}",
            "routes.r.patches.a.model: the model is the target's own",
        ),
        ("r: {profiles: {p: a}, aliases: [»a]}", "routes.r.aliases[0]: a is taken by the engine on line 3"),
        ("r: {profiles: {p: a}, aliases: [»r]}", "routes.r.aliases[0]: r is taken by the route on line 9"),
        ("r: {profiles: {p: a}, aliases: [q, »q]}", "routes.r.aliases[1]: q is taken by the alias on line 9"),
        (
            "r: {profiles: {p: a}, aliases: [q]}\n  s: {profiles: {p: a}, aliases: [»q]}",
            "routes.s.aliases[0]: q is taken by the alias on line 9",
        ),
        (
            "r: {profiles: {p: a}}\n  s: {profiles: {p: a}, aliases: [»r]}",
            "routes.s.aliases[0]: r is taken by the route on line 9",
        ),
        ("r: {profiles: {p: a}, aliases: [»../q]}", "routes.r.aliases[0]: without . or .."),
    ],
)
def test_a_relation_of_a_route_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """BG-11, GW-1, GW-2: a route leads somewhere, and each name leads to one place only."""
    check_marked(tmp_path, f"{ONE}routes:\n  {text}\n", expected)


@pytest.mark.parametrize(
    "name",
    [
        "vendor/model-7b",
        "a:free",
        "my model",
        "m@q4",
        "MODEL",
        "été",
        "a//b",
        "trailing/",
        "...",
        "x" * 256,
        "=x",
    ],
)
def test_a_route_may_have_any_name(tmp_path: Path, name: str) -> None:
    """BG-11, GW-2: names with slash, colon, blank and case are routes, as they are written."""
    fleet = read_config(
        tmp_path, f"{ONE}routes:\n  '{name}': {{profiles: {{p: a}}}}\n  model: {{profiles: {{p: a}}}}\n"
    ).fleet
    assert fleet is not None
    assert list(fleet.routes) == [name, "model"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  »u: {url: 'https://e.example.net'}", "upstreams.u.host: named, never guessed"),
        ("  u: {url: 'https://e.example.net', host: »crow}", "upstreams.u.host: there is no host crow"),
        (
            "  u: {url: 'https://e.example.net', host: external, on: [»crow]}",
            "upstreams.u.on[0]: there is no host crow",
        ),
        (
            "  u: {url: 'https://e.example.net', host: external, key: »sk-1234567}",
            "upstreams.u.key: a secret in clear",
        ),
        (
            "  u: {url: »'https://e.example.net?api_key=1', host: external}",
            "upstreams.u.url: credentials in clear",
        ),
    ],
)
def test_a_relation_of_an_upstream_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """SYNC-3, CONF-1: an upstream says its host, and its key is no text of the file."""
    check_marked(tmp_path, f"version: 1\nupstreams:\n{text}\n", expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys: [{name: a, key: »abc, scope: [infer]}]", "keys[0].key: a secret in clear"),
        (
            "keys: [{name: a, key: '${env:K1}', scope: [node]}, {name: »a, key: '${env:K2}', scope: [node]}]",
            "keys[1].name: a is taken by the key on line 2",
        ),
        (
            "keys: [{name: a, key: '${env:K1}', scope: [node]}, {name: b, key: »'${env:K1}', scope: [node]}]",
            "keys[1].key: the same key as that on line 2",
        ),
        ("keys: [{name: a, key: »'${env:BLANK}', scope: [infer]}]", "keys[0].key: printable ASCII"),
        (
            "keys: [{name: a, key: '${env:K1}', scope: [infer], routes: [»chat]}]",
            "keys[0].routes[0]: there is no route chat",
        ),
        (
            "keys: [{name: a, key: '${env:K1}', scope: [infer], class: »fast}]",
            "keys[0].class: there is no class fast",
        ),
        ("notices: {channels: {a: »'slack://tokenA/tokenB'}}", "notices.channels.a: may hold a secret"),
        ("notices: {channels: {a: »'https://hook.example.net'}}", "notices.channels.a: webhook:https://"),
        (
            "notices: {channels: {a: »'webhook:https://u:p@h.example.net'}}",
            "notices.channels.a: credentials in clear",
        ),
        ("notices: {channels: {a: »'webhook:hook'}}", "notices.channels.a: expected a URL"),
        (
            "notices: {channels: {a: 'ntfy:topic'}, events: {stuck: {to: [»b]}}}",
            "notices.events.stuck.to[0]: there is no channel b",
        ),
        ("notices: {link: »crow.lan}", "notices.link: expected a URL"),
        ("sync: {peers: {p: {url: »'http://p.lan', key: '${env:K1}'}}}", "sync.peers.p.url: plain http://"),
        ("sync: {peers: {p: {url: 'https://p.lan', key: »abc}}}", "sync.peers.p.key: a secret in clear"),
        (
            "sync: {peers: {»local: {url: 'https://p.lan', key: '${env:K1}'}}}",
            "sync.peers.local: local is a host of this config",
        ),
        (
            (
                "sync:\n  peers: {p: {url: 'https://p', key: '${env:K1}'},"
                " q: {url: 'https://q', key: »'${env:K1}'}}"
            ),
            "sync.peers.q.key: the same key as that on line 3",
        ),
        (
            (
                "keys: [{name: a, key: '${env:K1}', scope: [infer]}]\n"
                "sync: {peers: {p: {url: 'https://p', key: »'${env:K1}'}}}"
            ),
            "sync.peers.p.key: the same key as that on line 2",
        ),
        ("ports: {rows: [{host: »crow, port: 1, service: s}]}", "ports.rows[0].host: there is no host crow"),
        ("ports: {rows: [{host: local, port: 1, service: s}], file: »f}", "ports.file: not both"),
        ("ports: {tables: [{file: f, host: »crow}]}", "ports.tables[0].host: there is no host crow"),
        ("ports: {scan: {hosts: {»crow: [x]}}}", "ports.scan.hosts.crow: there is no host crow"),
        (
            "ports: {scan: {allow: [{host: »crow, port: 1, services: [a], why: b}]}}",
            "ports.scan.allow[0].host: no host crow",
        ),
    ],
)
def test_a_relation_of_who_may_and_who_is_told_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-1, CONF-2: keys are secret and distinct, channels and peers are there, and ports have hosts."""
    clean = f"version: 1\n{text}\n"
    places = {"K1": "key-number-one", "K2": "key-number-two", "BLANK": "two words"}
    for name, value in places.items():
        clean = clean.replace(f"${{env:{name}}}", f"${{file:{write_secret(tmp_path, name, value)}}}")
    check_marked(tmp_path, clean, expected)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("routes: {a: {profiles: {p: b}}}\n", "routes.a: hides the engine of that name"),
        (
            "routes: {r: {profiles: {p: {fast: a, large: b}}}}\n",
            "routes.r: without escalate: nothing ever goes to large",
        ),
        (
            "routes: {r: {profiles: {p: {fast: a, large: b}}, escalate: {}}}\n",
            "routes.r.escalate: neither token nor when_tools",
        ),
        ("hosts: {local: {url: 'https://l.lan'}}\n", "hosts.local: no key"),
        (
            "hosts: {local: {memory: {reserve: 1 GiB, floor: 2 GiB}}}\n",
            "hosts.local.memory.floor: above reserve",
        ),
    ],
)
def test_a_relation_that_surprises_is_a_warning(tmp_path: Path, text: str, warning: str) -> None:
    """CONF-2: a relation that is legal and seldom meant is a warning."""
    reading = read_config(tmp_path, ONE + text)
    assert told(reading) == []
    assert warning in "\n".join(warned(reading))


def test_a_listener_without_tls_is_a_warning(tmp_path: Path) -> None:
    """API-4: beyond loopback without TLS the keys themselves can be read, and the check says so."""
    key = write_secret(tmp_path, "key")
    text = "version: 1\nnode: {listen: '0.0.0.0:7070'}\n"
    text += f"keys: [{{name: a, key: '${{file:{key}}}', scope: [infer]}}]\n"
    reading = read_config(tmp_path, text)
    assert told(reading) == []
    assert "plain HTTP" in warned(reading)[0]
    with_tls = text.replace("7070'", f"7070', tls: {{cert: /c.pem, key: '${{file:{key}}}'}}")
    assert warned(read_config(tmp_path, with_tls)) == []


@pytest.mark.cases
def test_every_id_of_the_case_is_a_route_or_refused(tmp_path: Path, cases: Path) -> None:
    """BG-11, GW-2: each id of the case is a route as it is written, and traversal is refused at load."""
    for line in (cases / "bugs/BG-11.names.txt").read_text(encoding="utf-8").splitlines():
        reading = read_config(tmp_path, f"{ONE}routes:\n  {line!r}: {{profiles: {{p: a}}}}\n")
        traversal = line in ("../../etc/passwd", ".", "%2e%2e")
        assert [problem.message for problem in reading.problems if not traversal] == [], line
        assert (reading.fleet is None) == traversal, line
        assert reading.fleet is None or list(reading.fleet.routes) == [line]
