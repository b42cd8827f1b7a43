"""Keys that come the wrong way, or come back from an upstream: none of them is to be read anywhere (BG-27).

A real daemon is called with keys in headers, queries, paths and users of URLs, right, wrong and cut off; its
upstream answers with all that it got. Then everything that it wrote, answers and prints is searched, in six
encodings.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from tests.fakes.fake_engine import eventually
from tests.story.house import House, chat
from tests.story.lease_house import LEASES, resources
from tests.story.shells import person

ENGINE = "work"
RIGHT = 'hk_right/key+of-the-agents~"27'
WRONG = 'hk_wrong/key+of-somebody~"27'
UPSTREAM = "sk-upstreams/own+key-of-ours~27"
TOKEN = "hf_token/of+an-engine~27"
SECRETS = (RIGHT, WRONG, UPSTREAM, TOKEN)
OURS = frozenset({"local.key", "keys.json", "spec.json"})
"""Files that are there to hold keys, digests of them, or an engine's environment: 0600."""


def encodings(secret: str) -> Mapping[str, str]:
    """The secret in the six forms that are looked for."""
    data = secret.encode()
    return {
        "plain": secret,
        "percent": quote(secret, safe=""),
        "base64": base64.b64encode(data).decode().rstrip("="),
        "base64url": base64.urlsafe_b64encode(data).decode().rstrip("="),
        "hex": data.hex(),
        "json": json.dumps(secret)[1:-1].replace("/", "\\/"),
    }


def found_in(text: str) -> list[tuple[str, str]]:
    """Which secrets the text has, and in which form."""
    low = text.lower()
    return [
        (secret, name)
        for secret in SECRETS
        for name, form in encodings(secret).items()
        if form in text or (name == "hex" and form in low)
    ]


