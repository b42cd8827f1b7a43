"""Values of the node API as they travel between hosts, and back (NODE-1, CONF-6, LEASE-21).

Decides what of a step travels, and how instants become durations. The keys are `hostler.wire.nodes`'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from hostler.domain.errors import InvalidRequest
from hostler.domain.fence import Fence
from hostler.domain.fleet import frozen
from hostler.domain.hold import parse_instant
from hostler.domain.holding import Holding
from hostler.domain.moment import Moment, left
from hostler.domain.step import (
    CallWebhook,
    FenceNumber,
    Operation,
    RunCommand,
    Step,
    Undo,
    UndoCommand,
    UndoWebhook,
)
from hostler.domain.values import rfc3339
from hostler.wire.nodes import FenceRow, HeldRow, OperationBody
from hostler.wire.steps import STEPS, UNDOS, found_from_json, plain, work_from_json

# ---------------------------------------------------------------- commands by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A command or webhook as it travels. `undo`: its definition has one. `cap_s`: of a window's script."""

    kind: str
    host: str
    definition: str
    digest: str
    undo: bool = False
    cap_s: float | None = None


Find = Callable[[Named], Step | Undo]
NAMED: Final = frozenset({"exec", "unexec", "webhook", "unwebhook"})


def sent(work: Step | Undo) -> Mapping[str, object]:
    """The step or undo as it travels: what only its own node may know in full is named (CONF-6)."""
    match work:
        case RunCommand() | CallWebhook():
            undo = work.undo is not None
        case UndoCommand() | UndoWebhook():
            undo = True
        case _:
            return plain(work)
    cap_s = work.cap_s if isinstance(work, RunCommand | UndoCommand) else None
    return {
        "kind": work.kind,
        "host": work.host,
        "definition": work.definition,
        "digest": work.digest,
        "undo": undo,
        # Only where there is one: a node of the version before knows no such key (NODE-7).
        **({} if cap_s is None else {"cap_s": cap_s}),
    }


def received(found: Mapping[str, object], find: Find) -> Step | Undo:
    """The step or undo that travelled so. Refuses `invalid_request`, and what `find` refuses."""
    kind = found.get("kind")
    if kind in NAMED:
        return find(_named(found))
    models = {**STEPS, **UNDOS}
    model = models.get(kind) if isinstance(kind, str) else None
    known = () if model is None else tuple(it.name for it in fields(model))
    try:
        work = work_from_json(found)
    except ValueError as error:
        raise _unfit(str(error)) from error
    unknown = next((it for it in found if it not in known), None)
    if unknown is not None:
        raise _unfit(f"a step {kind} has no {unknown}")
    return work


def _named(found: Mapping[str, object]) -> Named:
    names = tuple(it.name for it in fields(Named))
    texts = {name: it for name in names[:4] if isinstance(it := found.get(name), str)}
    unknown = next((it for it in found if it not in names), None)
    cap_s = found.get("cap_s")
    if unknown is not None or len(texts) != 4 or not (cap_s is None or _is_seconds(cap_s)):
        raise _unfit(f"a step {found.get('kind')} travels as {', '.join(names)}")
    return Named(
        kind=texts["kind"],
        host=texts["host"],
        definition=texts["definition"],
        digest=texts["digest"],
        undo=found.get("undo") is True,
        cap_s=float(cap_s) if _is_seconds(cap_s) else None,
    )


def _is_seconds(found: object) -> TypeGuard[float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _unfit(why: str) -> InvalidRequest:
    return InvalidRequest(
        what=f"The step does not fit: {why}.", expected="See the node API.", where="operation.step"
    )


# ---------------------------------------------------------------- operations


def operation_to(operation: Operation, now: datetime) -> OperationBody:
    """An operation as it travels."""
    return OperationBody(
        id=operation.id,
        lease=operation.lease,
        epoch=operation.fence.epoch,
        generation=operation.fence.generation,
        covers=operation.covers,
        step=sent(operation.step),
        deadline_s=operation.deadline_s,
        found=None if operation.found is None else plain(operation.found),
        holder=operation.holder,
        reason=operation.reason,
        expires_in_s=_seconds_to(parse_instant(operation.expires_at), now),
        stop_accepting_in_s=_seconds_to(parse_instant(operation.stop_accepting_at), now),
    )


def operation_from(body: OperationBody, now: datetime, find: Find) -> Operation:
    """The operation that travelled so. Refuses `invalid_request`, and what `find` refuses."""
    try:
        found = None if body.found is None else found_from_json(body.found)
    except ValueError as error:
        raise _unfit(str(error)) from error
    return Operation(
        id=body.id,
        lease=body.lease,
        fence=FenceNumber(epoch=body.epoch, generation=body.generation),
        covers=body.covers,
        step=received(body.step, find),
        deadline_s=body.deadline_s,
        found=found,
        holder=body.holder,
        reason=body.reason,
        expires_at=_told(_after(body.expires_in_s, now)),
        stop_accepting_at=_told(_after(body.stop_accepting_in_s, now)),
    )


def _seconds_to(time: datetime | None, now: datetime) -> float | None:
    return None if time is None else (time - now).total_seconds()


def _after(seconds: float | None, now: datetime) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _told(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time)


# ---------------------------------------------------------------- holdings and the fence


def held_to(held: Mapping[str, Holding], now: Moment) -> tuple[HeldRow, ...]:
    """What is held, as it travels."""
    return tuple(
        HeldRow(
            thing=thing,
            lease=it.lease,
            resource=it.resource,
            holder=it.holder,
            key=it.key,
            until_in_s=_seconds_to(it.until, now.at),
            hard_in_s=None if it.hard is None else left(it.hard, now),
            mode=it.mode,
            stop_accepting_in_s=_seconds_to(it.stop_accepting, now.at),
        )
        for thing, it in held.items()
    )


def held_from(rows: tuple[HeldRow, ...], now: Moment) -> Mapping[str, Holding]:
    """What is held, by the clocks of this machine."""
    return frozen(
        {
            row.thing: Holding(
                lease=row.lease,
                resource=row.resource,
                holder=row.holder,
                key=row.key,
                until=_after(row.until_in_s, now.at),
                hard=None if row.hard_in_s is None else now.plus(row.hard_in_s),
                mode=row.mode,
                stop_accepting=_after(row.stop_accepting_in_s, now.at),
            )
            for row in rows
        }
    )


def fence_to(fence: Fence | None, now: Moment) -> FenceRow | None:
    """The fence as it travels."""
    if fence is None:
        return None
    return FenceRow(
        since_s=-left(fence.since, now),
        until_in_s=left(fence.until, now),
        by=fence.by,
        reason=fence.reason,
        unreadable=fence.unreadable,
    )


def fence_from(row: FenceRow | None, now: Moment) -> Fence | None:
    """The fence by the clocks of this machine."""
    if row is None:
        return None
    return Fence(
        since=now.plus(-row.since_s),
        until=now.plus(row.until_in_s),
        by=row.by,
        reason=row.reason,
        unreadable=row.unreadable,
    )
