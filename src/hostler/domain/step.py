"""Steps: what a lease does to a host, as data, each with what it found and its undo (LEASE-4, LEASE-10).

Decides which kinds of steps there are, what each finds, when it is done, and what puts it back. Performs
nothing: a node does. A step is addressed to a host; it carries no lease: the operation that runs it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldHost:
    """Write the host's hold record in the lease's name (HOLD-11).

    The record outlives the lease by `after_s` (WIN-5).
    """

    host: str
    allow: tuple[str, ...] = ()
    after_s: float = 600.0
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRoute:
    """Make `profile` the active one of `route` at the gateway of `host`."""

    host: str
    route: str
    profile: str
    kind: Literal["route"] = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEngine:
    """Let no new request into `engine` and wait until those under way have ended; past `drain_s` it fails."""

    host: str
    engine: str
    drain_s: float
    kind: Literal["drain"] = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendEngine:
    """Stop `engine` and keep it stopped in the lease's name (NODE-5); `memory_back`: see its memory back.

    `back` False: its undo lets it start again and starts nothing (WIN-8).
    """

    host: str
    engine: str
    memory_back: bool = False
    back: bool = True
    kind: Literal["suspend"] = "suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEngine:
    """Stop `engine`; the guard keeps others from starting it while leased (LEASE-15).

    As a step it also lets nothing else bring it up; as an undo it leaves that as it is. `of`: the distributed
    engine that stops, of which this is a member. `back` False: its undo starts nothing (WIN-8).
    """

    host: str
    engine: str
    memory_back: bool = False
    back: bool = True
    of: str = ""
    kind: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEngine:
    """Start `engine` through the gate (GATE-3) and see it ready as itself.

    `override` is its serving class, as a mode's plan names it (CAT-5); empty for a resident one. `of` is the
    distributed engine that starts, of which this is a member: `cause` says why, and `lease` whose it is.
    """

    host: str
    engine: str
    override: str = ""
    of: str = ""
    cause: str = ""
    lease: str = ""
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Run `argv`; `undo` puts it back; `check` with exit 0 says that it is so already. No shell, ever.

    To another host only `definition` travels, where the config says it, and its `digest` (CONF-6).
    `undo_timeout_s` None: as `timeout_s`. `cap_s`: it is a window's script, told its cap in seconds and where
    the hold is (MODE-4).
    """

    host: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] | None = None
    check: tuple[str, ...] | None = None
    timeout_s: float = 60.0
    definition: str = ""
    digest: str = ""
    undo_timeout_s: float | None = None
    cap_s: float | None = None
    kind: Literal["exec"] = "exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWebhook:
    """POST to `url`; `undo` is called at the end. `definition` and `digest` as of a command."""

    host: str
    url: str
    undo: str | None = None
    timeout_s: float = 10.0
    definition: str = ""
    digest: str = ""
    kind: Literal["webhook"] = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDeadman:
    """Start the deadman of `window` on the host, and see it alive (WIN-1).

    Its commands are the node's own affair: only ids travel. `window` is the lease's id; `cap_s` are the
    seconds from the operation on until the deadman restores, whatever happened. `bring_back` are the standing
    engines of this host that its restore starts, in order; `end` those of the mode that it ends first.
    """

    host: str
    window: str
    mode: str
    cap_s: float
    bring_back: tuple[str, ...]
    end: tuple[str, ...]
    kind: Literal["arm"] = "arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMemory:
    """See so much memory available and no more residue than that, live, after the evictions (WIN-3)."""

    host: str
    available: int | None = None
    max_residue: int = 2 << 30
    kind: Literal["memory"] = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRestore:
    """Nothing at first; its undo is itself: the mode's verify commands of this host, each exit 0 (WIN-4)."""

    host: str
    mode: str
    kind: Literal["verify"] = "verify"


