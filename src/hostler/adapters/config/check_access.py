"""Relations of keys, peers and notices, and which values must be secrets (CONF-1, API-4, NOTE-1)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from hostler.adapters.config.check_routes import class_names
from hostler.adapters.config.explain import Told
from hostler.adapters.config.tree import Leaf, ListNode, Path, keys_at, node_at
from hostler.adapters.config.urls import check_url, has_credentials
from hostler.adapters.config.view import View

_OPEN_CHANNELS = ("webhook:", "ntfy:")


def check_access(view: View) -> None:
    """Everything about who may do what and who is told."""
    _secrets(view)
    _keys(view)
    _peers(view)
    _notices(view)


def _secrets(view: View) -> None:
    """Also in a part that another error leaves out: it is in clear all the same (CONF-2)."""
    for path in _secret_paths(view):
        found = node_at(view.tree, path)
        text = isinstance(found, Leaf) and isinstance(found.value, str)
        if text and path not in view.references and path not in view.wrong:
            hint = "write it as ${env:NAME} or ${file:PATH}"
            view.errors.append(Told(path=path, message="a secret in clear", hint=hint))
    if has_credentials(view.doc.store) and ("store",) not in view.references:
        view.error(("store",), "a URL with credentials in clear", "write it as ${env:NAME} or ${file:PATH}")


def _secret_paths(view: View) -> Iterator[Path]:
    """Where a secret is given: every key that holds one."""
    for section in ("hosts", "upstreams", "engines"):
        for name in keys_at(view.tree, (section,)):
            if "key" in view.given((section, name)):
                yield section, name, "key"
    for name in keys_at(view.tree, ("sync", "peers")):
        if "key" in view.given(("sync", "peers", name)):
            yield "sync", "peers", name, "key"
    keys = node_at(view.tree, ("keys",))
    for number in range(len(keys.items) if isinstance(keys, ListNode) else 0):
        if "key" in view.given(("keys", number)):
            yield "keys", number, "key"
    for place in (("node",), *(("hosts", name, "node") for name in view.host_names())):
        if "key" in view.given((*place, "tls")):
            yield (*place, "tls", "key")


def _keys(view: View) -> None:
    names: dict[str, Path] = {}
    values: dict[str, Path] = {}
    for number, key in enumerate(view.doc.keys):
        path = view.index(("keys",), number)
        if key.name in names:
            view.error((*path, "name"), f"{key.name} is taken by the key on {view.line(names[key.name])}")
        if key.key.value in values:
            view.error((*path, "key"), f"is the same key as that on {view.line(values[key.key.value])}")
        names.setdefault(key.name, path)
        values.setdefault(key.key.value, path)
        if not key.key.value.isascii() or not key.key.value.isprintable() or " " in key.key.value:
            view.error((*path, "key"), "a key is printable ASCII without blanks: it goes into a header")
        routes = keys_at(view.tree, ("routes",))
        for index, route in enumerate(key.routes or ()):
            view.refer((*path, "routes", index), "route", route, routes)
        if key.request_class is not None:
            view.refer((*path, "class"), "class", key.request_class, class_names(view))


def _peers(view: View) -> None:
    """Each has a name that is no host's here, and a key of its own: it tells who calls (SYNC-1)."""
    values: dict[str, Path] = {}
    for number, key in enumerate(view.doc.keys):
        values.setdefault(key.key.value, (*view.index(("keys",), number), "key"))
    for name, host in (view.doc.hosts or {}).items():
        if host.key is not None:
            values.setdefault(host.key.value, ("hosts", name, "key"))
    for name, peer in view.doc.sync.peers.items():
        path: Path = ("sync", "peers", name)
        check_url(view, (*path, "url"), peer.url, plain=peer.allow_plain_http, bare=True)
        if name in view.host_names():
            view.error(path, f"{name} is a host of this config, and no peer of it", at_key=True)
        if peer.key.value in values:
            view.error((*path, "key"), f"is the same key as that on {view.line(values[peer.key.value])}")
        values.setdefault(peer.key.value, (*path, "key"))


def _notices(view: View) -> None:
    for name, address in view.doc.notices.channels.items():
        path: Path = ("notices", "channels", name)
        if path not in view.references:
            _channel(view, path, address)
    channels = keys_at(view.tree, ("notices", "channels"))
    for event, notice in view.doc.notices.events.items():
        for index, channel in enumerate(notice.to or ()):
            view.refer(("notices", "events", event, "to", index), "channel", channel, channels)
    if view.doc.notices.link is not None:
        check_url(view, ("notices", "link"), view.doc.notices.link)


def _channel(view: View, path: Path, address: str) -> None:
    """A channel in clear: `ntfy:` or `webhook:` and an address; the others carry secrets."""
    for prefix in _OPEN_CHANNELS:
        if address.startswith(prefix):
            rest = address.removeprefix(prefix)
            if prefix == "webhook:" or ("://" in rest and not rest.startswith("//")):
                check_url(view, path, rest)
            elif has_credentials(address):
                view.error(path, "a URL with credentials in clear", "write it as ${env:NAME} or ${file:PATH}")
            return
    scheme = urlsplit(address).scheme if "://" in address else ""
    if scheme in ("http", "https"):
        view.error(path, "expected webhook: before a plain URL", f"webhook:{scheme}://…")
    else:
        view.error(path, "an address that may hold a secret", "write it as ${env:NAME} or ${file:PATH}")
