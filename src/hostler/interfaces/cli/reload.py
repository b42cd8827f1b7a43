"""`hostler reload`: the daemon reads its config again, and says what it took up (CONF-3)."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import Reloaded
from hostler.interfaces.cli.daemon import answer, connected
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import WHOLE, say_table

PATH: Final = "/v1/hostler/config/reload"


def reload(
    *,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Say what it would do, and do nothing.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Take up the changed config. What runs goes on; a changed engine's next start is the new one."""
    with connected() as client:
        raw = client.post(PATH, {"dry_run": dry_run})
    if json:
        say_json(raw)
        return 0
    found = answer(raw, Reloaded)
    rows = [(it.how, it.what, ", ".join(it.keys) or "-", it.note or "-") for it in found.changes]
    empty = f"{shorten(found.file, 200)} is what is in force already."
    say_table(("CHANGE", "WHAT", "KEYS", "NOTE"), rows, empty=empty, longest=WHOLE)
    for line in found.follows:
        say(f"note: {shorten(line, 300)}")
    return 0
