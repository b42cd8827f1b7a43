from pathlib import Path

import pytest

from hostler.domain.fleet import EngineTarget, Plain, Strategy, UpstreamTarget
from hostler.domain.values import EngineId
from hostler.interfaces.imports.notes import Sign
from tests.interfaces.importing import Made, from_files, made, refused, write

CMD = "llama-server --port ${PORT}"
TWO = f"models:\n  a: {{cmd: {CMD!r}}}\n  B: {{cmd: {CMD!r}, aliases: [bee, b-2]}}\n"
KEY = "sk-of-somebody-0123456789"


def targets(got: Made, route: str, profile: str = "local") -> tuple[object, ...]:
    found = got.route(route).profiles[profile]
    assert isinstance(found, Plain)
    return found.targets


def engine(name: str) -> EngineTarget:
    return EngineTarget(engine=EngineId(name))


def test_aliases_are_a_routes(tmp_path: Path) -> None:
    """CONF-4, GW-2: aliases are further names of the model's route; an engine's name never is one of them."""
    got = made(tmp_path, f"models: {{Bee: {{cmd: {CMD!r}, aliases: [bee, gpt-4o-mini, Bee]}}}}\n")
    assert got.route("Bee").aliases == ("bee", "gpt-4o-mini")
    assert list(got.fleet.engines) == ["bee-2"]
    assert "gpt-4o-mini is a cloud provider's name" in got.tells("gpt-4o-mini")
    assert "told its model's own" in got.tells("models.Bee: whichever")


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("models: {a: {cmd: C, aliases: [b]}, b: {cmd: C}}", "b is taken"),
        ("models: {a: {cmd: C, aliases: [x]}, b: {cmd: C, aliases: [x]}}", "x is taken"),
        ("models: {a: {cmd: C}}\nselectors: {a: {targets: [a]}}", "selectors.a: a is taken"),
        ("models: {a: {cmd: C, aliases: [../x]}}", "no . or .. as a part"),
        ("models: {a: {cmd: C, filters: {setParamsByID: {b: {}}}}, b: {cmd: C}}", "b is taken"),
        (
            "models: {a: {cmd: C}}\nselectors: {s: {targets: [x]}}",
            "there is no model, alias or peer's model x",
        ),
        ("models: {a: {cmd: C}}\nselectors: {s: {targets: []}}", "selectors.s: it has no target"),
        ("models: {a: {cmd: C}}\nselectors: {s: {strategy: hot, targets: [a]}}", "there is no strategy hot"),
        ("models: {a: {cmd: C}}\nprofiles: {p: {pins: {a: x}}}", "profiles.p.pins.a: there is no model"),
        ("peers: {p: {proxy: 'ftp://x', models: [m]}}", "peers.p.proxy: expected a URL"),
        ("peers: {p: {proxy: 'http://[x', models: [m]}}", "peers.p.proxy: expected a URL"),
        ("peers: {p: {proxy: 'http://169.254.169.254', models: [m]}}", "peers.p.proxy: expected a URL"),
        ("peers: {p: {proxy: 'http://u:s@x', models: [m]}}", "peers.p.proxy: expected a URL"),
        ('models: {"a\\tb": {cmd: C}}', "no control character"),
        ("models: {a: {cmd: C}}\napiKeys: ['a b']", "apiKeys: a key is printable ASCII without blanks"),
        ("models: {a: {cmd: C}}\nglobalTTL: -1", "globalTTL: expected a number from 0 to"),
        ("models: {a: {cmd: C}}\nlogLevel: loud", "logLevel: expected one of debug"),
        ("models: {a: {cmd: C}}\nupstream: {ignorePaths: ['(?P<x']}", "is no regular expression here"),
        ("macros: {}", "models: there are none, and no peers: nothing to import"),
        ("[a, b]", "expected a mapping of keys"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, keys: str, why: str) -> None:
    """CONF-4, BG-31: a name that leads to two places or nowhere, or what no key of ours says, is refused."""
    told = refused(tmp_path, keys.replace("C", repr(CMD)) + "\n")
    assert any(why in each for each in told), told


