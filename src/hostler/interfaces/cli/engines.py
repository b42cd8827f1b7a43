"""The commands about engines: list them, start and stop them, read their logs, ask why not.

Decides the words for people. What an engine does is the daemon's decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.errors import Loading
from hostler.domain.values import ServingClass, escape_controls, format_duration, format_size, shorten
from hostler.interfaces.api.shapes import Drained, EngineList, Logs, OneEngine
from hostler.interfaces.cli.daemon import SLACK_S, answer, at, connected, pages, sent_value
from hostler.interfaces.cli.failure import WAIT_TIMED_OUT, fail
from hostler.interfaces.cli.options import AsJson, Duration
from hostler.interfaces.cli.output import clock_until, parse_moment, say, say_json, when, with_local_times
from hostler.interfaces.cli.progress import while_read, while_waiting
from hostler.interfaces.cli.tables import say_table
from hostler.services.picture import EngineStatus

PATH: Final = "/v1/hostler/engines"
COLUMNS: Final = ("ENGINE", "STATE", "SINCE", "BUSY", "IDLE", "MEMORY", "URL", "NOTE")
SPARE: Final = ("URL", "SINCE", "MEMORY", "IDLE")
"""What a narrow terminal does without, the first one first."""
DRAIN_S: Final = 60.0
"""A drain's default deadline (GW-8)."""
STOP_S: Final = 360.0
"""A stop may take its engine's stop_timeout (300 s for some) and 30 s for its memory besides."""

EngineName = Annotated[str, Parameter(help="Its id; `hostler engines` lists them.")]
Timeout = Annotated[Duration, Parameter(help="How long requests under way may finish, such as 60s.")]


def engines(*, json: AsJson = False) -> int:
    """List the engines of this host with their state and why one cannot start."""
    with connected() as client:
        raw = pages(client, PATH, "engines")
    if json:
        say_json(raw)
    else:
        shown = answer(raw, EngineList)
        table(shown.engines, shown.at)
    return 0


