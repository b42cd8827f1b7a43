"""Decides whether each requirement has a test and each test a requirement, and writes the table of both.

Reads docs/reference/requirements.toml (the requirements, in our words) and the docstrings of the tests, and
writes docs/reference/requirements.md. It runs no test, and does not judge whether one proves its sentence.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCE: Final = Path("docs/reference/requirements.toml")
PAGE: Final = Path("docs/reference/requirements.md")
TESTS: Final = Path("tests")

ID: Final = re.compile(
    r"\b(?:AGENT|API|CAT|CLIENT|CONF|ENG|EVICT|FEED|GATE|GW|HIST|HOLD|HOUSE|INTERFACE|JOB|LEASE|MEM|METRIC|MODE|NODE"
    r"|NOTE|PERF|PLAT|PORT|REL|SCALE|SEC|SYNC|TIME|WEB|WIN)-\d+\b|\bR[1-9]\d?\b|\bF[0-3]\d\b"
)
CASE_ID: Final = re.compile(r"\bBG-\d+\b")
"""Inputs of others have ids of their own; a test of `make cases` may name one in a requirement's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement: `later` says what of it is not built yet, empty when nothing is missing."""

    id: str
    sentence: str
    finished: bool
    later: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A heading of the table with its requirements, in order."""

    title: str
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test function and the ids that its sentence names."""

    file: str
    line: int
    name: str
    ids: tuple[str, ...]
    names_a_case: bool


def read_parts(source: Path) -> tuple[Part, ...]:
    """The parts in the file. TypeError on an unknown or missing key, ValueError on an id listed twice."""
    document = tomllib.loads(source.read_text(encoding="utf-8"))
    parts = tuple(
        Part(title=part["title"], requirements=tuple(Requirement(**row) for row in part["requirement"]))
        for part in document["part"]
    )
    ids = [requirement.id for part in parts for requirement in part.requirements]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
    if twice:
        raise ValueError(f"{source}: listed twice: {', '.join(twice)}")
    return parts


def ids_in(sentence: str) -> tuple[str, ...]:
    """The requirement ids that a text names, each once, in order; UTF-8 and SHA-256 are none."""
    return tuple(dict.fromkeys(ID.findall(sentence)))


def read_tests(root: Path) -> Iterator[Test]:
    """Every test function under the folder with what its docstring names, by file and line."""
    for path in sorted(root.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                sentence = ast.get_docstring(node) or ""
                yield Test(
                    file=path.as_posix(),
                    line=node.lineno,
                    name=node.name,
                    ids=ids_in(sentence),
                    names_a_case=bool(CASE_ID.search(sentence)),
                )


def problems(parts: Sequence[Part], tests: Sequence[Test]) -> Iterator[str]:
    """What is wrong between the requirements and the tests, one line each; nothing when all is well."""
    known = {requirement.id for part in parts for requirement in part.requirements}
    proved = {id_ for test in tests for id_ in test.ids}
    for test in tests:
        where = f"{test.file}:{test.line}"
        if not test.ids and not test.names_a_case:
            yield f"{where}: {test.name}: its docstring names no requirement"
        for id_ in test.ids:
            if id_ not in known:
                yield f"{where}: {test.name}: names {id_}, which is not in {SOURCE}"
    for part in parts:
        for requirement in part.requirements:
            if requirement.finished and requirement.id not in proved:
                yield f"{SOURCE}: {requirement.id} is finished but no test names it"


def by_requirement(tests: Sequence[Test]) -> Mapping[str, list[Test]]:
    """The tests that name each id, in order of file and line."""
    table: defaultdict[str, list[Test]] = defaultdict(list)
    for test in sorted(tests, key=lambda each: (each.file, each.line)):
        for id_ in test.ids:
            table[id_].append(test)
    return table


def cell_of(tests: Sequence[Test]) -> str:
    """One table cell: each file once, followed by its tests; a dash when there is none."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[test.file].append(f"`{test.name}`")
    return "<br>".join(f"[{file}](../../{file}): {', '.join(names)}" for file, names in files.items()) or "-"


def row_of(requirement: Requirement, tests: Sequence[Test]) -> str:
    """One line of the table."""
    missing = requirement.later or ("" if requirement.finished else "Being built.")
    return f"| {requirement.id} | {requirement.sentence} | {missing or '-'} | {cell_of(tests)} |"


def render(parts: Sequence[Part], tests: Sequence[Test]) -> str:
    """The page as text."""
    table = by_requirement(tests)
    lines = [
        "<!-- Generated by `make docs` from requirements.toml and the tests. Do not edit. -->",
        "",
        "# Requirements and the tests that prove them",
        "",
        "Each requirement that this version builds, in one sentence; what of it comes later; and the tests",
        "whose sentence names it.",
    ]
    for part in parts:
        lines += ["", f"## {part.title}", "", "| id | what holds | not yet | tests |", "|---|---|---|---|"]
        lines += [row_of(requirement, table.get(requirement.id, [])) for requirement in part.requirements]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or with --check compare it; 1 and one line per problem when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.requirements_table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    options = parser.parse_args(arguments)
    root: Path = options.root
    parts = read_parts(root / SOURCE)
    tests = [relative_to(root, test) for test in read_tests(root / TESTS)]
    found = list(problems(parts, tests))
    page, text = root / PAGE, render(parts, tests)
    if not options.check:
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        found.append(f"{PAGE}: stale; run `make docs`")
    for problem in found:
        print(problem)
    count = sum(len(part.requirements) for part in parts)
    print(f"requirements: {count} listed, {len(tests)} tests, {len(found)} problems")
    return 1 if found else 0


def relative_to(root: Path, test: Test) -> Test:
    """The same test with its file named from the project's folder."""
    file = Path(test.file).relative_to(root).as_posix()
    return Test(file=file, line=test.line, name=test.name, ids=test.ids, names_a_case=test.names_a_case)


if __name__ == "__main__":
    sys.exit(main())
