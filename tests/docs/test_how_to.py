import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.tree import ROOT

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
OTHERS = '{"owner": "bob", "expires_at": "2999-01-01T00:00:00Z"}'
LAPSED = '{"owner": "bob", "expires_at": "2020-01-01T00:00:00Z"}'
STATUS = (sys.executable, "-m", "hostler", "box", "status", "--json")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def call(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the system's programs, no home but the folder, and `env`."""
    environment = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), **env}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


SEVERAL = ROOT / "docs" / "how-to" / "several-hosts.md"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != SEVERAL and blocks(page, "yaml")], ids=lambda page: page.stem
)
def test_configs_pass_the_check(page: Path, tmp_path: Path) -> None:
    """HOUSE-6: each config of a how-to passes `hostler config check` without a warning."""
    for text in blocks(page, "yaml"):
        path = tmp_path / "hostler.yaml"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        found = call([sys.executable, "-m", "hostler", "config", "check", str(path)], tmp_path)
        assert (found.returncode, found.stderr) == (0, ""), found.stdout
        assert " 0 warnings." in found.stdout


@pytest.mark.parametrize("host", ["crow", "raven"])
def test_the_config_of_several_hosts_is_right_on_each(tmp_path: Path, host: str) -> None:
    """HOUSE-6, CONF-6: the file of the how-to on several hosts passes the check on each of them, as it is.

    With the engines of its second block as well (ENG-11).
    """
    text, engines = blocks(SEVERAL, "yaml")
    text = text.replace("\nengines:\n", f"\nengines:\n{engines}")
    assert "driver: distributed" in text
    for name in re.findall(r"/etc/hostler/([\w./-]+)", text):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"hk_{file.stem}_0123456789\n", encoding="utf-8")
        file.chmod(0o600)
    path = tmp_path / "hostler.yaml"
    path.write_text(text.replace("/etc/hostler", str(tmp_path)), encoding="utf-8")
    path.chmod(0o600)
    check = [sys.executable, "-m", "hostler", "config", "check", str(path)]
    found = call(check, tmp_path, HOSTLER_HOST=host)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    assert " 0 warnings." in found.stdout


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    """The shell script of the how-to on holds, as a command in the test's folder."""
    if shutil.which("flock", path=os.defpath) is None:
        pytest.skip("the script needs flock")
    (text,) = blocks(ROOT / "docs" / "how-to" / "hold-a-box.md", "sh")
    path = tmp_path / "held.sh"
    path.write_text(text, encoding="utf-8")
    return ["sh", str(path)]


@pytest.mark.parametrize("before", ["", LAPSED])
def test_the_script_holds_while_its_command_runs(script: list[str], tmp_path: Path, before: str) -> None:
    """HOLD-1, HOLD-3: the script's record is a hold where the gate reads, over a lapsed one too, and goes."""
    hold, other = tmp_path / "hold.json", tmp_path / "other.json"
    if before:
        hold.write_text(before, encoding="utf-8")
        hold.chmod(0o600)
    names = {"HOSTLER_BOX_RESERVATION_PATH": str(hold), "CROW_BOX_RESERVATION_PATH": str(other)}
    found = call([*script, *STATUS], tmp_path, **names)
    shown = json.loads(found.stdout)
    assert (found.returncode, shown["held"], shown["unreadable"], shown["path"]) == (0, True, None, str(hold))
    assert shown["record"]["owner"].startswith("q8-sweep-")
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["hold.json.lock"]


def test_the_script_leaves_anothers_hold_alone(script: list[str], tmp_path: Path) -> None:
    """HOLD-9: under another's live hold the script runs nothing, changes nothing and ends with 75."""
    hold = tmp_path / "hold.json"
    hold.write_text(OTHERS, encoding="utf-8")
    found = call([*script, "touch", "ran"], tmp_path, HOSTLER_BOX_RESERVATION_PATH=str(hold))
    assert (found.returncode, OTHERS in found.stderr) == (75, True)
    assert hold.read_text(encoding="utf-8") == OTHERS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.sh", "hold.json", "hold.json.lock"]


def test_the_script_gives_its_commands_exit_code(script: list[str], tmp_path: Path) -> None:
    """HOLD-10: the script ends with its command's exit code, and its hold is gone then."""
    hold = tmp_path / "hold.json"
    assert (
        call([*script, "sh", "-c", "exit 3"], tmp_path, HOSTLER_BOX_RESERVATION_PATH=str(hold)).returncode
        == 3
    )
    assert not hold.exists()
