from pathlib import Path

import pytest

from hostler.domain.fleet import DriverKind, Task
from hostler.interfaces.imports.notes import Sign
from tests.interfaces.importing import made, refused

LLAMA = "llama-server -m /m/a.gguf --port ${PORT}"


def test_a_model_becomes_an_engine_and_a_route(tmp_path: Path) -> None:
    """CONF-4: a model becomes a process engine with an auto port, and its id, of any text, a route."""
    got = made(
        tmp_path,
        """\
        models:
          "Org/QwQ:32B":
            cmd: /bin/llama-server -m /m/qwq.gguf --port ${PORT} -c 4096
        """,
    )
    engine = got.engine("org-qwq-32b")
    assert engine.argv == (
        *("/bin/llama-server", "-m", "/m/qwq.gguf", "--port", "{port}", "-c", "4096"),
        *("--alias", "{model}"),
    )
    assert (engine.driver, engine.port, engine.model) == (DriverKind.PROCESS, None, "Org/QwQ:32B")
    assert (engine.context, engine.need, engine.health, engine.cwd) == (4096, {}, "/health", None)
    assert list(got.fleet.routes) == ["Org/QwQ:32B"]
    assert got.text.startswith("# yaml-language-server: $schema=./hostler.schema.json\n")
    assert "# memory: unknown, so started only when asked for by name" in got.text


def test_a_command_is_cut_as_llama_swap_cuts_it(tmp_path: Path) -> None:
    """CONF-4: comment lines go before macros, a backslash joins lines, quotes hold words, ; is text."""
    got = made(
        tmp_path,
        """\
        macros: {dir: /m, server: "${dir}/bin/llama-server"}
        models:
          a:
            cmd: |
              ${server} --port ${PORT} \\
                # --model ${nowhere}
                --samplers "top_k;top_p"
                --system 'say {hi} | there'
        """,
    )
    assert got.engine("a").argv == (
        *("/m/bin/llama-server", "--port", "{port}", "--samplers", "top_k;top_p"),
        *("--system", "say {{hi}} | there", "--alias", "{model}"),
    )


@pytest.mark.parametrize(
    ("cmd", "why"),
    [
        ("llama-server --port ${PORT} | tee log", "no shell reads it, so | would be an argument"),
        ("cd /x && llama-server --port ${PORT}", "no shell reads it, so && would be an argument"),
        ("CUDA=1 llama-server --port ${PORT}", "CUDA=1 would be the program: put it under env:"),
        ("llama-server --port ${PORT} 'x", "its quotes do not match: No closing quotation"),
        ("C:\\\\x\\\\llama-server.exe --port ${PORT}", "is a path of Windows"),
        (r"""'"\\\\box\share\run" --port ${PORT}'""", "is a path of Windows"),
        ("llama-server --port ${PORT} ${other}", "there is no macro other: ${other}"),
        ("'# nothing'", "there is no command in it"),
        ("llama-server --port 8000", "neither proxy nor ${PORT} in cmd: nobody knows where it listens"),
    ],
)
def test_a_command_that_cannot_run_is_refused(tmp_path: Path, cmd: str, why: str) -> None:
    """CONF-4, PLAT-1: a command that needs a shell, Windows or an unknown macro is refused by its line."""
    (told,) = refused(tmp_path, f"models:\n  a:\n    cmd: {cmd}\n")
    assert told.startswith(("3: models.a.cmd: ", "2: models.a.proxy: "))
    assert why in told


def test_a_shell_of_ones_own_is_one_script(tmp_path: Path) -> None:
    """CONF-4: of sh -c the script stays one argument, its braces doubled; $HOME in it is the shell's."""
    got = made(
        tmp_path,
        """\
        models:
          a:
            cmd: >-
              sh -c 'cd "$HOME" && exec ./serve --port ${PORT}
              --dir ${env.PLACE} --x {1}'
            checkEndpoint: /v1/models
        """,
        {"PLACE": "/place"},
    )
    engine = got.engine("a")
    assert engine.argv == (
        *("sh", "-c"),
        'cd "$HOME" && exec ./serve --port {port} --dir /place --x {{1}}',
    )
    assert (engine.health, engine.cwd) == ("tcp", str(tmp_path))
    assert "counts as ready once its own process listens" in got.tells("6: models.a.checkEndpoint")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("proxy: 'http://127.0.0.1:${PORT}'", "2: models.a.proxy: ${PORT} is in proxy only"),
        ("proxy: https://127.0.0.1:9000", "an engine is spoken to over http"),
        ("proxy: http://127.0.0.1:9000/v2", "an engine answers at the root of its port, not at /v2"),
        ("proxy: http://inference:9000", "the host inference is a name; an engine's address is an IP"),
        ("proxy: http://127.0.0.1:99999", "http://127.0.0.1:99999 is no URL"),
        ("proxy: http://127.0.0.1:9001", "the command listens on 9000, proxy says 9001"),
    ],
)
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, model: str, why: str) -> None:
    """CONF-4, BG-09: a proxy without a port, with a path, a name, TLS, or not the command's port."""
    told = refused(tmp_path, f"models:\n  a: {{cmd: llama-server --port 9000, {model}}}\n")
    assert any(why in each for each in told)


