"""`hostler fits`: what a set of engines needs on one host, as a sum that anyone can redo (MEM-6).

Decides how the sum is told and its exit code. Needs no daemon: `parts` comes from `bootstrap`.
"""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.values import shorten
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.services.ports_parts import PortsParts
from hostler.wire.values import to_json

TOO_SMALL: Final = 71
"""Exit code where the set does not fit, or nobody can say that it does."""
LONGEST: Final = 600


def fits(
    engine: Annotated[str, Parameter(help="An engine.")],
    /,
    *more: Annotated[str, Parameter(help="Engines that are to be up together with it.")],
    on: Annotated[str | None, Parameter(help="The host; else this machine.")] = None,
    config: Annotated[
        str | None,
        Parameter(name="--config", help="The config file; else $HOSTLER_CONFIG, and the usual places."),
    ] = None,
    json: AsJson = False,
    parts: Annotated[PortsParts, Parameter(parse=False)],
) -> int:
    """Add up what engines need and compare it with what a host has. Exit 71 where it does not fit.

    The sum is of what they need at their peak, whatever runs now; `hostler why ENGINE` knows that.
    """
    report = parts.fits((engine, *more), on=on, config=config)
    if json:
        say_json(
            {
                "fits": report.fits,
                "sums": to_json(report.sums),
                "host": report.host,
                "remarks": report.remarks,
            }
        )
    else:
        for each in report.sums:
            says = {True: "fits", False: "does not fit", None: "cannot be told"}[each.fits]
            say(f"{says}: {shorten(each.arithmetic, LONGEST)}")
        for remark in report.remarks:
            say(shorten(remark, LONGEST))
    return 0 if report.fits else TOO_SMALL
