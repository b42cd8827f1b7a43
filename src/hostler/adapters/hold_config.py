"""The config's words on holds, read without the rest of it (HOLD-1, HOLD-5).

Decides nothing about the config's other keys: `hostler config check` and the daemon do. Refuses a config
whose words on holds cannot be read, for the hold could land where no gate reads it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hostler.adapters.config.find import SYSTEM, Untrusted, find_config, read_config
from hostler.adapters.config.secrets import resolve
from hostler.adapters.config.tree import Entry, MapNode, Node, plain
from hostler.adapters.config.yaml import Finding, Unreadable, compose, decode
from hostler.adapters.hold_settings import HoldSettings, state_dir
from hostler.domain.errors import InvalidConfig, NoConfig

MODES: Final = {"0600": 0o600, "0640": 0o640, "0644": 0o644}
"""The permission bits that a hold may have (HOLD-9): others may read, nobody else writes."""

_OURS: Final = ("hold_path", "hold_mode", "hold_writers", "state_dir")


def read_settings(env: Mapping[str, str], system: Path = SYSTEM) -> HoldSettings:
    """What the config says of holds on this host. Raises InvalidConfig, naming file, place and key."""
    try:
        path = find_config(env, None, system=system)
    except NoConfig:
        return HoldSettings(state_dir=state_dir(env))
    try:
        root, findings = compose(decode(read_config(path)))
    except Untrusted as error:
        raise InvalidConfig(file=str(path), count=1, problems=(f"{path}: {error}",)) from error
    except Unreadable as error:
        raise _invalid(path, (error.finding,)) from error
    near = tuple(finding for finding in findings if finding.path[:1] in {("node",), ("hosts",)})
    if near:
        raise _invalid(path, near)
    return _settings(path, root, env)


def _settings(path: Path, root: Node, env: Mapping[str, str]) -> HoldSettings:
    hosts = _child(root, "hosts")
    here = _here(hosts, env)
    entries = {
        entry.key: entry
        for parent in (_child(root, "node"), _child(_child(hosts, here), "node"))
        if isinstance(parent, MapNode)
        for entry in parent.entries
        if entry.key in _OURS
    }
    resolved = resolve(MapNode(mark=root.mark, entries=tuple(entries.values())), env, lambda _: False)
    if resolved.errors:
        raise _invalid(path, resolved.errors)
    node = plain(resolved.tree)
    assert isinstance(node, dict)  # noqa: S101 - a mapping was resolved
    engines = plain(_child(root, "engines") or MapNode(mark=root.mark, entries=()))
    return HoldSettings(
        state_dir=state_dir(env, _text(path, entries, node, "state_dir")),
        hold_path=_text(path, entries, node, "hold_path"),
        hold_mode=_mode(path, entries, node),
        hold_writers=_names(path, entries, node),
        essentials=_essentials(engines, here),
        engines=frozenset(map(str, engines)) if isinstance(engines, dict) else frozenset(),
        config=str(path),
    )


def _child(node: Node | None, key: str) -> Node | None:
    entry = node.entry(key) if isinstance(node, MapNode) else None
    return entry.node if entry is not None else None


def _here(hosts: Node | None, env: Mapping[str, str]) -> str:
    """The name of this host (CONF-6): of one host only, that one."""
    named = env.get("HOSTLER_HOST") or socket.gethostname().partition(".")[0]
    keys = hosts.keys() if isinstance(hosts, MapNode) else ()
    if named in keys or len(keys) > 1:
        return named
    return keys[0] if keys else "local"


def _essentials(engines: object, here: str) -> frozenset[str]:
    return frozenset(
        name
        for name, engine in (engines.items() if isinstance(engines, dict) else ())
        if isinstance(engine, dict) and engine.get("essential") is True and engine.get("host", here) == here
    )


def _text(path: Path, entries: Mapping[str, Entry], node: Mapping[str, object], key: str) -> str | None:
    found = node.get(key)
    if found is None:
        return None
    if not isinstance(found, str) or not found.startswith("/"):
        raise _wrong(path, entries[key], "expected an absolute path")
    return found


def _mode(path: Path, entries: Mapping[str, Entry], node: Mapping[str, object]) -> int:
    found = node.get("hold_mode", "0600")
    if not isinstance(found, str) or found not in MODES:
        raise _wrong(path, entries["hold_mode"], f"expected one of {', '.join(MODES)}, in quotes")
    return MODES[found]


def _names(path: Path, entries: Mapping[str, Entry], node: Mapping[str, object]) -> tuple[str, ...]:
    found = node.get("hold_writers", [])
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else None
    if names is None or not isinstance(found, list) or len(names) != len(found):
        raise _wrong(path, entries["hold_writers"], "expected a list of user names")
    return tuple(names)


def _wrong(path: Path, entry: Entry, expected: str) -> InvalidConfig:
    return _invalid(path, (Finding(mark=entry.mark, path=("node", entry.key), message=expected),))


def _invalid(path: Path, findings: tuple[Finding, ...]) -> InvalidConfig:
    problems = tuple(
        f"{path}:{it.mark.line}:{it.mark.column}: {'.'.join(map(str, it.path))}: {it.message}"
        for it in findings
    )
    return InvalidConfig(file=str(path), count=len(problems), problems=problems)
