from pathlib import Path

from hostler.domain.fleet import DriverKind, Fleet, Task
from hostler.domain.values import EngineId, RouteName
from hostler.interfaces.first_config import first_config
from hostler.services.sight_parts import Answering, Container, ModelFile, Sight
from tests.fakes.config_files import read_config

LLAMA = {"llama-server": "/opt/{x}/llama-server"}


def fleet(folder: Path, sight: Sight) -> Fleet:
    """The fleet of the first config of what was seen."""
    reading = read_config(folder, first_config(sight).text)
    assert reading.problems == ()
    assert reading.fleet is not None
    return reading.fleet


def test_with_nothing_the_comments_say_what_to_add(tmp_path: Path) -> None:
    """CONF-4: with nothing to serve the config is empty and right, and so is its comments' example."""
    first = first_config(Sight(looked=("/m",)))
    assert (first.running, first.on_demand, first.listen) == (0, 0, "127.0.0.1:7070")
    assert dict(fleet(tmp_path, Sight()).engines) == {}
    lines = [line.removeprefix("#").removeprefix(" ") for line in first.text.splitlines()]
    start = lines.index("engines:")
    example = "version: 1\n" + "\n".join(lines[start : lines.index("", start)]) + "\n"
    reading = read_config(tmp_path, example)
    assert reading.problems == ()
    assert reading.fleet is not None
    assert list(reading.fleet.engines) == ["fast-4b"]
    assert first.text.splitlines()[0] == "# yaml-language-server: $schema=./hostler.schema.json"


def test_the_box_is_a_resource(tmp_path: Path) -> None:
    """CONF-4, LEASE-1: whatever was seen, `box` can be leased, and that holds this host."""
    server = Answering(program="ollama", pid=7, port=11434, models=("qwen3:8b",))
    for sight in (Sight(), Sight(answering=(server,), listening=frozenset({8150}))):
        found = fleet(tmp_path, sight)
        assert [action.verb for action in found.resources["box"].actions] == ["hold"]
        assert found.resources["box"].hosts == (found.here,)


def test_what_runs_is_used_as_it_is(tmp_path: Path) -> None:
    """CONF-4: a server that runs is an external engine for each model, under the ids that it reports."""
    server = Answering(program="ollama", pid=7, port=11434, models=("qwen3:8b", "bge-m3", "../x"))
    second = Answering(program="llama-server", pid=8, port=8080, models=("/m/qwen3:8b",))
    found = fleet(tmp_path, Sight(answering=(server, second)))
    assert list(found.engines) == ["qwen3-8b", "bge-m3", "x", "qwen3-8b-2"]
    engine = found.engines[EngineId("qwen3-8b")]
    assert (engine.driver, engine.url, engine.model) == (
        DriverKind.EXTERNAL,
        "http://127.0.0.1:11434",
        "qwen3:8b",
    )
    assert found.engines[EngineId("bge-m3")].task is Task.EMBED
    assert list(found.routes) == ["chat", "qwen3:8b", "/m/qwen3:8b"]
    text = first_config(Sight(answering=(server,))).text
    assert (
        "# ollama on port 11434 (pid 7) runs already: it is used, never started, stopped or evicted." in text
    )


def test_a_server_without_models_is_told(tmp_path: Path) -> None:
    """CONF-4: a server that reports no model is no engine, and the comments say why."""
    server = Answering(program="vllm", pid=7, port=8000, why="it asks for a key")
    text = first_config(Sight(answering=(server,))).text
    assert "# vllm on port 8000 (pid 7) is left out: it asks for a key." in text
    assert dict(fleet(tmp_path, Sight(answering=(server,))).engines) == {}


def test_a_container_that_serves_can_be_taken_over(tmp_path: Path) -> None:
    """CONF-4: a container's comments say how Hostler would start and stop it, and which others there are."""
    server = Answering(program="llama.cpp:server", pid=None, port=8000, models=("m",), container="llm")
    others = (Container(name="db", image="postgres", ports=(5432, 5433)), Container(name="x", image="y"))
    sight = Sight(answering=(server,), containers=others, docker="/run/docker.sock")
    text = first_config(sight).text
    assert "# driver: container, container: {name: llm}, port: 8000" in text
    assert "# Containers (/run/docker.sock): 2 running." in text
    assert "#   db (postgres): port 5432, 5433" in text
    assert list(fleet(tmp_path, sight).engines) == ["m"]


