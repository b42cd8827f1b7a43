"""The keys that llama-swap reads, and what is said of those that it does not read.

Decides nothing about what a key means here. llama-swap ignores an unknown key without a word; an import
names it, with the key that was probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

_TOP: Final = (
    "healthCheckTimeout globalTTL unloadTimeout startPort logLevel logTimeFormat logToStdout logRequests"
    " metricsMaxInMemory store captureBuffer ui performance sendLoadingState includeAliasesInList apiKeys"
    " macros models groups matrix routing hooks profiles selectors peers upstream"
)
_MODEL: Final = (
    "cmd cmdStop proxy checkEndpoint ttl unloadTimeout aliases useModelName filters env concurrencyLimit"
    " sendLoadingState unlisted name description metadata capabilities timeouts compat macros"
    " healthCheckTimeout"
)
TOP: Final = frozenset(_TOP.split())
MODEL: Final = frozenset(_MODEL.split())
FILTERS: Final = frozenset({"stripParams", "strip_params", "setParams", "setParamsByID"})
GROUP: Final = frozenset({"members", "swap", "exclusive", "persistent"})
SELECTOR: Final = frozenset(
    {"strategy", "targets", "settings", "name", "description", "unlisted", "metadata"}
)
PROFILE: Final = frozenset({"description", "pins"})
PEER: Final = frozenset({"proxy", "models", "apiKey", "filters", "timeouts"})
MATRIX: Final = frozenset({"vars", "evict_costs", "sets"})

WISHES: Final[Mapping[str, str]] = {
    "maxRunningModels": "models that are in no group run one at a time already, here as there",
    "tags": "metadata is the place for it",
    "ttlSeconds": "ttl is what was meant",
    "port": "the port is in proxy, or ${PORT} in cmd",
}
"""Keys that people write, and what there is for it."""

NOTHING: Final[Mapping[str, str]] = {
    "logTimeFormat": "times in our logs are RFC 3339",
    "logToStdout": "the daemon's log goes to stderr and to a file, an engine's to a file of its own",
    "logRequests": "it has no effect in llama-swap either",
    "metricsMaxInMemory": "Hostler keeps metrics of its own",
    "store": "Hostler keeps its own state",
    "captureBuffer": "prompts and answers are not kept, unless gateway.capture asks for it",
    "ui": "there is nothing to set",
    "performance": "there is nothing to set",
}
"""Keys of the top for which there is nothing here, and why that is no loss."""


def tell_unknown(root: Fields, notes: Notes) -> None:
    """Note every key that llama-swap does not read, each once, however many models have it."""
    _unknown(root.given, root.path, TOP, "", notes)
    for _, model in root.each("models"):
        _unknown(model.given, model.path, MODEL, "models.", notes)
        _unknown(model.inner("filters").given, model.below("filters"), FILTERS, "filters.", notes)
    for section, known in (("groups", GROUP), ("selectors", SELECTOR), ("peers", PEER)):
        for _, each in root.each(section):
            _unknown(each.given, each.path, known, f"{section}.", notes)
    _unknown(root.inner("matrix").given, "matrix", MATRIX, "matrix.", notes)


def _unknown(given: Given, path: str, known: Iterable[str], where: str, notes: Notes) -> None:
    for name, value in (given.keys or {}).items():
        if name not in known:
            notes.left_out(
                value, f"{path}.{name}" if path else name, _what(name, known), alike=f"{where}{name}"
            )


def _what(name: str, known: Iterable[str]) -> str:
    if name in WISHES:
        return f"llama-swap has no key {name}, and ignores it; {WISHES[name]}"
    by_letters = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.replace("_", "").replace("-", "").lower(), by_letters, 1, 0.7)
    meant = f"; {by_letters[near[0]]} is the nearest that it has" if near else ""
    return f"llama-swap has no key {name}, and ignores it{meant}"
