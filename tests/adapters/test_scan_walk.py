from pathlib import Path

import pytest

from hostler.adapters.scan.walk import FORMS, kind_of, scan
from hostler.domain.errors import NotFound


def put(folder: Path, **files: str) -> None:
    """Files by name, `__` for a slash and `_` for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


COMPOSE = 'services: {web: {ports: ["8080:80"]}}\n'
SCRIPT = "serve --port 8081\n"
UNIT = "[Socket]\nListenStream=8082\n"


def test_kinds_of_files(tmp_path: Path) -> None:
    """PORT-2: compose files, scripts, units and drop-ins are known by name, scripts also by first line."""
    put(tmp_path, up="#!/usr/bin/env bash\n", py="#!/usr/bin/python3\n", plain="text\n")
    kinds = {
        "compose.yaml": "compose",
        "docker-compose.yml": "compose",
        "docker-compose.prod.yml": "compose",
        "caddy.docker-compose.yml": "compose",
        "podman-compose.yaml": "compose",
        "composer.yaml": None,
        "other.yaml": None,
        "a.sh": "script",
        "a.bash": "script",
        "a.service": "unit",
        "a.socket": "unit",
        "a.service.d/x.conf": "unit",
        "nginx.d/x.conf": None,
        "up": "script",
        "py": None,
        "plain": None,
        "gone": None,
    }
    assert {name: kind_of(tmp_path / name) for name in kinds} == kinds


def test_a_folder_is_read(tmp_path: Path) -> None:
    """PORT-4: what was read, as what, and what was skipped and why, is all told."""
    put(
        tmp_path,
        a__compose_yaml=COMPOSE,
        a__compose_override_yaml='services: {web: {ports: ["8090:90"]}}\n',
        b__up_sh=SCRIPT,
        c__web_socket=UNIT,
        c__one_py="PORT = 1",
        c__two_py="PORT = 1",
        c__README="x",
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = scan([str(tmp_path)], {})
    assert sorted(it.port or 0 for it in found.findings) == [8080, 8081, 8082, 8090]
    assert {(Path(it.path).name, it.kind) for it in found.read} == {
        ("compose.yaml", "compose"),
        ("compose.override.yaml", "compose"),
        ("up.sh", "script"),
        ("web.socket", "unit"),
    }
    assert {(it.what, it.why, it.count) for it in found.skipped} == {
        ("*.py", "not a kind that is read", 2),
        ("files without an ending", "not a kind that is read", 1),
        (".git/", "not ours to read", 1),
        ("link/", "a link", 1),
    }
    assert found.forms == FORMS


def test_one_file_and_none(tmp_path: Path) -> None:
    """PORT-2: a file may be named by itself; what is not there is refused."""
    put(tmp_path, up_sh=SCRIPT)
    assert [it.port for it in scan([str(tmp_path / "up.sh")], {}).findings] == [8081]
    with pytest.raises(NotFound, match="There is no folder 'nowhere' here"):
        scan(["nowhere"], {})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """PORT-4: a script that is no text is a finding, as one that cannot be parsed is."""
    (tmp_path / "up.sh").write_bytes(b"\xff\xfe")
    put(tmp_path, compose_yaml="a: [")
    told = {Path(it.file).name: it.message for it in scan([str(tmp_path)], {}).troubles}
    assert told["up.sh"] == "cannot be read: not UTF-8"
    assert told["compose.yaml"].startswith("cannot be parsed: no YAML")


def test_nothing_is_executed(tmp_path: Path) -> None:
    """PORT-2: a script that would leave a trace leaves none: only its text is read."""
    trace = tmp_path / "trace"
    put(tmp_path, up_sh=f'#!/bin/sh\ntouch {trace}\nserve --port "$(touch {trace}; echo 8080)"\n')
    (tmp_path / "up.sh").chmod(0o755)
    scan([str(tmp_path)], {})
    assert not trace.exists()


def test_a_file_that_two_projects_have(tmp_path: Path) -> None:
    """PORT-3: a compose file that another includes is the same thing, read by itself or through it."""
    put(tmp_path, compose_yaml="include: [db/compose.yaml]\n", db__compose_yaml=COMPOSE)
    assert {it.thing for it in scan([str(tmp_path)], {}).findings} == {f"compose {tmp_path / 'db'} web"}


def test_a_name_that_would_move_a_cursor(tmp_path: Path) -> None:
    """PORT-4, HOLD-8: what was skipped is told without characters that move a cursor."""
    (tmp_path / "a.\x1b[2J").write_text("x")
    (skipped,) = scan([str(tmp_path)], {}).skipped
    assert skipped.what == "*.\\x1b[2J"
