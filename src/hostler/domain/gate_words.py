"""What the gate says of each of its checks, for `hostler why` (GATE-2).

Decides the words. What a check finds is `hostler.domain.gate`'s decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hostler.domain import gate
from hostler.domain.errors import Refusal
from hostler.domain.eviction import Eviction
from hostler.domain.fleet import frozen
from hostler.domain.gate import LIVE, Ask, Facts, Live, Settled
from hostler.domain.values import ServingClass, shorten


class Result(StrEnum):
    """What one check said."""

    PASSED = "pass"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `hostler why`: the check, its result, and one sentence."""

    name: str
    result: Result
    text: str
    code: str | None = None


PASSED: Final[Mapping[str, str]] = frozen(
    {
        "known": "it is an engine of this host, enabled and ours to start",
        "running": "it does not run yet",
        "serving_class": "its serving class may start",
        "launchable": "its files and its build are there, and it is within the host's total",
        "suspended": "no person suspended it",
        "hold": "no hold keeps it from starting",
        "leased": "no lease keeps it from starting",
        "fence": "no fence is up",
        "window": "no window that has it is closing",
        "port": "its port is free, or held by an engine that makes way",
        "topology": "the links that its shape goes over are as they must be",
        "memory": "it fits",
        "members": "it has no members",
    }
)


def explain(ask: Ask, facts: Facts) -> tuple[Check, ...]:
    """Every check in order with its result; none is left out because one before it refused (GATE-2)."""
    rows: list[Check] = []
    settled: Settled | None = None
    for name, check in gate.CHECKS:
        if settled is not None:
            rows.append(Check(name=name, result=Result.SKIPPED, text=settled.text))
            continue
        if name in LIVE and facts.live is None:
            rows.append(Check(name=name, result=Result.SKIPPED, text="the machine was not looked at"))
            continue
        found = check(ask, facts)
        if isinstance(found, Refusal):
            rows.append(Check(name=name, result=Result.REFUSED, text=str(found), code=found.code))
            continue
        settled = found
        text = found.text if found is not None else _passed(name, ask, facts)
        rows.append(Check(name=name, result=Result.PASSED, text=text))
    return tuple(rows)


def _passed(name: str, ask: Ask, facts: Facts) -> str:
    """What a passed check says: the override, the hold's leave or the sum that made it pass."""
    if name == "serving_class" and facts.engine.serving_class is not ServingClass.RESIDENT:
        by = "the window that has it named" if facts.opened else "the call names"
        return f"it is {facts.engine.serving_class}, and {by} that class"
    if name == "members" and facts.engine.members:
        return f"{', '.join(facts.engine.members)} may start, each on its own host"
    if name == "topology" and not (facts.engine.curation is not None and facts.engine.curation.crossings):
        return _links(facts)
    if name == "hold" and facts.hold.held:
        return f"{shorten(facts.hold.owner)} holds the host, and allows this engine"
    if name == "leased" and facts.leased is not None:
        return f"the lease {facts.leased.lease} has it, and asks itself"
    if name == "fence" and facts.fence is not None:
        return "a fence is up, which keeps only timers from starting anything"
    if name == "memory" and facts.live is not None and isinstance(facts.live.eviction, Eviction):
        return _room(ask, facts.live, facts.live.eviction)
    return PASSED[name]


def _links(facts: Facts) -> str:
    """Which links an engine goes over whose entry names none."""
    if facts.engine.members:
        return f"no entry says over which links {', '.join(facts.engine.members)} talk: none was looked at"
    if facts.engine.of is not None:
        return f"its links are those of {facts.engine.of}, which is asked for them"
    return "it runs on this host alone"


def _room(ask: Ask, live: Live, plan: Eviction) -> str:
    fits = plan.fit.arithmetic or PASSED["memory"]
    text = fits if live.need is not None else f"not known what it needs; {ask.cause} names it: it is measured"
    stops = ", ".join(plan.stop)
    return f"{text}; would stop {stops}" if stops else text
