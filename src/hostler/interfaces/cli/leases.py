"""`hostler mine`, `claim`, `renew`, `release`, `cancel`: what a holder does with a lease that there is.

Decides words, exit codes and how long a command waits. What becomes of a lease is the head's decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.client import Client
from hostler.client.drive import Steps
from hostler.client.saved import SavedLease
from hostler.client.trust import ending
from hostler.domain.addresses import shown_url
from hostler.domain.errors import LeaseNotFound, NotYours
from hostler.domain.lease import State
from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli import lease_text, requests
from hostler.interfaces.cli.daemon import answer, at, to_head
from hostler.interfaces.cli.failure import fail, usage
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.own_leases import LEASES, Meant, drawer, forget, meant
from hostler.interfaces.cli.reserve import printing
from hostler.interfaces.cli.tables import say_table
from hostler.interfaces.cli.waiting import End, Holder, holder, put_back, taking
from hostler.wire.schedule import OneLease
from hostler.wire.values import to_json

REQUEST: Final = "rq_"
"""How the id of a request begins; every other id is a lease's."""

LeaseName = Annotated[
    str | None,
    Parameter(help="Its id or how that begins, or its resource; else $HOSTLER_LEASE, or your only one."),
]
Because = Annotated[
    str, Parameter(show_default=False, help="Why you do this with another's lease. Operators only.")
]
Generation = Annotated[
    int | None, Parameter(help="The generation that you mean, of another's lease.", show_default=False)
]


def mine(*, json: AsJson = False) -> int:
    """Show what you have asked for: each lease and place with where it stands and the next command."""
    saved = [it for it in drawer().list() if it.lease is not None]
    with to_head() as client:
        url = client.address.url
        found = [_told(client, it) for it in saved if it.url == url]
    told = [it for it in found if it is not None]
    if json:
        say_json({"leases": [to_json(one.lease) for one in told], "next": None})
        return 0
    rows = [row for one in told for row in lease_text.rows([one.lease], one.at)]
    say_table(
        lease_text.COLUMNS, rows, empty="You hold nothing and wait for nothing.", spare=lease_text.SPARE
    )
    for one in told:
        for text in lease_text.notes(one.lease, one.at):
            say(text)
    for other, count in sorted(Counter(it.url for it in saved if it.url != url).items()):
        shown = shown_url(other)
        say(f"{count} more at {shown}: HOSTLER_HEAD_URL={shown} hostler mine")
    return 0


def _told(client: Client, it: SavedLease) -> OneLease | None:
    """What the head says of a saved lease; one that is over is told this once, and forgotten."""
    try:
        one = answer(client.get(at(LEASES, it.lease or "")), OneLease)
    except LeaseNotFound:
        forget(it)
        return None
    if State(one.lease.state).ended:
        forget(it)
    return one


def claim(lease: LeaseName = None, /, *, json: AsJson = False) -> int:
    """Take up an offer, and wait until the lease is active. Ctrl-C gives it back."""
    with to_head() as client:
        saved = meant(client, lease).saved
        if saved is None:
            raise NotYours(
                what="Only who asked for a lease can claim it.", expected="`hostler mine` lists yours."
            )
        who = holder(client, quiet=json)
        return taking(who, saved, _claimed(who, saved), printing(as_json=json), as_json=json)


def _claimed(who: Holder, saved: SavedLease) -> Steps[OneLease]:
    one = yield from who.leases.claim(saved)
    return (yield from who.leases.follow(saved, one, told=who.shown.told))


def renew(
    lease: LeaseName = None,
    /,
    *,
    time: Annotated[
        Duration | None,
        Parameter(name="--for", show_default=False, help="From now on; else the resource's default."),
    ] = None,
    because: Because = "",
    generation: Generation = None,
    json: AsJson = False,
) -> int:
    """Extend an active lease, or keep a place. It never shortens, and says what limited it.

    A window is never extended: it ends at its cap.
    """
    with to_head() as client:
        which = meant(client, lease)
        proof = which.proof(generation=generation, because=because)
        raw = client.post(_path(which, "renew"), {**proof, "ttl_s": time, "claim": False})
    if json:
        say_json(raw)
        return 0
    found = answer(raw, OneLease)
    gave = found.granted_s if found.lease.kind != "window" else None
    granted = f"{format_duration(gave)} more. " if gave else ""
    say(f"{granted}{lease_text.standing(found.lease, found.at)}.")
    if found.lease.notice:
        say(f"note: {shorten(found.lease.notice, 200)}")
    return 0


def release(
    lease: LeaseName = None,
    /,
    *,
    no_wait: Annotated[
        bool, Parameter(name="--no-wait", negative="", show_default=False, help="Print its id and return.")
    ] = False,
    abandon: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Free a stuck lease without putting back. Operators only."
        ),
    ] = False,
    because: Because = "",
    generation: Generation = None,
    json: AsJson = False,
) -> int:
    """Give a lease back, and wait until everything is put back and seen to be. Exit 73 when it is stuck."""
    if abandon and not because:
        return usage(
            "--abandon needs --because TEXT.", "It is kept with what was not put back.", as_json=json
        )
    with to_head() as client:
        which = meant(client, lease)
        body = {**which.proof(generation=generation, because=because), "abandon": abandon}
        one = put_back(client, _end(which, "release", body), as_json=json, wait=not no_wait)
    return _ended(which, one, as_json=json, wait=not no_wait)


def cancel(
    id_: Annotated[
        str, Parameter(name="id", help="A lease's or a request's; `hostler mine`, `hostler requests`.")
    ],
    /,
    *,
    because: Because = "",
    generation: Generation = None,
    json: AsJson = False,
) -> int:
    """Call off a lease, whatever its state, or end a request with an error frame."""
    if id_.startswith(REQUEST):
        return requests.cancel(id_, json=json)
    with to_head() as client:
        which = meant(client, id_)
        body = which.proof(generation=generation, because=because)
        one = put_back(client, _end(which, "cancel", body), as_json=json)
    return _ended(which, one, as_json=json, wait=True)


def _path(which: Meant, verb: str) -> str:
    return at(LEASES, which.id, verb)


def _end(which: Meant, verb: str, body: Mapping[str, object]) -> End:
    return End(path=at(LEASES, which.id), verb=verb, body=body)


def _ended(which: Meant, found: OneLease, *, as_json: bool, wait: bool) -> int:
    it = found.lease
    if State(it.state).ended and which.saved is not None:
        forget(which.saved)
    if it.state == State.STUCK and wait:
        return fail(ending(found), as_json=as_json)
    if as_json:
        say_json(to_json(found))
    elif not wait:
        say(it.id)
    else:
        say(f"{lease_text.standing(it, found.at)}.")
        for text in lease_text.drift(it):
            say(text)
    return 0
