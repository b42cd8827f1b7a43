from pathlib import Path

import pytest

from hostler.domain.fleet import DriverKind
from tests.interfaces.importing import Made, made

HEAD = "docker run --rm --name llm --network host"


def one(folder: Path, cmd: str, more: str = "") -> Made:
    return made(folder, f"models:\n  a: {{cmd: {cmd!r}{more}}}\n")


def test_a_container_becomes_a_container_engine(tmp_path: Path) -> None:
    """CONF-4: docker run with a name and the host's network is a container engine; its stop, too."""
    got = one(
        tmp_path,
        f"{HEAD} -d --init -v /srv/m:/models:ro --device=/dev/dri -e A=b -e HF_TOKEN=hf_secret -m 8g"
        " ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf --port ${PORT}",
        ", cmdStop: docker stop llm",
    )
    engine = got.engine("a")
    assert engine.driver is DriverKind.CONTAINER
    assert engine.container is not None
    assert (engine.container.name, engine.container.network) == ("llm", "host")
    assert engine.container.image == "ghcr.io/ggml-org/llama.cpp:server"
    assert engine.container.mounts == ("/srv/m:/models:ro",)
    assert engine.container.devices == ("/dev/dri",)
    assert engine.container.memory_limit == 8 << 30
    assert engine.args == ("-m", "/models/a.gguf", "--port", "{port}", "--alias", "{model}")
    assert dict(engine.env) == {"A": "b", "HF_TOKEN": "hf_secret"}
    assert "hf_secret" not in got.text
    assert "the container driver stops" in got.tells("models.a.cmdStop")


@pytest.mark.parametrize(
    ("cmd", "why"),
    [
        ("docker run --name llm -p ${PORT}:8080 img", "-p has no word in our config"),
        ("docker run --name llm img --port ${PORT}", "only --network host is known"),
        (f"{HEAD} --gpus all img --port ${{PORT}}", "--gpus has no word in our config"),
        ("docker run --network host img --port ${PORT}", "without --name nobody could find it again"),
        (f"{HEAD} -v ./m:/models img --port ${{PORT}}", "is not from one absolute path to another"),
        (f"{HEAD} --device /dev/a:/dev/b img --port ${{PORT}}", "is renamed in the container"),
        (f"{HEAD} -m lots img --port ${{PORT}}", "--memory lots is no size"),
        (f"{HEAD} -e HF_TOKEN img --port ${{PORT}}", "--env HF_TOKEN takes its value from the environment"),
        (f"{HEAD} -e P=${{PORT}} img", "-e has ${PORT} in it"),
        (f"{HEAD} --name ${{PORT}}", "--name has ${PORT} in it"),
        (f"{HEAD} --rm --shm-size=${{PORT}}", "--shm-size has no word in our config"),
    ],
)
def test_what_a_container_engine_cannot_say_stays_a_process(tmp_path: Path, cmd: str, why: str) -> None:
    """CONF-4: with a flag that no key of ours says, the docker client is the engine, and that is told."""
    got = one(tmp_path, cmd)
    assert got.engine("a").driver is DriverKind.PROCESS
    assert why in got.tells("models.a.cmd: it stays a process")
    assert "killed leaves its container behind" in got.tells("it stays a process")


def test_a_published_port_is_the_engines(tmp_path: Path) -> None:
    """CONF-4: a fixed port that docker publishes is a placeholder; the container's own stays."""
    got = one(
        tmp_path,
        "docker run -d --rm --name llm -p 127.0.0.1:9000:8000 vllm/vllm-openai --model org/m --port 8000",
        ", proxy: 'http://127.0.0.1:9000', cmdStop: docker stop llm",
    )
    engine = got.engine("a")
    assert engine.argv[:5] == ("docker", "run", "--rm", "--name", "llm")
    assert (engine.port, engine.model) == (9000, "org/m")
    assert engine.argv[6] == "127.0.0.1:{port}:8000"
    assert engine.argv[-2:] == ("--port", "8000")
    assert "`docker stop llm` is not run" in got.tells("models.a.cmdStop")
