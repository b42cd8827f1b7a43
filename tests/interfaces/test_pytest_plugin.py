import os
import subprocess
import sys
import tomllib
from pathlib import Path

from hostler.domain.lease import State
from tests.docs.tree import ROOT
from tests.fakes.head import Head

GOOD = """
import pytest

@pytest.mark.hostler("pair", ttl="30m", reason="bench")
def test_leased(hostler_lease):
    hostler_lease.check()
    assert hostler_lease.resource == "pair"
"""
FAILS = GOOD + "    raise RuntimeError('mine')\n"
UNMARKED = """
def test_leased(hostler_lease):
    pass
"""


def run(head: Head, folder: Path, text: str) -> tuple[int, str]:
    """What pytest says of a file of tests, where the plugin is loaded by name."""
    (folder / "test_it.py").write_text(text)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HOSTLER_HEAD_URL": head.url,
        "HOSTLER_STATE_DIR": str(folder / "state"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "hostler.pytest_plugin", "--strict-markers", "."]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_test_has_its_lease(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: a test with the marker runs under an active lease, which is released after it."""
    assert run(head, tmp_path, GOOD)[0] == 0
    (view,) = head.of(State.RELEASED)
    assert (view.resource, view.ttl_s, view.reason) == ("pair", 1800, "bench")


def test_a_test_that_fails_gives_its_lease_back(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: a test that fails gives its lease back as well."""
    code, out = run(head, tmp_path, FAILS)
    assert code == 1
    assert "RuntimeError: mine" in out
    assert len(head.of(State.RELEASED)) == 1


def test_a_test_without_a_lease_does_not_run(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: a test whose lease cannot be had, or that names none, does not run, with the reason."""
    head.leases.taken("pair", "bob")
    code, out = run(head, tmp_path, GOOD)
    assert (code, "bob" in out, "1 error" in out) == (1, True, True)
    code, out = run(head, tmp_path, UNMARKED)
    assert code != 0
    assert 'needs @pytest.mark.hostler("RESOURCE"' in out


def test_the_plugin_is_found_by_pytest() -> None:
    """CLIENT-1: the package tells pytest of its plugin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"hostler": "hostler.pytest_plugin"}
