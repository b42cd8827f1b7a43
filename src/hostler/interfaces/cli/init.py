"""`hostler init`: a first config from what is on this box, which works at once (CONF-4).

Decides where it goes and what is said. It looks and writes one file; it changes nothing else.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from hostler.interfaces.cli.imports import Force, Parts, checked
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.first_config import First, first_config
from hostler.services.import_parts import Draft
from hostler.services.sight_parts import SightParts

Place = Annotated[
    str | None,
    Parameter(name=["-o", "--output"], help="Write the config to this file; default: where serve looks."),
]
Seeing = Annotated[SightParts, Parameter(parse=False)]


def init(
    *,
    output: Place = None,
    dry_run: Annotated[
        bool,
        Parameter(name="--dry-run", negative="", show_default=False, help="Print the config, write nothing."),
    ] = False,
    force: Force = False,
    json: AsJson = False,
    parts: Parts,
    sight: Seeing,
) -> int:
    """Look at this box and write a config that works: memory, GPUs, engines that run, model files.

    What serves models already is used at once; model files start when they are asked for. Nothing else is
    changed, and a config that is there already is not overwritten.
    """
    first = first_config(sight.look())
    draft = Draft(text=first.text)
    checked(draft, parts)
    path = None
    if not dry_run:
        path = output if output is not None else sight.place(force=force)
        parts.finish(draft, path, force=force)
    if json:
        say_json(
            {
                "file": path,
                "config": first.text,
                "running": first.running,
                "on_demand": first.on_demand,
                "listen": first.listen,
            }
        )
    elif path is None:
        say(first.text.rstrip("\n"))
    else:
        _tell(first, path, named=output is not None)
    return 0


def _tell(first: First, path: str, *, named: bool) -> None:
    say(f"Wrote {path}: {first.running} engine(s) that run already, {first.on_demand} that start on demand.")
    if not first.running and not first.on_demand:
        say("Its comments say what to add.")
    config = f" --config {path}" if named else ""
    say(f"Next: hostler serve{config}")
    say(f"Clients use http://{first.listen}/v1")
