import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.tree import ROOT, hits, texts
from tools import requirements_table, sizes

LOCKS = ("requirements/runtime.txt", "requirements/dev.txt")

# Written so that this file does not match itself.
PLACES = re.compile(
    r"/[w]ork/|/[f]arm/|/[r]oot/|/tmp/[b]ash_jobs|\.[l]ibrary\b|/opt/[p]ypi|/opt/[w]heels"
    r"|[p]ythonhosted|[p]ypi\.org|registry\.[n]pmjs|deb\.[d]ebian|files\.[p]ython"
)

REQUIREMENTS = """
[[part]]
title = "Holds"
[[part.requirement]]
id = "HOLD-4"
sentence = "What cannot be read is held."
finished = true
"""


def project(folder: Path, test: str) -> Path:
    """A folder with one requirement, HOLD-4, and one test file."""
    for name in (requirements_table.SOURCE.parent, requirements_table.TESTS):
        (folder / name).mkdir(parents=True)
    (folder / requirements_table.SOURCE).write_text(REQUIREMENTS, encoding="utf-8")
    (folder / requirements_table.TESTS / "test_hold.py").write_text(test, encoding="utf-8")
    return folder


def test_a_module_over_its_limit_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HOUSE-2: a module of 401 lines fails the check by file and line; one of 400 passes."""
    path = tmp_path / "grown.py"
    path.write_text("x = 1\n" * 400, encoding="utf-8")
    assert sizes.main([str(tmp_path)]) == 0
    path.write_text("x = 1\n" * 401, encoding="utf-8")
    assert sizes.main([str(tmp_path)]) == 1
    assert f"{path}:1: module of 401 lines" in capsys.readouterr().out


def test_a_function_over_its_limit_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HOUSE-2: a function of 61 lines, nested and async or not, fails the check; one of 60 passes."""
    path = tmp_path / "grown.py"
    source = "class Keeper:\n    async def tick(self):\n" + "        x = 1\n" * 59
    path.write_text(source, encoding="utf-8")
    assert sizes.main([str(path)]) == 0
    path.write_text(source + "        x = 1\n", encoding="utf-8")
    assert sizes.main([str(path)]) == 1
    assert f"{path}:2: function tick of 61 lines" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(sizes.EMPTY_NAMES))
def test_a_module_name_without_meaning_is_found(tmp_path: Path, name: str) -> None:
    """HOUSE-2: a module named for nothing fails the check."""
    (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    assert sizes.main([str(tmp_path)]) == 1


def test_no_file_at_all_is_not_all_well(tmp_path: Path) -> None:
    """HOUSE-2: a check that found no file to look at says so and does not pass."""
    assert sizes.main([str(tmp_path)]) == 2


def test_the_table_lists_each_test_that_names_a_requirement(tmp_path: Path) -> None:
    """HOUSE-3: the page names a test beside the requirement that its sentence names, and is current."""
    root = project(tmp_path, 'def test_torn():\n    """HOLD-4: a torn record is held."""\n')
    assert requirements_table.main(["--root", str(root)]) == 0
    page = (root / requirements_table.PAGE).read_text(encoding="utf-8")
    assert "| HOLD-4 | What cannot be read is held." in page
    assert "`test_torn`" in page
    assert requirements_table.main(["--root", str(root), "--check"]) == 0


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ('def test_none():\n    """No id."""\n', "names no requirement"),
        ("def test_none(): ...\n", "names no requirement"),
        ('async def test_odd():\n    """HOLD-4 and HOLD-99: odd."""\n', "names HOLD-99, which is not in"),
        ('def test_utf():\n    """UTF-8 and SHA-256 are no requirements."""\n', "names no requirement"),
        ("", "HOLD-4 is finished but no test names it"),
    ],
)
def test_a_requirement_and_its_tests_must_meet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, problem: str
) -> None:
    """HOUSE-3: a finished requirement without a test, and a test without a known one, fail the check."""
    root = project(tmp_path, test)
    assert requirements_table.main(["--root", str(root), "--check"]) == 1
    assert problem in capsys.readouterr().out


def test_a_stale_table_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HOUSE-3: a table that was written before a test was added is stale."""
    first = 'def test_torn():\n    """HOLD-4: a torn record is held."""\n'
    root = project(tmp_path, first)
    requirements_table.main(["--root", str(root)])
    second = first + '\n\ndef test_empty():\n    """HOLD-4: an empty record is held."""\n'
    (root / requirements_table.TESTS / "test_hold.py").write_text(second, encoding="utf-8")
    assert requirements_table.main(["--root", str(root), "--check"]) == 1
    assert "stale" in capsys.readouterr().out


def test_an_id_listed_twice_is_refused(tmp_path: Path) -> None:
    """HOUSE-3: a requirement stands in the list once."""
    root = project(tmp_path, "")
    (root / requirements_table.SOURCE).write_text(REQUIREMENTS * 2, encoding="utf-8")
    with pytest.raises(ValueError, match="HOLD-4"):
        requirements_table.main(["--root", str(root)])


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_hashes_and_no_address(name: str) -> None:
    """HOUSE-4: each locked package has an exact version and hashes, and no line names where it is fetched."""
    text = (ROOT / name).read_text(encoding="utf-8")
    packages = [line for line in text.splitlines() if re.match(r"[a-z]", line)]
    assert packages
    assert [line for line in packages if not re.match(r"[a-z0-9.-]+==\S+ (;.* )?\\$", line)] == []
    assert text.count("\n    --hash=sha256:") >= len(packages)
    assert re.findall(r"://|^-.*", text, re.MULTILINE) == []


def test_nothing_kept_names_a_machine_or_a_registry() -> None:
    """HOUSE-4: no kept file names a path of the machine it was written on, or a registry's address."""
    assert hits(PLACES, texts()) == []


def test_a_named_place_would_be_found() -> None:
    """HOUSE-4: the search for places finds one when there is one."""
    planted = {ROOT / "README.md": "see /wo" + "rk/main\n", ROOT / "x": "https://py" + "pi.org/simple"}
    assert len(hits(PLACES, planted)) == 2


def test_without_a_python_there_is_one_clear_error(tmp_path: Path) -> None:
    """HOUSE-4: where no fitting Python is on the PATH, making the environment says so in one line."""
    script = ROOT / "tools" / "find-python.sh"
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHON": ""}
    result = subprocess.run(
        ["/bin/sh", str(script)], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.fullmatch(r"hostler: no Python 3\.11 or newer on the PATH.*\n", result.stderr)


def test_a_python_without_venv_is_told_apart(tmp_path: Path) -> None:
    """HOUSE-4: a Python that lacks venv is named, with the package that brings it."""
    python = tmp_path / "python3.11"
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n', encoding="utf-8")
    python.chmod(0o755)
    script = ROOT / "tools" / "find-python.sh"
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHON": ""}
    result = subprocess.run(
        ["/bin/sh", str(script)], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert result.returncode == 1
    assert "apt-get install python3.11-venv" in result.stderr
