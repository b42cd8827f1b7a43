"""`hostler import`: other programs' configs as one of ours, and what changed its meaning (CONF-4).

Decides how that is told and where it goes. What it comes to is decided in `hostler.interfaces.imports`.
"""

from __future__ import annotations

import posixpath
import sys
from typing import Annotated

from cyclopts import App, Parameter

from hostler.domain.errors import DraftBroken
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.imports.llama_swap import Imported, convert
from hostler.interfaces.imports.notes import Note, Sign
from hostler.services.import_parts import Draft, ImportParts

Parts = Annotated[ImportParts, Parameter(parse=False)]
Output = Annotated[
    str | None,
    Parameter(name=["-o", "--output"], help="Write the config to this file, not to the terminal."),
]
Force = Annotated[
    bool, Parameter(name="--force", negative="", show_default=False, help="Overwrite the file.")
]

app = App(name="import", help="Make a config from another program's.")


@app.command(
    name="llama-swap",
    help_epilogue="Example: hostler import llama-swap config.yaml -o hostler.yaml",
)
def llama_swap(
    files: Annotated[list[str], Parameter(negative="", help="Its config files, or directories of them.")],
    /,
    *,
    output: Output = None,
    force: Force = False,
    from_dir: Annotated[
        str | None,
        Parameter(name="--from", help="Directory that llama-swap is started in; default: this one."),
    ] = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Convert llama-swap's config. What means something else now is told on stderr, a line each.

    `~` means something else, `-` is left out, `!` is worth a look. Exit 65, and nothing is written, when
    something cannot be expressed: each reason has its line. With --force, memory, entry, serving_class and
    enabled of engines that were in the file are kept.
    """
    here = posixpath.normpath(posixpath.join(parts.here, from_dir or ""))
    earlier = parts.earlier(output) if output is not None and force else {}
    found = convert(parts.read(files), here=here, earlier=earlier)
    notes = [*found.notes, *_absent(found, parts)]
    checked(found.draft, parts)
    secrets = list(parts.finish(found.draft, output, force=force, sources=files))
    if json:
        say_json(
            {
                "file": output,
                "config": parts.shown(found.draft) if output is None else None,
                "engines": found.engines,
                "routes": found.routes,
                "notes": [note.facts() for note in notes],
                "secrets": secrets,
            }
        )
        return 0
    for note in notes:
        print(note, file=sys.stderr)
    _tell(found, output, secrets)
    if output is None:
        say(parts.shown(found.draft).rstrip("\n"))
    return 0


def checked(draft: Draft, parts: ImportParts) -> None:
    """Nothing. Raises DraftBroken for a draft that `hostler config check` would refuse."""
    problems = parts.check(draft)
    if problems:
        raise DraftBroken(problems=tuple(str(problem) for problem in problems))


def _absent(found: Imported, parts: ImportParts) -> list[Note]:
    """A note for each program that is not there."""
    return [
        Note(
            file=given.file,
            line=given.line,
            sign=Sign.WARNING,
            path="",
            text=f"there is no program {program} on this machine{_seen_from(program, cwd)}",
        )
        for (program, cwd), given in found.programs.items()
        if not parts.has_program(program, cwd)
    ]


def _seen_from(program: str, cwd: str) -> str:
    return f", seen from {cwd}" if "/" in program and not program.startswith("/") else ""


def _tell(found: Imported, output: str | None, secrets: list[str]) -> None:
    where = output if output is not None else "the terminal"
    made = f"{found.engines} engine(s), {found.routes} route(s) written to {where}"
    print(made, file=sys.stderr)
    if secrets and output is None:
        print("before it can be used, write the secrets, each mode 0600:", file=sys.stderr)
    for path in secrets:
        print(f"  {path}", file=sys.stderr)
