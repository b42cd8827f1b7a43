"""`hostler box`: hold this host, show who holds it, release it (HOLD-8). Needs no daemon.

Decides what the options mean, and what is a wrong use of them (exit 2). Who may write and release is
decided in `domain.hold_plan`. `parts` comes from `bootstrap`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.errors import HoldTaken
from hostler.domain.hold import LONGEST_S
from hostler.domain.hold_plan import Wanted
from hostler.domain.hold_record import parse_instant
from hostler.domain.values import shorten
from hostler.interfaces.cli.box_text import (
    held_json,
    held_lines,
    path_json,
    released_json,
    released_lines,
    say,
    say_json,
    status_json,
    status_lines,
    warn,
)
from hostler.interfaces.cli.box_times import UNTIL, clock, parse_until, when
from hostler.interfaces.cli.failure import complain, usage
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.plain_help import FoldedHelp
from hostler.services.holds_offline import BoxParts, BoxStatus, Held

DEFAULT_MINUTES: Final = LONGEST_S / 60

Parts = Annotated[BoxParts, Parameter(parse=False)]

app = App(name="box", help="Hold this host, show who holds it, release it.")
# What follows `--` belongs to the command, `--help` and `-h` too: so this command reads them itself.
_hold = App(
    name="hold",
    usage="Usage: hostler box hold --owner WHO [--reason TEXT] [OPTIONS] [-- CMD...]",
    default_parameter=Parameter(show_default=False),
    end_of_options_delimiter="",
    help_flags=[],
    version_flags=[],
    help_epilogue="Example: hostler box hold --owner ada --reason bench --minutes 90 --allow embed",
)
app.command(_hold)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `box hold` that say which hold."""

    owner: Annotated[str, Parameter(help="Who holds it: whom to ask. Needed.")] = ""
    reason: Annotated[str | None, Parameter(help="What for; shown to whom it keeps waiting.")] = None
    minutes: Annotated[
        float | None, Parameter(help="How long: 480 without this and --until, more only with --force.")
    ] = None
    until: Annotated[str | None, Parameter(help=f"Until when. {UNTIL}")] = None
    allow: Annotated[
        list[str] | None,
        Parameter(negative="", help="Engines that may start anyway: a,b. Essential ones always may."),
    ] = None
    force: Annotated[bool, Parameter(negative="", help="Hold for more than 480 minutes.")] = False
    take_over: Annotated[str | None, Parameter(help="End the live hold of this owner for it.")] = None


@_hold.default
def hold(
    *,
    asked: Asked = Asked(),
    json: AsJson = False,
    shown_help: Annotated[
        bool, Parameter(name=["--help", "-h"], negative="", help="Display this message and exit.")
    ] = False,
    command: Annotated[
        tuple[str, ...],
        Parameter(
            name="--",
            consume_multiple=True,
            allow_leading_hyphen=True,
            negative="",
            help="Hold while this command runs, and give its exit code.",
        ),
    ] = (),
    parts: Parts,
) -> int:
    """Hold this host: no engine is started that the hold does not allow; what runs is untouched.

    The hold ends by itself. The same owner may hold again, to extend, shorten or change its own.
    """
    if shown_help:
        _hold.help_formatter = "default" if sys.stdout.isatty() else FoldedHelp()
        _hold.help_print([])
        return 0
    now = parts.now()
    wanted = _wanted(asked, now)
    if isinstance(wanted, str):
        return usage(wanted, "`hostler box hold --help` shows how it is used.", as_json=json)
    if command:
        return _run(command, wanted, parts)
    before = parts.status()
    with _told(parts, as_json=json):
        held = _checked(parts.hold(wanted), wanted, before)
    if json:
        say_json(held_json(held, now))
    else:
        say(held_lines(held, before.view, now))
        warn(held.where, *held.warnings)
    return 0


def _checked(held: Held, wanted: Wanted, before: BoxStatus) -> Held:
    """`held`, with a warning for each engine of --allow that the config does not name (HOLD-5)."""
    known = before.engines
    odd = () if known is None else tuple(name for name in wanted.allow or () if name not in known)
    warnings = (f"--allow {shorten(name)}: no engine of the config is called so" for name in odd)
    return replace(held, warnings=(*held.warnings, *warnings))


