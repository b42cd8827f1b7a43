"""This box as `hostler init` sees it: the need `SightParts`.

Decides which programs are known to serve models, and where models are looked for. Who answers is asked for
its model ids over loopback, a few seconds in all; nothing is started, stopped, loaded or written.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httptools

from hostler.adapters.config.find import NAME, SYSTEM, find_config, home
from hostler.adapters.drivers import http_look
from hostler.adapters.host import pools, process_table
from hostler.adapters.host.listeners import Socket, every_listener
from hostler.adapters.sight import docker, model_files
from hostler.domain.errors import FileExists, FileUnusable, NoConfig
from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.services.sight_parts import Answering, Container, Sight

PROGRAMS: Final = ("llama-server", "vllm", "ollama", "docker", "podman")
SERVERS: Final[Mapping[str, int]] = {
    "llama-server": 8080,
    "ollama": 11434,
    "vllm": 8000,
    "sglang": 30000,
    "mlx_lm": 8080,
    "koboldcpp": 5001,
    "tabbyapi": 5000,
    "lemonade": 8000,
}
"""What a process's words, or a container's image, are looked through for, with the port that each has when it
is told none."""
IMAGES: Final = (*SERVERS, "llama.cpp", "llama-swap")
MOST_SERVERS: Final = 32
ASK_S: Final = 3.0
OLLAMA: Final = ("usr/share/ollama/.ollama/models", "var/lib/ollama/models")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The need `SightParts`. `root` stands for `/` in tests; the table of processes is `proc`."""

    env: Mapping[str, str]
    root: Path = Path("/")
    proc: Path = process_table.PROC
    system: Path = SYSTEM

    def look(self) -> Sight:
        socket = docker.docker_socket(self.env, self.root)
        containers = docker.running(socket) if socket is not None else None
        listening = self._listening()
        places = self._places()
        return Sight(
            pools=frozen(self._pools()),
            programs=frozen(self._programs()),
            answering=tuple(asyncio.run(_asked(self._servers(listening, containers or ())))),
            models=model_files.models_in(place for place in places if place.is_dir()),
            containers=containers or (),
            docker=str(socket) if containers is not None else "",
            listening=frozenset(one.port for one in listening),
            unusable=tuple(self._unusable()),
            looked=tuple(str(place) for place in places),
        )

    def place(self, *, force: bool) -> str:
        try:
            found = find_config(self.env, None, system=self.system)
        except NoConfig:
            found = None
        if found is not None and os.path.lexists(found):
            if not force:
                raise FileExists(path=str(found))
            return str(found)
        if found is None:
            base = home(self.env, "XDG_CONFIG_HOME", ".config")
            found = (base / "hostler" if base is not None else self.system) / NAME
        try:
            found.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise FileUnusable(path=str(found), why=error.strerror or "no directory") from error
        return str(found)

    # ------------------------------------------------------------ what there is

    def _pools(self) -> dict[str, int]:
        try:
            return {name: one.total for name, one in pools.reader(None, self.root).read().items()}
        except OSError:  # A machine whose memory cannot be read: the config says nothing of it.
            return {}

    def _programs(self) -> dict[str, str]:
        path = self.env.get("PATH", os.defpath)
        found = {name: shutil.which(name, path=path) for name in PROGRAMS}
        return {name: place for name, place in found.items() if place is not None}

    def _places(self) -> tuple[Path, ...]:
        """Where models are looked for, those named by the environment first."""
        user = Path(self.env["HOME"]) if self.env.get("HOME", "").startswith("/") else None
        found: list[Path] = []
        data = home(self.env, "XDG_DATA_HOME", ".local/share")
        cache = home(self.env, "XDG_CACHE_HOME", ".cache")
        if data is not None:
            found.append(data / "hostler/models")
        if user is not None:
            found += [user / "models", user / ".lmstudio/models"]
        found += [self.root / "srv/models", self.root / "models"]
        if self.env.get("HF_HOME", "").startswith("/"):
            found.append(Path(self.env["HF_HOME"]) / "hub")
        elif cache is not None:
            found.append(cache / "huggingface/hub")
        if self.env.get("LLAMA_CACHE", "").startswith("/"):
            found.append(Path(self.env["LLAMA_CACHE"]))
        elif cache is not None:
            found.append(cache / "llama.cpp")
        return tuple(dict.fromkeys(found))

    def _unusable(self) -> Iterable[str]:
        own = [Path(self.env["HOME"], ".ollama/models")] if self.env.get("HOME") else []
        for place in (*own, *(self.root / each for each in OLLAMA)):
            if (place / "blobs").is_dir():
                yield (
                    f"{place} has Ollama's models: blobs without names, which only Ollama serves;"
                    " while it runs they are found through it"
                )

    # ------------------------------------------------------------ who runs

    def _listening(self) -> tuple[Socket, ...]:
        try:
            return every_listener(self.proc)
        except OSError:  # A table that cannot be read names nobody.
            return ()

    def _servers(self, listening: Iterable[Socket], containers: Iterable[Container]) -> tuple[Answering, ...]:
        """Who listens and is known to serve models, each port once, not asked yet."""
        by_inode = {one.inode: one.port for one in listening if _is_reachable(one)}
        found: dict[int, Answering] = {}
        for container in containers:
            if any(name in container.image.lower() for name in IMAGES):
                for port in container.ports:
                    found[port] = Answering(
                        program=container.image, pid=None, port=port, container=container.name
                    )
        for pid in sorted(process_table.everyone(self.proc)):
            words = _words(self.proc, pid)
            program = _server_of(words)
            if program is None:
                continue
            files = tuple(word for word in words if word.endswith(".gguf"))
            for port in self._ports_of(pid, program, words, by_inode):
                found.setdefault(port, Answering(program=program, pid=pid, port=port, files=files))
        return tuple(found[port] for port in sorted(found))[:MOST_SERVERS]

    def _ports_of(
        self, pid: int, program: str, words: Sequence[str], by_inode: Mapping[int, int]
    ) -> tuple[int, ...]:
        """The ports of a process; where its sockets are not shown, the one that it is told."""
        inodes = process_table.open_inodes(pid, "socket", self.proc)
        if inodes is not None:
            return tuple(by_inode[inode] for inode in inodes if inode in by_inode)
        said = [after for word, after in itertools.pairwise(words) if word == "--port"]
        port = int(said[-1]) if said and said[-1].isdigit() else SERVERS[program]
        return (port,) if port in by_inode.values() else ()