def test_the_port_of_the_command_is_not_the_proxys(tmp_path: Path) -> None:
    """CONF-4: ${PORT} in the command and another port in proxy contradict each other."""
    told = refused(tmp_path, f"models:\n  a: {{cmd: {LLAMA!r}, proxy: 'http://127.0.0.1:9000'}}\n")
    assert told == ["2: models.a.proxy: the command listens on ${PORT}, proxy says 9000"]


def test_an_address_is_kept_and_a_wildcard_is_loopback(tmp_path: Path) -> None:
    """CONF-4: an IP in proxy is the engine's address; 0.0.0.0 as a destination is loopback, and told."""
    got = made(
        tmp_path,
        """\
        models:
          a: {cmd: llama-server --port 9001, proxy: "http://0.0.0.0:9001"}
          b: {cmd: llama-server --port 9002, proxy: "http://192.0.2.7:9002"}
        """,
    )
    assert (got.engine("a").address, got.engine("a").port) == (None, 9001)
    assert got.engine("b").address == "192.0.2.7"
    assert "it is reached by loopback" in got.tells("2: models.a.proxy")


@pytest.mark.parametrize(
    ("cmd", "model", "health"),
    [
        ("llama-server --port ${PORT} --alias its-own", "its-own", "/health"),
        ("llama-server --port ${PORT}", "a", "/health"),
        ("vllm serve org/m --port ${PORT}", "org/m", "/health"),
        ("vllm serve org/m --served-model-name n --port ${PORT}", "n", "/health"),
        ("python -m vllm.entrypoints.openai.api_server --model /m/x --port ${PORT}", "/m/x", "/health"),
        ("python -m sglang.launch_server --model-path /m/y --port ${PORT}", "/m/y", "/health"),
        ("mlx_lm.server --port ${PORT}", "a", "tcp"),
        ("./start.sh ${PORT}", "a", "tcp"),
    ],
)
def test_the_id_that_an_engine_reports_is_known_or_not_asked(
    tmp_path: Path, cmd: str, model: str, health: str
) -> None:
    """CONF-4, ENG-4: `model` is the id that the program reports; where it is unknown, the port decides."""
    engine = made(tmp_path, f"models:\n  a: {{cmd: {cmd!r}}}\n").engine("a")
    assert (engine.model, engine.health) == (model, health)


def test_a_name_for_the_engine_is_kept(tmp_path: Path) -> None:
    """CONF-4: useModelName is the engine's model; where the engine reports another id, that is told."""
    got = made(
        tmp_path,
        f"""\
        models:
          a: {{cmd: {LLAMA!r}, useModelName: inside}}
          b: {{cmd: "{LLAMA} --alias other", useModelName: inside}}
        """,
    )
    assert (got.engine("a").model, got.engine("b").model) == ("inside", "other")
    assert "requests name other" in got.tells("3: models.b.useModelName: requests")
    assert "passed on as they come" in got.tells("2: models.a.useModelName: answers name inside")


def test_macros_of_macros(tmp_path: Path) -> None:
    """CONF-4: a macro may use earlier ones, a model's own takes its place, a whole value its kind."""
    got = made(
        tmp_path,
        """\
        macros: {port: "--port ${PORT}", run: "llama-server ${port}", wait: 60}
        models:
          a: {macros: {run: "other ${port}", size: 7}, cmd: "${run} -n ${size}", ttl: "${wait}"}
          b: {cmd: "${run}", ttl: "${wait}"}
        """,
    )
    assert got.engine("a").argv == ("other", "--port", "{port}", "-n", "7")
    assert got.engine("b").argv[:3] == ("llama-server", "--port", "{port}")
    assert (got.engine("a").ttl_s, got.engine("b").ttl_s) == (60, 60)