Step = (
    HoldHost
    | PointRoute
    | DrainEngine
    | SuspendEngine
    | StopEngine
    | StartEngine
    | RunCommand
    | CallWebhook
    | ArmDeadman
    | CheckMemory
    | VerifyRestore
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHold:
    """The live hold: `identity` and `owner` None when there is none; `lease` when a lease took it."""

    identity: str | None = None
    owner: str | None = None
    lease: str | None = None
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRoute:
    """The active profile of the route, None when it has none; what it leads to: `engines`, `upstreams`."""

    profile: str | None
    engines: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    kind: Literal["route"] = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEngine:
    """An engine: whether it is up (ready, or draining), who suspended it, who keeps it draining.

    `lives`: it is not up, and something of it runs: one that failed, or is not known yet.
    `revival` is what else brings it up, such as `restart: always`; None when nothing does (ENG-2).
    """

    up: bool
    suspended_by: tuple[str, ...] = ()
    draining_by: tuple[str, ...] = ()
    state: str = ""
    revival: str | None = None
    lives: bool = False
    kind: Literal["engine"] = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCommand:
    """What `check` said: True is so already, False is not, None when there is no check."""

    already: bool | None = None
    kind: Literal["exec"] = "exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNothing:
    """Nothing can be seen of a webhook, and nothing is changed by a look at memory or a verification."""

    kind: Literal["webhook"] = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDeadman:
    """The window that has a deadman on the host, None without one; whether its process is alive."""

    window: str | None = None
    alive: bool = False
    kind: Literal["deadman"] = "deadman"


Found = FoundHold | FoundRoute | FoundEngine | FoundCommand | FoundNothing | FoundDeadman


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveHold:
    """Remove the hold record that the lease wrote, and no other."""

    host: str
    kind: Literal["unhold"] = "unhold"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDrain:
    """Take away the lease's claim on the drain of `engine`."""

    host: str
    engine: str
    kind: Literal["undrain"] = "undrain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeEngine:
    """Take away the lease's suspension of `engine`, and put back what else brings it up.

    With `start` start it and see it serve as itself.
    """

    host: str
    engine: str
    start: bool
    kind: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCommand:
    """Run the undo of a command. `check` with exit 0 afterwards says that it is not undone."""

    host: str
    argv: tuple[str, ...]
    check: tuple[str, ...] | None = None
    timeout_s: float = 60.0
    definition: str = ""
    digest: str = ""
    cap_s: float | None = None
    kind: Literal["unexec"] = "unexec"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWebhook:
    """POST to the undo URL of a webhook."""

    host: str
    url: str
    timeout_s: float = 10.0
    definition: str = ""
    digest: str = ""
    kind: Literal["unwebhook"] = "unwebhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisarmDeadman:
    """End the deadman of `window` on the host, by its own pid and start time, and see it gone."""

    host: str
    window: str
    kind: Literal["disarm"] = "disarm"


Undo = (
    RemoveHold
    | PointRoute
    | EndDrain
    | ResumeEngine
    | StartEngine
    | StopEngine
    | UndoCommand
    | UndoWebhook
    | DisarmDeadman
    | VerifyRestore
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceNumber:
    """What a grant is known by: a higher one ends the rights of all before it (LEASE-8)."""

    epoch: str
    generation: int

    @property
    def order(self) -> tuple[str, int]:
        """Epochs are made so that they sort by the time of their making."""
        return self.epoch, self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One step or undo as a node is told to do it (NODE-1): fenced, and known by `id` when it is repeated.

    `found` is what a step found before it, kept with the receipt, so that it can be put back by a head that
    lost its journal. `covers` are the resources whose highest fence number the node compares and keeps.
    `expires_at` (RFC 3339, None: indefinite) and `holder`, `reason` are for the hold record; so is
    `stop_accepting_at`, which only a window has (WIN-2). `deadline_s` is how long it may take.
    """

    id: str
    lease: str
    fence: FenceNumber
    covers: tuple[str, ...]
    step: Step | Undo
    deadline_s: float
    found: Found | None = None
    holder: str = ""
    reason: str = ""
    expires_at: str | None = None
    stop_accepting_at: str | None = None
