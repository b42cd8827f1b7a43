"""`hostler window`: open one, look at it, close or abort it, run a command inside (MODE-2, WIN-10).

Decides words, exit codes and how long a command waits. What becomes of a window is the head's decision.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from cyclopts import App, Parameter

from hostler.client import Client
from hostler.client.saved import SavedLease
from hostler.client.trust import ending
from hostler.client.wishes import WINDOWS
from hostler.domain.errors import InvalidRequest, LeaseNotFound, NoWindow, Refusal
from hostler.domain.lease import State
from hostler.domain.values import format_duration, format_size, shorten
from hostler.interfaces.cli import deadman, lease_text
from hostler.interfaces.cli.daemon import answer, at, person, to_head
from hostler.interfaces.cli.failure import fail, usage
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import say, say_json, when
from hostler.interfaces.cli.own_leases import Meant, drawer, forget
from hostler.interfaces.cli.reserve import printing
from hostler.interfaces.cli.run.child import check
from hostler.interfaces.cli.run.command import HELP, Running
from hostler.interfaces.cli.waiting import End, Holder, holder, put_back, taking
from hostler.services.deadman_needs import DeadmanState
from hostler.services.deadman_offline import OfflineDeadmen
from hostler.wire.schedule import LeaseList, LeaseView, OneLease
from hostler.wire.values import to_json
from hostler.wire.windows import BackView, WindowReport

ModeName = Annotated[str, Parameter(name="mode", help="A mode of the config, as `hostler mode` lists them.")]
WindowName = Annotated[
    str | None, Parameter(name="window", help="Its id or how that begins, or its mode; else the only one.")
]
Cap = Annotated[
    Duration | None,
    Parameter(show_default=False, help="When it ends at the latest, from now on; else the mode's default."),
]
Override = Annotated[
    str | None,
    Parameter(show_default=False, help="The mode's serving class, which has to be named unless resident."),
]
Force = Annotated[
    bool, Parameter(negative="", show_default=False, help="A cap over 8 h; also in quiet hours.")
]
ReasonText = Annotated[str, Parameter(show_default=False, help="What for; shown to whom it keeps waiting.")]
Because = Annotated[str, Parameter(show_default=False, help="Why, of a window that is not yours.")]

Parts = Annotated[OfflineDeadmen, Parameter(parse=False)]

app = App(
    name="window",
    help="Open a capped stay in another mode, look at it, close it. Operators only.",
    help_epilogue="Example: hostler window open heavy --cap 1h --reason bench --override windowed",
)


@app.command(
    name="open",
    help_epilogue="Example: hostler window open heavy --cap 1h --reason bench --override windowed",
)
def open_window(
    mode: ModeName,
    /,
    *,
    cap: Cap = None,
    reason: ReasonText = "",
    override: Override = None,
    force: Force = False,
    holder_: Annotated[
        str, Parameter(name="--holder", show_default=False, help="Whose it is; else your user name.")
    ] = "",
    json: AsJson = False,
) -> int:
    """Open a window, and return when every engine of the mode serves. Exit 0 only then.

    What cannot be opened is refused before anything is changed, or put back. Ctrl-C puts it back.
    """
    with to_head() as client:
        who = holder(client, quiet=json)
        saved = _prepared(who, mode, cap, reason, override, force, holder_)
        steps = who.leases.take(saved, told=who.shown.told)
        return taking(who, saved, steps, printing(as_json=json), as_json=json)


def _prepared(
    who: Holder,
    mode: str,
    cap: float | None,
    reason: str,
    override: str | None,
    force: bool,
    holder_: str,
) -> SavedLease:
    return who.leases.prepare_window(
        mode,
        holder=holder_ or person(os.environ),
        reason=reason,
        cap_s=cap,
        override=override,
        force=force,
    )


@app.command(
    usage="Usage: hostler window run MODE [OPTIONS] -- CMD...",
    help_epilogue="Example: hostler window run heavy --cap 1h --override windowed -- ./bench.sh",
)
def run(
    mode: ModeName,
    /,
    *command: Annotated[
        str, Parameter(name="cmd", allow_leading_hyphen=True, help="The command and its arguments, after --.")
    ],
    cap: Cap = None,
    title: Annotated[str, Parameter(help="The job's title; else the command.", show_default=False)] = "",
    reason: ReasonText = "",
    override: Override = None,
    force: Force = False,
    json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative="",
            show_default=False,
            help="Tell a failure of ours as JSON; the command's output is its own.",
        ),
    ] = False,
) -> int:
    """Open a window, run a command inside with a job, close it. Its exit code is ours.

    At the cap, and when the window is aborted, the command gets SIGTERM first. 76: the window was lost.
    """
    if not command:
        return usage("There is no command.", HELP, as_json=json)
    check(command)
    with to_head() as client:
        who = holder(client, quiet=json)
        saved = _prepared(who, mode, cap, reason or title, override, force, "")
        running = Running(
            who=who,
            saved=saved,
            command=command,
            title=title or shlex.join(command),
            on_lost="stop",
            as_json=json,
        )
        steps = who.leases.take(saved, told=who.shown.told)
        return taking(who, saved, steps, running.under, as_json=json)


@app.command(help_epilogue="Example: hostler window status --json")
def status(window: WindowName = None, /, *, json: AsJson = False, parts: Parts) -> int:
    """Show the windows that are open or being put back, with their deadlines and steps.

    What this host knows of a window that the schedule does not is shown as well: its deadman ends it.
    """
    here = [it for it in parts.windows() if not it.over]
    try:
        with to_head() as client:
            raw, found, now = _windows(client, window)
    except Refusal:
        if not json:
            _unlisted(here, window, "this host knows this window, and its head does not tell of it here:")
        raise
    known = {it.id for it in found}
    beyond = [it for it in here if it.window not in known]
    if json:
        more = {"unlisted": [deadman.row(it) for it in beyond]} if window is None else {}
        say_json({**raw, **more})
        return 0
    for it in found:
        for text in lines(it, now):
            say(text)
    if window is None:
        _unlisted(beyond, None, "the schedule does not tell of this window, which this host knows:")
    if not found and not beyond:
        say("no window is open")
    return 0


def _windows(client: Client, window: str | None) -> tuple[Mapping[str, object], tuple[LeaseView, ...], str]:
    """The windows that the schedule knows, or the one that is named, and the time of the answer."""
    if window is None:
        raw = answer(client.get(WINDOWS), dict[str, object])
        shown = answer(raw, LeaseList)
        return raw, shown.leases, shown.at
    raw = answer(client.get(at(WINDOWS, _named(client, window).id)), dict[str, object])
    one = answer(raw, OneLease)
    return raw, (one.lease,), one.at


def _unlisted(here: Sequence[DeadmanState], name: str | None, first: str) -> None:
    """What `windows/` on this host says of windows that the schedule does not tell of."""
    for it in here:
        if name is None or it.window.startswith(name) or it.mode == name:
            say(first)
            for text in deadman.lines(it):
                say(f"  {text}")


@app.command(help_epilogue="Example: hostler window close")
def close(window: WindowName = None, /, *, because: Because = "", json: AsJson = False) -> int:
    """Close a window, and return when the standing mode is back and verified. Exit 73 when it is stuck."""
    return _end("close", window, {}, because, as_json=json)


@app.command(help_epilogue='Example: hostler window abort --because "the fans scream"')
def abort(
    window: WindowName = None,
    /,
    *,
    because: Annotated[str, Parameter(help="Why; it stays with the window.")],
    json: AsJson = False,
) -> int:
    """Abort a window, open or opening: what works under it gets SIGTERM, and everything is put back."""
    return _end("abort", window, {"why": because}, because, as_json=json)


@app.command(help_epilogue="Example: hostler window report ls_01jz0000000000000000000000")
def report(window: WindowName = None, /, *, json: AsJson = False) -> int:
    """Show how a window ended and what came back: each engine, verified, its memory and seconds."""
    with to_head() as client:
        raw = client.get(at(WINDOWS, _named(client, window, over=True).id, "report"))
    if json:
        say_json(raw)
        return 0
    for text in report_lines(answer(raw, WindowReport)):
        say(text)
    return 0


# ---------------------------------------------------------------- which window


def _named(client: Client, name: str | None, *, over: bool = False) -> LeaseView:
    """The window that `name` means; without one the only one. `over`: else the last that is over.

    Refuses `lease_not_found`, `no_window` without a name, and `invalid_request` for one that means several.
    """
    live = answer(client.get(WINDOWS), LeaseList).leases
    found = [it for it in live if _means(it, name)]
    if not found and (over or name is not None):
        ended = answer(client.get(WINDOWS, {"ended": "true"}), LeaseList).leases
        found = [it for it in ended if _means(it, name)][:1]
    if len(found) > 1:
        ids = ", ".join(it.id for it in found)
        raise InvalidRequest(
            what=f"That means {len(found)} windows: {shorten(ids, 200)}.", expected="Give an id."
        )
    if not found:
        if name is None:
            raise NoWindow(what="has ended" if over else "is open")
        raise LeaseNotFound(lease=name)
    return found[0]


def _means(it: LeaseView, name: str | None) -> bool:
    return name is None or it.id.startswith(name) or (it.window is not None and it.window.mode == name)


def _meant(it: LeaseView) -> Meant:
    """The window with what proves that it is this user's, if it is."""
    saved = next((each for each in drawer().list() if each.lease == it.id), None)
    if saved is None:
        return Meant(id=it.id, generation=it.generation)
    return Meant(id=it.id, secret=saved.secret, epoch=saved.epoch, generation=saved.generation, saved=saved)


