import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.engine import State
from hostler.domain.eviction import Eviction, Running, plan
from hostler.domain.fleet import HOST_POOL, Task
from hostler.domain.memory import Reading
from hostler.interfaces.imports.llama_swap import convert
from hostler.interfaces.imports.notes import Sign
from hostler.services.import_parts import Given
from tests.interfaces.importing import Made, from_files, made, parts, refused, stops_between

pytestmark = pytest.mark.cases

ACCEPTED = {"LS-04": 9, "LS-06": 15, "LS-09": 3, "LS-10": 3, "LS-12": 1, "LS-13": 22, "LS-15": 3}
"""The models of each file that can be imported."""
TTS = "qwen3-tts"
EMBEDDERS = (
    "nomic-embed-text-v2-moe",
    "lfm2.5-embedding-350m",
    "nemotron-3-embed-1b",
    "lfm2.5-colbert-350m",
)


def case(cases_dir: Path, name: str) -> Path:
    return cases_dir / "llama-swap" / f"{name}.yaml"


def imported(cases_dir: Path, folder: Path, name: str) -> Made:
    """What a case's file comes to, checked."""
    return from_files(folder, str(case(cases_dir, name)))


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_file_becomes_a_config_that_is_right(cases_dir: Path, tmp_path: Path, name: str) -> None:
    """CONF-4: each file that can be expressed becomes a config that passes the check, and is not touched."""
    before = case(cases_dir, name).read_bytes()
    got = imported(cases_dir, tmp_path, name)
    assert len(got.fleet.engines) == ACCEPTED[name]
    assert all(engine.need == {} for engine in got.fleet.engines.values())
    assert case(cases_dir, name).read_bytes() == before
    assert all(note.file == str(case(cases_dir, name)) and note.line > 0 for note in got.imported.notes)


# ---------------------------------------------------------------- LS-02


