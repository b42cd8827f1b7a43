"""`hostler requests` and `hostler cancel`: inference under way."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.values import format_duration, format_size, shorten
from hostler.interfaces.api.shapes import RequestList
from hostler.interfaces.cli.daemon import answer, at, connected, pages
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import say_table
from hostler.services.picture import RequestStatus

PATH: Final = "/v1/hostler/requests"
COLUMNS: Final = ("REQUEST", "ROUTE", "ENGINE", "PHASE", "FOR", "IN", "OUT", "KEY", "CLIENT", "FROM")
SPARE: Final = ("OUT", "IN", "FROM", "KEY", "CLIENT", "ROUTE")
"""What a narrow terminal does without, the first one first: never the id, which `cancel` takes."""


def requests(*, json: AsJson = False) -> int:
    """List the inference requests under way, oldest first."""
    with connected() as client:
        raw = pages(client, PATH, "requests")
    if json:
        say_json(raw)
    else:
        shown = [_row(it) for it in answer(raw, RequestList).requests]
        say_table(COLUMNS, shown, empty="No request is under way.", spare=SPARE)
    return 0


def cancel(
    request: Annotated[str, Parameter(help="Its id; `hostler requests` lists them.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """End a request with an error frame."""
    with connected() as client:
        raw = client.post(at(PATH, request, "cancel"), {})
    if json:
        say_json(raw)
    else:
        say(f"{shorten(request)} is cancelled.")
    return 0


def _row(it: RequestStatus) -> tuple[str, ...]:
    degraded = f" (degraded: {it.degraded})" if it.degraded else ""
    return (
        it.id,
        it.route,
        f"{it.engine or '-'}{degraded}",
        it.phase,
        format_duration(it.seconds),
        format_size(it.bytes_in),
        format_size(it.bytes_out),
        it.key,
        it.client,
        it.ip,
    )
