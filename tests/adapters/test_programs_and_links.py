import asyncio
import os
from pathlib import Path

import pytest

from hostler.adapters.host import links
from hostler.adapters.host.links import SystemLinks
from hostler.adapters.programs import ProgramFiles
from hostler.domain.curation import Crossing, LinkSeen

ENV = {"PATH": os.defpath}


def program(folder: Path, text: str, name: str = "engine") -> Path:
    """A script that is a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


async def said(programs: ProgramFiles, path: Path, **env: str) -> str | None:
    """What a binary says when it is asked."""
    await programs.ask(str(path), env, "/")
    return programs.report(str(path), env, "/")


async def test_a_binary_is_asked_once(tmp_path: Path) -> None:
    """CAT-8: `--version` is read once per binary, in the engine's environment; another one is asked anew."""
    path = program(tmp_path, f'echo "$1 $LIBS" >&2; echo x >> {tmp_path}/count')
    programs = ProgramFiles(environment=ENV)
    assert programs.report(str(path), {}, "/") is None
    for _ in range(3):
        assert await said(programs, path, LIBS="vulkan") == "--version vulkan\n"
    assert (tmp_path / "count").read_text() == "x\n"
    program(tmp_path, 'echo "version: 5900"')
    assert programs.report(str(path), {}, "/") is None
    assert await said(programs, path) == "version: 5900\n"


@pytest.mark.parametrize("text", ["echo version: 1; exit 3", "kill -9 $$"])
async def test_a_binary_that_fails_says_nothing(tmp_path: Path, text: str) -> None:
    """CAT-8: what a binary prints before it fails is no report of its build."""
    assert await said(ProgramFiles(environment=ENV), program(tmp_path, text)) == ""


async def test_a_file_that_is_no_program_says_nothing(tmp_path: Path) -> None:
    """CAT-8: an executable file that the kernel cannot run does not say which build it is."""
    path = tmp_path / "engine"
    path.write_bytes(b"\x7fELFnone")
    path.chmod(0o755)
    assert await said(ProgramFiles(environment=ENV), path) == ""


async def test_what_is_not_there_is_not_asked(tmp_path: Path) -> None:
    """CAT-8, GATE-1: a program that is not there has no report, by path or on the PATH."""
    programs = ProgramFiles(environment=ENV)
    assert await said(programs, tmp_path / "none") is None
    assert not programs.exists("hostler-no-such-engine", {}, "/")
    program(tmp_path, "true")
    assert programs.exists("engine", {"PATH": str(tmp_path)}, "/")
    assert programs.exists("./engine", {}, str(tmp_path))
    (tmp_path / "engine").chmod(0o644)
    assert not programs.exists("./engine", {}, str(tmp_path))


def interface(root: Path, **words: str) -> SystemLinks:
    """The interface tb0 as the kernel shows it."""
    (root / "tb0").mkdir()
    for name, word in words.items():
        (root / "tb0" / name).write_text(f"{word}\n", encoding="ascii")
    return SystemLinks(root=root)


def crossing(port: int | None = None) -> Crossing:
    return Crossing(to="crow", interface="tb0", address="127.0.0.1", peer="127.0.0.1", port=port)


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ({"operstate": "up", "speed": "10000"}, LinkSeen(up=True, speed=10**10)),
        ({"operstate": "up", "speed": "-1"}, LinkSeen(up=True)),
        ({"operstate": "up"}, LinkSeen(up=True)),
        ({"operstate": "unknown", "carrier": "1"}, LinkSeen(up=True)),
        ({"operstate": "unknown", "carrier": "0"}, LinkSeen(up=False, why="the kernel says unknown")),
        ({"operstate": "down", "carrier": "1"}, LinkSeen(up=False, why="the kernel says down")),
    ],
)
async def test_a_link_is_what_the_kernel_says(tmp_path: Path, words: dict[str, str], seen: LinkSeen) -> None:
    """CAT-8: state and speed of an interface are the kernel's; a speed that it does not know is none."""
    assert await interface(tmp_path, **words).probe([crossing()]) == [seen]


async def test_an_interface_that_is_not_there_is_down(tmp_path: Path) -> None:
    """CAT-8: an interface that is not there is down, and said so."""
    assert await SystemLinks(root=tmp_path).probe([crossing()]) == [
        LinkSeen(up=False, why="there is no such interface")
    ]


async def test_the_other_end_is_reached_or_not(tmp_path: Path) -> None:
    """CAT-8: the worker's port counts as reached when it takes a connection, and not when nobody listens."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = interface(tmp_path, operstate="up")
    assert (await made.probe([crossing(port)]))[0].reached is True
    server.close()
    await server.wait_closed()
    seen = (await made.probe([crossing(port)]))[0]
    assert seen.reached is False
    assert seen.why


async def test_an_end_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-8: a peer that neither takes nor refuses the connection is given up in time."""

    async def never(*args: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    monkeypatch.setattr(asyncio, "open_connection", never)
    monkeypatch.setattr(links, "CONNECT_S", 0.01)
    (seen,) = await interface(tmp_path, operstate="up").probe([crossing(9)])
    assert (seen.reached, seen.why) == (False, "no answer within 0.01 s")