def _end(verb: str, name: str | None, more: Mapping[str, object], because: str, *, as_json: bool) -> int:
    with to_head() as client:
        which = _meant(_named(client, name))
        body = {**which.proof(because=because), **more}
        # Asking anew would try a stuck one again: after the first time it is looked at.
        end = End(path=at(WINDOWS, which.id), verb=verb, body=body, again=False, look="hostler window status")
        one = put_back(client, end, as_json=as_json)
        told = answer(client.get(f"{end.path}/report"), WindowReport)
    it = one.lease
    if State(it.state).ended and which.saved is not None:
        forget(which.saved)
    if it.state == State.STUCK:
        return fail(ending(one), as_json=as_json)
    if as_json:
        say_json(to_json(one))
        return 0
    say(f"{lease_text.standing(it, one.at)}.")
    for text in lease_text.drift(it):
        say(text)
    for engine in told.engines:
        if not engine.verified:
            say(_back(engine))
    return 0


# ---------------------------------------------------------------- words


def lines(it: LeaseView, now: str) -> Iterator[str]:
    """A window for people: where it stands, its two deadlines, its strikes, its steps."""
    part = it.window
    mode = part.mode if part is not None else it.resource
    who = shorten(it.holder or it.key)
    stuck = it.state == State.STUCK
    told = f"stuck (lease {it.id})" if stuck else lease_text.standing(it, now)
    yield f"{shorten(mode)} by {who}: {told}"
    if part is not None and part.cap_at is not None:
        # Only what opens or is open takes any: of another nobody knows what its engines do.
        opens = it.state in (State.ACTIVATING, State.ACTIVE) and not part.closing
        requests = f"takes requests until {when(part.stop_accepting_at, now)}; " if opens else ""
        closed = "takes no new requests; " if part.closing else ""
        yield f"  {requests}{closed}its cap {when(part.cap_at, now)}"
        for host, end in part.hold_until.items():
            yield f"  the hold of {shorten(host)} lapses {when(end, now)}"
        for number, strike in enumerate(part.strikes, start=1):
            yield f"  strike {number}: {shorten(strike, 200)}"
    for wrong in part.wrong if part is not None else ():
        yield f"  WRONG: {shorten(wrong, 300)}"
    # Of a stuck one only what failed and what is owed: all its steps are in its history.
    for text in lease_text.stuck_lines(it) if stuck else lease_text.plan(it):
        yield f"  {text}"


def report_lines(it: WindowReport) -> Iterator[str]:
    """A report for people."""
    cause = f": {shorten(it.cause, 200)}" if it.cause else ""
    yield f"{shorten(it.mode)} ({shorten(it.lease)}) is {it.state}{cause}"
    yield f"  opened {when(it.opened_at, it.at)}, ended {when(it.ended_at, it.at)}"
    for number, strike in enumerate(it.strikes, start=1):
        yield f"  strike {number}: {shorten(strike, 200)}"
    for engine in it.engines:
        yield f"  {_back(engine)}"
    for wrong in it.wrong:
        yield f"  not verified: {shorten(wrong, 300)}"
    if not it.engines:
        yield "  nothing was restored yet"


def _back(it: BackView) -> str:
    state = "up" if it.up else "down"
    took = ", ".join(f"{format_size(size)} of {shorten(pool)}" for pool, size in it.memory.items())
    parts = [state, "verified" if it.verified else "not verified"]
    parts += [f"took {took}"] if took else []
    parts += [f"started in {format_duration(it.seconds)}"] if it.seconds is not None else []
    why = f": {shorten(it.why, 200)}" if it.why else ""
    return f"{shorten(it.engine)} on {shorten(it.host)}: {', '.join(parts)}{why}"