def _is_reachable(one: Socket) -> bool:
    return one.address.is_loopback or one.address.is_unspecified


def _words(proc: Path, pid: int) -> tuple[str, ...]:
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:  # It has ended, or is somebody's who hides it.
        return ()
    return tuple(word.decode(errors="replace") for word in raw.split(b"\0") if word)


def _server_of(words: Iterable[str]) -> str | None:
    """The server that a process's first words name: the program, or the script or module that it runs."""
    for word in tuple(words)[:4]:
        name = word.rpartition("/")[2].lower()
        known = next((server for server in SERVERS if name.startswith(server)), None)
        if known is not None:
            return known
    return None


async def _asked(servers: Iterable[Answering]) -> list[Answering]:
    return list(await asyncio.gather(*(_ask(each) for each in servers)))


async def _ask(server: Answering) -> Answering:
    """The server with the model ids that it reports, or with why it reports none."""
    ids: tuple[str, ...] = ()
    why = ""
    try:
        async with asyncio.timeout(ASK_S):
            status, body = await http_look.get(server.url + http_look.MODELS_PATH, {})
        ids = http_look.model_ids(body) if status == 200 else ()
        if status in (401, 403):
            why = "it asks for a key"
        elif not ids:
            why = f"/v1/models answers {status}, and names no model"
    except TimeoutError:
        why = f"no answer within {ASK_S:g} s"
    except (OSError, EOFError, httptools.HttpParserError) as error:
        why = shorten(str(error) or type(error).__name__)
    return Answering(
        program=server.program,
        pid=server.pid,
        port=server.port,
        models=ids,
        why=why,
        files=server.files,
        container=server.container,
    )
