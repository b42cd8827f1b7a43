"""`hostler routes` and `hostler routes set`: where each model name leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.values import shorten
from hostler.interfaces.api.shapes import OneRoute, RouteList
from hostler.interfaces.cli.daemon import answer, at, connected, pages
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import say_table
from hostler.services.picture import RouteStatus, TargetStatus

PATH: Final = "/v1/hostler/routes"
COLUMNS: Final = ("ROUTE", "PROFILE", "TARGETS", "OTHERS", "ALIASES")
SPARE: Final = ("ALIASES", "OTHERS")
"""What a narrow terminal does without, the first one first."""

app = App(
    name="routes",
    help="Show where each route leads, or switch one's profile.",
    help_epilogue="Example: hostler routes",
)


@app.default
def routes(*, json: AsJson = False) -> int:
    """Show each route with its active profile and where it leads."""
    with connected() as client:
        raw = pages(client, PATH, "routes")
    if json:
        say_json(raw)
    else:
        say_table(COLUMNS, rows(answer(raw, RouteList).routes), empty="There are no routes.", spare=SPARE)
    return 0


@app.command(name="set", help_epilogue="Example: hostler routes set chat local")
def set_profile(
    route: Annotated[str, Parameter(help="Its name.")],
    profile: Annotated[str, Parameter(help="One of its profiles.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Make a profile the active one. Requests under way finish where they are."""
    with connected() as client:
        raw = client.post(at(PATH, route, "profile"), {"profile": profile})
    if json:
        say_json(raw)
    else:
        shown = answer(raw, OneRoute).route
        say(f"{shorten(shown.name)} now leads to {_leads(shown)} (profile {shorten(shown.active or '-')}).")
    return 0


def rows(routes: Sequence[RouteStatus]) -> list[tuple[str, ...]]:
    """One row per route under `COLUMNS`."""
    return [
        (
            it.name,
            it.active or "none",
            _leads(it),
            ", ".join(name for name in it.profiles if name != it.active) or "-",
            ", ".join(it.aliases) or "-",
        )
        for it in routes
    ]


def _leads(route: RouteStatus) -> str:
    targets = route.profiles.get(route.active or "", ())
    return ", ".join(_target(it) for it in targets) or "nowhere: no profile is active"


def _target(target: TargetStatus) -> str:
    role = f"{target.role}: " if target.role else ""
    model = f" as {target.model}" if target.model else ""
    state = f" ({target.state})" if target.state else ""
    return f"{role}{target.name}{model}{state}"
