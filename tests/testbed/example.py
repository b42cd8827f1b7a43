"""The two-host example on the test bed: its engines as stand-ins, its memory in the real figures.

What stands in for it: the drivers of all engines become processes of the fake engine, nobody's machine is
asked, nothing outside the bed is run. Modes, routes, groups, classes, memory and members are the example's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

from hostler.adapters.config.tree import bare
from hostler.adapters.config.yaml import compose
from hostler.domain.values import parse_size
from tests.story.house import Json
from tests.testbed.bed import Bed
from tests.testbed.sampler import regularly, running

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "two-host" / "hostler.yaml"
TOTAL: Final = 124 << 30
KEPT: Final = frozenset(
    {
        *("address", "context", "driver", "essential", "group", "health", "hidden", "host", "members"),
        *("memory", "model", "order", "pinned", "port", "resident", "serving_class", "task", "ttl"),
    }
)
"""What an engine of the example keeps; the rest says how a real one is run."""
GONE: Final = ("asr-box", "whisper")
"""Somebody else's machine, and the route to it."""
SLOWLY: Final = ("sh", "-c", 'sleep 0.5; exec "$0" "$@"')
"""What an engine takes is written 20 times a second: none is ready before that was seen."""
TIMES: Final = {"start_timeout": "10s", "stop_timeout": "5s"}


def stand_in(it: Bed) -> None:
    """The bed's config is the example's."""
    found = bare(compose(EXAMPLE.read_text(encoding="utf-8"))[0])
    assert isinstance(found, dict)
    example = cast("dict[str, Json]", found)
    it.document["engines"] = {}
    for name, keys in _without(example["engines"]):
        _engine(it, name, keys)
    for name, host in example["hosts"].items():
        assert isinstance(host, dict)
        _host(it, name, host)
    it.document["upstreams"] = {"cloud": {"url": "https://llm.example.net/v1", "host": "external"}}
    it.document["classes"] = example["classes"]
    it.document["routes"] = {name: _route(keys) for name, keys in _without(example["routes"])}
    resources = example["reservations"]["resources"]
    assert isinstance(resources, dict)
    it.document["reservations"] = {
        "resources": {name: _resource(keys) for name, keys in resources.items()},
    }
    it.document["modes"] = {
        name: _mode(keys) for name, keys in _without(example["modes"]) if "tool" not in keys
    }


def _without(part: Json) -> Iterator[tuple[str, Json]]:
    for name, keys in part.items():
        if name not in GONE:
            assert isinstance(keys, dict)
            yield name, dict(keys)


def _engine(it: Bed, name: str, keys: Json) -> None:
    kept = {key: value for key, value in keys.items() if key in KEPT}
    if kept.get("driver") == "distributed":
        it.part("engines")[name] = kept
        return
    kept.pop("driver", None)
    host = str(kept.pop("host"))
    port = kept.pop("port", "auto")
    embeds = ("--embeddings",) if kept.get("task") == "embed" else ()
    it.engine(name, host, cast("int", port), *embeds, **{**TIMES, **kept})
    row = it.part("engines")[name]
    assert isinstance(row, dict)
    row["argv"] = [*SLOWLY, *row["argv"]]


def _host(it: Bed, name: str, keys: Json) -> None:
    """The host's memory, ports, links and groups, its node as the bed has it."""
    host = it.part("hosts")[name]
    memory = keys["memory"]
    assert isinstance(host, dict)
    assert isinstance(memory, dict)
    folder = it.root / f"memory-{name}"
    folder.mkdir()
    host["memory"] = {**memory, "reader": f"files:{folder}"}
    host |= {key: keys[key] for key in ("ports", "groups") if key in keys}


def _route(keys: Json) -> Json:
    return {key: value for key, value in keys.items() if key != "patches"}


def _resource(keys: object) -> Json:
    assert isinstance(keys, dict)
    actions = [it for it in keys.get("actions", []) if not {"exec", "webhook"} & it.keys()]
    return {**keys, "actions": actions} if actions else keys


def _mode(keys: Json) -> Json:
    """The mode at any hour of the day; its verification is a command that there is."""
    verify = keys.get("verify", [])
    assert isinstance(verify, list)
    more = {"verify": [{**it, "exec": ["true"]} for it in verify]} if verify else {}
    return {**{key: value for key, value in keys.items() if key != "not_between"}, **more}


def needs(it: Bed) -> dict[str, int]:
    """What each engine takes, in bytes."""
    found = {}
    for name, keys in it.part("engines").items():
        assert isinstance(keys, dict)
        if "memory" in keys:
            found[name] = parse_size(str(keys["memory"]))
    return found


@asynccontextmanager
async def memory(it: Bed) -> AsyncIterator[None]:
    """Memory of both hosts for as long as the block runs: what engines whose process lives do not take."""
    sizes = needs(it)

    def look() -> None:
        for name, box in it.boxes.items():
            free = TOTAL - sum(sizes[engine] for engine in running(box))
            beside = it.root / f"memory-{name}.new"
            beside.write_text(f"total: {TOTAL >> 20} MiB\navailable: {max(0, free) >> 20} MiB\n")
            beside.replace(it.root / f"memory-{name}" / "host")

    async with regularly(look):
        yield
