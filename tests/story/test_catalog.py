"""The catalog on real daemons with the real engine: classes, builds, links, and a directory that changes."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.fakes.catalog import write_entry
from tests.fakes.fake_engine import eventually, free_port
from tests.story.house import House

ENTRY = """\
version: 1
id: tiny
family: tiny
serving: {class: CLASS}
quants: {Q8: {files: [{name: fast.gguf}], min_ram: 32 MiB}}
variants:
  4k: {quant: Q8, context: 4096}
"""
TWO_BOX = "topology: {roles: [worker, main], port: PORT}\n"


def curated(it: House, text: str = ENTRY, serving_class: str = "windowed") -> Path:
    """The engine `fast` with an entry in a directory of the house's own; the entry's file."""
    if "fast" not in it.engines:
        it.add("fast", entry="tiny#4k")
        it.routes["chat"] = {"profiles": {"a": "fast"}}
    it.top["catalog"] = str(it.root / "catalog")
    return write_entry(it.root / "catalog", text.replace("CLASS", serving_class))


async def start(it: House, *more: str) -> tuple[int, str]:
    """`hostler start fast`; its exit code and what it said."""
    done = await it.run("start", "fast", *more)
    return done.code, done.out + done.err


async def stop(it: House) -> None:
    """Stop `fast`."""
    assert (await it.run("stop", "fast", "--now")).code == 0


@pytest.mark.real
async def test_a_class_is_lifted_by_its_name_alone(real: House) -> None:
    """CAT-5, CAT-6: a windowed entry's engine answers no chat and no start that does not name its class."""
    curated(real)
    await real.start()
    code, said = await start(real)
    assert (code, "fast is windowed: it runs on two boxes or evicts production" in said) == (77, True)
    assert (await start(real, "--override", "wedge-risk"))[0] == 77
    answer = await real.chat("chat")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "serving_class_refused")
    assert "retry-after" not in answer.headers
    assert (await start(real, "--override", "windowed"))[0] == 0
    assert (await real.chat("chat")).status_code == 200
    shown = await real.run("engines")
    assert "windowed; unproven (tiny#4k)" in shown.out
    assert not real.said("uncurated engines")


@pytest.mark.real
async def test_a_changed_catalog_is_taken_up_and_a_broken_one_is_not(real: House) -> None:
    """CAT-7, CONF-3: a raised class counts from the next start on; what is broken changes nothing."""
    path = curated(real, serving_class="resident")
    await real.start()
    assert (await start(real))[0] == 0
    curated(real, serving_class="wedge-risk")
    await eventually(lambda: len(real.said("config_reloaded")) == 1, "the raised class is taken up")
    assert (await real.chat("chat")).status_code == 200
    await stop(real)
    assert (await start(real))[0] == 77
    path.write_text("broken: [", encoding="utf-8")
    await eventually(lambda: len(real.said("config_reloaded")) == 2, "the broken one is seen")
    assert (await start(real))[0] == 77
    assert "the last good one is in force" in (await real.run("status")).out
    assert await real.end(signal.SIGTERM) == 0
    await real.start()
    assert (await start(real))[0] == 77
    assert "the last good one is in force" in (await real.run("status")).out


@pytest.mark.real
async def test_a_first_start_without_a_catalog_refuses_what_names_it(real: House) -> None:
    """CAT-7: a daemon that never saw a good catalog starts no engine that names an entry, and others do."""
    curated(real, "broken: [")
    real.add("plain")
    await real.start()
    code, said = await start(real, "--override", "windowed")
    assert (code, "nobody knows what tiny#4k is" in said) == (77, True)
    assert (await real.run("start", "plain")).code == 0
    assert [line["engines"] for line in real.said("uncurated engines")] == ["plain"]


@pytest.mark.real
async def test_the_real_binary_says_its_build(real: House) -> None:
    """CAT-8: the real engine's own report decides whether it is the build that its entry needs."""
    curated(real, f"{ENTRY}build: {{release: 1}}\n", "resident")
    await real.start()
    assert (await start(real))[0] == 0
    await stop(real)
    curated(real, f"{ENTRY}build: {{release: 99999999}}\n", "resident")
    assert (await real.run("reload")).code == 0
    code, said = await start(real)
    assert (code, "and at least 99999999 is needed" in said) == (77, True)
    why = await real.run("why", "fast")
    assert "its build is " in why.out


@pytest.mark.real
async def test_a_link_is_probed_before_a_start(real: House) -> None:
    """CAT-8, GATE-1: a shape over two boxes starts once the worker's port is reached, not before."""
    port = free_port()
    curated(real, ENTRY + TWO_BOX.replace("PORT", str(port)))
    link = {"interface": "lo", "address": "127.0.0.1", "peer": "127.0.0.2"}
    real.top["hosts"] = {
        "local": {
            "url": "https://local.lan",
            "memory": {"reserve": "64 MiB"},
            "links": {"raven": link},
        },
        "raven": {"url": "https://raven.lan"},
    }
    real.top["schedule"] = {"owner": "local"}
    real.engines["fast"]["host"] = "local"
    real.around["HOSTLER_HOST"] = "local"
    await real.start()
    code, said = await start(real, "--override", "windowed")
    assert (code, f"127.0.0.2:{port} on raven is not reached over lo" in said) == (71, True)
    worker = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.2", port)
    try:
        assert (await start(real, "--override", "windowed"))[0] == 0
    finally:
        worker.close()
        await worker.wait_closed()


@pytest.mark.real
async def test_a_pulled_and_printed_engine_serves(real: House, tmp_path: Path) -> None:
    """CAT-11, CAT-12: a model that is pulled and whose engine is printed by the catalog answers."""
    curated(real, serving_class="resident")
    source = (tmp_path / "fast.gguf").rename(tmp_path / "far.gguf")
    argv = ", ".join(f'"{word}"' for word in real.program.argv("{file}", "{model}"))
    text = (
        ENTRY.replace("name: fast.gguf", f"name: fast.gguf, url: 'file://{source}'")
        + f"launch: {{argv: [{argv}]}}\n"
    )
    curated(real, text, "resident")
    real.engines.clear()
    real.routes.clear()
    real.write()
    pulled = await real.run("pull", "tiny#Q8")
    assert (pulled.code, "unverified" in pulled.out) == (0, True), pulled.err
    printed = await real.run("engine", "from-catalog", "tiny#4k", "--json")
    assert printed.code == 0, printed.err
    real.engines.update(json.loads(printed.out)["config"]["engines"])
    real.engines["tiny"]["env"] = dict(real.program.env)
    real.top["routes"] = {"chat": {"profiles": {"a": "tiny"}}}
    await real.start()
    answer = await real.chat("chat")
    assert answer.json()["choices"][0]["message"]["content"].startswith("I am fast.")
