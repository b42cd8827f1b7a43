"""Refusals of a change: not now, or not ever."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors.base import Kind, Refusal


@dataclass(eq=False, kw_only=True)
class IllegalTransition(Refusal):
    """A bug, or a race that the caller lost."""

    kind = Kind.CONFLICT
    code = "illegal_transition"
    message = "A {noun} that is {state} cannot take {event}."

    noun: str
    state: str
    event: str


@dataclass(eq=False, kw_only=True)
class Ended(Refusal):
    """The thing is over."""

    kind = Kind.CONFLICT
    code = "ended"
    message = "The {what} {name} is over: {why}."

    what: str
    name: str
    why: str


@dataclass(eq=False, kw_only=True)
class IdempotencyConflict(Refusal):
    """The key of a repeated call came with another request (API-2)."""

    kind = Kind.CONFLICT
    code = "idempotency_conflict"
    message = "The Idempotency-Key {key!r} was used for another request already."
    hint = "Send a new key for a new request, or the same body to repeat the old one."

    key: str


@dataclass(eq=False, kw_only=True)
class Suspended(Refusal):
    """A person suspended the engine; only a person resumes it."""

    kind = Kind.DISABLED
    code = "suspended"
    message = "{engine} is suspended by {by}."
    hint = "`hostler resume {engine}` lets it start again."

    engine: str
    by: str


@dataclass(eq=False, kw_only=True)
class OrchestrationDisabled(Refusal):
    """Nothing is ever started or stopped on this host (GATE-4)."""

    kind = Kind.DISABLED
    code = "orchestration_disabled"
    message = "Nothing is started or stopped on {host}: orchestration is off ({why})."
    hint = "Unset HOSTLER_DISABLE_ORCHESTRATION, or set hosts.{host}.orchestration to true."

    host: str
    why: str


@dataclass(eq=False, kw_only=True)
class NotLaunchable(Refusal):
    """The engine is not ours to start, switched off, or something it needs is missing."""

    kind = Kind.DISABLED
    code = "not_launchable"
    message = "{engine} cannot be started here: {why}."
    hint = "{fix}"

    engine: str
    why: str
    fix: str = ""


@dataclass(eq=False, kw_only=True)
class BoxReserved(Refusal):
    """A start was asked for on a host whose hold does not allow that engine (HOLD-13).

    `until` is when the hold ends; of a record that is `unreadable` (then the defect) when it ages out.
    """

    kind = Kind.BUSY
    code = "box_reserved"
    message = "{host} is held by {owner} until {until}: {engine} is not started."
    hint = "Wait, use a model that runs, or ask its owner; `hostler box status` shows the hold."

    host: str
    engine: str
    owner: str
    reason: str = ""
    until: str = "unknown"
    expires_at: str | None = None
    unreadable: str | None = None

    def facts(self) -> dict[str, object]:
        """The facts; `unreadable` only of a record that is."""
        return {name: fact for name, fact in super().facts().items() if name != "unreadable" or fact}

    def advice(self) -> str:
        """How to go on. Nobody owns a record that cannot be read (HOLD-4): the hint names what clears it."""
        if self.unreadable is None:
            return super().advice()
        return (
            f"The hold record {self.unreadable}: `hostler box release` clears it and keeps its bytes,"
            f" or it ages out at {self.until}."
        )


@dataclass(eq=False, kw_only=True)
class HoldTaken(Refusal):
    """Somebody has it: another owner's hold is not overwritten (HOLD-9), no leased resource given.

    `lease` and `waiting` are of a resource (LEASE-23): who holds it, and how many wait.
    """

    kind = Kind.BUSY
    code = "held"
    message = "{what} is held by {owner} until {until}."
    hint = "{way}"

    owner: str
    until: str
    way: str = ""
    what: str = "The box"
    lease: str = ""
    waiting: int = 0


@dataclass(eq=False, kw_only=True)
class Leased(Refusal):
    """A lease has the thing as it is; nobody else changes, starts or stops it (LEASE-15, EVICT-2)."""

    kind = Kind.BUSY
    code = "leased"
    message = "{thing} is leased: {why}."
    hint = "Wait until the lease is over, or ask its holder; `hostler schedule` shows who has what."

    thing: str
    why: str
    lease: str = ""
    resource: str = ""
    holder: str = ""
    until: str = ""


@dataclass(eq=False, kw_only=True)
class WindowClosing(Refusal):
    """A window takes no new requests since its soft deadline; those under way go on to its cap (WIN-2)."""

    kind = Kind.BUSY
    code = "window_closing"
    message = "{engine} takes no new requests since {stop_accepting_at}: its window closes at {until}."
    hint = "Ask again once the window is over; `hostler window status` shows what is then up."

    engine: str
    stop_accepting_at: str
    until: str
    lease: str = ""


@dataclass(eq=False, kw_only=True)
class Draining(Refusal):
    """The engine takes no new requests for now (GW-8, EVICT-2)."""

    kind = Kind.BUSY
    code = "draining"
    message = "{engine} is draining: {why}."
    hint = "Try again when it is done; `hostler why {engine}` says what it waits for."

    engine: str
    why: str


@dataclass(eq=False, kw_only=True)
class Loading(Refusal):
    """The engine will not be ready within the caller's max_wait (GW-6)."""

    kind = Kind.BUSY
    code = "loading"
    message = "{engine} is loading: {elapsed_s} s of {budget_s} s."
    hint = "Try again after Retry-After, or send x-hostler-class with a longer wait."

    engine: str
    elapsed_s: int
    budget_s: int


