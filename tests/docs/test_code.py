import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.tree import ROOT, hits, texts

SOURCE = ROOT / "src"

# Beside Protocols, enumerations and exceptions: what a library asks for, at the edge.
EDGE = frozenset(
    {
        "BaseModel",
        "RootModel",
        "Struct",
        "NamedTuple",
        "TypedDict",
        "Generic",
        "NodeVisitor",
        "GenerateJsonSchema",
        "Handler",
        "Formatter",
        "SSLObject",
    }
)
ROOTS = re.compile(r"(Protocol|Enum|Flag|Exception|Error)$")
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MUTATORS = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "update",
    }
)
EXEMPTION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:)")
REASONED = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[a-z-]+(, ?[a-z-]+)*\]) +(# |- )?[A-Za-z`].{7,}"
)
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X|NotImplement[e]dError)")


class Known(NamedTuple):
    """A class of ours: the last names of its bases, and whether it does anything."""

    bases: tuple[str, ...]
    behaves: bool


def classes(files: dict[Path, str]) -> dict[str, Known]:
    """Each class of the files by name."""
    found: dict[str, Known] = {}
    for text in files.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
                found[node.name] = Known(
                    bases=tuple(ast.unparse(base).rsplit(".", 1)[-1] for base in bases),
                    behaves=any(
                        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body
                    ),
                )
    return found


def stray(known: dict[str, Known]) -> list[str]:
    """Classes that inherit behaviour that does not come from a permitted root.

    A class of fields alone may be extended: that is a record with more fields.
    """

    def permitted(name: str, seen: frozenset[str] = frozenset()) -> bool:
        if name in EDGE or ROOTS.search(name):
            return True
        ours = known.get(name)
        if ours is None or name in seen or (ours.behaves and not ours.bases):
            return False
        return all(permitted(base, seen | {name}) for base in ours.bases)

    return [f"{name}({base})" for name, ours in known.items() for base in ours.bases if not permitted(base)]


def module_names(tree: ast.Module) -> Iterator[str]:
    """The names that a module's body gives to something that can change."""
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(value, MUTABLE) and isinstance(target, ast.Name):
            yield target.id


def written(node: ast.AST) -> ast.expr | None:
    """What a piece of code writes into: `x` of `x[k] = v`, `del x[k]`, `x += y`, `x.append(v)`."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return value
        case ast.AugAssign(target=target):
            return target
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in MUTATORS:
            return value
    return None


def module_state(files: dict[Path, str]) -> list[str]:
    """Where something that a module's body holds is written to, in that module or in another."""
    trees = {path: ast.parse(text) for path, text in files.items()}
    names = {name for tree in trees.values() for name in module_names(tree)}
    return [
        f"{path.name}:{target.lineno}: {ast.unparse(target)} is written"
        for path, tree in trees.items()
        for target in map(written, ast.walk(tree))
        if target is not None and ast.unparse(target).rsplit(".", 1)[-1] in names
    ]


def sources() -> dict[Path, str]:
    return {path: text for path, text in texts(".py").items() if SOURCE in path.parents}


def test_inheritance_is_for_protocols_enumerations_and_exceptions() -> None:
    """HOUSE-7: no class of ours inherits behaviour from another of ours."""
    assert stray(classes(sources())) == []


def test_stray_inheritance_would_be_found() -> None:
    """HOUSE-7: a class on top of one that does something is found, however far down; records are not."""
    text = "class A:\n def f(self): ...\nclass B(A): ...\nclass C(B): ...\nclass D(Exception): ..."
    fields = "\nclass E:\n x: int\nclass F(E): ...\nclass G(Unheard): ..."
    assert stray(classes({ROOT / "a.py": text + fields})) == ["B(A)", "C(B)", "G(Unheard)"]


def test_no_module_keeps_state() -> None:
    """HOUSE-7: nothing writes into a list, dict or set that a module's body holds."""
    assert module_state(sources()) == []


@pytest.mark.parametrize("line", ["A[1] = 2", "del A[1]", "A |= {}", "a.A.update({})", "A.setdefault(1, 2)"])
def test_module_state_would_be_found(line: str) -> None:
    """HOUSE-7: a write into a module's dict is found, from another module too; a local one's is not."""
    text = f"A = {{}}\ndef f():\n    b = {{}}\n    b[1] = 2\n    print(A[1])\n    {line}\n"
    assert len(module_state({Path("a.py"): text})) == 1


def unreasoned(files: dict[Path, str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if EXEMPTION.search(line) and not REASONED.search(line)
    ]


def test_an_exemption_from_a_check_says_which_and_why() -> None:
    """HOUSE-7: where a check is silenced, its code and the reason stand on the line."""
    assert unreasoned(texts(".py")) == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x = 1  # no" + "qa", 1),
        ("x = 1  # no" + "qa: S104", 1),
        ("x = 1  # no" + "qa: S104 - bound for the test of the refusal", 0),
        ("x = 1  # type: ig" + "nore[arg-type]", 1),
        ("x = 1  # type: ig" + "nore[arg-type]  # the stub is wrong about bytes", 0),
        ("x = 1  # pra" + "gma: no cover", 1),
    ],
)
def test_an_exemption_without_reason_would_be_found(line: str, count: int) -> None:
    """HOUSE-7: a silenced check without a code or a reason is found, and no line is left out of coverage."""
    assert len(unreasoned({ROOT / "a.py": line})) == count


def test_nothing_is_left_unfinished() -> None:
    """HOUSE-7: no file says that something is still to be written."""
    assert hits(UNFINISHED, texts(".py", ".md", ".toml", ".sh")) == []
