"""`hostler reserve`: take a resource, wait for it, queue for it, book it (LEASE-25, LEASE-26).

Decides what the options mean together and that the exit code is 0 only when the lease is active, so that
`hostler reserve pair && bench` never runs unleased.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.client.address import state_dir
from hostler.client.drive import Steps
from hostler.client.lease import Leases, Told
from hostler.client.saved import SavedLease
from hostler.client.wishes import Wish
from hostler.domain.booking import CLAIM_S
from hostler.domain.errors import Kind, Refusal
from hostler.domain.lease import State
from hostler.domain.values import format_duration, shorten
from hostler.interfaces.cli import lease_text
from hostler.interfaces.cli.daemon import person, to_head
from hostler.interfaces.cli.failure import complain, usage
from hostler.interfaces.cli.lease_env import environment, write_secret
from hostler.interfaces.cli.options import AsJson, Duration, Waiting, patience
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.signals import Interruptible
from hostler.interfaces.cli.waiting import Holder, holder, taking
from hostler.wire.refusals import FACES, face
from hostler.wire.schedule import OneLease
from hostler.wire.values import to_json

NOT_ACTIVE: Final = FACES[Kind.BUSY].exit
"""A place or a booking is no lease that a command may run under."""
HELP: Final = "`hostler reserve --help` shows how it is used."


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `reserve` that say which lease."""

    time: Annotated[
        Duration | None,
        Parameter(name="--for", show_default=False, help="How long; else the resource's default."),
    ] = None
    reason: Annotated[
        str, Parameter(show_default=False, help="What for; shown to whom it keeps waiting.")
    ] = ""
    holder: Annotated[str, Parameter(help="Whose it is; else your user name.", show_default=False)] = ""
    queue: Annotated[
        Duration | None,
        Parameter(show_default=False, help="Take a place, keep it so long without you, and return."),
    ] = None
    at: Annotated[
        str | None,
        Parameter(
            help="Book a slot: 2026-12-01T20:00Z, or 2026-12-01 20:00 in fleet.timezone. At its start it is"
            f" offered: `hostler claim` takes it within {format_duration(CLAIM_S)}, or --wait by itself."
        ),
    ] = None
    priority: Annotated[int, Parameter(show_default=False, help="0 to 9. Operators only.")] = 0
    indefinite: Annotated[
        bool, Parameter(negative="", show_default=False, help="Without an end, where that is allowed.")
    ] = False


