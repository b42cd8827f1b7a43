"""Help on a pipe: plain text whose folded lines stand below their text (INTERFACE-2).

Decides where lines end. What they say is cyclopts' plain formatter's.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

UNFOLDED: Final = 100_000
"""Wider than any help: what is written at this width has its own line ends only."""
INDENT: Final = 6


class FoldedHelp:
    """A help formatter of cyclopts: each entry folded to the console's width, its rest indented."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """The parameters or commands."""
        from cyclopts.help import PlainFormatter

        _folded(console, lambda wide: PlainFormatter()(wide, options, panel), INDENT)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """The line that shows how the command is called."""
        from cyclopts.help import PlainFormatter

        _folded(console, lambda wide: PlainFormatter().render_usage(wide, options, usage), INDENT)

    def render_description(self, console: Console, options: ConsoleOptions, description: object) -> None:
        """What the command does."""
        from cyclopts.help import PlainFormatter

        _folded(console, lambda wide: PlainFormatter().render_description(wide, options, description), 0)


def _folded(console: Console, write: Callable[[Console], None], indent: int) -> None:
    from rich.console import Console

    text = io.StringIO()
    write(Console(file=text, width=UNFOLDED))
    for line in text.getvalue().splitlines():
        folded = textwrap.wrap(
            line.rstrip(),
            width=console.width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.print("\n".join(folded), highlight=False, markup=False, soft_wrap=True)