@asynccontextmanager
async def echoing() -> AsyncIterator[str]:
    """The base URL of an upstream that answers 500 with all headers that it got, and its key in six forms."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        said = json.dumps({"error": {"message": head, "seen": list(encodings(UPSTREAM).values())}}).encode()
        fields = f"content-type: application/json\r\nx-echo: Bearer {UPSTREAM}\r\ncontent-length: {len(said)}"
        writer.write(f"HTTP/1.1 500 No\r\n{fields}\r\nconnection: close\r\n\r\n".encode() + said)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def furnish(it: House, url: str) -> None:
    """A route to the upstream, an engine with a token, a key for callers, something to lease."""
    it.fakes("work", env={"HF_TOKEN": "${env:THE_TOKEN}"}, resident=True)
    it.top["upstreams"] = {"cloud": {"url": url, "host": "external", "key": "${env:THE_UPSTREAM}"}}
    it.routes["far"] = {"profiles": {"p": {"upstream": "cloud"}}, "active": "p"}
    it.routes["near"] = {"profiles": {"p": "work"}, "active": "p"}
    it.top["keys"] = [{"name": "agents", "key": "${env:THE_KEY}", "scope": ["admin"]}]
    it.around |= {"THE_KEY": RIGHT, "THE_UPSTREAM": UPSTREAM, "THE_TOKEN": TOKEN}
    resources(it, box={})


async def ready(it: House) -> bool:
    """Whether the engine is."""
    async with it.client(authorization=f"Bearer {RIGHT}") as client:
        rows = (await client.get("/v1/hostler/engines")).json()["engines"]
    return [row["state"] for row in rows] == ["ready"]


async def raw(it: House, target: str, *fields: str) -> str:
    """The answer to a request line that no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
    head = "\r\n".join([f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{it.port}", "Connection: close", *fields])
    writer.write(f"{head}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode("utf-8", "replace")


async def ways(it: House, key: str) -> list[str]:
    """The answers to a key that came in every way; those in headers alone may let anything in."""
    in_url, user = quote(key, safe=""), base64.b64encode(f"u:{key}".encode()).decode()
    part = key[:18]
    said = []
    async with it.client() as client:
        for path in ("/v1/hostler/requests", "/v1/hostler/jobs/nothing", f"/v1/hostler/{in_url}"):
            for name in ("key", "api_key", "token", "access_token"):
                got = await client.get(f"{path}?{name}={in_url}")
                assert got.status_code in {400, 401, 403, 404}, (path, name, got.text)
                said.append(got.text + repr(got.headers))
            for headers in (
                {"authorization": f"Bearer {key}"},
                {"x-api-key": key},
                {"authorization": f"Basic {user}"},
                {"authorization": key},
                {"authorization": f"Bearer {part}"},
                {"authorization": f"Bearer {key}", "user-agent": key, "x-hostler-client": key},
            ):
                got = await client.get(path, headers=headers)
                said.append(got.text + repr(got.headers))
        for model in ("far", "near", "none", key):
            for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
                got = await client.post("/v1/chat/completions", json=chat(model), headers=headers)
                said.append(got.text + repr(got.headers))
        wish = {"resource": key, "secret_hash": "0" * 64, "holder": key, "reason": key}
        named = {"authorization": f"Bearer {key}", "idempotency-key": "n" * 20}
        said.append((await client.post(LEASES, json=wish, headers=named)).text)
    said.append(await raw(it, f"http://u:{in_url}@127.0.0.1:{it.port}/v1/hostler/jobs"))
    said.append(await raw(it, f"/v1/hostler/jobs?key={in_url}", f"Authorization: Bearer {key}"))
    return said


async def typed(it: House, key: str) -> list[str]:
    """What commands of people print who give that key, as theirs or in the address."""
    in_url = quote(key, safe="")
    env = {**person(it, "ada"), "HOSTLER_API_KEY": key}
    there = {**person(it, "eve"), "HOSTLER_URL": f"http://u:{in_url}@127.0.0.1:{it.port}"}
    calls = [(("schedule", "--json"), env), (("requests",), env), (("mine",), there), (("routes",), there)]
    done = await asyncio.gather(*(it.run(*argv, **given) for argv, given in calls))
    return [text for one in done for text in (one.out, one.err)]


async def read(it: House) -> Mapping[str, str]:
    """All that the daemon shows to who may read everything, and all that its commands print of it."""
    shown = {}
    async with it.client(authorization=f"Bearer {RIGHT}") as client:
        for path in (
            "/metrics",
            "/v1/models",
            "/v1/hostler/status",
            "/v1/hostler/engines",
            f"/v1/hostler/engines/{ENGINE}/logs",
            "/v1/hostler/requests",
            "/v1/hostler/jobs?ended=true",
            f"{LEASES}?ended=true",
            "/v1/hostler/history",
            "/gateway/schedule",
        ):
            got = await client.get(path)
            assert got.status_code == 200, (path, got.text)
            shown[path] = got.text
        now = (await client.get("/gateway/schedule")).json()["cursor"]
        since = {"since": f"{now.rpartition(':')[0]}:0"}
        shown["events"] = (await client.get("/gateway/schedule", params=since)).text
    words = (("config", "show"), ("history", "--json"), ("status", "--json"), ("logs", "work"), ("engines",))
    for argv, done in zip(words, await asyncio.gather(*(it.run(*argv) for argv in words)), strict=True):
        shown[" ".join(argv)] = done.out + done.err
    return shown


def written(it: House) -> Mapping[str, str]:
    """Every file of the house but those that hold keys on purpose; and the words of every process of it."""
    texts = {}
    for path in (it.log, *it.state.rglob("*")):
        if path.is_file() and path.name not in OURS:
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            texts[str(path)] = data.decode("latin-1")
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts[str(words)] = words.read_bytes().decode("latin-1")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return texts


async def test_no_key_is_told_anywhere(fake: House) -> None:
    """BG-27, SEC-1, GW-14: a key in a header, query, path, user or echo is in no answer, file or output."""
    async with echoing() as url:
        furnish(fake, url)
        await fake.start()
        await eventually(lambda: ready(fake), f"work is ready\n{fake.words()}")
        for key in (RIGHT, WRONG):
            for text in (*await ways(fake, key), *await typed(fake, key)):
                assert found_in(text) == [], text
        for where, text in (await read(fake)).items():
            assert found_in(text) == [], where
        for where, text in written(fake).items():
            assert found_in(text) == [], where


def test_the_search_finds_each_form() -> None:
    """BG-27: what searches in these tests finds each secret in each of the six forms."""
    for secret in SECRETS:
        for name, form in encodings(secret).items():
            assert (secret, name) in found_in(f"x{form}y"), name
