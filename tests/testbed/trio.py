"""Three real daemons, each with a config of its own, that share rows with each other (SYNC-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import cast

from demo import real_engine
from demo.tiny_gguf import write_model
from tests.fakes.fake_engine import PATIENCE_S, eventually
from tests.story.house import Json
from tests.testbed.box import KEY, PORT, Box
from tests.testbed.hub import TRIO, Hub, hub

SYNC = "/v1/hostler/sync"
LONG_S = 60.0
"""Rows are looked at every 15 s, and a peer that was away is told again after 5 s."""


@dataclass(kw_only=True)
class Trio:
    """The three boxes, each with its own document; every two have a key of their own."""

    root: Path
    hub: Hub
    program: real_engine.EngineProgram = field(default_factory=real_engine.fake)
    boxes: dict[str, Box] = field(default_factory=dict)
    documents: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.boxes = {name: Box(name=name, root=self.root / name, cable=self.hub) for name in TRIO}
        self.documents = {name: self._document(name) for name in TRIO}
        for one, two in combinations(TRIO, 2):
            self.pair(one, two)

    @property
    def crow(self) -> Box:
        return self.boxes["crow"]

    @property
    def raven(self) -> Box:
        return self.boxes["raven"]

    @property
    def annex(self) -> Box:
        return self.boxes["annex"]

    def _document(self, name: str) -> Json:
        address = TRIO[name]
        return {
            "version": 1,
            "hosts": {
                name: {
                    "memory": {"reserve": "64 MiB"},
                    "node": {
                        "listen": [f"127.0.0.1:{PORT}", f"{address}:{PORT}"],
                        "shutdown": "2s",
                        # Each call to a peer is a line of the log: what is silent can be counted.
                        "log": {"level": "debug"},
                    },
                }
            },
            "keys": [{"name": "ops", "key": self.secret("ops", KEY), "scope": ["admin"]}],
            "engines": {},
            "upstreams": {},
            "sync": {"peers": {}},
        }

    def pair(self, one: str, two: str) -> None:
        """Each has the other under `sync.peers`, with the key of the pair."""
        key = self.secret(f"{one}-{two}", pair_key(one, two))
        for here, there in ((one, two), (two, one)):
            peers = cast("dict[str, Json]", cast("Json", self.documents[here]["sync"])["peers"])
            peers[there] = {"url": f"http://{TRIO[there]}:{PORT}", "key": key, "allow_plain_http": True}

    def secret(self, name: str, value: str) -> str:
        """A reference to a file with that secret in it."""
        file = self.root / f"{name}.key"
        file.write_text(value)
        file.chmod(0o600)
        return f"${{file:{file}}}"

    def engine(self, host: str, name: str, port: int, *, address: str | None = None, **keys: object) -> None:
        """An engine of a host, listening on its address in the network."""
        file = self.root / f"{name}.gguf"
        write_model(file, says=f"I am {name}.", embeddings=False, endless=False, layers=1)
        cast("Json", self.documents[host]["engines"])[name] = {
            "host": host,
            "argv": list(self.program.argv("{file}", "{model}")),
            "files": [str(file)],
            "env": dict(self.program.env),
            "address": address or TRIO[host],
            "port": port,
            "memory": "64 MiB",
            "resident": True,
            **keys,
        }

    def write(self, *names: str) -> None:
        """Each host's own config. JSON is YAML."""
        for name in names or TRIO:
            box = self.boxes[name]
            box.config.write_text(json.dumps(self.documents[name], indent=1))
            box.config.chmod(0o600)

    async def start(self) -> None:
        """All three serve, and each has spoken to the others."""
        self.write()
        await asyncio.gather(*(box.start() for box in self.boxes.values()))
        for box in self.boxes.values():
            for other in TRIO:
                if other != box.name:
                    await self.peer_is(box, other, up=True)

    async def peer_is(self, box: Box, other: str, *, up: bool) -> None:
        """Return once a box says that of a peer."""

        async def true() -> bool:
            found = cast("Sequence[Json]", (await box.get(SYNC))["peers"])
            return any(it["name"] == other and it["up"] is up for it in found)

        await eventually(true, f"{other} of {box.name}\n{box.words()}", patience_s=PATIENCE_S)

    async def row(self, box: Box, id_: str, author: str) -> Json | None:
        """A row as a box has it."""
        found = cast("Sequence[Json]", (await box.get(SYNC))["rows"])
        return next((it for it in found if it["id"] == id_ and it["author"] == author), None)

    async def row_is(self, box: Box, id_: str, author: str, *states: str) -> Json:
        """The row once it is in one of these states there."""
        seen: list[Json] = []

        async def true() -> bool:
            row = await self.row(box, id_, author)
            seen[:] = [] if row is None else [row]
            return row is not None and row["state"] in states

        await eventually(
            true, f"{id_} by {author} is {states} on {box.name}\n{box.words()}", patience_s=LONG_S
        )
        return seen[0]

    async def tear_down(self) -> None:
        """End everything, each by its own pid."""
        for box in self.boxes.values():
            await box.tear_down()


def pair_key(one: str, two: str) -> str:
    """The key that two nodes share."""
    return f"hk_pair_{one}_{two}_0123456789"


async def models(box: Box) -> Sequence[str]:
    """What a box's gateway offers."""
    data = cast("Sequence[Json]", (await box.get("/v1/models"))["data"])
    return [str(it["id"]) for it in data]


@asynccontextmanager
async def trio(root: Path) -> AsyncIterator[Trio]:
    """Three hosts, furnished with an engine of crow's and one of raven's, not yet started. NoNamespaces."""
    with hub() as found:
        it = Trio(root=root, hub=found)
        it.engine("crow", "crow-work", 8101)
        it.engine("raven", "raven-work", 8102)
        it.engine("crow", "crow-own", 8103, address="127.0.0.1")
        try:
            yield it
        finally:
            await it.tear_down()