def test_an_old_profile_is_refused_with_its_set(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: LS-02 is refused by key and line, with the new shape and the set that lets both run."""
    (told,) = refused(tmp_path, case(cases_dir, "LS-02").read_text())
    assert told.startswith(
        "5: profiles.aider: a list is the old form of a profile, which llama-swap itself refuses"
    )
    assert "now {pins: {ASKED: TARGET}}" in told
    assert 'say `matrix: {sets: {aider: "qwen-coder-32B & QwQ"}}` instead' in told
    assert "without it they run one at a time" in told


def test_the_offered_set_lets_both_run(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: LS-02 with what was offered imports whole; both may run, and the samplers are one argument."""
    text = case(cases_dir, "LS-02").read_text()
    assert not text.endswith("\n")
    old = text[text.index("profiles:") : text.index("models:")]
    got = made(tmp_path, text.replace(old, 'matrix: {sets: {aider: "qwen-coder-32B & QwQ"}}\n'))
    assert [engine.group for engine in got.fleet.engines.values()] == [None, None]
    samplers = got.engine("qwq").argv
    assert samplers[samplers.index("--samplers") + 1].count(";") == 6
    assert got.route("qwen-coder-32B").aliases == ("coder",)
    assert dict(got.engine("qwq").env) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert (got.engine("qwen-coder-32b").port, got.engine("qwq").port) == (8999, 9503)


def test_without_the_set_that_is_said(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: LS-02 without its profile is one at a time only because nobody says otherwise."""
    text = case(cases_dir, "LS-02").read_text()
    old = text[text.index("profiles:") : text.index("models:")]
    got = made(tmp_path, text.replace(old, ""))
    assert got.stops("qwq", "qwen-coder-32b")
    assert "Members of one group exclude each other" in got.text


# ---------------------------------------------------------------- LS-04, LS-06


def test_notes_behind_arguments_are_warned_of(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-04 comment lines go, three notes behind arguments are passed on and told by line."""
    got = imported(cases_dir, tmp_path, "LS-04")
    told = [note for note in got.told(Sign.WARNING) if "words of the note" in note]
    assert [note.partition(":")[0] for note in told] == ["24", "163", "164"]
    gemma, draft = got.engine("llamacpp-gemma-3-1b"), got.engine("llamacpp-qwen3-30b-a3b-draft")
    at = gemma.argv.index("#")
    assert gemma.argv[at - 2 : at + 3] == ("--ctx-size", "8192", "#", "(k8,v8,8192):", "1.693")
    assert draft.argv.count("#") == 2
    assert "Q8_0:" not in gemma.argv
    others = [engine for engine in got.fleet.engines.values() if engine.id not in (gemma.id, draft.id)]
    assert not any("#" in word for engine in others for word in engine.argv)


def test_paths_and_times_are_kept(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-04 the other build's path, the seconds and the ttl are kept; nothing else appears."""
    got = imported(cases_dir, tmp_path, "LS-04")
    draft = got.engine("llamacpp-qwen3-30b-a3b-draft")
    assert draft.argv[0] == "/build/llama.cpp-debug/bin/llama-server"
    assert {engine.start_timeout_s for engine in got.fleet.engines.values()} == {9900}
    assert {engine.ttl_s for engine in got.fleet.engines.values()} == {3600}
    assert not any("mellum" in name.lower() or "gemma-3-4b" in name for name in got.fleet.routes)
    names = list(got.fleet.engines)
    assert got.stops(names[0], names[-1])


def test_one_entry_one_need(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, MEM-2: of LS-06 each entry has its own context and cache types, and its own need."""
    got = imported(cases_dir, tmp_path, "LS-06")
    weights: dict[str, set[int | None]] = {}
    for engine in got.fleet.engines.values():
        weights.setdefault(engine.argv[engine.argv.index("-m") + 1], set()).add(engine.context)
        assert engine.argv[0] == "/app/llama-server"
    assert max(len(contexts) for contexts in weights.values()) == 4
    turbo, plain = got.engine("deepseek-v4-flash-256k-turbo"), got.engine("deepseek-v4-flash-256k")
    assert turbo.context == plain.context == 262144
    assert (turbo.argv[turbo.argv.index("-ctk") + 1], plain.argv[plain.argv.index("-ctk") + 1]) == (
        "turbo2",
        "f16",
    )


def test_what_is_known_of_an_entry_survives(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-06 the free text is kept, and a catalog's mark on an entry survives another import."""
    files = parts(tmp_path)
    source = files.read([str(case(cases_dir, "LS-06"))])
    target = tmp_path / "hostler.yaml"
    name = "deepseek-v4-flash-256k-turbo"
    target.write_text(
        f"version: 1\nengines: {{{name}: {{entry: qwen3.8-flash-next#262k, serving_class: wedge-risk}}}}\n"
    )
    earlier = files.earlier(str(target))
    made_again = convert(source, here=files.here, earlier=earlier)
    assert list(files.check(made_again.draft)) == []
    assert 'entry: "qwen3.8-flash-next#262k"' in made_again.draft.text
    assert "serving_class: wedge-risk" in made_again.draft.text
    (tmp_path / "first").mkdir()
    route = imported(cases_dir, tmp_path / "first", "LS-06").route(name)
    assert "silently corrupt V4 arch" in route.description


# ---------------------------------------------------------------- LS-08


def test_windows_paths_are_refused(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, PLAT-1: of LS-08 all nine models are refused at once, each path whole, by its own line."""
    told = refused(tmp_path, case(cases_dir, "LS-08").read_text())
    assert len(told) == 9
    programs = re.findall(r'"([A-Z]:[^"]*\.exe)"', case(cases_dir, "LS-08").read_text())
    for each, program in zip(told, programs, strict=True):
        assert f"cmd: {program} is a path of Windows" in each
        assert program.count(" ") == 4
        assert r"\U" in program
        assert r"\b" in program
    names = [each.partition(".cmd: ")[0].partition("models.")[2] for each in told]
    assert {"qwen-30b", "qwen-30b-turbo", "qwen-30b-64k"} < set(names)
    assert len({each.partition(":")[0] for each in told}) == 9


# ---------------------------------------------------------------- LS-09, LS-10, LS-12


def test_three_models_on_one_port(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, PORT-3: of LS-09 the port is shared in one group, unknown key and open listener are told."""
    got = imported(cases_dir, tmp_path, "LS-09")
    assert {engine.port for engine in got.fleet.engines.values()} == {30000}
    assert len({engine.group for engine in got.fleet.engines.values()}) == 1
    assert "one at a time already" in got.tells("6: maxRunningModels")
    assert "port 30000 is shared, exclusive" in got.tells("models.", "shared, exclusive")
    assert "listens on every address, and asks for no key" in got.tells("listens on every address")
    assert got.engine("qwen3.5-27b-gguf").argv[0] == "/home/user/llama.cpp/build/bin/llama-server"
    assert len(got.engine("qwen3.5-27b-gguf").env) == 2


def test_a_positional_port_of_a_relative_script(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-10 the script is looked for where llama-swap starts, and the port is ours to give."""
    (tmp_path / "startQwen35_27B-server.sh").write_text("#!/bin/sh\n")
    (tmp_path / "startQwen35_27B-server.sh").chmod(0o755)
    got = imported(cases_dir, tmp_path, "LS-10")
    engine = got.engine("qwen35-27b-chat")
    assert engine.argv == ("./startQwen35_27B-server.sh", "{port}")
    assert (engine.cwd, engine.port) == (str(tmp_path), None)
    there = {program: parts(tmp_path).has_program(program, cwd) for program, cwd in got.imported.programs}
    assert [program for program, is_there in there.items() if is_there] == [engine.argv[0]]
    assert len(there) == 3


def test_a_wildcard_is_no_destination(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-12 0.0.0.0 becomes loopback, the ttl is kept, the cloud's name is warned of."""
    got = imported(cases_dir, tmp_path, "LS-12")
    engine = got.engine("swap-llamacpp")
    assert (engine.address, engine.port, engine.ttl_s, engine.start_timeout_s) == (None, 9001, 5, 15)
    assert got.route("swap-llamacpp").aliases == ("gpt-4o-mini",)
    assert "it is reached by loopback" in got.tells("20: models.swap-llamacpp.proxy")
    assert "gpt-4o-mini is a cloud provider's name" in got.tells("24: models.swap-llamacpp.aliases")


# ---------------------------------------------------------------- LS-13


def test_unknown_keys_are_told_once(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-13 each unknown key is told once, with how many models have it; an empty value stays."""
    got = imported(cases_dir, tmp_path, "LS-13")
    assert "(and 15 more such)" in got.tells("health_check_timeout", "healthCheckTimeout is the nearest")
    assert "(and 2 more such)" in got.tells("no key tags")
    empty = [engine for engine in got.fleet.engines.values() if engine.env.get("CUDA_VISIBLE_DEVICES") == ""]
    assert len(empty) == 4


def test_a_stop_by_pattern_is_not_taken_over(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, ENG-6: of LS-13 the stop by pattern is refused by its line, and is nowhere in the config."""
    got = imported(cases_dir, tmp_path, "LS-13")
    assert "refused: `pkill -f tts_server.py`" in got.tells("1582: models.qwen3-tts.cmdStop")
    assert "pkill" not in got.text
    tts = got.engine(TTS)
    assert (tts.port, tts.health, tts.task, tts.ttl_s) == (8880, "tcp", Task.TTS, 300)


def test_the_matrix_in_groups(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, EVICT-1: of LS-13 who may run beside whom is as in the sets, pair by pair; the rest is told."""
    got = imported(cases_dir, tmp_path, "LS-13")
    assert not any(stops_between(got, one, two) for one in EMBEDDERS for two in EMBEDDERS if one != two)
    assert not stops_between(got, "glm-4.7-flash", EMBEDDERS[0])
    assert got.stops("qwen3.5-9b", "glm-4.7-flash")
    assert all(got.stops("nanbeige4.2-3b", one) and got.stops(one, "nanbeige4.2-3b") for one in EMBEDDERS)
    assert "may be up at once, though no set has all three" in got.tells("groups speak of pairs")
    assert "not weighed by costs" in got.tells("matrix.evict_costs")


def test_a_second_name_has_its_own_settings(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-13 ten models have a second name with thinking on, and the others' free text is kept."""
    got = imported(cases_dir, tmp_path, "LS-13")
    thinking = [name for name in got.fleet.routes if name.endswith(":think")]
    assert len(thinking) == 10
    patches = (
        got.route("qwen3.5-4b:think").patches["qwen3.5-4b"],
        got.route("qwen3.5-4b").patches["qwen3.5-4b"],
    )
    assert [patch["chat_template_kwargs"] for patch in patches] == [
        {"enable_thinking": True},
        {"enable_thinking": False},
    ]
    assert "portugu" in got.text.lower()
    assert sum(1 for engine in got.fleet.engines.values() if engine.port is None) == 21


def test_a_long_file_is_quick(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-13 1,900 lines take less than a second of the processor, whatever else it does."""
    files = parts(tmp_path)
    before = time.process_time()
    convert(files.read([str(case(cases_dir, "LS-13"))]), here="/")
    assert time.process_time() - before < 1.0


# ---------------------------------------------------------------- LS-15


def test_a_script_and_who_fills_it_in(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-15 the script is one argument, $HOME in it the shell's and ${{env.HOME}} ours."""
    got = imported(cases_dir, tmp_path, "LS-15")
    engine = got.engine("flash-heavy")
    assert engine.argv[:2] == ("sh", "-c")
    assert len(engine.argv) == 3
    assert engine.argv[2].startswith(
        'cd "$HOME/git/heavy" && exec caffeinate -ism ./heavy-server --port {port}'
    )
    assert f"--kv-disk-dir {tmp_path}/Library/Caches/heavy/kv --warm-weights" in engine.argv[2]


def test_limits_are_a_queue_with_an_end(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4: of LS-15 the limits of requests are bounds without a queue, and the name inside is kept."""
    got = imported(cases_dir, tmp_path, "LS-15")
    bounds = {name: (it.max_concurrent, it.queue, it.model) for name, it in got.fleet.engines.items()}
    assert bounds == {
        "flash-heavy": (None, None, "flash-heavy"),
        "laguna-like": (5, 0, "default_model"),
        "coder-next": (3, 0, "default_model"),
    }
    assert "answers name default_model" in got.tells("useModelName")


def test_no_two_fit_by_numbers(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-4, MEM-2, EVICT-2: of LS-15 with needs of 70 GiB on a box of 124 one makes room by the numbers."""
    got = imported(cases_dir, tmp_path, "LS-15")
    need = {HOST_POOL: 70 << 30}
    first, second = (replace(got.engine(name), group=None) for name in ("laguna-like", "coder-next"))
    up = [Running(engine=first, state=State.READY, held=need, ready_at=0.0)]
    pools = {HOST_POOL: Reading(total=124 << 30, available=50 << 30)}
    found = plan(second, need, up, got.fleet.host, pools, 1000.0)
    assert isinstance(found, Eviction)
    assert found.stop == (first.id,)
    grouped = got.stops("coder-next", "laguna-like"), got.stops("laguna-like", "flash-heavy")
    assert grouped == (True, True)


def test_places_are_known_to_the_line(cases_dir: Path) -> None:
    """CONF-4: a value of a case knows the line that it stands on."""
    whole = parts(cases_dir).read([str(case(cases_dir, "LS-12"))]).files[0]
    assert isinstance(whole, Given)
    model = ((whole.keys or {})["models"].keys or {})["swap-llamacpp"]
    assert (model.line, (model.keys or {})["ttl"].line) == (15, 30)