def _wanted(asked: Asked, now: datetime) -> Wanted | str:
    """The hold that is asked for, or what is wrong with the call."""
    if not asked.owner.strip():
        return "A hold needs an --owner: whom to ask when it stands in the way."
    end = _end(asked, now)
    if isinstance(end, str):
        return end
    return Wanted(
        owner=asked.owner,
        reason=asked.reason,
        expires_at=end,
        allow=None if asked.allow is None else _names(asked.allow),
        forced=asked.force,
        take_over=asked.take_over,
    )


def _end(asked: Asked, now: datetime) -> datetime | str:
    """When the hold ends, or what is wrong with the call."""
    if asked.until is not None:
        if asked.minutes is not None:
            return "Give --minutes or --until, not both."
        end = parse_until(asked.until, now)
        return f"{asked.until!r} is no time. {UNTIL}" if end is None else end
    length = DEFAULT_MINUTES if asked.minutes is None else asked.minutes
    if not math.isfinite(length) or length <= 0:
        return f"--minutes must be a number above 0, not {length:g}."
    try:
        return now + timedelta(minutes=length)
    except OverflowError:
        # Past the calendar's end: too long without --force, and as long as can be with it.
        return datetime.max.replace(tzinfo=UTC)


@contextmanager
def _told(parts: BoxParts, *, as_json: bool) -> Iterator[None]:
    """A refusal for people has the end of the other's hold in their own time (TIME-1)."""
    try:
        yield
    except HoldTaken as taken:
        until = parse_instant(taken.until)
        if as_json or until is None:
            raise
        now = parts.now()
        local = f"{clock(until, now)} ({when(until, now).partition(' (')[0]})"
        raise HoldTaken(
            owner=taken.owner, until=local, way=taken.way, retry_after=taken.retry_after
        ) from taken


def _names(allow: list[str]) -> tuple[str, ...]:
    """`a,b` and repeated options alike; order kept, each once."""
    return tuple(dict.fromkeys(name.strip() for given in allow for name in given.split(",") if name.strip()))


def _run(command: tuple[str, ...], wanted: Wanted, parts: BoxParts) -> int:
    """Hold while the command runs (HOLD-10). Stdout is the command's; what we say goes to stderr."""
    before = parts.status()

    def begun(held: Held) -> None:
        checked = _checked(held, wanted, before)
        say(held_lines(checked, before.view, parts.now()), sys.stderr)
        warn(checked.where, *checked.warnings)

    with _told(parts, as_json=False):
        ran = parts.run(command, wanted, begun)
    for warning in ran.warnings:
        complain(f"warning: {shorten(warning, 400)}")
    return ran.code


@app.command(help_epilogue="Example: hostler box status --json")
def status(*, json: AsJson = False, parts: Parts) -> int:
    """Show who holds this host, until when, and what has been refused since. Exit 0 either way."""
    found, now = parts.status(), parts.now()
    if json:
        say_json(status_json(found.view, now))
    else:
        say(status_lines(found, now))
        warn(found.where)
    return 0


@app.command(help_epilogue="Example: hostler box release")
def release(
    *,
    owner: Annotated[str | None, Parameter(help="End the hold of this owner, whoever wrote it.")] = None,
    force: Annotated[bool, Parameter(negative="", help="End another's hold; the daemon tells them.")] = False,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """End the hold. Without options only one that `box hold` took, or a record that cannot be read."""
    with _told(parts, as_json=json):
        released = parts.release(owner=owner, force=force)
    if json:
        say_json(released_json(released))
    else:
        say(released_lines(released, parts.now()))
        warn(released.where, *released.warnings)
    return 0


@app.command(help_epilogue="Example: hostler box path")
def path(*, json: AsJson = False, parts: Parts) -> int:
    """Print where the hold file of this user is: the one that the gate reads."""
    where = parts.where()
    if json:
        say_json(path_json(where))
    else:
        say((shorten(where.path, 4096),))
        warn(where)
    return 0
