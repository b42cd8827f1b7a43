"""How the generated pages write Markdown, and how they read what the code says of itself."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar in a cell is escaped, a line break becomes a blank."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") or "-" for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def first_paragraph(thing: object) -> str:
    """The first paragraph of a docstring on one line, empty when there is none."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n", maxsplit=1)[0].split())


def member_sentences(cls: type) -> dict[str, str]:
    """What stands below each member of a class (a string after an assignment), by the member's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    for node, after in pairwise(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[target.id] = " ".join(str(after.value.value).split())
    return found