def test_filters_are_patches(tmp_path: Path) -> None:
    """CONF-4, GW-4: what is stripped is sent as null, then what is set always, then by the name asked for."""
    got = made(
        tmp_path,
        f"""\
        models:
          a:
            cmd: {CMD}
            aliases: [plain]
            filters:
              stripParams: "top_p, temperature, model"
              setParams: {{top_p: 0.9, "extra.deep": true, model: x}}
              setParamsByID:
                "${{MODEL_ID}}": {{temperature: 0}}
                "${{MODEL_ID}}:think": {{chat_template_kwargs: {{enable_thinking: true}}}}
        """,
    )
    always = {"top_p": 0.9, "temperature": None, "extra": {"deep": True}}
    assert dict(got.route("a").patches["a"]) == {**always, "temperature": 0}
    assert dict(got.route("plain").patches["a"]) == always
    assert dict(got.route("a:think").patches["a"]) == {
        **always,
        "chat_template_kwargs": {"enable_thinking": True},
    }
    assert "temperature reach the engine as null" in got.tells("stripParams")
    assert "merged into what the client sent" in got.tells("chat_template_kwargs")
    assert "useModelName says it" in got.tells("setParams.model")


def test_the_old_name_of_a_filter(tmp_path: Path) -> None:
    """CONF-4: strip_params is stripParams; where each name sets it anyway there is nothing to tell."""
    got = made(
        tmp_path,
        f"models: {{a: {{cmd: {CMD!r}, filters: {{strip_params: t, setParamsByID: {{a: {{t: 1}}}}}}}}}}\n",
    )
    assert dict(got.route("a").patches["a"]) == {"t": 1}
    assert got.told(Sign.CHANGED) == [note for note in got.told(Sign.CHANGED) if "null" not in note]


def test_selectors_are_routes(tmp_path: Path) -> None:
    """CONF-4, GW-1: warm, pin and spillover are strategies of ours; targets keep what is set for them."""
    got = made(
        tmp_path,
        TWO
        + """\
peers: {far: {proxy: "http://127.0.0.1:9999", models: [m], apiKey: k-1234567}}
selectors:
  one: {strategy: warm, targets: [B, a], name: One}
  two: {strategy: pin, targets: [bee, far/m]}
  three: {strategy: spillover, targets: [a, B], settings: {spillover: 4}}
""",
    )
    assert targets(got, "one") == (engine("b"), engine("a"))
    assert (got.route("one").strategy, got.route("one").description) == (Strategy(kind="first_ready"), "One")
    assert targets(got, "two") == (engine("b"), UpstreamTarget(upstream="far", model="m"))
    assert got.route("three").strategy == Strategy(kind="spill", spill=4)
    assert "cannot be up together" in got.tells("selectors.three")


def test_profiles_are_profiles_of_routes(tmp_path: Path) -> None:
    """CONF-4, GW-1: a pin is a profile of the route that it is about, not active; null cannot be said."""
    got = made(
        tmp_path,
        TWO + "profiles: {Night Shift: {pins: {a: bee, bee: a, new: a, b-2: null}}}\n",
    )
    assert (got.route("a").active, targets(got, "a", "night-shift")) == ("local", (engine("b"),))
    assert (targets(got, "bee"), targets(got, "bee", "night-shift")) == ((engine("b"),), (engine("a"),))
    assert got.route("B").aliases == ("b-2",)
    assert targets(got, "new") == (engine("a"),)
    assert "cannot be switched off" in got.tells("pins.b-2")
    assert "answered in any profile" in got.tells("pins.new")
    assert "switched route by route" in got.tells("profiles.Night Shift: it is")


def test_a_profile_of_all_aliases_leaves_none(tmp_path: Path) -> None:
    """CONF-4: an alias that a profile is about becomes a route, with what is set for it."""
    got = made(
        tmp_path,
        f"models:\n  a: {{cmd: {CMD!r}, aliases: [x], filters: {{setParams: {{t: 1}}}}}}\n"
        f"  b: {{cmd: {CMD!r}}}\n"
        "profiles: {p: {pins: {x: b, b: a}}}\n",
    )
    assert (got.route("a").aliases, targets(got, "x", "p")) == ((), (engine("b"),))
    assert dict(got.route("x").patches["a"]) == {"t": 1}
    assert dict(got.route("b").patches["a"]) == {"t": 1}


