"""`hostler sync`: what this node shares with paired nodes, what they share, and why (SYNC-2 to SYNC-5).

Decides the words for people. Which rows travel and whose word counts is the daemon's decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.errors import RowUnreached
from hostler.domain.values import shorten
from hostler.interfaces.cli.daemon import answer, at, connected
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json, when
from hostler.interfaces.cli.tables import say_table
from hostler.wire.sync import ExplainView, PeerView, Published, RowView, SyncView

PATH: Final = "/v1/hostler/sync"
PROBING_S: Final = 60.0
"""How long a publishing may take: every paired node is asked at once, each for 10 s at most."""
PEERS: Final = ("PEER", "STATE", "SINCE", "HAS OUR LATEST", "WHY")
COLUMNS: Final = ("ROW", "STATE", "URL", "HOST", "BY", "REACHED BY", "NOT BY", "WHY")
SPARE: Final = ("NOT BY", "REACHED BY", "BY", "HOST")
"""What a narrow terminal does without, the first one first."""
SEEN: Final = ("NODE", "REACHES IT", "WHY")

Id = Annotated[str, Parameter(help="An engine of this host, or an upstream: its name in the config.")]

app = App(
    name="sync",
    help="Share engines and upstreams with paired nodes that have a config of their own.",
    help_epilogue="Example: hostler sync",
)


@app.default
def status(*, json: AsJson = False) -> int:
    """Show the paired nodes, every row that is shared, and what to look at."""
    with connected() as client:
        raw = client.get(PATH)
    if json:
        say_json(raw)
        return 0
    found = answer(raw, SyncView)
    say_table(PEERS, peers(found.peers, found.at), empty="No node is paired: sync.peers in the config.")
    say()
    say_table(COLUMNS, rows(found.rows), empty="There are no rows.", spare=SPARE)
    for note in found.notes:
        say(f"note: {shorten(note, 400)}")
    return 0


@app.command(help_epilogue="Example: hostler sync explain large-14b")
def explain(
    row: Annotated[str, Parameter(help="Its id.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Say why a row travels or stays, who claims its id, and whose word counts."""
    with connected() as client:
        raw = client.get(at(f"{PATH}/rows", row))
    if json:
        say_json(raw)
        return 0
    found = answer(raw, ExplainView)
    say(f"{shorten(found.id)} {'travels' if found.travels else 'stays here'}: {shorten(found.why, 400)}.")
    if found.claims:
        say_table(COLUMNS, rows(found.claims), empty="", spare=SPARE)
    for claim in found.claims:
        for node, why in claim.allowed.items():
            say(f"{shorten(node)} need not reach {shorten(claim.author)}'s: {shorten(why, 400)}")
    return 0


@app.command(help_epilogue="Example: hostler sync publish large-14b --host crow")
def publish(
    row: Id,
    /,
    *,
    url: Annotated[str | None, Parameter(help="Where others ask it; else as the config has it.")] = None,
    host: Annotated[
        str | None, Parameter(help="The node that has its address, or `external`; never guessed.")
    ] = None,
    model: Annotated[
        tuple[str, ...], Parameter(negative="", help="A model that can be asked for there; may be repeated.")
    ] = (),
    allow_unreachable: Annotated[
        tuple[str, ...], Parameter(negative="", help="A node that need not reach it; may be repeated.")
    ] = (),
    because: Annotated[str, Parameter(help="Why it need not: kept with the row, with your name.")] = "",
    json: AsJson = False,
) -> int:
    """Share an engine or an upstream, once every paired node has reached it; refused while one cannot."""
    body: dict[str, object] = {"id": row, "url": url, "host": host, "models": list(model) or None}
    with connected() as client:
        try:
            raw = client.post(
                f"{PATH}/publish",
                {**body, "allow": list(allow_unreachable), "because": because},
                timeout_s=PROBING_S,
            )
        except RowUnreached as refusal:
            if not json:
                say_table(SEEN, _seen(refusal.seen), empty="")
            raise
    if json:
        say_json(raw)
        return 0
    found = answer(raw, Published)
    say_table(SEEN, [(it.node, "yes" if it.up else "no", it.why or "-") for it in found.seen], empty="")
    say(f"{shorten(found.row.id)} is shared: {shorten(found.row.url, 400)} on {shorten(found.row.host)}.")
    return 0


@app.command(help_epilogue="Example: hostler sync retire large-14b")
def retire(
    row: Annotated[str, Parameter(help="Its id.")],
    /,
    *,
    json: AsJson = False,
) -> int:
    """End the sharing of a row: it stops resolving everywhere. `publish` brings it back."""
    with connected() as client:
        raw = client.post(f"{PATH}/retire", {"id": row})
    if json:
        say_json(raw)
    else:
        found = answer(raw, RowView)
        say(f"{shorten(found.id)} is retired.")
    return 0


def peers(found: Sequence[PeerView], now: str) -> list[tuple[str, ...]]:
    """One row per peer under `PEERS`."""
    return [
        (
            it.name,
            "unknown" if it.up is None else "up" if it.up else "away",
            when(it.since, now),
            "no" if it.waiting else "yes",
            it.why or "-",
        )
        for it in found
    ]


def rows(found: Sequence[RowView]) -> list[tuple[str, ...]]:
    """One row per row under `COLUMNS`."""
    return [
        (
            it.id,
            it.state,
            it.url,
            it.host or "-",
            it.author,
            _those(it.reach, reached=True),
            _those(it.reach, reached=False),
            it.why or "-",
        )
        for it in found
    ]


def _those(reach: Mapping[str, bool], *, reached: bool) -> str:
    return ", ".join(sorted(node for node, saw in reach.items() if saw is reached)) or "-"


def _seen(seen: Sequence[str]) -> list[tuple[str, ...]]:
    """What a refusal says of each node."""
    told = [text.partition(": ") for text in seen]
    return [(node, "yes", "-") if why == "reached" else (node, "no", why) for node, _, why in told]
