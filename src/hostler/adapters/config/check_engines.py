"""Relations of engines: drivers and their keys, hosts, groups, members, classes (CONF-2, ENG-2, CAT-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hostler.adapters.config.curate import curation_of, reference_of
from hostler.adapters.config.explain import Told, nearest
from hostler.adapters.config.schema.engines import EngineKeys, PoolNeeds
from hostler.adapters.config.secrets import refers
from hostler.adapters.config.tree import Leaf, ListNode, Path, node_at
from hostler.adapters.config.urls import check_url
from hostler.adapters.config.view import View
from hostler.domain.fleet import PLACEHOLDERS
from hostler.domain.values import ServingClass, shorten

NEEDS: Final[Mapping[str, str]] = {
    "process": "argv",
    "container": "container",
    "compose": "compose",
    "systemd": "unit",
    "external": "url",
    "distributed": "members",
}
"""The one key that a driver cannot do without."""
_PROCESS_LIKE: Final = ("process", "container")
DRIVERS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "argv": ("process",),
    "args": ("container",),
    "env": _PROCESS_LIKE,
    "cwd": ("process",),
    "container": ("container",),
    "compose": ("compose",),
    "unit": ("systemd",),
    "scope": ("systemd",),
    "url": ("external",),
    "key": ("external",),
    "members": ("distributed",),
}
"""Keys that only some drivers read; all the others are for every driver but those below."""
_OF_A_PROCESS: Final = (
    "files",
    "address",
    "port",
    "memory",
    "group",
    "pinned",
    "start_timeout",
    "stop_timeout",
)
NOT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "external": (*_OF_A_PROCESS, "resident", "order", "essential", "ttl", "serving_class"),
    "distributed": (*_OF_A_PROCESS, "host", "health"),
}

_BRACES: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_]*)\}|\{")
_PORT_FLAG: Final = re.compile(r"--port=([0-9]+)")
_SECRET_FLAG: Final = re.compile(r"--?(api-key|token|password|hf-token)(=.*)?")
_SECRET_NAME: Final = re.compile(r".*(TOKEN(?!S|IZ)|SECRET|PASSWORD|API_KEY).*")
_NAMED: Final = re.compile(r"([A-Z][A-Z0-9_]*)=.+", re.DOTALL)
"""`-e HF_TOKEN=…` of a command that starts a container; `-e HF_TOKEN` alone has no value in it."""


def reads(driver: str, key: str) -> bool:
    """Whether an engine of that driver has a use for that key."""
    return driver in DRIVERS_OF.get(key, (driver,)) and key not in NOT_OF.get(driver, ())


def check_engines(view: View) -> None:
    """Everything about engines but their ports and memory sums."""
    for name, engine in view.doc.engines.items():
        path: Path = ("engines", name)
        _host(view, path, engine)
        _driver(view, path, engine)
        _group(view, path, engine)
        _class(view, path, name, engine)
        _words(view, path, engine)
        if engine.driver == "distributed":
            _members(view, path, name, engine)
    for name in view.engine_names():
        if name not in view.doc.engines:
            _words_left_out(view, ("engines", name))


def _words_left_out(view: View, path: Path) -> None:
    """The placeholders of an engine that another error leaves out: all errors at once (CONF-2)."""
    for key in ("argv", "args"):
        words = node_at(view.tree, (*path, key))
        for index, word in enumerate(words.items if isinstance(words, ListNode) else ()):
            if isinstance(word, Leaf) and isinstance(word.value, str) and not refers(word.value):
                view.errors.extend(_unknown((*path, key, index), word.value))


def _host(view: View, path: Path, engine: EngineKeys) -> None:
    if engine.host is not None and "host" in view.given(path):
        view.refer((*path, "host"), "host", engine.host, view.host_names())
    elif engine.host is None and engine.driver != "distributed" and not view.is_broken(("hosts",)):
        names = ", ".join(view.host_names())
        view.error((*path, "host"), "is missing: there are several hosts", f"valid: {names}")


def _driver(view: View, path: Path, engine: EngineKeys) -> None:
    given, driver = view.given(path), engine.driver
    if NEEDS[driver] not in given:
        view.error((*path, NEEDS[driver]), f"is missing: a {driver} engine is made of it")
    for key in sorted(given):
        readers = DRIVERS_OF.get(key)
        if readers is not None and driver not in readers:
            view.error(
                (*path, key), f"is for {' and '.join(readers)} engines; this one is {driver}", at_key=True
            )
        elif key in NOT_OF.get(driver, ()):
            why = "never started, stopped or evicted" if driver == "external" else "what its members are"
            view.error((*path, key), f"is not for {driver} engines: they are {why}", at_key=True)
    if engine.url is not None:
        check_url(view, (*path, "url"), engine.url)


def _group(view: View, path: Path, engine: EngineKeys) -> None:
    if engine.group is None or engine.host is None or engine.host not in view.host_names():
        return
    groups = view.group_names(engine.host)
    if engine.group in groups or view.is_broken(("hosts", engine.host)):
        return
    having = [host for host in view.host_names() if engine.group in view.group_names(host)]
    has = f"; {', '.join(having)} has one, and groups do not cross hosts" if having else ""
    hint = nearest(engine.group, groups) or f"hosts.{engine.host}.groups.{engine.group}: {{}}"
    view.error((*path, "group"), f"there is no group {engine.group} on {engine.host}{has}", hint)


def _class(view: View, path: Path, name: str, engine: EngineKeys) -> None:
    merged = view.class_of(name)
    if engine.serving_class is not None and ServingClass(engine.serving_class).danger < merged.danger:
        view.error(
            (*path, "serving_class"),
            f"a config narrows, never widens: {_speaks(view, name)} this engine is {merged}",
            f"serving_class: {merged}, or none",
        )
    owner = view.owner_of(name)
    for key in ("resident", "essential"):
        if getattr(engine, key) and merged.danger and not (key == "resident" and owner is not None):
            view.error((*path, key), f"{name} is {merged}: nothing but an operator may start it")
    if engine.resident and not engine.enabled:
        view.error((*path, "resident"), f"{name} is not enabled: it is never started")
    if engine.resident and engine.ttl:
        view.warn((*path, "ttl"), "a resident engine is brought back each time that it is unloaded")
    if owner is None:
        _unknown_need(view, path, engine)
    elif engine.resident:
        view.error((*path, "resident"), f"{name} is a member of {owner}: it does not start alone")


def _speaks(view: View, name: str) -> str:
    reference = reference_of(view.doc, name)
    return "without a catalog entry" if reference is None else f"by {reference}"


def _unknown_need(view: View, path: Path, engine: EngineKeys) -> None:
    if engine.memory is not None or engine.driver in ("external", "distributed"):
        return
    found = curation_of(view.doc, view.catalog, str(path[1]))
    if found is not None and found.peak is not None:
        return
    if engine.resident:
        view.warn(path, "resident without memory: no timer starts it before it was measured", at_key=True)
    else:
        view.warn(path, "no memory: while it is measured no other engine of its host starts", at_key=True)


def _members(view: View, path: Path, name: str, engine: EngineKeys) -> None:
    seen: set[str] = set()
    for index, member in enumerate(engine.members or ()):
        here = (*path, "members", index)
        if member == name:
            view.error(here, "an engine is no member of itself")
            continue
        if member in seen:
            view.error(here, f"{member} is listed twice")
        seen.add(member)
        if not view.refer(here, "engine", member, view.engine_names()) or member not in view.doc.engines:
            continue
        driver = view.doc.engines[member].driver
        if driver in ("external", "distributed"):
            view.error(here, f"{member} is {driver}: a member is a process of its own")
        owner = view.owner_of(member)
        if owner not in (None, name):
            view.error(here, f"{member} is a member of {owner}: when one of them stops, the other loses it")


def _words(view: View, path: Path, engine: EngineKeys) -> None:
    for key, words in (("argv", engine.argv or []), ("args", engine.args)):
        for index, word in enumerate(words):
            _placeholders(view, (*path, key, index), word, engine)
        _secrets(view, (*path, key), words)
    if engine.driver in _PROCESS_LIKE and (engine.argv or engine.args):
        _port(view, path, engine)
    for name in engine.env:
        here = (*path, "env", name)
        if _SECRET_NAME.fullmatch(name.upper()) and here not in view.references and engine.env[name]:
            view.warn(here, "reads like a secret in clear", "${env:NAME} or ${file:PATH}")
    if isinstance(engine.memory, PoolNeeds):
        _pools(view, path, engine)


def _placeholders(view: View, path: Path, word: str, engine: EngineKeys) -> None:
    if path in view.references:
        return
    for told in _unknown(path, word):
        view.error(path, told.message, told.hint)
    if "{file}" in word.replace("{{", "") and not engine.files:
        view.error(path, "{file} is the first of files, and there are none", "files: [NAME]")


def _unknown(path: Path, word: str) -> Iterator[Told]:
    """What stands in braces and is no placeholder."""
    for match in _BRACES.finditer(word):
        if match[0] in ("{{", "}}") or match[1] in PLACEHOLDERS:
            continue
        if match[1]:
            hint = nearest(match[1], PLACEHOLDERS)
            yield Told(path=path, message=f"there is no placeholder {{{shorten(match[1])}}}", hint=hint)
        else:
            yield Told(path=path, message="a lone brace", hint="{{ is a brace, {port} a placeholder")


def _secrets(view: View, path: Path, words: Sequence[str]) -> None:
    for index, word in enumerate(words):
        match = _SECRET_FLAG.fullmatch(word)
        if match or _named(word):
            view.warn(
                (*path, index), "a secret in a command line is read by every user of the host", "use env:"
            )


def _named(word: str) -> bool:
    found = _NAMED.fullmatch(word)
    return found is not None and _SECRET_NAME.fullmatch(found[1]) is not None


def clear_secrets(engine: EngineKeys) -> Iterator[tuple[Path, str]]:
    """What reads like a secret in an engine's command or environment, with its path within the engine.

    It is warned of and may stay; where the command is shown it is not (BG-27).
    """
    for key, words in (("argv", engine.argv or []), ("args", engine.args)):
        for index, word in enumerate(words):
            flag = _SECRET_FLAG.fullmatch(words[index - 1]) if index else None
            own = _SECRET_FLAG.fullmatch(word)
            if _named(word) or (own and own[2]) or (flag and not flag[2]):
                yield (key, index), word
    for name, value in engine.env.items():
        if _SECRET_NAME.fullmatch(name.upper()) and value:
            yield ("env", name), value


def _port(view: View, path: Path, engine: EngineKeys) -> None:
    """BG-09: the port that the command names is the one that is watched."""
    key = "argv" if engine.driver == "process" else "args"
    words = (engine.argv or []) if key == "argv" else engine.args
    if any("{port}" in word for word in words):
        return
    for index, word in enumerate(words):
        flag = _PORT_FLAG.fullmatch(word)
        follows = word == "--port" and index + 1 < len(words)
        said = flag[1] if flag else words[index + 1] if follows else None
        if said is None:
            continue
        if not said.isdigit() or int(said) != engine.port:
            at = (*path, key, index + (1 if follows else 0))
            view.error(at, f"the command listens on {shorten(said)}, port says {engine.port}", "write {port}")
        return
    if engine.port == "auto" and engine.health != "none":
        view.error((*path, key), "port is auto, and {port} is nowhere in the command", "--port, {port}")
    elif not any(str(engine.port) in word for word in words):
        view.warn((*path, key), f"neither {{port}} nor {engine.port} is in the command")


def _pools(view: View, path: Path, engine: EngineKeys) -> None:
    host = view.hosts.get(engine.host or "")
    named = host.memory.pools() if host is not None else {}
    for pool in engine.memory.by_pool() if named and isinstance(engine.memory, PoolNeeds) else ():
        view.refer((*path, "memory", pool), f"memory pool on {engine.host} named", pool, named)