def test_a_list_of_profiles_is_refused_with_what_it_meant(tmp_path: Path) -> None:
    """CONF-4: profiles of the old form are refused by key and line, with the set that says the same."""
    text = TWO + "profiles:\n  p:\n    - a\n    - B\n"
    (told,) = refused(tmp_path, text)
    assert told.startswith("5: profiles.p: a list is the old form of a profile")
    assert 'say `matrix: {sets: {p: "a & B"}}` instead' in told
    assert "now {pins: {ASKED: TARGET}}" in told


def test_hidden_models(tmp_path: Path) -> None:
    """CONF-4: unlisted hides an engine that needs no route; another one is shown, and that is told."""
    got = made(
        tmp_path,
        f"models:\n  a: {{cmd: {CMD!r}, unlisted: yes}}\n  B: {{cmd: {CMD!r}, unlisted: true}}\n",
    )
    assert (list(got.fleet.routes), got.engine("a").hidden, got.engine("b").hidden) == (["B"], True, True)
    assert "can be hidden" in got.tells("3: models.B.unlisted")


def test_peers_are_upstreams(tmp_path: Path) -> None:
    """CONF-4, GW-1: a peer is an upstream, its models routes; a bare name only where nobody else has it."""
    got = made(
        tmp_path,
        f"""\
        models: {{a: {{cmd: {CMD!r}}}}}
        peers:
          Big: {{proxy: "https://llm.example.net/api/", models: [m, a, both], apiKey: {KEY}}}
          near: {{proxy: "http://localhost:9/v1", models: [both], timeouts: {{connect: 3}},
                 filters: {{setParams: {{t: 1}}}}}}
        """,
    )
    big, near = got.fleet.upstreams["big"], got.fleet.upstreams["near"]
    assert (big.url, big.host) == ("https://llm.example.net/api/v1", "external")
    assert (near.url, near.key) == ("http://localhost:9/v1", None)
    assert big.key is not None
    assert big.key.value == KEY
    assert set(got.fleet.routes) == {"a", "Big/m", "Big/a", "Big/both", "near/both"}
    assert got.route("Big/m").aliases == ("m",)
    assert got.route("Big/a").aliases == got.route("near/both").aliases == ()
    assert dict(got.route("near/both").patches["near"]) == {"t": 1}
    assert "caller's own key is not passed on" in got.tells("peers.near: ")
    assert "peers share it" in got.tells("Big/both only")
    assert "no times of its own" in got.tells("peers.near.timeouts")