@dataclass(eq=False, kw_only=True)
class QueueFull(Refusal):
    """Too many wait already (429): for an engine, for a resource (R58), or too many jobs are open."""

    kind = Kind.BUSY
    code = "queue_full"
    message = "{waiting} wait for {what} already."
    hint = "Try again after Retry-After."

    what: str
    waiting: int


@dataclass(eq=False, kw_only=True)
class ServingClassRefused(Refusal):
    """A start of a class other than resident without that class named in the call (CAT-5)."""

    kind = Kind.CLASS
    code = "serving_class_refused"
    message = "{engine} is {serving_class}: {why}."
    hint = "An operator may name the class in the call: --override {serving_class}."

    engine: str
    serving_class: str
    why: str


@dataclass(eq=False, kw_only=True)
class MemoryNow(Refusal):
    """It does not fit at present (MEM-2); `arithmetic` has the sum."""

    kind = Kind.EXHAUSTED
    code = "memory_now"
    message = "{engine} does not fit on {host} now: {arithmetic}."
    hint = "Stop something, or wait until it is idle; `hostler why {engine}` shows the sum."

    engine: str
    host: str
    arithmetic: str


@dataclass(eq=False, kw_only=True)
class MemoryNever(Refusal):
    """It needs more than the host has (MEM-2); waiting does not help."""

    kind = Kind.EXHAUSTED
    code = "memory_never"
    message = "{engine} can never fit on {host}: {arithmetic}."
    hint = "Use a smaller quant or context, or another host."

    engine: str
    host: str
    arithmetic: str


@dataclass(eq=False, kw_only=True)
class PortConflict(Refusal):
    """Something that is not this engine listens on its port (ENG-4)."""

    kind = Kind.EXHAUSTED
    code = "port_conflict"
    message = "Port {port} of {engine} is taken by {holder}."
    hint = "Stop that process, or give the engine another port; nothing of ours touches it."

    engine: str
    port: int
    holder: str


@dataclass(eq=False, kw_only=True)
class TopologyRefused(Refusal):
    """A link that its shape goes over is not as it must be (CAT-8)."""

    kind = Kind.EXHAUSTED
    code = "topology"
    message = "{engine} is not started on {host}: {why}."
    hint = "Mend the link, or start what is to listen at its other end; `hostler why {engine}` looks again."

    engine: str
    host: str
    why: str


@dataclass(eq=False, kw_only=True)
class LimitReached(Refusal):
    """A bound of this program was reached."""

    kind = Kind.EXHAUSTED
    code = "limit"
    message = "The limit of {limit} {what} is reached."
    hint = "Try again when some have ended."

    what: str
    limit: int


@dataclass(eq=False, kw_only=True)
class StopUnverified(Refusal):
    """A stop could not be seen to have worked (ENG-6)."""

    kind = Kind.STUCK
    code = "stop_unverified"
    message = "{engine} did not stop: {why}."
    hint = "`hostler logs {engine}` shows its last lines; `hostler stop {engine} --now` tries again."

    engine: str
    why: str


@dataclass(eq=False, kw_only=True)
class MemoryResidue(Refusal):
    """Memory did not come back after a stop (MEM-4)."""

    kind = Kind.STUCK
    code = "memory_residue"
    message = "{engine} is gone, but {residue} of its memory did not come back on {host}."
    hint = "A dead process can pin memory until a reboot; `hostler status` shows what is missing."

    engine: str
    host: str
    residue: str
    waited_s: int = 0
    """How long it was waited for by whoever tells; nothing where it was known from an earlier stop."""
