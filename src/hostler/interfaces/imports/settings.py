"""The keys at the top of a llama-swap config that are about the program itself, not about its models.

Decides what `node` of ours comes of them, and what is told of those that have nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.known import NOTHING
from hostler.interfaces.imports.notes import Notes, Sign

LISTEN: Final = 7070
LEVELS: Final[Mapping[str, str]] = {"debug": "debug", "info": "info", "warn": "warning", "error": "error"}


def node_of(root: Fields, ports: Iterable[int | None], notes: Notes) -> dict[str, object]:
    """`node`: where the daemon listens, if an engine has the usual port, and how much it logs."""
    node: dict[str, object] = {}
    taken = set(ports)
    listen = next(port for port in range(LISTEN, LISTEN + len(taken) + 1) if port not in taken)
    if listen != LISTEN:
        node["listen"] = f"127.0.0.1:{listen}"
    notes.tell(
        Sign.CHANGED,
        root.given,
        "",
        f"the gateway is http://127.0.0.1:{listen}/v1, of this machine only; where llama-swap listens is in"
        " its flags (:8080 without any). node.listen moves it, and beyond loopback it asks for keys",
    )
    level = root.text("logLevel", "info")
    if level not in LEVELS:
        notes.refuse(root.at("logLevel"), "logLevel", f"expected one of {', '.join(LEVELS)}")
    elif level != "info":
        notes.changed(
            root.at("logLevel"),
            "logLevel",
            "it is the level of Hostler's own log; what an engine prints: `hostler logs ENGINE`",
        )
        node["log"] = {"level": LEVELS[level]}
    return node


def tell_of_settings(root: Fields, notes: Notes) -> None:
    """Note what of the top has nothing here, or works otherwise."""
    for name, why in NOTHING.items():
        if root.get(name) is not None:
            notes.left_out(root.at(name), name, why)
    if root.truth("sendLoadingState") or any(it.truth("sendLoadingState") for _, it in root.each("models")):
        notes.left_out(
            root.at("sendLoadingState"),
            "sendLoadingState",
            "a stream begins when the engine answers: nothing is put into reasoning_content before",
        )
    if root.truth("includeAliasesInList"):
        notes.left_out(
            root.at("includeAliasesInList"),
            "includeAliasesInList",
            "/v1/models has a route once, with its aliases in its row",
        )
    if root.get("startPort") is not None:
        notes.changed(
            root.at("startPort"),
            "startPort",
            "ports come from hosts.local.ports.range (8100-8199) and are kept: a new model moves no other",
        )
    notes.changed(
        root.given,
        "",
        "an engine's environment is PATH HOME LANG TZ XDG_RUNTIME_DIR and its env: nothing else of the"
        " daemon's is passed on (LD_LIBRARY_PATH, CUDA_…, HF_HOME go under env)",
    )
    if root.get("healthCheckTimeout") is not None or root.get("unloadTimeout") is not None:
        notes.changed(
            root.at("healthCheckTimeout"),
            "healthCheckTimeout",
            "an engine that must make room has stop_timeout to end (from unloadTimeout, 10s), not this long",
        )
    _models(root, notes)
    _routing(root, notes)
    _ignored(root, notes)


def _models(root: Fields, notes: Notes) -> None:
    for _, model in root.each("models"):
        for name, why in (
            ("timeouts", "an engine has no times of its own but silence of its route"),
            ("metadata", "there is no place for it in a config: it is kept as a comment above the engine"),
        ):
            if model.get(name) is not None:
                notes.left_out(model.at(name), model.below(name), why, alike=f"models.{name}")


def _routing(root: Fields, notes: Notes) -> None:
    router, scheduler = root.inner("routing").inner("router"), root.inner("routing").inner("scheduler")
    use = router.text("use", "group")
    if use not in ("group", "matrix"):
        notes.refuse(router.at("use"), router.below("use"), "expected group or matrix")
    given = root.get("matrix") or router.inner("settings").get("matrix")
    if use == "matrix" and given is None:
        notes.refuse(router.at("use"), router.below("use"), "there is no matrix")
    priority = scheduler.inner("settings").inner("fifo")
    if priority.mapping("priority"):
        notes.left_out(
            priority.at("priority"),
            priority.below("priority"),
            "who waits is served by the class of the request, not by the model (classes:)",
        )


def _ignored(root: Fields, notes: Notes) -> None:
    upstream = root.inner("upstream")
    for at, pattern in upstream.texts("ignorePaths"):
        try:
            re.compile(pattern)
        except re.error as error:
            notes.refuse(
                at, upstream.below("ignorePaths"), f"{pattern} is no regular expression here: {error}"
            )
            continue
        notes.left_out(
            at,
            upstream.below("ignorePaths"),
            "what of an engine's own pages starts it is not set",
            alike="ignorePaths",
        )
