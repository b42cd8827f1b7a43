"""The page of commands: what each says of itself, as `--help` prints it, and the exit codes."""

import io
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cyclopts import App
from rich.console import Console

from hostler.interfaces.cli.failure import BROKEN_PIPE, INTERRUPTED, WAIT_TIMED_OUT
from hostler.interfaces.cli.main import build
from hostler.wire.refusals import FACES, USAGE_EXIT
from tools.pages.refusals import refusals
from tools.pages.text import table

WIDTH: Final = 100
TERMINATED: Final = 128 + signal.SIGTERM

INTRODUCTION: Final = """# Commands

`hostler COMMAND --help` prints the same. With `--json` a command prints the wire form: one document, or one
line per item where it follows; a failure is then the error object, alone, on stderr. On a pipe there is
neither colour nor a moving line.

## Exit codes

They do not change. `hostler box hold … -- CMD` gives the exit code of CMD, 128 + n when signal n ended it.

"""


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command by its words, each before those below it, in the order of their names."""
    for name in sorted(each for each in app if not each.startswith("-")):
        yield (*path, name)
        yield from commands(app[name], (*path, name))


def help_of(app: App, words: tuple[str, ...]) -> str:
    """What `--help` prints on a pipe, without blanks at the ends of lines."""
    page = io.StringIO()
    app.help_print(list(words), console=Console(file=page, width=WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in page.getvalue().strip().splitlines())


def exit_codes() -> str:
    """The exit codes, from the one table of refusals and what no refusal has."""
    kinds: defaultdict[int, list[str]] = defaultdict(list)
    told_now = {refusal.kind for refusal in refusals()}
    for kind, face in FACES.items():
        words = kind.value.replace("_", " ")
        kinds[face.exit].append(words if kind in told_now else f"{words} (of parts that are not built yet)")
    told = {
        0: "done",
        USAGE_EXIT: "the command was written wrongly",
        **{code: ", ".join(names) for code, names in kinds.items()},
        WAIT_TIMED_OUT: "the wait timed out: what was asked for goes on",
        INTERRUPTED: "interrupted",
        TERMINATED: "ended by SIGTERM, as a shell shows it",
        BROKEN_PIPE: "the reader of its output went away",
    }
    return table(("exit code", "kind of answer"), [(str(code), told[code]) for code in sorted(told)])


def render() -> str:
    """The page as Markdown."""
    app = build()
    sections = (
        f"\n## hostler {' '.join(words)}\n\n```text\n{help_of(app, words)}\n```\n" for words in commands(app)
    )
    return INTRODUCTION + exit_codes() + "\n[What each refusal means](refusals.md).\n" + "".join(sections)
