"""llama-swap's peers and API keys: somebody else's models as upstreams, and who may ask this one.

Decides the upstreams' names and the routes to their models. A key is never written in clear, and a caller's
own key is never passed on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.names import slug, unique
from hostler.interfaces.imports.notes import Notes
from hostler.interfaces.imports.patches import patches_of
from hostler.interfaces.imports.routes import Routes, Target
from hostler.interfaces.imports.secret_words import Secrets

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_METADATA: Final = frozenset(
    {"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "metadata.google.internal", "metadata"}
)
"""Where clouds tell a machine its own secrets: never a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Makes upstreams of one file's peers."""

    notes: Notes
    secrets: Secrets
    routes: Routes

    def upstreams(self, root: Fields) -> dict[str, object]:
        """The upstreams, by name; each model of theirs becomes a route."""
        found: dict[str, object] = {}
        counted = Counter(text for _, peer in root.each("peers") for _, text in peer.texts("models"))
        for name, fields in root.each("peers"):
            own = unique(slug(name), found)
            keys = self._upstream(name, fields)
            if keys is not None:
                found[own] = keys
                self._models(name, own, fields, counted)
        return found

    def _upstream(self, name: str, fields: Fields) -> dict[str, object] | None:
        proxy = fields.text("proxy").rstrip("/")
        host = _host_of(proxy)
        if host is None:
            self.notes.refuse(
                fields.at("proxy"), fields.below("proxy"), "expected a URL such as https://host:port"
            )
            return None
        keys: dict[str, object] = {"url": proxy if proxy.endswith("/v1") else f"{proxy}/v1"}
        if host not in _LOOPBACK:
            keys["host"] = "external"
        key = fields.text("apiKey")
        if key:
            keys["key"] = self.secrets.refer(key, f"peer-{name}", fields.at("apiKey"), fields.below("apiKey"))
        else:
            self.notes.changed(
                fields.given,
                fields.path,
                "a caller's own key is not passed on to a peer without apiKey, as llama-swap does",
            )
        if fields.get("timeouts") is not None:
            self.notes.left_out(
                fields.at("timeouts"),
                fields.below("timeouts"),
                "an upstream has no times of its own; gateway.silence bounds a stream",
                alike="peers.timeouts",
            )
        return keys

    def _models(self, name: str, upstream: str, fields: Fields, counted: Mapping[str, int]) -> None:
        patches = patches_of(fields.inner("filters"), "", self.notes)
        for at, model in fields.texts("models"):
            full = f"{name}/{model}"
            if not self.routes.claim(full, at, fields.below("models")):
                continue
            bare = []
            if counted[model] > 1:
                self.notes.warn(
                    at, fields.below("models"), f"{model} is asked for as {full} only: peers share it"
                )
            elif model not in self.routes.owners and self.routes.claim(model, at, fields.below("models")):
                bare.append(model)
            self.routes.peer(full, Target(name=upstream, model=model, upstream=True), patches, bare)


def _host_of(url: str) -> str | None:
    """The host of a URL that an upstream may have, else None."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return None
    if (
        parts.hostname in _METADATA
        or not usable
        or parts.username
        or parts.query
        or parts.fragment
        or " " in url
    ):
        return None
    return parts.hostname or None


def keys_of(root: Fields, secrets: Secrets, notes: Notes) -> list[object]:
    """An admin's key for each of `apiKeys`."""
    found: list[object] = []
    seen: set[str] = set()
    for at, text in root.texts("apiKeys"):
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            notes.refuse(at, "apiKeys", "a key is printable ASCII without blanks, and not empty")
        elif text not in seen:
            seen.add(text)
            name = f"llama-swap-{len(seen)}"
            found.append({"name": name, "key": secrets.refer(text, name, at, "apiKeys"), "scope": ["admin"]})
    if found:
        notes.warn(
            root.at("apiKeys"),
            "apiKeys",
            "each may do everything here, as there: give clients keys of scope infer (`hostler keys create`)",
        )
    return found
