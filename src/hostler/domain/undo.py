"""Undo: what puts a step back, and what is seen of it meanwhile (LEASE-10, LEASE-11).

Decides by comparison: what a step found, what it wanted, and what is seen now. Seen as found: it is back
already. Seen as wanted: it is put back. Anything else is somebody's change, which is left and told. Where a
step is half undone, as a crash leaves it, it counts as ours. Performs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    Found,
    FoundCommand,
    FoundDeadman,
    FoundEngine,
    FoundHold,
    FoundNothing,
    FoundRoute,
    HoldHost,
    PointRoute,
    RemoveHold,
    ResumeEngine,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)


def holds_true(step: Step, seen: Found, *, lease: str) -> bool:  # noqa: PLR0911 - one answer for each kind
    """Whether what is seen is what `step` wants, whoever made it so: then nothing is done (R18, R19).

    A suspended engine that is down needs no drain. One that something else brings up again is neither
    suspended nor stopped for good (ENG-2). Of a webhook nothing can be seen: it is always called, as
    memory is always looked at and a restore always verified.
    """
    match step, seen:
        case HoldHost(), FoundHold():
            return seen.lease == lease
        case PointRoute(), FoundRoute():
            return seen.profile == step.profile
        case DrainEngine(), FoundEngine():
            return lease in seen.draining_by or _put_away(seen)
        case SuspendEngine(), FoundEngine():
            return _put_away(seen) and seen.revival is None
        case StopEngine(), FoundEngine():
            return _down(seen) and seen.revival is None
        case StartEngine(), FoundEngine():
            return seen.up
        case RunCommand(), FoundCommand():
            return seen.already is True
        case ((CallWebhook() | CheckMemory() | VerifyRestore()), FoundNothing()):
            return False
        case ArmDeadman(window=window), FoundDeadman():
            return seen.window == window and seen.alive
    raise _misfit(step, seen)


def unsound(step: Step, found: Found) -> str | None:
    """Why the step must not be begun on what it found: there would be no way back. None when there is one."""
    if isinstance(step, PointRoute) and isinstance(found, FoundRoute) and found.profile is None:
        return "it has no active profile to go back to"
    return None


def inverse(step: Step, found: Found) -> Undo | None:  # noqa: PLR0911, PLR0912, C901 - one undo for each kind
    """What puts back what `step` found; None where it changed nothing, or nothing can.

    An engine that was cold, or that somebody else keeps suspended, is not started (LEASE-10).
    """
    match step, found:
        case HoldHost(host=host), FoundHold():
            return RemoveHold(host=host)
        case PointRoute(host=host, route=route), FoundRoute(profile=profile):
            if profile is None or profile == step.profile:
                return None
            return PointRoute(host=host, route=route, profile=profile)
        case DrainEngine(host=host, engine=engine), FoundEngine():
            return None if _put_away(found) else EndDrain(host=host, engine=engine)
        case SuspendEngine(host=host, engine=engine), FoundEngine():
            if _put_away(found) and found.revival is None:
                return None
            return ResumeEngine(host=host, engine=engine, start=_owes_a_start(step, found))
        case StopEngine(host=host, engine=engine), FoundEngine():
            if found.revival is not None:
                return ResumeEngine(host=host, engine=engine, start=found.up and step.back)
            return StartEngine(host=host, engine=engine) if found.up and step.back else None
        case StartEngine(host=host, engine=engine), FoundEngine():
            return None if found.up else StopEngine(host=host, engine=engine)
        case RunCommand(), FoundCommand():
            return None if found.already is True else undo_of_command(step)
        case CallWebhook(), FoundNothing():
            return undo_of_webhook(step)
        case ArmDeadman(host=host, window=window), FoundDeadman():
            return DisarmDeadman(host=host, window=window)
        case VerifyRestore(), FoundNothing():
            return step
        case CheckMemory(), FoundNothing():
            return None
    raise _misfit(step, found)


def undo_of_command(step: RunCommand) -> UndoCommand | None:
    """The undo of a command that changed something; None without one."""
    if step.undo is None:
        return None
    return UndoCommand(
        host=step.host,
        argv=step.undo,
        check=step.check,
        timeout_s=step.timeout_s if step.undo_timeout_s is None else step.undo_timeout_s,
        definition=step.definition,
        digest=step.digest,
        cap_s=step.cap_s,
    )


def undo_of_webhook(step: CallWebhook) -> UndoWebhook | None:
    """The undo of a webhook; None without one."""
    if step.undo is None:
        return None
    return UndoWebhook(
        host=step.host,
        url=step.undo,
        timeout_s=step.timeout_s,
        definition=step.definition,
        digest=step.digest,
    )


def is_back(  # noqa: PLR0911 - one answer for each kind
    step: Step, found: Found, seen: Found, *, lease: str
) -> bool:
    """Whether what is seen is what `step` found, as far as the lease owes it: nothing is left to undo.

    Of an engine that was up that is an engine that is up; of a cold one only the lease's claim counts.
    """
    match step, found, seen:
        case HoldHost(), FoundHold(), FoundHold():
            return seen.lease != lease and seen.identity in (None, found.identity)
        case PointRoute(), FoundRoute(), FoundRoute():
            return seen.profile == found.profile
        case DrainEngine(), FoundEngine(), FoundEngine():
            return lease not in seen.draining_by
        case SuspendEngine(), FoundEngine(), FoundEngine():
            back = seen.up or not _owes_a_start(step, found)
            return lease not in seen.suspended_by and back and _revived(found, seen)
        case StopEngine(), FoundEngine(), FoundEngine():
            return (seen.up or not (found.up and step.back)) and _revived(found, seen)
        case StartEngine(), FoundEngine(), FoundEngine():
            return _down(seen) or found.up
        case RunCommand(), FoundCommand(), FoundCommand():
            return seen.already is False
        case ((CallWebhook() | CheckMemory() | VerifyRestore()), FoundNothing(), FoundNothing()):
            return False
        case ArmDeadman(window=window), FoundDeadman(), FoundDeadman():
            return seen.window != window
    raise _misfit(step, seen)


def drifted(step: Step, found: Found, seen: Found, *, lease: str) -> str | None:
    """What somebody else made of it, as a sentence with the name and what is seen; None: nobody did.

    Ask only when it `is_back` not. A half undone engine, with no claim and down, is nobody's change.
    """
    match step, seen:
        case HoldHost(host=host), FoundHold(owner=owner) if seen.lease != lease:
            return f"the hold of {host} is {owner or 'unknown'}'s, not the lease's"
        case PointRoute(route=route, profile=wanted), FoundRoute(profile=profile) if profile != wanted:
            return f"route {route} is on {profile or 'no profile'}, not {wanted}"
        case ((SuspendEngine(engine=engine) | StopEngine(engine=engine)), FoundEngine()):
            before = found.suspended_by if isinstance(found, FoundEngine) else ()
            others = [it for it in seen.suspended_by if it != lease and it not in before]
            return f"engine {engine} is suspended by {', '.join(others)}" if others else None
        case _:
            return None


def withdrawal(step: Step, seen: Found, *, lease: str) -> ResumeEngine | None:
    """What takes the lease's own claim off an engine that somebody else suspended meanwhile (R29)."""
    if isinstance(step, SuspendEngine) and isinstance(seen, FoundEngine) and lease in seen.suspended_by:
        return ResumeEngine(host=step.host, engine=step.engine, start=False)
    return None


