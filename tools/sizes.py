"""Decides whether a module or a function has grown past what a reader takes in at once, and whether a
module's name says nothing. It does not judge anything else about the code.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 60
EMPTY_NAMES: Final = frozenset({"utils", "util", "common", "helpers", "helper", "manager", "misc"})


def findings(path: Path) -> Iterator[str]:
    """What is too big or says nothing in one Python file, each as `file:line: what`."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if path.stem in EMPTY_NAMES:
        yield f"{path}:1: a module named {path.stem!r} says nothing about what it decides"
    if lines > MODULE_LINES:
        yield f"{path}:1: module of {lines} lines, {MODULE_LINES} at most"
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: function {node.name} of {size} lines, {FUNCTION_LINES} at most"


def python_files(roots: list[Path]) -> list[Path]:
    """The Python files under the given folders, and the given files themselves, sorted."""
    found = {path for root in roots for path in ([root] if root.is_file() else root.rglob("*.py"))}
    return sorted(found)


def main(arguments: list[str] | None = None) -> int:
    """Print every finding and return 1 if there was one; 2 when there was nothing to look at."""
    parser = argparse.ArgumentParser(prog="python -m tools.sizes", description=__doc__)
    parser.add_argument("roots", nargs="+", type=Path, metavar="FOLDER_OR_FILE")
    files = python_files(parser.parse_args(arguments).roots)
    if not files:
        print("sizes: no Python file there", file=sys.stderr)
        return 2
    found = [finding for path in files for finding in findings(path)]
    for finding in found:
        print(finding)
    print(f"sizes: {len(files)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
