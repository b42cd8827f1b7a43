import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.tree import ROOT

PACKAGE = ROOT / "src" / "hostler"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

LAYERS = "Layers"
DOMAIN = "The domain is pure"
SERVICES = "Services reach the world through needs"
ALONE = "Supervisor and deadman need the standard library only"

BREAKS = [
    (LAYERS, "domain/offence.py", "import hostler.wire"),
    (LAYERS, "domain/offence.py", "from hostler.services import needs"),
    (LAYERS, "wire/offence.py", "from hostler.services import needs"),
    (LAYERS, "services/offence.py", "import hostler.adapters"),
    (LAYERS, "services/offence.py", "import hostler.client"),
    (LAYERS, "client/offence.py", "import hostler.services"),
    (LAYERS, "interfaces/offence.py", "import hostler.adapters"),
    (LAYERS, "gateway/offence.py", "import hostler.interfaces"),
    (LAYERS, "adapters/offence.py", "import hostler.gateway"),
    (LAYERS, "daemon.py", "import hostler.bootstrap"),
    (LAYERS, "bootstrap/offence.py", "import hostler.__main__"),
    (LAYERS, "supervisor.py", "import hostler.domain"),
    (LAYERS, "deadman/offence.py", "import hostler.domain"),
    (LAYERS, "deadman/offence.py", "import hostler.supervisor"),
    (LAYERS, "unlisted.py", "answer = 42"),
    (DOMAIN, "domain/offence.py", "import time"),
    (DOMAIN, "domain/offence.py", "import asyncio"),
    (DOMAIN, "domain/offence.py", "import msgspec"),
    (SERVICES, "services/offence.py", "import sqlite3"),
    (SERVICES, "services/offence.py", "import starlette"),
    (ALONE, "supervisor.py", "import msgspec"),
    (ALONE, "deadman/offence.py", "import msgspec"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package with the project's contracts, to be broken."""
    package = tmp_path / "hostler"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", LINT, "--no-cache"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def contracts() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]]


def imports_of(path: Path) -> set[str]:
    """The top names of the modules that a file imports, and for ours the first two."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {".".join(name.split(".")[: 2 if name.startswith("hostler") else 1]) for name in found}


def test_the_package_keeps_its_contracts(copy: Path) -> None:
    """HOUSE-1: the package as it stands keeps every contract."""
    result = lint(copy)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(("contract", "file", "line"), BREAKS)
def test_a_broken_contract_fails_by_name(copy: Path, contract: str, file: str, line: str) -> None:
    """HOUSE-1: an import against a contract, or a package without a layer, fails the check by its name."""
    with (copy / "hostler" / file).open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")
    result = lint(copy)
    assert result.returncode == 1, result.stdout
    broken = [row for row in result.stdout.splitlines() if row.endswith("BROKEN")]
    assert f"{contract} BROKEN" in broken, result.stdout


def test_every_contract_is_broken_once() -> None:
    """HOUSE-1: each contract in pyproject.toml is among those that are seen to fail."""
    assert set(contracts()) == {contract for contract, _, _ in BREAKS}


def test_the_domain_imports_no_package_of_others() -> None:
    """HOUSE-1: the domain imports itself and the standard library, whatever is installed beside it."""
    files = sorted((PACKAGE / "domain").rglob("*.py"))
    assert files
    foreign = {
        f"{path.name}: {name}"
        for path in files
        for name in imports_of(path)
        if name != "hostler.domain" and name not in sys.stdlib_module_names
    }
    assert foreign == set()


@pytest.mark.parametrize("name", ["supervisor", "deadman"])
def test_a_process_of_its_own_needs_the_standard_library_only(name: str) -> None:
    """HOUSE-1: what must run when the package is broken or gone imports the standard library alone."""
    files = [*PACKAGE.glob(f"{name}.py"), *PACKAGE.glob(f"{name}/*.py")]
    assert files
    imported = {it for path in files for it in imports_of(path)}
    assert imported <= {*sys.stdlib_module_names, f"hostler.{name}"}