def test_no_secret_is_written_in_clear(tmp_path: Path) -> None:
    """CONF-4, SEC-1: keys, tokens and passwords go to private files beside the config, or stay variables."""
    got = made(
        tmp_path,
        f"""\
        apiKeys: [{KEY}, "${{env.OTHER_KEY}}", {KEY}]
        models:
          a:
            cmd: "{CMD} --hf-token hf_secret --token=${{env.OTHER_KEY}} --api-key mine HF_TOKEN=hf_more"
            env: [HF_TOKEN=hf_secret, "MY_SECRET=${{env.OTHER_KEY}}", TOKENIZERS=x]
        """,
        {"OTHER_KEY": "other-key-value"},
    )
    for secret in (KEY, "hf_secret", "hf_more", "other-key-value", "mine"):
        assert secret not in got.text
        assert not any(secret in note for note in got.told())
    a = got.engine("a")
    assert dict(a.env) == {"HF_TOKEN": "hf_secret", "MY_SECRET": "other-key-value", "TOKENIZERS": "x"}
    assert a.argv[3:] == ("--hf-token", "hf_secret", "--token", "other-key-value", "HF_TOKEN=hf_more",
                          "--alias", "{model}")  # fmt: skip
    assert [(key.name, key.scopes) for key in got.fleet.keys] == [
        ("llama-swap-1", frozenset({"admin"})),
        ("llama-swap-2", frozenset({"admin"})),
    ]
    files = sorted((tmp_path / "out/hostler-secrets").iterdir())
    assert [file.name for file in files] == ["a-hf-token", "a-hf_token", "llama-swap-1"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert "${env:OTHER_KEY}: the daemon needs" in got.tells("apiKeys: the secret is ${env")
    assert "sends no key to an engine" in got.tells("--api-key")
    assert "scope infer" in got.tells("apiKeys: each may do everything")


def test_a_key_that_guards_an_open_engine_is_refused(tmp_path: Path) -> None:
    """CONF-4: the key of an engine that listens on every address is not dropped: that is refused."""
    (told,) = refused(tmp_path, f"models:\n  a: {{cmd: '{CMD} --host 0.0.0.0 --api-key-file=/x'}}\n")
    assert told.startswith("2: models.a.cmd: --api-key-file: Hostler sends no key")


def test_settings(tmp_path: Path) -> None:
    """CONF-4: what is about the program itself comes over, or is told with what there is in its place."""
    got = made(
        tmp_path,
        f"""\
        logLevel: warn
        startPort: 5800
        sendLoadingState: true
        includeAliasesInList: true
        captureBuffer: 5
        maxRunningModels: 1
        routing: {{scheduler: {{settings: {{fifo: {{priority: {{a: 3}}}}}}}}}}
        upstream: {{ignorePaths: ['x$', 'y$']}}
        models:
          a: {{cmd: llama-server --port 7070, proxy: 'http://localhost:7070', health_check_timeout: 3}}
          b: {{cmd: {CMD!r}, health_check_timeout: 3, sendLoadingState: false, timeouts: {{connect: 1}}}}
        """,
    )
    assert (got.fleet.node.log_level, got.fleet.node.listen) == ("warning", ("127.0.0.1:7071",))
    for words in (
        ("1: logLevel", "Hostler's own log"),
        ("2: startPort", "8100-8199"),
        ("3: sendLoadingState", "nothing is put into reasoning_content"),
        ("4: includeAliasesInList", "once"),
        ("5: captureBuffer", "gateway.capture"),
        ("6: maxRunningModels", "one at a time already"),
        ("7: routing.scheduler.settings.fifo.priority", "class of the request"),
        ("8: upstream.ignorePaths", "(and 1 more such)"),
        ("10: models.a.health_check_timeout", "healthCheckTimeout is the nearest", "(and 1 more such)"),
        ("11: models.b.timeouts", "no times of its own"),
        ("the gateway is http://127.0.0.1:7071/v1",),
        ("an engine's environment is PATH",),
    ):
        got.tells(*words)


def test_more_engines_than_ports(tmp_path: Path) -> None:
    """CONF-4: where a hundred ports do not suffice the range is wider."""
    text = "models:\n" + "".join(f"  m{n}: {{cmd: {CMD!r}}}\n" for n in range(101))
    assert made(tmp_path, text).fleet.host.port_range == (8100, 8302)


def test_files_are_merged(tmp_path: Path) -> None:
    """CONF-4: mappings merge deep, lists join, null yields, equal scalars are fine."""
    one = write(
        tmp_path,
        f"logLevel: debug\nhooks: {{on_startup: {{preload: [a]}}}}\nmodels: {{a: {{cmd: {CMD!r}}}}}\n",
        "1.yaml",
    )
    folder = tmp_path / "more"
    folder.mkdir()
    write(folder, f"logLevel: debug\nstartPort:\nmodels: {{b: {{cmd: {CMD!r}}}}}\n", "b.yml")
    write(
        folder,
        "startPort: 6000\nmodels:\nhooks: {on_startup: {preload: [b]}}\n"
        "groups: {g: {members: [a, b], swap: false}}\n",
        "c.yaml",
    )
    write(folder, "not: read", "d.txt")
    got = from_files(tmp_path, one, str(folder))
    assert [name for name in got.fleet.engines if got.engine(name).resident] == ["a", "b"]
    assert got.fleet.node.log_level == "debug"
    assert f"{folder}/c.yaml:1: startPort" in next(
        str(n) for n in got.imported.notes if n.path == "startPort"
    )
