"""`docker run` and its like: what a container publishes, or listens on in its host's network (PORT-2).

Decides where the options end and the image stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hostler.adapters.scan.args import Value, Word, option
from hostler.adapters.scan.compose_ports import Published, entry
from hostler.adapters.scan.options import options
from hostler.adapters.scan.seen import Sight
from hostler.adapters.scan.tree import Text
from hostler.domain.ports import ANY

CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_ALONE: Final = frozenset(
    {"--rm", "--init", "--privileged", "--detach", "--interactive", "--tty", "--publish-all", "--read-only"}
    | {"--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet", "--replace", "--tls-verify"}
)
"""Options of `docker run` that have no value."""


def container(args: Sequence[Word], sight: Sight) -> None:
    """`docker run -p 127.0.0.1:8032:8000/udp IMAGE`; on the host's network, the command's own ports."""
    texts = [word.text for word in args]
    begun = next((at for at, text in enumerate(texts) if text in ("run", "create")), None)
    if begun is None:
        return
    given, inside = _run_options(args[begun + 1 :])
    names: Mapping[str, list[Word]] = given
    host_network = any(word.text == "host" for key in ("--network", "--net") for word in names.get(key, []))
    if host_network:
        options(inside, sight, ANY)
        return
    for key in ("-p", "--publish"):
        for word in names.get(key, []):
            for value in word.values:
                _publish(value, sight)
    if "-P" in names or "--publish-all" in names:
        sight.found("docker -P", None, Value(""), address=ANY, note="docker -P: chosen when it runs")


def _run_options(args: Sequence[Word]) -> tuple[dict[str, list[Word]], Sequence[Word]]:
    """The options of `run` by name, and the words after the image."""
    found: dict[str, list[Word]] = {}
    at = 0
    while at < len(args):
        name, own = option(args[at])
        if not name:
            break
        if own is None and len(name) > 2 and name.startswith("-p") and name[2].isdigit():
            name, own = "-p", args[at].after("-p")
        flags = re.fullmatch(r"-[ditPq]+", name)
        for letter in name[1:] if flags else "":
            found.setdefault(f"-{letter}", []).append(args[at])
        if own is not None:
            found.setdefault(name, []).append(own)
        elif not flags and name not in _ALONE and at + 1 < len(args):
            at += 1
            found.setdefault(name, []).append(args[at])
        else:
            found.setdefault(name, []).append(args[at])
        at += 1
    return found, args[at + 1 :]


def _publish(value: Value, sight: Sight) -> None:
    for each in entry(Text(value=value.text, line=sight.line), {}):
        if isinstance(each, Published):
            sight.found(
                "docker -p", each.port, value, address=each.address, protocol=each.protocol, note=each.note
            )
