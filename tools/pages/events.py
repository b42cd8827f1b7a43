"""The page of events: every type that the log can have, with its sentence."""

from hostler.domain.events import TYPES
from tools.pages.text import table


def render() -> str:
    """The page as Markdown."""
    rows = [(f"`{name}`", sentence) for name, sentence in sorted(TYPES.items())]
    return (
        "# Events\n\n"
        "What can stand in the event log, and so in the feed. A row has a cursor, a time, a type, who did it,"
        " what it happened to, a sentence and facts; never a secret, never a prompt.\n\n"
        f"{table(('type', 'what happened'), rows)}"
    )