def reserve(
    resource: Annotated[str, Parameter(help="What; `hostler schedule` lists what there is.")],
    /,
    *,
    asked: Asked = Asked(),
    now: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Be refused when it is held. So it is by default."),
    ] = False,
    wait: Annotated[Waiting, Parameter(help="Wait for it, for ever or so long, and keep the place.")] = False,
    shell: Annotated[
        bool, Parameter(negative="", show_default=False, help='For eval "$(…)": print variables to export.')
    ] = False,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the steps and do nothing.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Take a resource. Exit 0 only when the lease is active; 75 held or queued, 124 waited in vain.

    Ctrl-C gives the place back.
    """

    def take() -> int:
        wrong = _wrong(asked, now=now, wait=wait, shell=shell, json=json)
        if wrong is not None:
            return usage(wrong, HELP, as_json=json)
        with to_head() as client:
            who = holder(client, quiet=json)
            saved = who.leases.prepare(resource, **wish(asked, wait=patience(wait), dry_run=dry_run))
            steps = _steps(who, saved, asked, wait, dry_run=dry_run)
            got = _export(saved) if shell else printing(as_json=json, dry_run=dry_run)
            return taking(who, saved, steps, got, as_json=json)

    return _in_shell(take) if shell else take()


def _wrong(asked: Asked, *, now: bool, wait: bool | float, shell: bool, json: bool) -> str | None:
    """What is wrong with the call, None when nothing is."""
    ways = [name for name, said in (("--now", now), ("--wait", wait), ("--queue", asked.queue)) if said]
    if len(ways) > 1:
        return f"Give one of {' and '.join(ways)}."
    if asked.at is not None and (now or asked.queue is not None):
        return "A booking waits for its time: give --at without --now and --queue."
    if asked.indefinite and asked.time is not None:
        return "Give --for or --indefinite, not both."
    if shell and json:
        return "Give --shell or --json, not both."
    return None


def wish(asked: Asked, *, wait: float, dry_run: bool = False) -> Wish:
    """What is asked of the head. Without a way to wait, a resource that is held is refused (LEASE-25)."""
    return {
        "holder": asked.holder or person(os.environ),
        "reason": asked.reason,
        "ttl_s": asked.time,
        "indefinite": asked.indefinite,
        "now": wait == 0 and asked.queue is None and asked.at is None,
        "detached_s": asked.queue,
        "start": asked.at,
        "priority": asked.priority,
        "dry_run": dry_run,
    }


def _steps(
    who: Holder, saved: SavedLease, asked: Asked, wait: bool | float, *, dry_run: bool = False
) -> Steps[OneLease]:
    longest = patience(wait)
    if dry_run:
        return who.leases.ask(saved)
    if longest == 0 and (asked.queue is not None or asked.at is not None):
        return _placed(who.leases, saved, who.shown.told)
    return who.leases.take(saved, wait_s=None if math.isinf(longest) else longest, told=who.shown.told)


def _placed(leases: Leases, saved: SavedLease, told: Told) -> Steps[OneLease]:
    """The place or the booking; the lease itself when it was to be had at once."""
    one = yield from leases.ask(saved)
    if State(one.lease.state).waits:
        return one
    return (yield from leases.follow(saved, one, told=told))


def printing(*, as_json: bool, dry_run: bool = False) -> Callable[[OneLease, Interruptible], int]:
    """What tells of a lease that was had: its exit code."""

    def tell(one: OneLease, signals: Interruptible) -> int:
        signals.keep()
        if as_json:
            say_json(to_json(one))
        elif dry_run:
            _say_plan(one)
        else:
            _say_standing(one)
        return 0 if dry_run or one.lease.state == State.ACTIVE else NOT_ACTIVE

    return tell


def _say_plan(one: OneLease) -> None:
    say(f"{shorten(one.lease.title or one.lease.resource)}: {lease_text.waits_for(one.lease, one.at)}.")
    for text in lease_text.plan(one.lease):
        say(text)


def _say_standing(one: OneLease) -> None:
    say(f"{lease_text.standing(one.lease, one.at)}.")
    if one.lease.state == State.SCHEDULED:
        say(
            f"At its start it is offered: `hostler claim {one.lease.id}` takes it within"
            f" {format_duration(CLAIM_S)}, else it is free again. With --wait it is taken by itself."
        )
    if one.lease.notice:
        say(f"note: {shorten(one.lease.notice, lease_text.TEXT)}")


def _export(saved: SavedLease) -> Callable[[OneLease, Interruptible], int]:
    """Prints what a shell evaluates to run commands under the lease."""

    def tell(one: OneLease, signals: Interruptible) -> int:
        if one.lease.state != State.ACTIVE:
            signals.keep()
            complain(f"{lease_text.standing(one.lease, one.at)}.")
            return NOT_ACTIVE
        file = write_secret(state_dir(os.environ), saved)
        signals.keep()
        for name, value in environment(one, file).items():
            say(f"export {name}={shlex.quote(value)}")
        return 0

    return tell


def _in_shell(take: Callable[[], int]) -> int:
    """The exit code, also as what the shell evaluates: `eval "$(…)"` of nothing would be 0."""
    try:
        code = take()
    except Refusal as refusal:
        say(f"(exit {face(refusal).exit})")
        raise
    if code != 0:
        say(f"(exit {code})")
    return code
