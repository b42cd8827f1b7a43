"""`hostler completion`: what makes a shell complete our commands. Needs no daemon."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Print the script that completes commands and options in a shell."""
    from hostler.interfaces.cli.main import build

    script = build().generate_completion(shell=shell)
    if json:
        say_json({"shell": shell, "script": script})
    else:
        say(script.rstrip("\n"))
    return 0
