from collections.abc import Mapping
from pathlib import Path

import pytest

from hostler.adapters.sight.box import Box
from hostler.adapters.sight.model_files import models_in
from hostler.domain.errors import FileExists, FileUnusable
from hostler.services.sight_parts import ModelFile, Sight
from tests.fakes.model_list import models, serving
from tests.fakes.paired import nested

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def table(folder: Path, *ports: int, address: str = "0100007F") -> Path:
    """A /proc whose processes 100, 101, … listen on these ports, one each, inode 7000 and on."""
    proc = folder / "proc"
    (proc / "net").mkdir(parents=True)
    rows = [
        f"   {n}: {address}:{port:04X} 00000000:0000 0A 0:0 0:0 0 1000 0 {7000 + n}\n"
        for n, port in enumerate(ports)
    ]
    (proc / "net/tcp").write_text(HEAD + "".join(rows))
    (proc / "meminfo").write_text("MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n")
    return proc


def process(proc: Path, number: int, *words: str) -> None:
    """Process 100 + `number` of the table, with the socket of that number."""
    own = proc / str(100 + number)
    (own / "fd").mkdir(parents=True)
    (own / "stat").write_text(f"{100 + number} (x) S 1 1 1 " + "0 " * 12 + "1 0 55 0 0\n")
    (own / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    (own / "fd/3").symlink_to(f"socket:[{7000 + number}]")


def look(folder: Path, proc: Path | None = None, **env: str) -> Sight:
    """A look at a made-up box below `folder`."""
    return box(folder, env, proc).look()


def box(folder: Path, env: Mapping[str, str] | None = None, proc: Path | None = None) -> Box:
    given = {"HOME": str(folder / "home"), "PATH": str(folder / "bin"), **(env or {})}
    return Box(env=given, root=folder, proc=proc or table(folder), system=folder / "etc/hostler")


def gguf(path: Path, size: int = 100) -> Path:
    """A file that says that it is a GGUF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + b"\0" * (size - 4))
    return path


def program(folder: Path, name: str) -> str:
    """A program on the made-up PATH; its path."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_box_with_nothing(tmp_path: Path) -> None:
    """CONF-4: where there is nothing, nothing is seen but memory and where it was looked."""
    seen = look(tmp_path)
    assert (dict(seen.pools), dict(seen.programs)) == ({"host": 4 << 30}, {})
    assert (seen.answering, seen.models, seen.containers, seen.docker, seen.unusable) == ((), (), (), "", ())
    assert f"{tmp_path}/home/models" in seen.looked
    assert f"{tmp_path}/home/.cache/huggingface/hub" in seen.looked


def test_programs_are_found_on_the_path(tmp_path: Path) -> None:
    """CONF-4: programs that serve models are found on the PATH that is given, not on this machine's."""
    where = program(tmp_path, "llama-server")
    assert dict(look(tmp_path).programs) == {"llama-server": where}


def test_who_serves_is_asked_for_its_models(tmp_path: Path) -> None:
    """CONF-4: a process that listens and is known to serve models is asked for their ids; others are not."""
    with (
        serving(models("qwen3:8b", "bge-m3")) as ollama,
        serving({"/v1/models": (401, {})}) as closed,
        serving(models("secret")) as other,
        serving({}) as empty,
    ):
        proc = table(tmp_path, ollama, closed, other, empty, 1)
        process(proc, 0, "/usr/local/bin/ollama", "serve")
        process(proc, 1, "python3", "-m", "vllm.entrypoints.openai.api_server")
        process(proc, 2, "python3", "app.py")
        process(proc, 3, "/opt/llama-server", "-m", "/m/a.gguf")
        process(proc, 4, "llama-server")
        seen = look(tmp_path, proc)
    by_port = {one.port: one for one in seen.answering}
    assert set(by_port) == {ollama, closed, empty, 1}
    assert (by_port[ollama].program, by_port[ollama].pid) == ("ollama", 100)
    assert by_port[ollama].models == ("qwen3:8b", "bge-m3")
    assert by_port[closed].why == "it asks for a key"
    assert by_port[empty].why == "/v1/models answers 404, and names no model"
    assert by_port[empty].files == ("/m/a.gguf",)
    assert "refused" in by_port[1].why or "Connect" in by_port[1].why
    assert seen.listening >= {ollama, closed, other, empty, 1}


def test_who_hides_its_sockets_is_asked_where_it_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONF-4: a server of another user, whose sockets are not shown, is asked at the port that it is told."""
    monkeypatch.setattr("hostler.adapters.host.process_table.open_inodes", lambda *_: None)
    with serving(models("m")) as port:
        proc = table(tmp_path, port, 11434)
        process(proc, 0, "llama-server", "--port", str(port))
        process(proc, 1, "ollama", "serve")
        process(proc, 2, "vllm", "serve")
        seen = look(tmp_path, proc)
    assert {one.port: one.program for one in seen.answering} == {port: "llama-server", 11434: "ollama"}
    assert next(one for one in seen.answering if one.port == port).models == ("m",)


def test_who_listens_elsewhere_is_not_asked(tmp_path: Path) -> None:
    """CONF-4: a server at an address that loopback does not lead to is left alone."""
    proc = table(tmp_path, 9000, address="070200C0")
    process(proc, 0, "llama-server")
    assert look(tmp_path, proc).answering == ()


def test_containers_are_listed_and_those_that_serve_are_asked(tmp_path: Path) -> None:
    """CONF-4: Docker's list of what runs is read; the port of an image that serves models is asked."""
    socket = tmp_path / "var/run/docker.sock"
    socket.parent.mkdir(parents=True)
    with serving(models("m")) as port:
        rows = [
            {
                "Names": ["/llm"],
                "Image": "ghcr.io/ggml-org/llama.cpp:server",
                "Ports": [{"PublicPort": port, "Type": "tcp"}, {"PrivatePort": 1, "Type": "tcp"}],
            },
            {"Names": ["/db"], "Image": "postgres", "Ports": [{"PublicPort": 5432, "Type": "tcp"}]},
        ]
        with serving({"/containers/json": (200, rows)}, socket):
            seen = look(tmp_path)
    assert seen.docker == str(socket)
    assert [(one.name, one.ports) for one in seen.containers] == [("llm", (port,)), ("db", (5432,))]
    (one,) = seen.answering
    assert (one.container, one.port, one.models, one.pid) == ("llm", port, ("m",), None)


@pytest.mark.parametrize("answer", [(500, []), (200, {"message": "no"}), (200, nested(970))])
def test_a_docker_that_answers_otherwise_is_none(tmp_path: Path, answer: tuple[int, object]) -> None:
    """CONF-4: an engine of containers that gives no list counts as none."""
    socket = tmp_path / "d.sock"
    with serving({"/containers/json": answer}, socket):
        seen = look(tmp_path, DOCKER_HOST=f"unix://{socket}")
    assert (seen.docker, seen.containers) == ("", ())


def test_a_docker_elsewhere_is_not_asked(tmp_path: Path) -> None:
    """CONF-4: DOCKER_HOST of another machine is not followed, nor a socket that nobody listens on."""
    assert look(tmp_path, DOCKER_HOST="tcp://192.0.2.1:2375").docker == ""
    socket = tmp_path / "dead.sock"
    with serving({}, socket):
        pass
    assert look(tmp_path, tmp_path / "proc", DOCKER_HOST=f"unix://{socket}").docker == ""


def test_model_files(tmp_path: Path) -> None:
    """CONF-4: GGUFs are found with their parts and projector, each once; halves and others are not."""
    home = tmp_path / "home"
    gguf(home / "models/a.gguf")
    (home / "models/again.gguf").symlink_to(home / "models/a.gguf")
    (home / "models/half.gguf").write_bytes(b"\0\0")
    (home / "models/list.txt").write_text("x")
    gguf(home / "models/big/b-00001-of-00002.gguf", 10)
    gguf(home / "models/big/b-00002-of-00002.gguf", 20)
    gguf(home / "models/see/v.gguf")
    gguf(home / "models/see/mmproj-F16.gguf")
    gguf(home / ".cache/llama.cpp/c.gguf")
    tensors = home / ".cache/huggingface/hub/models--org--m/snapshots/1"
    tensors.mkdir(parents=True)
    (tensors / "config.json").write_text("{}")
    (tensors / "model.safetensors").write_bytes(b"x" * 30)
    (home / ".cache/huggingface/hub/other.safetensors").write_bytes(b"x")
    assert look(tmp_path).models == (
        ModelFile(path=str(tensors), size=30, kind="safetensors"),
        ModelFile(path=f"{home}/.cache/llama.cpp/c.gguf", size=100),
        ModelFile(path=f"{home}/models/a.gguf", size=100),
        ModelFile(path=f"{home}/models/big/b-00001-of-00002.gguf", size=30),
        ModelFile(path=f"{home}/models/see/v.gguf", size=100, projector=f"{home}/models/see/mmproj-F16.gguf"),
    )


def test_the_environment_names_places(tmp_path: Path) -> None:
    """CONF-4: HF_HOME and LLAMA_CACHE lead to caches in the place of the usual ones."""
    seen = look(tmp_path, HF_HOME="/hf", LLAMA_CACHE="/lc", XDG_DATA_HOME="/data")
    assert {"/hf/hub", "/lc", "/data/hostler/models"} <= set(seen.looked)
    assert not any(".cache" in place for place in seen.looked)


def test_directories_are_not_walked_for_ever(tmp_path: Path) -> None:
    """CONF-4: a walk ends at a depth and a number of entries, follows no link, and passes what is closed."""
    deep = gguf(tmp_path / "/".join("abcdefgh") / "deep.gguf")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert deep.is_file()
    assert models_in([tmp_path, tmp_path / "none"]) == ()
    for name in "xyz":
        gguf(tmp_path / f"{name}.gguf")
    assert len(models_in([tmp_path])) == 3
    assert models_in([tmp_path], most=2) == ()


def test_ollamas_blobs_are_named(tmp_path: Path) -> None:
    """CONF-4: Ollama's blobs are named as what only Ollama serves, whoever's they are."""
    (tmp_path / "home/.ollama/models/blobs").mkdir(parents=True)
    (tmp_path / "usr/share/ollama/.ollama/models/blobs").mkdir(parents=True)
    seen = look(tmp_path)
    assert [line.partition(" has ")[0] for line in seen.unusable] == [
        f"{tmp_path}/home/.ollama/models",
        f"{tmp_path}/usr/share/ollama/.ollama/models",
    ]
    assert all("only Ollama serves" in line for line in seen.unusable)


def test_a_table_that_cannot_be_read_names_nobody(tmp_path: Path) -> None:
    """CONF-4: without a table of sockets, or of memory, the rest is still seen."""
    proc = tmp_path / "proc"
    proc.mkdir()
    seen = look(tmp_path, proc)
    assert (seen.answering, seen.listening, dict(seen.pools)) == ((), frozenset(), {})


def test_the_place_of_the_config(tmp_path: Path) -> None:
    """CONF-4, CONF-1: the place is where `serve` looks first; a config in any of the places is in the way."""
    here = box(tmp_path)
    usual = tmp_path / "home/.config/hostler/hostler.yaml"
    assert here.place(force=False) == str(usual)
    assert (usual.parent.stat().st_mode & 0o777, usual.exists()) == (0o700, False)
    system = tmp_path / "etc/hostler/hostler.yaml"
    system.parent.mkdir(parents=True)
    system.write_text("version: 1\n")
    with pytest.raises(FileExists, match=r"etc/hostler/hostler\.yaml is there already"):
        here.place(force=False)
    assert here.place(force=True) == str(system)
    named = Box(env={"HOSTLER_CONFIG": str(tmp_path / "a/b.yaml")}, root=tmp_path, proc=here.proc)
    assert named.place(force=False) == str(tmp_path / "a/b.yaml")


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    """CONF-4: a home that is no directory is told."""
    (tmp_path / "home").write_text("")
    with pytest.raises(FileUnusable, match=r"hostler\.yaml cannot be written: Not a directory"):
        box(tmp_path).place(force=False)
