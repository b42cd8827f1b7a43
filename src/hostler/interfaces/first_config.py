"""The first config of a box: what was seen on it as engines that work at once (CONF-4).

Decides which engines and routes there are, and what their comments say. What runs already is used as it is
and never started or stopped; a model file with a program to serve it starts when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.values import format_size
from hostler.interfaces.imports.names import slug, unique
from hostler.interfaces.imports.yaml_text import Said, write
from hostler.services.sight_parts import Answering, ModelFile, Sight

MOST_ENGINES: Final = 64
CONTEXT: Final = "8192"
RANGE: Final = 100
LISTEN: Final = 7070
UNKNOWN_NEED: Final = "memory: unknown, so it starts only when asked for by name, and is measured then"
SHARED: Final = (
    "What `hostler run box` and `hostler reserve box` lease, for one at a time: nothing starts here then.",
    "What runs goes on; to have the box empty, add an action for each engine: {suspend: ENGINE}.",
)
NOTHING: Final = (
    "",
    "Nothing that serves models runs here, and there is no model file with a program to serve it.",
    "With llama.cpp's llama-server on the PATH and a model file, an engine is this:",
    "",
    "engines:",
    "  fast-4b:",
    '    argv: [llama-server, -m, "{file}", --alias, "{model}", --host, "{address}", --port, "{port}"]',
    "    files: [/srv/models/qwen3-4b-q4_k_m.gguf]",
    "routes:",
    "  chat: {profiles: {local: fast-4b}}",
    "",
    "What runs elsewhere already is used, never started, with its address and the id that it reports:",
    "",
    "engines:",
    "  other: {driver: external, url: http://127.0.0.1:8080, model: ID}",
    "",
    "`hostler init --force` looks again and writes this file anew.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """A first config: its text, and how many engines of each sort it has."""

    text: str
    running: int
    on_demand: int
    listen: str


@dataclass(slots=True, kw_only=True)
class _Making:
    """One config in the making."""

    sight: Sight
    engines: dict[str, object] = field(default_factory=dict)
    chat: list[str] = field(default_factory=list)
    routes: dict[str, object] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def name(self, wanted: str) -> str:
        return unique(slug(wanted), {*self.engines, *self.routes, "chat"})


def first_config(sight: Sight) -> First:
    """The config of what was seen."""
    making = _Making(sight=sight)
    for server in sight.answering:
        _running(making, server)
    running = len(making.engines)
    _files(making)
    on_demand = len(making.engines) - running
    listen = next(port for port in range(LISTEN, LISTEN + 1000) if port not in sight.listening)
    document: dict[str, object] = {"version": 1}
    if listen != LISTEN:
        document["node"] = Said({"listen": f"127.0.0.1:{listen}"}, above=(f"Port {LISTEN} is in use.",))
    host = _host(making)
    if host:
        document["hosts"] = {"local": host}
    if making.engines:
        document["engines"] = Said(making.engines, above=("",))
    if making.chat:
        making.routes["chat"] = Said(
            {
                "description": "What clients ask for that name no model of their own",
                "profiles": {"local": making.chat[0]},
            },
            above=("",),
        )
        making.routes = {"chat": making.routes.pop("chat"), **making.routes}
    if making.routes:
        document["routes"] = Said(making.routes, above=("",))
    document["reservations"] = Said(
        {"resources": {"box": {"title": "this box", "actions": [{"hold": "local"}]}}}, above=("", *SHARED)
    )
    head = (*_seen(making), *(() if making.engines else NOTHING))
    return First(
        text=write(document, head), running=running, on_demand=on_demand, listen=f"127.0.0.1:{listen}"
    )


# ---------------------------------------------------------------- engines


def _running(making: _Making, server: Answering) -> None:
    """What runs already, one engine for each model that it reports."""
    if server.why:
        making.told.append(f"{_who(server)} is left out: {server.why}.")
    for model in server.models:
        if len(making.engines) >= MOST_ENGINES:
            making.told.append(f"{_who(server)} has more models: {MOST_ENGINES} engines are written.")
            return
        name = making.name(_short(model))
        keys: dict[str, object] = {
            "driver": Said("external", above=_about(server)),
            "url": server.url,
            "model": model,
        }
        task = _task(model)
        if task != "chat":
            keys["task"] = task
        making.engines[name] = Said(keys, above=("",) if making.engines else ())
        if name != model and _is_route(model):
            making.routes[model] = {"profiles": {"local": name}}
        if task == "chat":
            making.chat.append(name)


def _is_route(model: str) -> bool:
    parts = model.split("/")
    return len(model.encode()) <= 256 and not {".", ".."} & set(parts) and model.isprintable()


def _about(server: Answering) -> tuple[str, ...]:
    runs = f"{_who(server)} runs already: it is used, never started, stopped or evicted."
    if not server.container:
        return (runs,)
    return (
        runs,
        "To have Hostler start and stop it, say in the place of driver and url:",
        f"driver: container, container: {{name: {server.container}}}, port: {server.port}",
    )


def _who(server: Answering) -> str:
    if server.container:
        return f"The container {server.container} ({server.program}) on port {server.port}"
    return f"{server.program} on port {server.port} (pid {server.pid})"


def _files(making: _Making) -> None:
    """Model files that nobody serves yet, each started when it is asked for."""
    served = {file for server in making.sight.answering for file in server.files}
    wanted = [model for model in making.sight.models if model.path not in served]
    chats = [model for model in wanted if _task(_stem(model)) == "chat" and _program(making, model)]
    for model in wanted:
        program = _program(making, model)
        if program is None:
            what = "llama-server" if model.kind == "gguf" else "vllm"
            making.told.append(
                f"{model.path} ({format_size(model.size)}) needs {what}, which is not on the PATH."
            )
        elif len(making.engines) >= MOST_ENGINES:
            making.told.append(f"{model.path} is left out: {MOST_ENGINES} engines are written.")
        else:
            _file(making, model, program, alone=len(chats) > 1)


def _file(making: _Making, model: ModelFile, program: str, *, alone: bool) -> None:
    task = _task(_stem(model))
    name = making.name(_stem(model))
    argv = _gguf_words(program, model, task) if model.kind == "gguf" else _vllm_words(program, model)
    about = f"{format_size(model.size)} of weights. {UNKNOWN_NEED}."
    keys: dict[str, object] = {"argv": Said(argv, above=(about,))}
    if model.kind == "gguf":
        keys["files"] = [model.path]
    else:
        keys["start_timeout"] = "20m"
    if task != "chat":
        keys["task"] = task
    elif alone:
        keys["group"] = "main"
    making.engines[name] = Said(keys, above=("",) if making.engines else ())
    if task == "chat":
        making.chat.append(name)


def _gguf_words(program: str, model: ModelFile, task: str) -> list[str]:
    more = {"embed": ["--embeddings"], "rerank": ["--reranking"]}.get(task, ["-c", CONTEXT, "--jinja"])
    if model.projector and task == "chat":
        more += ["--mmproj", model.projector.replace("{", "{{").replace("}", "}}")]
    return [program, "-m", "{file}", "--alias", "{model}", "--host", "{address}", "--port", "{port}", *more]


def _vllm_words(program: str, model: ModelFile) -> list[str]:
    path = model.path.replace("{", "{{").replace("}", "}}")
    named = ["--served-model-name", "{model}", "--host", "{address}", "--port", "{port}"]
    return [program, "serve", path, *named]


def _program(making: _Making, model: ModelFile) -> str | None:
    found = making.sight.programs.get("llama-server" if model.kind == "gguf" else "vllm")
    return None if found is None else found.replace("{", "{{").replace("}", "}}")


def _task(name: str) -> str:
    low = name.lower()
    if "rerank" in low:
        return "rerank"
    return "embed" if "embed" in low or low.startswith(("bge-", "e5-", "gte-")) else "chat"


def _stem(model: ModelFile) -> str:
    """A name for a model: that of its file, or of its repository in Hugging Face's cache."""
    parts = model.path.split("/")
    if model.kind != "gguf":
        repository = next((part for part in parts if part.startswith("models--")), parts[-1])
        return repository.rpartition("--")[2]
    return _short(parts[-1])