def unserved(seen: FoundRoute, engines: Mapping[str, FoundEngine]) -> str | None:
    """Why a route that was left as it is has no target that serves, None when it has one (LEASE-11).

    An upstream counts as serving, and so does an engine that is up or may be started by a request.
    `engines` are those of the route, as they are seen; one that cannot be seen is missing.
    """
    if seen.profile is None:
        return "it has no active profile"
    if seen.upstreams or not seen.engines or any(_serves(engines.get(it)) for it in seen.engines):
        return None
    return f"{seen.profile} leads to {', '.join(_shown(it, engines.get(it)) for it in seen.engines)}"


def _serves(engine: FoundEngine | None) -> bool:
    return engine is not None and (engine.up or (not engine.suspended_by and engine.state != "failed"))


def _shown(name: str, engine: FoundEngine | None) -> str:
    if engine is None:
        return f"{name}, which cannot be seen"
    if engine.suspended_by:
        return f"{name}, which is suspended by {', '.join(engine.suspended_by)}"
    return f"{name}, which is {engine.state or 'down'}"


def _owes_a_start(step: SuspendEngine, found: FoundEngine) -> bool:
    """Whether the engine is to be up again: one that was cold, or that somebody keeps down, is not."""
    return step.back and found.up and not found.suspended_by


def _put_away(engine: FoundEngine) -> bool:
    """Suspended by somebody, and down: there is nothing to drain, stop or suspend."""
    return bool(engine.suspended_by) and _down(engine)


def _down(engine: FoundEngine) -> bool:
    """Nothing of it runs. One that failed does not serve, and may hold its memory still (ENG-6)."""
    return not engine.up and not engine.lives


def _revived(found: FoundEngine, seen: FoundEngine) -> bool:
    """Whether something brings it up as it did before. Another policy by now is somebody's own, and stays."""
    return found.revival is None or seen.revival is not None


def _misfit(step: Step, seen: Found) -> ValueError:
    return ValueError(f"a step {step.kind} does not find {seen.kind}")
