"""`hostler mode` and `mode plan`: which mode the fleet is in, and what entering another would do (MODE-2).

Decides words only; what differs and which steps there are is the head's answer. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli.daemon import answer, at, to_head
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import say_table
from hostler.wire.windows import ModePlan, ModesNow, ModeView

PATH: Final = "/v1/hostler/modes"
COLUMNS: Final = ("MODE", "CLASS", "CAP", "ENGINES", "DIFFERS")
SPARE: Final = ("CLASS", "CAP")

app = App(
    name="mode",
    help="Show which mode the fleet is in, or how far it is from the nearest.",
    help_epilogue="Example: hostler mode",
)


@app.default
def mode(*, json: AsJson = False) -> int:
    """Show the present mode, or the difference to the nearest."""
    with to_head() as client:
        raw = client.get(PATH)
    if json:
        say_json(raw)
        return 0
    now = answer(raw, ModesNow)
    say(standing(now))
    for stray in now.strays:
        say(f"  {shorten(stray, 200)}")
    if now.modes:
        say()
        say_table(COLUMNS, [_row(it) for it in now.modes], empty="", spare=SPARE)
    return 0


@app.command(help_epilogue="Example: hostler mode plan heavy --cap 1h")
def plan(
    name: Annotated[str, Parameter(help="A mode of the config, as `hostler mode` lists them.")],
    /,
    *,
    cap: Annotated[
        Duration | None, Parameter(show_default=False, help="The window's cap; else the mode's default.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Print the steps of a window with their arithmetic, and change nothing."""
    with to_head() as client:
        raw = client.get(at(PATH, name, "plan"), {} if cap is None else {"cap_s": cap})
    if json:
        say_json(raw)
        return 0
    for text in lines(answer(raw, ModePlan), given=cap is not None):
        say(text)
    return 0


def standing(now: ModesNow) -> str:
    """Where the fleet is, in one sentence."""
    window = f"; window {shorten(now.window)} is open" if now.window is not None else ""
    if now.present is not None:
        return f"the fleet is in {shorten(now.present)}{window}"
    near = next((it for it in now.modes if it.name == now.nearest), None)
    if near is None:
        return "the config has no modes"
    silent = ", ".join(map(shorten, now.silent))
    unknown = f"; {silent} {_says(now)} nothing, so what runs there is not known" if silent else ""
    return f"the fleet is in no mode; {shorten(near.name)} is nearest: {_differs(near)}{unknown}{window}"


def _says(now: ModesNow) -> str:
    return "says" if len(now.silent) == 1 else "say"


def _differs(it: ModeView) -> str:
    parts = [f"down: {', '.join(map(shorten, it.missing))}"] if it.missing else []
    parts += [f"up beside it: {', '.join(map(shorten, it.extra))}"] if it.extra else []
    parts += [f"routes: {', '.join(map(shorten, it.differing))}"] if it.differing else []
    return "; ".join(parts) or "-"


def _row(it: ModeView) -> tuple[str, ...]:
    engines = "; ".join(f"{host}: {', '.join(names) or 'none'}" for host, names in it.hosts.items())
    cap = (
        "standing" if it.standing else f"{format_duration(it.cap_s)}, at most {format_duration(it.cap_max_s)}"
    )
    return it.name, it.serving_class, cap, engines, _differs(it)


def _back(names: Sequence[str], within_s: float) -> str:
    """`bots comes back within 15 min`; of several that all of them do."""
    come = "comes" if len(names) == 1 else "come"
    return f"{', '.join(map(shorten, names))} {come} back within {format_duration(within_s)}"


def lines(it: ModePlan, *, given: bool = False) -> Iterator[str]:
    """A plan for people: sums, steps, times, what is in the way. `given`: the cap was asked for."""
    yield f"{shorten(it.mode)}: leases {shorten(it.resource)} ({', '.join(map(shorten, it.covers))})"
    for host in it.hosts:
        yield f"  {shorten(host.host)}: {shorten(host.text, 200)}"
        after = f"its hold outlives the cap by {format_duration(host.hold_after_s)}"
        back = (
            f"{_back(host.back, host.restore_s)}, so {after}" if host.back else f"nothing comes back; {after}"
        )
        yield f"  {shorten(host.host)}: {back}"
    for step in it.steps:
        yield f"{step.n:>3}  {shorten(step.host)}  {shorten(step.text, 200)}"
    yield (
        f"cap {format_duration(it.cap_s)}{'' if given else ' by default'}; no new requests for the last"
        f" {format_duration(it.drain_before_s)}"
    )
    if it.refused is not None:
        yield f"now refused: {shorten(it.refused, 300)}"
