import re
import tomllib
from pathlib import Path

import pytest

from hostler.adapters.config.build import LATER
from hostler.adapters.config.schema.document import json_schema
from hostler.domain.events import TYPES
from hostler.gateway import paths
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.interfaces.cli.main import COMMANDS
from hostler.wire.told import KNOWN
from tests.docs.tree import ROOT, texts
from tools import generate_docs
from tools.pages import commands, config, endpoints, events, refusals

DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)|!\[[^\]]*\]\(([^)\s]+)\)")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def local_links(page: Path, text: str) -> list[Path]:
    """The files that a page links to, less those on other machines and those in code blocks."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    targets = (match[1] or match[3] for match in LINK.finditer(prose))
    return [(page.parent / target).resolve() for target in targets if target and "://" not in target]


def dead_links(pages: dict[Path, str]) -> list[str]:
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page, text in pages.items()
        for target in local_links(page, text)
        if not target.exists()
    ]


def test_no_link_is_dead() -> None:
    """HOUSE-6: every link of a document to a file of the project leads to one."""
    assert dead_links(texts(".md")) == []


def test_a_dead_link_would_be_found() -> None:
    """HOUSE-6: the search finds a link and a picture that lead nowhere, and passes over code."""
    planted = {ROOT / "a.md": "[x](none.md) ![y](none.svg) `[z](no.md)` [w](https://example.net/)"}
    assert len(dead_links(planted)) == 2


def test_every_page_is_reached_from_the_index() -> None:
    """HOUSE-6: whoever starts at docs/index.md and follows links comes to every page."""
    pages = {path: text for path, text in texts(".md").items() if DOCS in path.parents}
    seen: set[Path] = set()
    ahead = [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in pages and page not in seen:
            seen.add(page)
            ahead += local_links(page, pages[page])
    assert sorted(set(pages) - seen) == []


def test_generated_pages_are_current() -> None:
    """HOUSE-6: each page that is made from the code says what the code says."""
    assert generate_docs.main(["--check", "--root", str(ROOT)]) == 0


def test_a_stale_page_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HOUSE-6: a generated page that is missing or was edited by hand fails the check by its name."""
    (tmp_path / generate_docs.REFERENCE).mkdir(parents=True)
    root = ["--root", str(tmp_path)]
    assert generate_docs.main(["--check", *root]) == 1
    assert generate_docs.main(root) == 0
    assert generate_docs.main(["--check", *root]) == 0
    page = tmp_path / generate_docs.REFERENCE / "states.md"
    page.write_text(page.read_text(encoding="utf-8") + "and more\n", encoding="utf-8")
    capsys.readouterr()
    assert generate_docs.main(["--check", *root]) == 1
    assert "states.md: stale" in capsys.readouterr().out


def named_in(schema: object) -> set[str]:
    """The names of all keys that a JSON Schema describes."""
    if isinstance(schema, list):
        return set().union(*map(named_in, schema))
    if not isinstance(schema, dict):
        return set()
    below = set().union(*map(named_in, schema.values()))
    properties = schema.get("properties")
    return below | (set(properties) if isinstance(properties, dict) else set())


def test_every_config_key_is_documented() -> None:
    """HOUSE-6: each key that the config's reader knows stands on its page, with a sentence."""
    page = config.render()
    keys = {name for name in named_in(json_schema()) if not re.fullmatch(r"gpu[1-9]", name)}
    assert len(keys) > 100
    assert [name for name in sorted(keys) if not re.search(rf"(\.|## ){re.escape(name)}\b", page)] == []
    assert [line for line in page.splitlines() if line.endswith("| - |")] == []


def test_every_refusal_and_event_is_documented() -> None:
    """HOUSE-6: each code that a caller may be told, and each type of event, stands on its page."""
    told, happened = refusals.render(), events.render()
    assert len(KNOWN) > 30
    assert [code for code in KNOWN if f"| `{code}` |" not in told] == []
    assert [name for name in TYPES if f"| `{name}` |" not in happened] == []


def test_every_endpoint_is_documented() -> None:
    """HOUSE-6: each call of the control API, and each path of the gateway, stands on its page."""
    page = endpoints.render()
    calls = [f"`{each.method} {each.path.replace(':path', '')}`" for each in ENDPOINTS]
    assert len(calls) > 15
    assert [call for call in calls if call not in page] == []
    assert [path for path in vars(paths)["_INFERENCE"] if f"`POST {path}`" not in page] == []
    for method, path, _ in endpoints.INFERENCE:
        tried = re.sub(r"\{\w+\}", "fast", path).replace("…", "models").encode()
        assert paths.classify(method.replace("any", "GET"), tried, b"") is not None, path


def test_every_command_is_documented_with_an_example() -> None:
    """HOUSE-6: each command stands on its page as its help prints it, and shows an example of its own."""
    page = commands.render()
    sections = {part.split("\n", 1)[0]: part for part in page.split("\n## hostler ")[1:]}
    assert {command.name for command in COMMANDS} <= set(sections)
    leaves = [name for name in sections if not any(other.startswith(f"{name} ") for other in sections)]
    assert len(leaves) > 20
    assert [name for name in leaves if f"hostler {name}" not in sections[name].split("Example", 1)[-1]] == []


def test_every_exit_code_is_documented() -> None:
    """INTERFACE-4: every exit code of this version stands in the table of exit codes."""
    codes = [0, 2, 65, 66, 69, 70, 71, 73, 74, 75, 76, 77, 78, 124, 130, 141, 143]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", commands.exit_codes(), re.MULTILINE)] == codes


def test_config_keys_without_effect_say_so() -> None:
    """HOUSE-6: each key at the top of the file whose part is not built yet says so, and comes last."""
    sections = config.render().split("\n## ")[1:]
    names = [part.split("\n", 1)[0] for part in sections]
    assert names[-len(config.LATER) :] == list(config.LATER)
    assert [name for name, part in zip(names, sections, strict=True) if config.NOT_BUILT in part] == list(
        config.LATER
    )
    assert set(config.LATER) <= set(LATER)


def test_what_never_ran_on_the_real_thing_is_said() -> None:
    """PLAT-1: each module that says it never ran on the real thing is on the page of platforms."""
    page = (DOCS / "reference" / "platforms.md").read_text(encoding="utf-8")
    source = ROOT / "src"
    untried = [
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path, text in texts(".py").items()
        if source in path.parents and "never ran on the real thing" in text.lower()
    ]
    assert untried
    assert [module for module in untried if f"`{module}`" not in page] == []
    assert "| Windows | no |" in page


def test_the_package_claims_no_platform_that_is_not_supported() -> None:
    """PLAT-1: the package says that it is for Linux and macOS, and does not say Windows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = {line.rsplit(" :: ", 1)[1] for line in project["classifiers"] if "Operating System" in line}
    assert systems == {"Linux", "MacOS"}


def test_decisions_are_numbered_listed_and_short() -> None:
    """HOUSE-6: decisions have consecutive numbers, the four headings, and at most a page."""
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    listed = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Rejected", "Consequences"], page.name
        assert len(text.split()) < 450, page.name
        assert f"({page.name})" in listed


def test_the_readme_is_a_page_and_its_targets_exist() -> None:
    """HOUSE-6: the README fits a page and names no make target that the Makefile lacks."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    assert len(readme.split()) < 600
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
    assert {"install", "check", "bench", "cases", "docs", "lock", "clean"} <= targets
