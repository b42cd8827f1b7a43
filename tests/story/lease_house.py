"""A house whose box can be leased: the resource, holders over HTTP, and steps that wait at exact moments."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import shlex
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from hostler.adapters.host import process_table
from tests.fakes.fake_engine import PATIENCE_S, eventually
from tests.fakes.signals import kill, send
from tests.story.house import House, Json

BOX: Json = {
    "title": "the box",
    "drain": "20s",
    "actions": [{"hold": "local"}, {"route": "chat", "to": "away"}, {"suspend": "work", "memory_back": True}],
}
LEASES = "/v1/hostler/leases"


# ---------------------------------------------------------------- resources


def furnish(it: House, *fakes: str, **resource: object) -> None:
    """Two engines, a route from one to the other, and the box as a resource."""
    it.fakes("work", *fakes, resident=True, order=1, start_timeout="4s", stop_timeout="2s")
    it.fakes("spare", resident=True, order=2)
    it.routes["chat"] = {"profiles": {"local": "work", "away": "spare"}, "active": "local"}
    resources(it, box={**BOX, **resource})


def resources(it: House, **each: Json) -> None:
    """What can be leased; without actions it is a plain lock."""
    it.top["reservations"] = {"resources": each}


def also(it: House, **each: Json) -> None:
    """More that can be leased."""
    reservations = it.top["reservations"]
    assert isinstance(reservations, dict)
    resources(it, **{**reservations["resources"], **each})


async def begun(it: House) -> None:
    """The daemon serves and both engines are ready."""
    await it.start()
    await it.is_state("work", "ready")
    await it.is_state("spare", "ready")


# ---------------------------------------------------------------- looking


async def leases(it: House, *, ended: bool = False) -> Sequence[Json]:
    """The leases, by the API."""
    async with it.client(authorization=f"Bearer {it.key}") as client:
        found = (await client.get(LEASES, params={"ended": str(ended).lower()})).json()["leases"]
    assert isinstance(found, list)
    return found


async def lease_is(it: House, id_: str, *states: str, patience_s: float = PATIENCE_S) -> Json:
    """The lease once it is in one of these states."""
    found: list[Json] = []

    async def true() -> bool:
        async with it.client(authorization=f"Bearer {it.key}") as client:
            found[:] = [(await client.get(f"{LEASES}/{id_}")).json()["lease"]]
        return found[0]["state"] in states

    try:
        await eventually(true, "", patience_s=patience_s)
    except AssertionError:
        raise AssertionError(f"{id_} is not {' or '.join(states)}: {found}\n{it.words()}") from None
    return found[0]


async def taken(it: House, *more: str) -> str:
    """The id of a lease on the box that is active, taken by the command line."""
    told = json.loads(await it.told("reserve", "box", "--for", "10m", "--json", *more))
    lease = told.get("lease", told)
    assert lease["state"] == "active", told
    return str(lease["id"])


async def events(it: House, *kinds: str) -> Sequence[Json]:
    """The events of these types that the store has, in order."""
    found: list[Json] = []
    async with it.client(authorization=f"Bearer {it.key}") as client:
        now = (await client.get("/gateway/schedule")).json()["cursor"]
        cursor, more = f"{now.rpartition(':')[0]}:0", True
        while more:
            params = {"since": cursor, "type": ",".join(kinds)}
            page = (await client.get("/gateway/schedule", params=params)).json()
            found += page["events"]
            cursor, more = page["cursor"], page["more"]
    return found


# ---------------------------------------------------------------- holders


@dataclass(kw_only=True)
class Holder:
    """A holder that speaks HTTP itself: it trusts nothing and renews nothing unless the test says so."""

    it: House
    client: httpx2.AsyncClient
    name: str = "anna"
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    request: str = field(default_factory=lambda: secrets.token_hex(16))
    id: str = ""
    last: Json = field(default_factory=dict)

    async def reserve(self, resource: str = "box", **more: object) -> httpx2.Response:
        """Ask for it; the same request however often."""
        body = {
            "resource": resource,
            "holder": self.name,
            "secret_hash": hashlib.sha256(self.secret.encode()).hexdigest(),
            **more,
        }
        got = await self.client.post(LEASES, json=body, headers={"idempotency-key": self.request})
        self._heard(got)
        return got

    async def active(self, resource: str = "box", **more: object) -> Json:
        """The lease, which is active."""
        got = await self.reserve(resource, wait_s=20.0, **more)
        assert got.status_code == 200, got.text
        assert self.last["state"] == "active", self.last
        return self.last

    async def do(self, verb: str, **more: object) -> httpx2.Response:
        """`renew`, `release`, `claim` or `cancel` with the proof that it holds it."""
        got = await self.client.post(f"{LEASES}/{self.id}/{verb}", json={**self.proof, **more})
        self._heard(got)
        return got

    @property
    def proof(self) -> Json:
        """The secret, and the fence number once there is one."""
        return {
            "secret": self.secret,
            "epoch": self.last.get("epoch"),
            "generation": self.last.get("generation"),
        }

    def _heard(self, got: httpx2.Response) -> None:
        if got.status_code == 200:
            self.last = got.json()["lease"]
            self.id = str(self.last["id"])


@asynccontextmanager
async def holders(it: House, *names: str) -> AsyncIterator[tuple[Holder, ...]]:
    """Holders, each of whose calls has a connection of its own: a daemon may go away between two.

    As many at once as they like.
    """
    async with httpx2.AsyncClient(
        base_url=it.url,
        timeout=90,
        headers={"authorization": f"Bearer {it.key}", "connection": "close"},
        limits=httpx2.Limits(max_connections=None),
    ) as client:
        yield tuple(Holder(it=it, name=name, client=client) for name in names)


def code(got: httpx2.Response) -> tuple[int, str]:
    """A refusal's status and code."""
    return got.status_code, str(got.json()["error"]["code"])


