"""Which paths are inference, and how each is treated (GW-10's part that is built).

Decides what a path means for the gateway: whether its body names a model, whether it may start an engine.
Everything that is not here belongs to the control API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """A path whose JSON body names a model. `target` is the path that the engine is asked.

    `streams`: its answer may be a stream of events.
    """

    target: str
    streams: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """`/v1/models`, or one model of it. Starts nothing.

    `names` are what the path may mean, the likelier first: names are encoded in paths, or sent as they are.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """`/upstream/<engine>/…`: anything else that an engine serves. `starts`: GET and its like never do."""

    engine: str
    target: str
    starts: bool


Path = Inference | ModelList | Direct

_INFERENCE: Final = {
    "/v1/chat/completions": True,
    "/v1/completions": True,
    "/v1/embeddings": False,
}

_KNOWN: Final = {
    f"{prefix}{path}".encode(): Inference(target=path, streams=streams)
    for path, streams in _INFERENCE.items()
    for prefix in ("", "/llm")
}
"""The same by the bytes of the request line, for the requests that there are most of."""


def classify(method: str, raw_path: bytes, query: bytes) -> Path | None:
    """What the path is to the gateway; None when it is not the gateway's.

    `raw_path` as it came on the wire: a model's name may hold an encoded slash.
    """
    known = _KNOWN.get(raw_path)
    if known is not None and not query:
        return known
    path = raw_path.decode("latin-1")
    asked = path + (f"?{query.decode('latin-1')}" if query else "")
    if path.startswith("/upstream/"):
        engine, _, rest = path.removeprefix("/upstream/").partition("/")
        target = "/" + rest + (f"?{query.decode('latin-1')}" if query else "")
        starts = method not in ("GET", "HEAD", "OPTIONS")
        return Direct(engine=unquote(engine), target=target, starts=starts)
    if path.startswith("/llm/v1/"):
        path, asked = path.removeprefix("/llm"), asked.removeprefix("/llm")
    if path in _INFERENCE:
        return Inference(target=asked, streams=_INFERENCE[path])
    if path == "/v1/models":
        return ModelList()
    if path.startswith("/v1/models/"):
        rest = raw_path.decode("utf-8", "replace").partition("/v1/models/")[2]
        return ModelList(names=tuple(dict.fromkeys((unquote(rest), rest))))
    return None