def start(
    engine: EngineName,
    /,
    *,
    override: Annotated[
        ServingClass | None, Parameter(help="The serving class that you take upon yourself.")
    ] = None,
    timeout: Annotated[
        Duration | None, Parameter(show_default=False, help="How long to wait; the start goes on.")
    ] = None,
    lease: Annotated[
        str | None, Parameter(help="Your lease that has it, by its id; else $HOSTLER_LEASE.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Start an engine and wait until it is ready. Ready already is a success."""
    body: dict[str, object] = {} if override is None else {"override": override.value}
    if timeout is not None:
        body["wait_s"] = timeout
    with connected(lease) as client:
        longest = None if timeout is None else timeout + SLACK_S
        path = at(PATH, engine, "start")
        raw = while_waiting(client, engine, lambda: client.post(path, body, timeout_s=longest))
    shown = answer(raw, OneEngine).engine
    if shown.state != "ready":
        return fail(_not_yet(shown), as_json=json, code=WAIT_TIMED_OUT)
    if json:
        say_json(raw)
    else:
        took = f" after {format_duration(shown.load_s)}" if shown.load_s is not None else ""
        say(f"{shorten(engine)} is ready{took}.")
    return 0


def _not_yet(shown: EngineStatus) -> Loading:
    progress = shown.starting
    return Loading(
        engine=shorten(shown.id),
        elapsed_s=progress.elapsed_s if progress is not None else 0,
        budget_s=progress.budget_s if progress is not None else 0,
    )


def stop(
    engine: EngineName,
    /,
    *,
    timeout: Timeout = DRAIN_S,
    now: Annotated[bool, Parameter(negative="", show_default=False, help="Let nothing finish.")] = False,
    json: AsJson = False,
) -> int:
    """Stop an engine: no new requests, those under way may finish, then it goes."""
    raw = _changed(engine, "stop", {"timeout_s": timeout, "now": now})
    if json:
        say_json(raw)
        return 0
    name, shown = shorten(engine), answer(raw, OneEngine).engine
    # Residency starts again what is switched on and not suspended.
    back = shown.resident and shown.enabled and not shown.suspended_by
    more = f" It is resident, so it comes back by itself; `hostler suspend {name}` keeps it stopped."
    say(f"{name} is stopped.{more if back else ''}")
    return 0


def drain(engine: EngineName, /, *, timeout: Timeout = DRAIN_S, json: AsJson = False) -> int:
    """Let an engine finish what it has and take nothing new until `resume`; at the deadline end the rest."""
    with connected() as client:
        raw = client.post(at(PATH, engine, "drain"), {"timeout_s": timeout}, timeout_s=timeout + STOP_S)
    if json:
        say_json(raw)
        return 0
    ended = answer(raw, Drained).ended
    rest = f"; {ended} were ended at the deadline" if ended else ""
    name = shorten(engine)
    say(
        f"{name} is drained{rest}: it runs and takes nothing new. `hostler resume {name}` lets requests in"
        f" again, `hostler stop {name}` stops it."
    )
    return 0


def suspend(engine: EngineName, /, *, timeout: Timeout = DRAIN_S, json: AsJson = False) -> int:
    """Stop an engine and keep it stopped, across restarts, until `resume`."""
    return _change(engine, "suspend", {"timeout_s": timeout}, "is suspended", as_json=json)


def resume(engine: EngineName, /, *, json: AsJson = False) -> int:
    """Let a suspended engine start again, and a draining one take requests again."""
    return _change(engine, "resume", {}, "may run again", as_json=json)


def clear(engine: EngineName, /, *, json: AsJson = False) -> int:
    """Let a failed engine be tried again at once."""
    return _change(engine, "clear", {}, "may be tried again", as_json=json)


def _changed(engine: str, verb: str, body: Mapping[str, object]) -> object:
    timeout = body.get("timeout_s")
    longest = STOP_S + (timeout if isinstance(timeout, float) else 0.0)
    with connected() as client:
        return client.post(at(PATH, engine, verb), body, timeout_s=longest)


def _change(engine: str, verb: str, body: Mapping[str, object], done: str, *, as_json: bool) -> int:
    raw = _changed(engine, verb, body)
    if as_json:
        say_json(raw)
    else:
        say(f"{shorten(engine)} {done}.")
    return 0


def logs(
    engine: EngineName,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", show_default=False, help="Go on with it.")
    ] = False,
    lines: Annotated[int, Parameter(name=["--lines", "-n"], help="How many of the last lines.")] = 100,
    json: AsJson = False,
) -> int:
    """Print an engine's last log lines; control characters are shown, not sent to the terminal."""
    query = {"lines": lines}
    with connected() as client:
        if follow:
            for sent in while_read(client.events(at(PATH, engine, "logs"), {**query, "follow": True})):
                if sent.data:
                    _say_line(engine, sent_value(sent), as_json=json)
            return 0
        raw = client.get(at(PATH, engine, "logs"), query)
    if json:
        say_json(raw)
    else:
        for line in answer(raw, Logs).lines:
            say(escape_controls(line))
    return 0


def _say_line(engine: str, line: object, *, as_json: bool) -> None:
    if as_json:
        say_json({"engine": engine, "line": line})
    else:
        say(escape_controls(str(line)))


def table(engines: Sequence[EngineStatus], now: str) -> None:
    """The engines for people."""
    say_table(COLUMNS, rows(engines, now), empty="There are no engines here.", spare=SPARE)


def rows(engines: Sequence[EngineStatus], now: str) -> list[tuple[str, ...]]:
    """One row per engine under `COLUMNS`."""
    return [
        (
            it.id,
            it.state,
            when(it.since, now),
            str(it.in_flight) if it.state in ("ready", "draining") else "-",
            format_duration(it.idle_s) if it.idle_s is not None else "-",
            _memory(it),
            it.url,
            "; ".join(_notes(it, now)),
        )
        for it in engines
    ]


def _memory(it: EngineStatus) -> str:
    """What it takes: measured while it is up, else what it needs; `?` marks a need nobody knows (MEM-5)."""
    steady, peak, claim = (
        sum(sizes.values()) for sizes in (it.memory.steady, it.memory.peak, it.memory.claim)
    )
    if it.state in ("ready", "draining") and steady:
        return format_size(steady)
    need = max(peak, claim)
    if it.members:
        return "-"
    return f"needs {format_size(need)}" if need else "?"


def _notes(it: EngineStatus, now: str) -> list[str]:
    notes = []
    if it.suspended_by:
        owners = (owner.removeprefix("person:") for owner in it.suspended_by)
        notes.append(f"suspended by {', '.join(owners)}")
    if it.blocked is not None:
        until = clock_until(it.blocked.until, now)
        notes.append(f"blocked: {it.blocked.code} {it.blocked.why.rstrip('.') or until}".rstrip())
    if it.starting is not None:
        notes.append(it.starting.text)
    if it.why:
        notes.append(with_local_times(it.why, parse_moment(now)))
    if it.state == "draining":
        notes.append(f"takes nothing new until `hostler resume {it.id}` or `hostler stop {it.id}`")
    if it.config == "removed":
        notes.append("no more in the config: runs until it is stopped")
    if it.config == "changed":
        notes.append("changed in the config: from its next start on")
    if it.members:
        notes.append(", ".join(f"{each.id} on {each.host} {each.state}" for each in it.members))
    if it.memory.residue is not None:
        notes.append(f"{it.memory.residue} of its memory is not back")
    return [*notes, *_kinds(it)]


def _whole(it: EngineStatus) -> str:
    """Where the whole is to be seen, when that is another host."""
    if it.of_host in (None, it.host):
        return ""
    return f", an engine of {it.of_host}: `hostler engines` there shows it"


def _kinds(it: EngineStatus) -> Iterator[str]:
    """What the config says of it that a person should know."""
    if it.of is not None:
        yield f"member of {it.of}{_whole(it)}"
    if it.resident:
        yield "resident"
    if it.serving_class != ServingClass.RESIDENT:
        yield it.serving_class
    if it.uncurated:
        yield "uncurated"
    if it.proven is False:
        yield f"unproven ({it.entry})"
    if it.essential:
        yield "essential"
    if not it.enabled:
        yield "disabled"
