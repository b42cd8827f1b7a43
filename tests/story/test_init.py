import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from demo import real_engine
from demo.tiny_gguf import write_model
from hostler.adapters.drivers import http_look
from tests.fakes.fake_engine import eventually, free_port
from tests.fakes.signals import kill
from tests.story.house import House


@asynccontextmanager
async def running(program: real_engine.EngineProgram, model: Path, alias: str) -> AsyncIterator[None]:
    """An engine that somebody else started, ready to answer."""
    port = free_port()
    argv = [word.format(address="127.0.0.1", port=port) for word in program.argv(model, alias)]
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(program.env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def ready() -> bool:
        return (await http_look.look(f"http://127.0.0.1:{port}", "/health", {})).status == 200

    try:
        await eventually(ready, f"{alias} answers")
        yield
        assert process.returncode is None, "it was ended by somebody"
    finally:
        kill(process)
        await process.wait()


def installed(house: House) -> str:
    """A PATH with a program `llama-server`, which needs nothing of the environment."""
    program = house.program
    folder = house.root / "bin"
    folder.mkdir()
    (script := folder / "llama-server").write_text(
        "#!/bin/sh\n"
        + "".join(f"export {name}='{value}'\n" for name, value in program.env.items())
        + f'exec {program.prefix[0]} "$@" -t 1 --offline\n'
    )
    script.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


async def serve(house: House, **env: str) -> None:
    """Start the daemon with the config that is there, at the house's port."""
    house.daemon = await house.spawn("serve", "--listen", f"127.0.0.1:{house.port}", **env)
    await eventually(house.listens, f"the daemon listens:\n{house.words()}")


async def said(house: House, model: str) -> str:
    """What that model says through the gateway."""
    got = await house.chat(model, max_tokens=32)
    assert got.status_code == 200, (got.text, house.words())
    return str(got.json()["choices"][0]["message"]["content"]).strip()


async def test_a_box_with_nothing(fake: House) -> None:
    """CONF-4: on a box without programs and models the written config is one that the daemon runs with."""
    told = (await fake.run("init", PATH=str(fake.root / "bin"))).out
    assert f"Wrote {fake.config}: " in told
    assert "0 that start on demand" in told
    await serve(fake)
    async with fake.client() as client:
        assert (await client.get("/v1/models")).status_code == 200


async def test_the_box_can_be_leased_at_once(fake: House) -> None:
    """CONF-4, LEASE-1, LEASE-2: after init and serve `run box` and `reserve box` work, and hold this host."""
    assert (await fake.run("init", PATH=str(fake.root / "bin"))).code == 0
    await serve(fake)
    ran = await fake.run("run", "box", "--for", "1h", "--", "cat", str(fake.hold))
    assert (ran.code, json.loads(ran.out)["owner"].partition(":")[0]) == (0, "lease"), ran
    reserved = await fake.run("reserve", "box", "--for", "1h", "--wait")
    assert reserved.code == 0, reserved
    assert json.loads(fake.hold.read_text())["lease"] in (await fake.told("schedule"))
    assert (await fake.run("release", "box")).code == 0
    assert not fake.hold.exists()


async def test_without_resources_the_refusal_says_what_to_add(fake: House) -> None:
    """CONF-4, LEASE-1: where nothing can be leased the hint has the line of config that changes it."""
    fake.config.write_text("version: 1\n")
    await serve(fake)
    refused = await fake.run("run", "box", "--for", "1h", "--", "true")
    assert "none: the config has no reservations" in refused.err
    line = re.search(r"`(box: .*?)`", refused.err)
    assert line is not None, refused
    said = line[1].replace("HOST", "local")
    fake.config.write_text(f"version: 1\nreservations:\n  resources:\n    {said}\n")
    assert (await fake.run("reload")).code == 0
    assert (await fake.run("run", "box", "--for", "1h", "--", "true")).code == 0


@pytest.mark.real
async def test_an_engine_that_runs_is_used_at_once(real: House) -> None:
    """CONF-4: a llama-server that runs answers through the gateway after init and serve, and runs on."""
    model = real.root / "elsewhere.gguf"
    write_model(model, says="I am elsewhere.")
    async with running(real.program, model, "My own:model"):
        told = await real.told("init")
        assert "Next: hostler serve" in told
        await serve(real)
        await real.is_state("my-own-model", "ready")
        assert await said(real, "My own:model") == "I am elsewhere."
        assert await said(real, "my-own-model") == "I am elsewhere."
        assert (await real.row("my-own-model"))["driver"] == "external"
        await real.end()


@pytest.mark.real
async def test_a_model_file_starts_on_demand(real: House) -> None:
    """CONF-4, ENG-3: a GGUF and a llama-server on the PATH are an engine that starts when it is asked for."""
    path = installed(real)
    model = real.root / "models" / "Tiny-Q8.gguf"
    model.parent.mkdir()
    write_model(model, says="I am tiny.")
    told = (await real.run("init", PATH=path)).out
    assert "1 that start on demand" in told
    await serve(real, PATH=path)
    assert (await real.row("tiny-q8"))["state"] == "stopped"
    assert await said(real, "tiny-q8") == "I am tiny."
    assert (await real.row("tiny-q8"))["state"] == "ready"


@pytest.mark.real
async def test_an_imported_model_starts_and_swaps(real: House) -> None:
    """CONF-4, EVICT-1: models of llama-swap answer by name and alias; one makes room for the next."""
    path = installed(real)
    for name in ("one", "two"):
        write_model(real.root / f"{name}.gguf", says=f"I am {name}.")
    swap = real.root / "swap.yaml"
    swap.write_text(
        f"""\
healthCheckTimeout: 60
macros: {{run: "llama-server --host 127.0.0.1 --port ${{PORT}} -c 512"}}
models:
  "Org/One":
    cmd: |
      ${{run}}
      # the first
      -m {real.root}/one.gguf
    aliases: [uno]
  two:
    cmd: sh -c 'cd "$HOME" && exec ${{run}} --alias two -m two.gguf'
    env: ["HOME={real.root}"]
"""
    )
    done = await real.run("import", "llama-swap", str(swap), "-o", str(real.config), PATH=path)
    assert done.code == 0, done.err
    await serve(real, PATH=path)
    assert await said(real, "uno") == "I am one."
    assert await said(real, "two") == "I am two."
    states = {name: (await real.row(name))["state"] for name in ("org-one", "two")}
    assert states == {"org-one": "stopped", "two": "ready"}
