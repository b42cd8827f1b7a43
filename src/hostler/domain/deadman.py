"""What a deadman did, as its host tells it: the receipt of a restore that no daemon did (WIN-7, NODE-4).

Decides which steps of a lease it settles, and how such a lease ends. When a deadman acts is its own decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hostler.domain.lease import Failing, State
from hostler.domain.step import ArmDeadman, HoldHost, StartEngine, Step

CAUSE: Final = "deadman"
"""Why a lease ends that a deadman put back."""
CAP: Final = "cap"
"""The deadman's own cause when its cap had come."""
BY: Final = "by the deadman"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadmanReport:
    """One host's restore of one window. `ended` engines are down, `back` ones serve as themselves.

    `failing` has a sentence for each thing that was not seen to be back; empty when it is `verified`.
    `unheld`: the window's own hold record is gone. Times are RFC 3339.
    """

    window: str
    host: str
    cause: str
    verified: bool
    begun_at: str
    ended_at: str
    failing: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    unheld: bool = False
    done: tuple[str, ...] = ()


def armed_hosts(plan: Sequence[Step]) -> tuple[str, ...]:
    """The hosts on which a plan arms a deadman: those of a window. None: it is no window's."""
    return tuple(dict.fromkeys(step.host for step in plan if isinstance(step, ArmDeadman)))


def settles(report: DeadmanReport, step: Step) -> bool:
    """Whether nothing of `step` is left to undo after that restore.

    A standing engine that serves again still has the lease's suspension: that is the daemon's to take away.
    """
    if step.host != report.host:
        return False
    match step:
        case HoldHost():
            return report.unheld
        case StartEngine(engine=engine):
            return engine in report.ended
        case _:
            return False


def ending(reports: Sequence[DeadmanReport]) -> State:
    """How a lease ends that was active: at its cap it has expired."""
    return State.EXPIRED if any(it.cause == CAP for it in reports) else State.RELEASED


def failing(reports: Sequence[DeadmanReport]) -> Failing | None:
    """At which host the restore could not be verified, and what is seen there; None when all were."""
    bad = next((it for it in reports if not it.verified), None)
    if bad is None:
        return None
    wanted = "every engine serving as itself"
    return Failing(n=0, step=f"restore {bad.host} {BY}", wanted=wanted, seen="; ".join(bad.failing))
