"""`hostler engine from-catalog`: the config of an engine of the catalog, to paste. Writes nothing."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from hostler.interfaces.cli.catalog import Parts
from hostler.interfaces.cli.config import ConfigFile
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.wire.values import to_json

app = App(name="engine", help="Write the config of an engine of the catalog.")


@app.command(
    name="from-catalog", help_epilogue="Example: hostler engine from-catalog qwen3-0.6b#8k --on crow"
)
def from_catalog(
    reference: Annotated[
        str, Parameter(help="ID#VARIANT, as in qwen3-0.6b#8k; without a variant the entry's default.")
    ],
    /,
    *,
    on: Annotated[
        tuple[str, ...],
        Parameter(
            name="--on",
            negative="",
            show_default=False,
            help="Its host; of a shape of several boxes one for each role, in their order.",
        ),
    ] = (),
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Print the engine of a catalog entry as a config writes it, to paste below `engines:`."""
    found = parts.engine(reference, on, config)
    if json:
        say_json({"reference": found.reference, "config": to_json(found.document)})
    else:
        say(found.text.rstrip("\n"))
    return 0
