"""The project's own files as these tests read them: what is kept, not what was installed or cached."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_OURS = frozenset({".git", ".venv", "__pycache__", "build", "dist", "htmlcov"})


def _walk(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.iterdir()):
        if path.name in NOT_OURS or path.name.endswith("_cache") or path.name == ".hypothesis":
            continue
        found += _walk(path) if path.is_dir() else [path]
    return found


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is kept, or would be at the next commit, absolute and sorted."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        paths = (ROOT / name for name in listed.split("\0") if name)
        return tuple(sorted(path for path in paths if path.is_file()))
    return tuple(_walk(ROOT))


def texts(*suffixes: str) -> dict[Path, str]:
    """The kept files with one of the suffixes (all text files without any) and their text."""
    found = {}
    for path in project_files():
        if not suffixes or path.suffix in suffixes:
            try:
                found[path] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


def hits(pattern: re.Pattern[str], files: dict[Path, str]) -> list[str]:
    """Where a pattern is found, each as `file:line: what was found`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in [pattern.search(line)]
        if match
    ]