def test_an_unknown_macro_is_told_by_its_own_line(tmp_path: Path) -> None:
    """CONF-4: in a command of several lines the line of an unknown macro, or of a shell's sign, is told."""
    text = "models:\n  a:\n    cmd: |\n      llama-server --port ${PORT}\n      -m x\n      LAST\n"
    (told,) = refused(tmp_path, text.replace("LAST", "--dir ${nowhere}"))
    assert told.startswith("6: models.a.cmd: there is no macro nowhere")
    (told,) = refused(tmp_path, text.replace("LAST", "> log"))
    assert told.startswith("6: models.a.cmd: no shell reads it, so > would be an argument")


def test_macros_do_not_grow_for_ever(tmp_path: Path) -> None:
    """CONF-4: macros of macros of macros are bounded."""
    rows = ["  m0: xxxxxxxxxxxxxxxxxxxx"]
    rows += [f"  m{n}: " + "'" + ("${m" + str(n - 1) + "}") * 10 + "'" for n in range(1, 9)]
    told = refused(tmp_path, "macros:\n" + "\n".join(rows) + "\nmodels:\n  a: {cmd: 'x ${m8}'}\n")
    assert told[0].startswith("12: models.a.cmd: ")
    assert "its macros make it longer than 65536 characters" in told[0]


def test_times_and_bounds(tmp_path: Path) -> None:
    """CONF-4: ttl, start and stop times, the limit of requests and the WebSockets' part come over."""
    got = made(
        tmp_path,
        f"""\
        healthCheckTimeout: 10
        globalTTL: 300
        unloadTimeout: 20
        models:
          a: {{cmd: {LLAMA!r}, concurrencyLimit: 3}}
          b: {{cmd: {LLAMA!r}, ttl: 0, unloadTimeout: 7, compat: {{ignoreWebsockets: true}}}}
          comfyui_auto: {{cmd: {LLAMA!r}, checkEndpoint: none, healthCheckTimeout: 9}}
        """,
    )
    a, b, comfy = (got.engine(name) for name in ("a", "b", "comfyui_auto"))
    assert (a.ttl_s, a.start_timeout_s, a.stop_timeout_s) == (300, 15, 20)
    assert (a.max_concurrent, a.queue, a.websockets) == (3, 0, "count")
    assert "not enforced yet" in got.tells("5: models.a.concurrencyLimit", "max_concurrent and queue")
    assert (b.ttl_s, b.stop_timeout_s, b.max_concurrent, b.websockets) == (0, 7, None, "ignore")
    assert (comfy.max_concurrent, comfy.websockets, comfy.health) == (50, "ignore", "none")
    assert "from unloadTimeout, 10s" in got.tells("1: healthCheckTimeout: an engine that must make room")
    assert "raises it to 15" in got.tells("1: healthCheckTimeout", "without a word")
    assert "at most 10 requests" in got.tells("6: models.b: ")
    assert "start_timeout is what was meant" in got.tells("7: models.comfyui_auto.healthCheckTimeout")


def test_without_a_start_time_ours_is_kept(tmp_path: Path) -> None:
    """CONF-4: where the file says no healthCheckTimeout, the start budget is ours, which is no shorter."""
    got = made(tmp_path, f"models: {{a: {{cmd: {LLAMA!r}}}}}\n")
    assert got.engine("a").start_timeout_s is None
    assert [note for note in got.told() if "make room" in note] == []


def test_the_environment(tmp_path: Path) -> None:
    """CONF-4: an empty value stays empty, ${{PORT}} in a value goes before the program, no = sets nothing."""
    got = made(
        tmp_path,
        f"""\
        models:
          a:
            cmd: {LLAMA}
            env: [CUDA_VISIBLE_DEVICES=, "ADDR=x:${{PORT}}", ALONE, "A=b=c"]
        """,
    )
    engine = got.engine("a")
    assert engine.env == {"CUDA_VISIBLE_DEVICES": "", "A": "b=c"}
    assert engine.argv[:3] == ("env", "ADDR=x:{port}", "llama-server")
    assert "ALONE has no =" in got.tells("4: models.a.env", "ALONE")


def test_tasks(tmp_path: Path) -> None:
    """CONF-4: flags and capabilities say what a real probe of the engine is."""
    got = made(
        tmp_path,
        f"""\
        models:
          e: {{cmd: "{LLAMA} --embeddings"}}
          r: {{cmd: {LLAMA!r}, capabilities: {{reranker: true, context: 512}}}}
          t: {{cmd: {LLAMA!r}, capabilities: {{out: [audio], context: 0}}}}
          c: {{cmd: {LLAMA!r}, capabilities: {{in: [text, audio], out: [text]}}}}
        """,
    )
    tasks = {name: got.engine(name).task for name in "ertc"}
    assert tasks == {"e": Task.EMBED, "r": Task.RERANK, "t": Task.TTS, "c": Task.CHAT}
    assert (got.engine("r").context, got.engine("t").context) == (512, None)