# ---------------------------------------------------------------- exact moments

_SCRIPT = """\
#!/bin/sh
# {root}/steps VERB NAME: an effect with a gate before it and one behind it, and the look that sees it.
cd {root} || exit 9
gate() {{
    [ -e "$1.hold" ] || return 0
    echo $$ > "$1.tmp" && mv "$1.tmp" "$1.at"
    while [ -e "$1.hold" ]; do sleep 0.02; done
}}
gate "before-$1-$2"
case $1 in
    do) echo "do $2" >> effects; touch "is-$2" ;;
    undo) echo "undo $2" >> effects; rm -f "is-$2" ;;
    check) [ -e "is-$2" ]; exit $? ;;
esac
gate "after-$1-$2"
"""


@dataclass(kw_only=True)
class Gates:
    """`exec` actions whose scripts stop at a gate until it is opened; what they did is in `effects`."""

    root: Path

    @property
    def script(self) -> Path:
        """What the actions run."""
        return self.root / "steps.sh"

    def write(self) -> None:
        """The script, in its directory."""
        self.root.mkdir(exist_ok=True)
        self.script.write_text(_SCRIPT.format(root=shlex.quote(str(self.root))))
        self.script.chmod(0o700)

    def action(self, name: str, *, check: bool = True) -> Json:
        """The action of that name. Without `check` its effect is seen by its exit code alone."""
        found: Json = {
            "exec": [str(self.script), "do", name],
            "undo": [str(self.script), "undo", name],
            "timeout": "60s",
        }
        return {**found, "check": [str(self.script), "check", name]} if check else found

    def shut(self, gate: str) -> None:
        """Whoever comes to the gate (`before-do-two`, `after-undo-one`, `before-check-one`) waits there."""
        (self.root / f"{gate}.hold").touch()

    def open(self, gate: str) -> None:
        """Let go on who waits there."""
        (self.root / f"{gate}.hold").unlink()

    async def reached(self, gate: str) -> int:
        """The pid of the script that waits at the gate."""
        at = self.root / f"{gate}.at"
        await eventually(at.exists, f"somebody is at the gate {gate}: {self.effects}")
        return int(at.read_text())

    async def end(self, gate: str) -> None:
        """End the script that a killed daemon left at the gate, by its pid, and open the gate."""
        pid = await self.reached(gate)
        found = process_table.read(pid)
        assert found is not None
        process_table.send(pid, found.start_ticks, signal.SIGKILL)
        await eventually(lambda: not process_table.alive(pid, found.start_ticks), f"{pid} is gone")
        (self.root / f"{gate}.at").unlink()
        self.open(gate)

    @property
    def effects(self) -> list[str]:
        """What the scripts did, in order."""
        file = self.root / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def clear_effects(self) -> None:
        """Forget what was done so far; that it is so stays."""
        (self.root / "effects").unlink()


def gates(it: House, *names: str, check: bool = True, **resource: object) -> Gates:
    """The box as a resource whose actions have gates."""
    found = Gates(root=it.root / "gates")
    found.write()
    actions = [found.action(name, check=check) for name in names]
    resources(it, box={"title": "the box", "actions": actions, **resource})
    return found


# ---------------------------------------------------------------- commands that run beside the test


@dataclass(kw_only=True)
class Command:
    """A `hostler …` that runs: its process, and what it said so far."""

    process: asyncio.subprocess.Process
    out: Path

    def said(self) -> str:
        """Its stdout and stderr."""
        return self.out.read_text()

    def send(self, number: int) -> None:
        """A signal to that process alone."""
        send(self.process, number)

    async def code(self, patience_s: float = PATIENCE_S) -> int:
        """Its exit code, once it has ended."""
        try:
            async with asyncio.timeout(patience_s):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"it does not end: {self.said()}") from None


@asynccontextmanager
async def command(it: House, *argv: str, **env: str) -> AsyncIterator[Command]:
    """A command of the command line beside the test; one that still runs at the end is killed."""
    with tempfile.NamedTemporaryFile(dir=it.root, prefix="command.", delete=False) as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hostler",
            *argv,
            env=it.environment(**env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Command(process=process, out=Path(out.name))
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()


async def queued(it: House, *holders_: str) -> Sequence[Json]:
    """The waiting leases of these holders, once all of them wait."""
    found: list[Json] = []

    async def true() -> bool:
        found[:] = [row for row in await leases(it) if row["holder"] in holders_]
        return [row["holder"] for row in found if row["state"] == "queued"] == list(holders_)

    await eventually(true, f"{holders_} wait\n{it.words()}")
    return found


async def nobody(it: House) -> None:
    """Return once no lease and no place is left."""

    async def true() -> bool:
        return not await leases(it)

    await eventually(true, f"nothing is left: {it.words()}")
