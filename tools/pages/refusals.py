"""The page of refusals: every code with its statuses, exit code, sentence, hint and facts."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from hostler.domain import errors
from hostler.domain.errors import Kind, Refusal
from hostler.wire.refusals import FACES, face, headers
from tools.pages.text import first_paragraph, table

INTRODUCTION: Final = """# Refusals

Every answer that says no, by kind. `control` is the HTTP status under `/v1/hostler`, `inference` the one on
the paths that clients of models use, `exit` the exit code of the command line. The text in italics is the
message, with facts in braces.

An error is `{{"error": {{"message", "type", "param", "code", "hint", "facts", "retry_after"}}}}`. Where
waiting may help, `retry_after` and the header `Retry-After` say how long. These come with
`x-should-retry: false`, so that client libraries do not wait by themselves: {final}.
"""
SPEC: Final = ":duration}"
"""How a message asks for a time in words: the page shows the fact alone."""
HEAD: Final = ("code", "control", "inference", "exit", "what it says", "what helps", "facts")


def refusals() -> Iterator[type[Refusal]]:
    """Every refusal of the product, each once, by kind and code."""
    found = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Refusal)}
    kinds = list(Kind)
    yield from sorted(found - {Refusal}, key=lambda each: (kinds.index(each.kind), each.code))


def blank(refusal: type[Refusal]) -> Refusal:
    """One of its kind without any fact: enough to ask how its kind and code are told."""
    return refusal.__new__(refusal)


def facts_of(refusal: type[Refusal]) -> list[str]:
    """The names of the facts that it carries."""
    return [each.name for each in fields(refusal) if each.name != "retry_after"]


def row_of(refusal: type[Refusal]) -> tuple[str, ...]:
    """One row of the table."""
    seen = face(blank(refusal))
    return (
        f"`{refusal.code}`",
        str(seen.control),
        str(seen.inference),
        str(seen.exit),
        f"{first_paragraph(refusal)} *{refusal.message.replace(SPEC, '}')}*",
        refusal.hint.replace("{{", "{").replace("}}", "}"),
        ", ".join(f"`{name}`" for name in facts_of(refusal)),
    )


def final() -> list[str]:
    """The codes that tell client libraries not to try again by themselves."""
    return [f"`{each.code}`" for each in refusals() if (b"x-should-retry", b"false") in headers(blank(each))]


def section(kind: Kind) -> str:
    """The refusals of one kind; empty when it has none yet."""
    rows = [row_of(each) for each in refusals() if each.kind is kind]
    return f"\n## {kind.value.replace('_', ' ').capitalize()}\n\n{table(HEAD, rows)}" if rows else ""


def render() -> str:
    """The page as Markdown."""
    return INTRODUCTION.format(final=", ".join(final())) + "".join(section(kind) for kind in FACES)