@pytest.mark.parametrize(
    "stop", ["kill ${PID}", "kill -TERM ${PID}", "/bin/kill -15 ${PID}", "kill -s TERM ${PID}"]
)
def test_a_plain_stop_is_not_needed(tmp_path: Path, stop: str) -> None:
    """CONF-4, ENG-6: a cmdStop that sends SIGTERM does what Hostler does: left out, and told."""
    got = made(tmp_path, f"models: {{a: {{cmd: {LLAMA!r}, cmdStop: {stop!r}}}}}\n")
    assert "get SIGTERM anyway" in got.tells("models.a.cmdStop", "not needed")
    assert "kill" not in got.text


@pytest.mark.parametrize("stop", ["pkill -f serve.py", "sh -c 'pkill serve; true'", "/usr/bin/killall -9 x"])
def test_a_stop_by_pattern_is_refused(tmp_path: Path, stop: str) -> None:
    """CONF-4, ENG-6: a cmdStop that would end anybody's process is not taken over, and that is told."""
    got = made(tmp_path, f'models: {{a: {{cmd: {LLAMA!r}, cmdStop: "{stop}"}}}}\n')
    assert "refused: " in got.tells("models.a.cmdStop", "anybody's process")
    assert "kill" not in got.text


def test_another_stop_is_told(tmp_path: Path) -> None:
    """CONF-4: any other cmdStop is not run, and the report says what happens in its place."""
    got = made(tmp_path, f"models: {{a: {{cmd: {LLAMA!r}, cmdStop: '/x/stop ${{PID}}'}}}}\n")
    assert "`/x/stop ${PID}` is not run" in got.tells("models.a.cmdStop")


def test_words_that_no_shell_reads_are_told(tmp_path: Path) -> None:
    """CONF-4: $NAME, ~ and notes behind arguments are passed on as they are, each told with its own line."""
    got = made(
        tmp_path,
        """\
        models:
          a:
            cmd: |
              llama-server --port ${PORT}
              -m ~/a.gguf   # the small one
              --log $LOGS/x
        """,
    )
    assert got.engine("a").argv[3:9] == ("-m", "~/a.gguf", "#", "the", "small", "one")
    told = got.told(Sign.WARNING)
    assert [note.partition(":")[0] for note in told if ".cmd" in note] == ["5", "5", "6"]
    assert any("# the small one" in note for note in told)


def test_free_text_is_not_lost(tmp_path: Path) -> None:
    """CONF-4: name and description are the route's, metadata stands as a comment above the engine."""
    got = made(
        tmp_path,
        f"""\
        models:
          a:
            cmd: {LLAMA}
            name: The A
            description: "corrupts \\u00e9 silently"
            metadata: {{note: "keep: me", size: 3}}
        """,
    )
    assert got.route("a").description == "The A: corrupts é silently"
    assert '  # note: "keep: me"\n  # size: 3\n  a:\n' in got.text


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("cmd: [a, b]", "models.a.cmd: there is no command in it"),
        ("name: x", "models.a: there is no cmd"),
        (f"cmd: {LLAMA!r}, ttl: soon", "models.a.ttl: expected a whole number"),
        (f"cmd: {LLAMA!r}, ttl: true", "models.a.ttl: expected a whole number"),
        (f"cmd: {LLAMA!r}, unlisted: 3", "models.a.unlisted: expected true or false"),
        (f"cmd: {LLAMA!r}, aliases: x", "models.a.aliases: expected a list"),
        (f"cmd: {LLAMA!r}, aliases: [[x]]", "models.a.aliases: expected a list of texts"),
        (f"cmd: {LLAMA!r}, filters: x", "models.a.filters: expected a mapping"),
        (f"cmd: {LLAMA!r}, name: [x]", "models.a.name: expected text"),
        (f"cmd: {LLAMA!r}, env: ['1A=x']", "models.a.env: 1A is no name of a variable"),
        (f"cmd: {LLAMA!r}, macros: {{PORT: 3}}", "models.a.macros.PORT: this is no name for a macro"),
        (f"cmd: {LLAMA!r}, macros: {{x: [3]}}", "models.a.macros.x: a macro is text, a number"),
        (f'cmd: {LLAMA!r}, cmdStop: "x \'y"', "models.a.cmdStop: its quotes do not match"),
    ],
)
def test_what_is_no_such_value_is_refused(tmp_path: Path, keys: str, why: str) -> None:
    """CONF-4: a value of another kind is refused with its line and what was expected."""
    (told,) = refused(tmp_path, f"models:\n  a: {{{keys}}}\n")
    assert told.startswith(f"2: {why}")