def test_model_files_start_on_demand(tmp_path: Path) -> None:
    """CONF-4: a model file with a program is an engine that starts when asked for; chats one at a time."""
    files = (
        ModelFile(path="/m/Qwen3-4B-Q4.gguf", size=3 << 30, projector="/m/mm{a}.gguf"),
        ModelFile(path="/m/big-00001-of-00002.gguf", size=5 << 30),
        ModelFile(path="/m/nomic-embed.gguf", size=1 << 20),
        ModelFile(path="/m/bge-reranker.gguf", size=1 << 20),
        ModelFile(path="/m/served.gguf", size=1),
        ModelFile(path="/hub/models--org--Some-Model/snapshots/1", size=9 << 30, kind="safetensors"),
    )
    server = Answering(
        program="llama-server", pid=1, port=1, why="it asks for a key", files=("/m/served.gguf",)
    )
    programs = {**LLAMA, "vllm": "/opt/vllm"}
    found = fleet(tmp_path, Sight(models=files, programs=programs, answering=(server,)))
    assert list(found.engines) == ["qwen3-4b-q4", "big", "nomic-embed", "bge-reranker", "some-model"]
    qwen = found.engines[EngineId("qwen3-4b-q4")]
    assert qwen.argv == (
        *("/opt/{{x}}/llama-server", "-m", "{file}", "--alias", "{model}", "--host", "{address}"),
        *("--port", "{port}", "-c", "8192", "--jinja", "--mmproj", "/m/mm{{a}}.gguf"),
    )
    assert (qwen.files, qwen.need, qwen.group) == (("/m/Qwen3-4B-Q4.gguf",), {}, "main")
    embed, rerank, vllm = (found.engines[EngineId(n)] for n in ("nomic-embed", "bge-reranker", "some-model"))
    assert (embed.task, embed.argv[-1], embed.group) == (Task.EMBED, "--embeddings", None)
    assert (rerank.task, rerank.argv[-1]) == (Task.RERANK, "--reranking")
    assert vllm.argv[:3] == ("/opt/vllm", "serve", files[-1].path)
    assert (vllm.start_timeout_s, vllm.group) == (1200, "main")
    assert list(found.routes) == ["chat"]
    assert "main" in found.host.groups


def test_one_model_needs_no_group(tmp_path: Path) -> None:
    """CONF-4: a single chat model excludes nobody, and is what `chat` leads to."""
    sight = Sight(models=(ModelFile(path="/m/chat.gguf", size=1),), programs=LLAMA)
    found = fleet(tmp_path, sight)
    assert list(found.engines) == ["chat-2"]
    assert (found.engines[EngineId("chat-2")].group, dict(found.host.groups)) == (None, {})
    assert found.routes[RouteName("chat")].active == "local"


def test_a_model_without_a_program_is_told() -> None:
    """CONF-4: a model file that nothing serves is named with the program that it needs."""
    files = (
        ModelFile(path="/m/a.gguf", size=2 << 30),
        ModelFile(path="/m/b", size=1 << 30, kind="safetensors"),
    )
    text = first_config(Sight(models=files, unusable=("/o has blobs",))).text
    assert "# /m/a.gguf (2.0 GiB) needs llama-server, which is not on the PATH." in text
    assert "# /m/b (1.0 GiB) needs vllm, which is not on the PATH." in text
    assert "# /o has blobs." in text


def test_ports_in_use_are_not_taken(tmp_path: Path) -> None:
    """CONF-4: where our usual ports are in use, the config has others."""
    found = fleet(tmp_path, Sight(listening=frozenset({7070, 7071, 8150, 8200})))
    assert (found.node.listen, found.host.port_range) == (("127.0.0.1:7072",), (8300, 8399))


def test_a_gpu_with_memory_of_its_own_is_a_pool(tmp_path: Path) -> None:
    """CONF-4, MEM-1: a card's own memory is a pool beside the RAM."""
    found = fleet(tmp_path, Sight(pools={"host": 64 << 30, "gpu0": 24 << 30}))
    assert [pool.name for pool in found.host.pools] == ["host", "gpu0"]
    assert "host 64.0 GiB" in first_config(Sight(pools={"host": 64 << 30})).text


def test_engines_are_bounded(tmp_path: Path) -> None:
    """CONF-4: more than 64 models are not written, and that is told."""
    many = tuple(f"m{n}" for n in range(70))
    server = Answering(program="ollama", pid=7, port=11434, models=many)
    files = (ModelFile(path="/m/late.gguf", size=1),)
    sight = Sight(answering=(server,), models=files, programs=LLAMA)
    assert len(fleet(tmp_path, sight).engines) == 64
    text = first_config(sight).text
    assert "has more models: 64 engines are written." in text
    assert "/m/late.gguf is left out: 64 engines are written." in text
