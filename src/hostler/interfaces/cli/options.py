"""Options that commands share: how they are written and what they mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token

from hostler.domain.values import format_duration, parse_duration

AsJson = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Answer with one JSON document, as the API gives it.",
    ),
]
"""Every command has it (INTERFACE-2)."""


def seconds_of(type_: object, tokens: Sequence[Token]) -> float:
    """The seconds of `90s`, `15m`, `2h30m`. ValueError for anything else, told as a usage error."""
    del type_
    return parse_duration(tokens[0].value)


Duration = Annotated[float, Parameter(converter=seconds_of, metavar="DURATION", show_default=format_duration)]
"""A duration as the config writes them (CONF-1)."""


Waiting = Annotated[
    bool | float,
    Parameter(name="--wait", negative="", show_default=False, converter=seconds_of, metavar="[=DURATION]"),
]
"""`--wait` waits for ever, `--wait=30m` so long: False, True, or seconds (LEASE-25)."""


def patience(wait: bool | float) -> float:
    """How many seconds `--wait` waits: 0 without it, for ever when it names no time."""
    if wait is True:
        return math.inf
    return float(wait)
