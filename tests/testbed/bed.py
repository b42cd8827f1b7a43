"""The test bed: real daemons on two hosts, crow (the head) and raven, from the same bytes, with real engines.

Each host is a network namespace. A test speaks to a daemon through a door of its own, so that it hears it
when the cable is cut as well.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from demo import real_engine
from demo.tiny_gguf import write_model
from tests.fakes.certificate import CERTIFICATE, PIN, written
from tests.story.house import Json
from tests.testbed.box import KEY, PORT, Box
from tests.testbed.cable import HOSTS, Cable, cable


@dataclass(kw_only=True)
class Bed:
    """Both hosts. `document` is their config; `program` runs as an engine."""

    root: Path
    cable: Cable
    program: real_engine.EngineProgram = field(default_factory=real_engine.fake)
    document: Json = field(default_factory=dict)
    boxes: dict[str, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.boxes = {name: Box(name=name, root=self.root / name, cable=self.cable) for name in HOSTS}
        self.document = {
            "version": 1,
            "schedule": {"owner": "crow"},
            "hosts": {name: self._host(name) for name in HOSTS},
            "keys": [{"name": "ops", "key": self._secret("ops", KEY), "scope": ["admin"]}],
            "engines": {},
            "routes": {},
        }

    @property
    def crow(self) -> Box:
        """The head."""
        return self.boxes["crow"]

    @property
    def raven(self) -> Box:
        """The other one."""
        return self.boxes["raven"]

    def _host(self, name: str) -> Json:
        address = HOSTS[name]
        return {
            "url": f"http://{address}:{PORT}",
            "key": self._secret(name, f"hk_testbed_node_{name}_0123456789"),
            "allow_plain_http": True,
            "memory": {"reserve": "64 MiB"},
            "node": {"listen": [f"127.0.0.1:{PORT}", f"{address}:{PORT}"], "shutdown": "2s"},
        }

    def _secret(self, name: str, value: str) -> str:
        file = self.root / f"{name}.key"
        file.write_text(value)
        file.chmod(0o600)
        return f"${{file:{file}}}"

    def part(self, name: str) -> Json:
        """A part of the document, to be added to."""
        found = self.document[name]
        assert isinstance(found, dict)
        return found

    def engine(self, name: str, host: str, port: int, *more: str, **keys: object) -> None:
        """An engine of a host; `more` are arguments of its program."""
        file = self.root / f"{name}.gguf"
        write_model(file, says=f"I am {name}.", embeddings=False, endless=False, layers=1)
        self.part("engines")[name] = {
            "host": host,
            "argv": list(self.program.argv("{file}", "{model}", *more)),
            "files": [str(file)],
            "env": dict(self.program.env),
            "port": port,
            "memory": "64 MiB",
            **keys,
        }

    def secure(self) -> None:
        """Both daemons serve TLS, with one certificate that each knows by its pin (NODE-2)."""
        cert, key = written(self.root)
        for name, box in self.boxes.items():
            host = self.part("hosts")[name]
            assert isinstance(host, dict)
            del host["allow_plain_http"]
            host["url"] = host["url"].replace("http:", "https:")
            host["tls_pin"] = PIN
            host["node"]["tls"] = {"cert": cert, "key": f"${{file:{key}}}"}
            box.trusts = CERTIFICATE

    def resources(self, **each: Json) -> None:
        """What can be leased."""
        self.document["reservations"] = {"resources": each}

    def write(self, *names: str) -> None:
        """The same bytes on each host, or on those that are named. JSON is YAML."""
        text = json.dumps(self.document, indent=1)
        for name in names or HOSTS:
            box = self.boxes[name]
            box.config.write_text(text)
            box.config.chmod(0o600)

    async def start(self) -> None:
        """Both daemons serve, and the head has seen the other."""
        self.write()
        await asyncio.gather(*(box.start() for box in self.boxes.values()))
        await self.crow.sees("raven", up=True)

    async def ready(self) -> None:
        """Both daemons serve, and every resident is up: what is leased can be moved away."""
        await self.start()
        for name, box in (("crow-work", self.crow), ("crow-spare", self.crow), ("raven-work", self.raven)):
            await box.is_state(name, "ready")

    async def tear_down(self) -> None:
        """End everything, each by its own pid."""
        for box in self.boxes.values():
            await box.tear_down()


def furnish(it: Bed) -> None:
    """An engine and a spare on each host, routes to both from either, and what can be leased."""
    it.engine("crow-work", "crow", 8101, resident=True, stop_timeout="2s")
    it.engine("crow-spare", "crow", 8102, resident=True)
    it.engine("raven-work", "raven", 8101, resident=True, stop_timeout="2s")
    it.part("routes").update(
        {
            "near": {"profiles": {"local": "crow-work", "away": "crow-spare"}, "active": "local"},
            "far": {"profiles": {"local": "raven-work", "away": "crow-spare"}, "active": "local"},
        }
    )
    ttl = {"default": "10m", "max": "1h", "warn": []}
    it.resources(
        crow_box={
            "hosts": ["crow"],
            "ttl": ttl,
            "drain": "10s",
            "actions": [{"hold": "crow"}, {"route": "near", "to": "away"}, {"suspend": "crow-work"}],
        },
        raven_box={
            "hosts": ["raven"],
            "ttl": ttl,
            "drain": "10s",
            "indefinite": True,
            "actions": [{"hold": "raven"}, {"route": "far", "to": "away"}, {"suspend": "raven-work"}],
        },
        pair={"hosts": ["crow", "raven"], "ttl": ttl, "contains": ["crow_box", "raven_box"]},
    )


@asynccontextmanager
async def bed(root: Path, *, real: bool = False) -> AsyncIterator[Bed]:
    """Both hosts, furnished and not yet started; all of it is gone at the end. Raises NoNamespaces."""
    with cable() as found:
        program = (real_engine.find() if real else None) or real_engine.fake()
        it = Bed(root=root, cable=found, program=program)
        furnish(it)
        try:
            yield it
        finally:
            await it.tear_down()
