"""One model of llama-swap as one engine of ours.

Decides the engine's keys. Which routes lead to it is decided in `routes`, what excludes it in `together`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from hostler.interfaces.imports import docker, programs
from hostler.interfaces.imports.command import (
    Command,
    argument,
    command_of,
    readable,
    warn_of_words,
)
from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.macros import PORT
from hostler.interfaces.imports.notes import Notes
from hostler.interfaces.imports.secret_words import Secrets, reads_like_secret
from hostler.interfaces.imports.stopping import tell_of_stop

LIMIT: Final = 10
COMFY: Final = "comfyui_auto"
MOST_OF_A_NAME: Final = 8000
UNKNOWN_NEED: Final = "memory: unknown, so started only when asked for by name, and measured then"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_FLAGS: Final = ("--api-key", "--api-key-file")
_SECRET_FLAGS: Final = ("--hf-token", "-hft", "--token", "--password")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the whole file says of every model; seconds. `start_timeout` None: it says nothing."""

    ttl: int = 0
    unload: int = 10
    start_timeout: int | None = None
    here: str = "/"


@dataclass(slots=True, kw_only=True)
class Engine:
    """An engine of ours, in the making. `port` is None for `auto`."""

    model: str
    fields: Fields
    keys: dict[str, object] = field(default_factory=dict)
    port: int | None = None
    programs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes engines of one file's models."""

    notes: Notes
    secrets: Secrets
    defaults: Defaults

    def engine(self, model: str, fields: Fields) -> Engine | None:
        """The engine, less its group; None where it was refused."""
        given = fields.get("cmd")
        if given is None:
            self.notes.refuse(fields.given, fields.path, "there is no cmd: a peer is under peers:")
            return None
        command = command_of(given, fields.below("cmd"), self.notes)
        if command is None:
            return None
        made = Engine(model=model, fields=fields)
        if not self._place(made, command):
            return None
        warn_of_words(command, self.notes)
        self._listens(command)
        self._run(made, command)
        self._identity(made, command)
        self._environment(made)
        self._times(made)
        self._bounds(made)
        tell_of_stop(fields, command, made.keys, self.notes)
        return made

    # ------------------------------------------------------------ where

    def _place(self, made: Engine, command: Command) -> bool:
        """Its port and address, from `proxy` and the command; False where they cannot be had."""
        fields, at, path = made.fields, made.fields.at("proxy"), made.fields.below("proxy")
        proxy = fields.text("proxy", f"http://localhost:{PORT}")
        if PORT in proxy and not command.has_port:
            why = "${PORT} is in proxy only" if fields.get("proxy") else "neither proxy nor ${PORT} in cmd"
            self.notes.refuse(at, path, f"{why}: nobody knows where it listens")
            return False
        try:
            url = urlsplit(proxy.replace(PORT, "1"))
            port = url.port or 80
        except ValueError:
            self.notes.refuse(at, path, f"{readable(proxy)} is no URL")
            return False
        why = _no_place(url.scheme, url.path.rstrip("/") or url.query)
        if not why and PORT not in proxy and command.has_port:
            why = f"the command listens on ${{PORT}}, proxy says {port}"
        if not why and not self._address(made, url.hostname or ""):
            why = f"the host {url.hostname} is a name; an engine's address is an IP"
        if why:
            self.notes.refuse(at, path, why)
            return False
        made.port = None if PORT in proxy else port
        return made.port is None or self._same_port(made, command)

    def _address(self, made: Engine, host: str) -> bool:
        if host in ("localhost", "127.0.0.1"):
            return True
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, never bound
            self.notes.changed(
                made.fields.at("proxy"),
                made.fields.below("proxy"),
                f"{host} is no address to go to, though Linux lets it pass: it is reached by loopback",
            )
            return True
        try:
            made.keys["address"] = str(ipaddress.ip_address(host))
        except ValueError:
            return False
        return True

    def _same_port(self, made: Engine, command: Command) -> bool:
        """Whether a port that the command names is the one that is asked (BG-09); a container has its own."""
        said = command.option("--port")
        if said is None or said == str(made.port) or docker.is_docker(command) or command.script:
            return True
        self.notes.refuse(
            command.given,
            command.path,
            f"the command listens on {said}, proxy says {made.port}",
            line=command.line_of("--port"),
        )
        return False

    def _listens(self, command: Command) -> None:
        if command.option("--host") in ("0.0.0.0", "::"):  # noqa: S104 - compared, never bound
            self.notes.warn(
                command.given,
                command.path,
                "the engine listens on every address, and asks for no key: whoever reaches this box reaches"
                " it, past the gateway; --host 127.0.0.1 is enough",
                alike="wildcard",
            )

    # ------------------------------------------------------------ what runs

    def _run(self, made: Engine, command: Command) -> None:
        """The driver and its words."""
        made.keys["port"] = "auto" if made.port is None else made.port
        if docker.is_docker(command):
            try:
                found = docker.container_of(command)
            except docker.Inexpressible as why:
                self.notes.changed(
                    command.given,
                    command.path,
                    f"it stays a process, the docker client, which passes SIGTERM on: {why}; a client that is"
                    " killed leaves its container behind",
                )
            else:
                made.keys |= {"driver": "container", "container": found.keys(), "args": list(found.args)}
                if found.env:
                    made.keys["env"] = self._secret_env(found.env, made)
                return
        made.keys["argv"] = self._arguments(made, command)
        if _is_relative(command):
            made.keys["cwd"] = self.defaults.here
        made.programs = ((command.words[0], str(made.keys.get("cwd", self.defaults.here))),)

    def _arguments(self, made: Engine, command: Command) -> list[str]:
        """The words of argv: a published port as a placeholder, secrets not in clear, no key of its own."""
        words = list(command.words)
        if docker.is_docker(command) and made.port is not None:
            words = [_published(word, made.port) for word in words]
        if docker.is_docker(command):
            # A client that leaves at once would be an engine that has ended.
            words = [*words[:2], *(it for it in words[2:6] if it not in docker.DETACHED), *words[6:]]
        if command.script:
            return [argument(word) for word in words]
        kept: list[str] = []
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            if name in _KEY_FLAGS:
                self._key_flag(command, name)
                if not equals and words:
                    words.pop(0)
            elif name in _SECRET_FLAGS and (equals or words):
                secret = value if equals else words.pop(0)
                kept += [name, self._secret(secret, name.strip("-"), made)]
            elif equals and value and _VARIABLE.fullmatch(name) and reads_like_secret(name):
                kept.append(self._secret(word, name, made))
            else:
                kept.append(argument(word))
        return kept

    def _secret(self, value: str, name: str, made: Engine) -> str:
        return self.secrets.refer(
            value, f"{made.model}-{name}", made.fields.at("cmd"), made.fields.below("cmd")
        )

    def _key_flag(self, command: Command, name: str) -> None:
        if command.option("--host") in (None, "127.0.0.1", "localhost", "::1"):
            self.notes.left_out(
                command.given,
                command.path,
                f"{name}: Hostler sends no key to an engine of its own; who is on this box can reach it",
            )
        else:
            self.notes.refuse(
                command.given,
                command.path,
                f"{name}: Hostler sends no key to an engine of its own, and without one it would be open to"
                " whoever reaches this box: let it listen on 127.0.0.1, and take the key out",
            )

    def _identity(self, made: Engine, command: Command) -> None:
        """`model`, and how it is known that it is ready (ENG-4)."""
        fields = made.fields
        wanted = fields.text("useModelName") or made.model
        found = programs.identity_of(command, wanted)
        health = fields.text("checkEndpoint") or "/health"
        made.keys["model"] = found.model or wanted
        if not str(made.keys["model"]).isprintable() or len(str(made.keys["model"])) > MOST_OF_A_NAME:
            self.notes.refuse(command.given, command.path, "the model's name is no line of text")
        if found.more:
            made.keys["args" if "args" in made.keys else "argv"] = [
                *_listed(made.keys["args" if "args" in made.keys else "argv"]),
                *found.more,
            ]
        if fields.text("useModelName"):
            self.notes.warn(
                fields.at("useModelName"),
                fields.below("useModelName"),
                f"answers name {made.keys['model']}, not what was asked for: they are passed on as they come",
                alike="useModelName",
            )
        if health == "none":
            made.keys["health"] = "none"
        elif found.model is None:
            made.keys["health"] = "tcp"
            self.notes.changed(
                fields.at("checkEndpoint"),
                fields.below("checkEndpoint"),
                f"it counts as ready once its own process listens (tcp), not by {health}: the model id that"
                " it reports is not known. When model: has that id, health: can be a path",
                alike="tcp",
            )
        else:
            made.keys["health"] = health if health.startswith("/") else f"/{health}"
            if fields.text("useModelName") and found.model != wanted:
                self.notes.changed(
                    fields.at("useModelName"),
                    fields.below("useModelName"),
                    f"requests name {found.model}, which is what the engine reports, not {wanted}",
                )
        self._capabilities(made, command)

    def _capabilities(self, made: Engine, command: Command) -> None:
        said = made.fields.inner("capabilities")
        outs = [text for _, text in said.texts("out")]
        task = programs.task_of(command)
        if said.truth("reranker"):
            task = "rerank"
        elif outs in (["audio"], ["image"]):
            task = {"audio": "tts", "image": "image"}[outs[0]]
        if task != "chat":
            made.keys["task"] = task
        context = said.number("context") or programs.context_of(command)
        if context is not None and context > 0:
            made.keys["context"] = context

    def _environment(self, made: Engine) -> None:
        found: dict[str, str] = {}
        behind_env: list[str] = []
        path = made.fields.below("env")
        for at, text in made.fields.texts("env"):
            name, equals, value = text.partition("=")
            if not equals:
                self.notes.left_out(at, path, f"{name} has no =, so it sets nothing")
            elif not _VARIABLE.fullmatch(name):
                self.notes.refuse(at, path, f"{name} is no name of a variable")
            elif PORT in value:
                behind_env.append(argument(text))
            elif value and reads_like_secret(name):
                found[name] = self.secrets.refer(value, f"{made.model}-{name}", at, path)
            else:
                found[name] = value
        if behind_env and "argv" in made.keys:
            made.keys["argv"] = ["env", *behind_env, *_listed(made.keys["argv"])]
        elif behind_env:
            self.notes.refuse(made.fields.at("env"), path, "${PORT} in a container's environment")
        if found:
            made.keys["env"] = {**_entries(made.keys.get("env")), **found}

    def _secret_env(self, env: Mapping[str, str], made: Engine) -> dict[str, str]:
        return {
            name: self._secret(value, name, made) if value and reads_like_secret(name) else value
            for name, value in env.items()
        }

    # ------------------------------------------------------------ how long, how many

    def _times(self, made: Engine) -> None:
        ttl = made.fields.number("ttl", -1, least=-1)
        seconds = self.defaults.ttl if ttl < 0 else ttl
        if seconds:
            made.keys["ttl"] = duration(seconds)
        unload = made.fields.number("unloadTimeout") or self.defaults.unload
        if unload != 10:
            made.keys["stop_timeout"] = duration(unload)
        if self.defaults.start_timeout is not None:
            made.keys["start_timeout"] = duration(self.defaults.start_timeout)
        if made.fields.get("healthCheckTimeout") is not None:
            self.notes.left_out(
                made.fields.at("healthCheckTimeout"),
                made.fields.below("healthCheckTimeout"),
                "llama-swap reads it and uses the one of the whole file; start_timeout is what was meant",
                alike="healthCheckTimeout",
            )

    def _bounds(self, made: Engine) -> None:
        limit = made.fields.number("concurrencyLimit")
        comfy = made.model == COMFY
        if comfy:
            limit = max(50, limit)
        if limit > 0:
            made.keys |= {"max_concurrent": min(limit, 10_000), "queue": 0}
            self.notes.changed(
                made.fields.at("concurrencyLimit"),
                made.fields.below("concurrencyLimit"),
                "it is kept as max_concurrent and queue, which are not enforced yet",
                alike="concurrencyLimit",
            )
        else:
            self.notes.changed(
                made.fields.given,
                made.fields.path,
                f"llama-swap takes at most {LIMIT} requests for a model at once; here there is no bound",
                alike="concurrencyLimit",
            )
        if comfy or made.fields.inner("compat").truth("ignoreWebsockets"):
            made.keys["websockets"] = "ignore"


def duration(seconds: int) -> str:
    """Seconds as a config writes them."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _no_place(scheme: str, rest: str) -> str:
    """Why an engine cannot be at such a URL, empty where it can."""
    if scheme != "http":
        return "an engine is spoken to over http"
    return f"an engine answers at the root of its port, not at {rest}" if rest else ""


def _published(word: str, port: int) -> str:
    """`8000:80` of `-p` with the port's mark in it, where that is the engine's port."""
    return re.sub(rf"^((?:\d+\.\d+\.\d+\.\d+:)?){port}(?=:\d+)", lambda found: found[1] + PORT, word)


def _is_relative(command: Command) -> bool:
    """Whether where it is started from can matter."""
    words = command.words
    return command.script or any(
        ("/" in word or word.endswith((".gguf", ".jinja", ".sh", ".py", ".json", ".yaml")))
        and not word.startswith(("/", "-", "http://", "https://"))
        for word in words
    )


def _listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _entries(value: object) -> dict[str, str]:
    return {str(name): str(each) for name, each in value.items()} if isinstance(value, dict) else {}
