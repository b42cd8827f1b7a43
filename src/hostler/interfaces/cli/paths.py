"""`hostler paths`: where everything of this host's daemon is (CONF-5). Decides the table only."""

from __future__ import annotations

from cyclopts import App

from hostler.interfaces.cli.config import ConfigFile, HostOption, Parts
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say_json
from hostler.interfaces.cli.tables import WHOLE, say_table

app = App(name="paths", help="Show where everything is.", help_epilogue="Example: hostler paths --json")


@app.default
def paths(config: ConfigFile = None, *, host: HostOption = None, json: AsJson = False, parts: Parts) -> int:
    """Show every file and directory that the daemon of this host uses, whether it is there or not."""
    found = parts.paths(config, host)
    if json:
        say_json(dict(found))
    else:
        say_table(("WHAT", "WHERE"), list(found.items()), empty="There are no places.", longest=WHOLE)
    return 0