def _short(model: str) -> str:
    name = model.rstrip("/").rpartition("/")[2]
    stem = name[: -len(".gguf")] if name.lower().endswith(".gguf") else name
    return stem.partition("-00001-of-")[0]


# ---------------------------------------------------------------- the rest


def _host(making: _Making) -> dict[str, object]:
    host: dict[str, object] = {}
    cards = sorted(name for name in making.sight.pools if name.startswith("gpu"))
    if cards:
        host["memory"] = Said(
            _pools(cards),
            above=("The GPU has memory of its own: an engine says memory: {gpu0: 20 GiB, ram: 2 GiB}.",),
        )
    free = _range(making.sight.listening)
    if free != 8100:
        host["ports"] = Said({"range": f"{free}-{free + RANGE - 1}"}, above=("Ports 8100-8199 are in use.",))
    if any(_has_group(each) for each in making.engines.values()):
        host["groups"] = Said(
            {"main": {}},
            above=(
                "One engine of a group is up at a time.",
                "Once their memory is known, those that fit together can do without group: main.",
            ),
        )
    return host


def _pools(cards: Iterable[str]) -> Mapping[str, object]:
    return {"ram": {"reserve": "4 GiB"}, **{card: {"reserve": "512 MiB"} for card in cards}}


def _has_group(engine: object) -> bool:
    keys = engine.value if isinstance(engine, Said) else engine
    return isinstance(keys, Mapping) and "group" in keys


def _range(listening: frozenset[int]) -> int:
    """The first hundred ports from 8100 of which none is in use; 8100 where there is none such."""
    starts = range(8100, 60_000, RANGE)
    return next((it for it in starts if not listening & set(range(it, it + RANGE))), starts[0])


def _seen(making: _Making) -> Iterator[str]:
    sight = making.sight
    yield ""
    yield "Written by `hostler init` from what is on this box. It is yours to change."
    yield "`hostler config check` checks it, `hostler serve` runs it, `hostler status` shows what it does."
    yield ""
    memory = ", ".join(f"{name} {format_size(size)}" for name, size in sorted(sight.pools.items()))
    yield f"Memory: {memory or 'not seen'}, read at each start; hosts.local.memory says what is kept free."
    programs = ", ".join(f"{name} ({path})" for name, path in sorted(sight.programs.items()))
    yield f"Programs: {programs or 'none of llama-server, vllm, ollama, docker, podman on the PATH'}."
    yield f"Model files: {len(sight.models)}, in {_joined(sight.looked)}."
    yield from _containers(sight)
    yield from making.told
    yield from (f"{each}." for each in sight.unusable)


def _containers(sight: Sight) -> Iterator[str]:
    if not sight.docker:
        return
    yield f"Containers ({sight.docker}): {len(sight.containers)} running."
    for container in sight.containers:
        if container.ports:
            ports = ", ".join(map(str, container.ports))
            yield f"  {container.name} ({container.image}): port {ports}"


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts) or "no place"
