"""Refusals of the schedule: leases, places, fences, jobs."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors.base import Kind, Refusal


@dataclass(eq=False, kw_only=True)
class LeaseNotFound(Refusal):
    """No lease of that id."""

    kind = Kind.NOT_FOUND
    code = "lease_not_found"
    message = "There is no lease {lease!r} here."
    hint = "`hostler schedule` lists the leases, `hostler mine` yours."

    lease: str


@dataclass(eq=False, kw_only=True)
class NoWindow(Refusal):
    """A command meant the one window there is, and there is none."""

    kind = Kind.NOT_FOUND
    code = "no_window"
    message = "No window {what}."
    hint = "`hostler window status` shows the one that is open, `hostler mode` the modes there are."

    what: str


@dataclass(eq=False, kw_only=True)
class ResourceNotFound(Refusal):
    """Nothing of that name can be leased (R4)."""

    kind = Kind.NOT_FOUND
    code = "resource_not_found"
    message = "There is no resource {resource!r} here."
    hint = (
        "{known} One more is a line under `reservations: resources:` of the config, then `hostler reload`:"
        " `box: {{actions: [{{hold: HOST}}]}}`; the host is `local` where the config has no `hosts:`."
    )

    resource: str
    known: str = ""


@dataclass(eq=False, kw_only=True)
class JobNotFound(Refusal):
    """No job of that id."""

    kind = Kind.NOT_FOUND
    code = "job_not_found"
    message = "There is no job {job!r} here."
    hint = "`hostler job list` lists the jobs."

    job: str


@dataclass(eq=False, kw_only=True)
class TtlRefused(Refusal):
    """A time that the resource does not allow (LEASE-17, LEASE-18)."""

    kind = Kind.INVALID
    code = "ttl_refused"
    message = "{what}"
    hint = "{expected}"
    param = "ttl_s"

    what: str
    expected: str = ""


@dataclass(eq=False, kw_only=True)
class Fenced(Refusal):
    """A deployment fence is up (LEASE-28)."""

    kind = Kind.BUSY
    code = "fenced"
    message = "A fence is up until {until}: {reason}."
    hint = "Wait until it is down; `hostler fence down` takes it down."

    until: str
    reason: str
    by: str = ""


@dataclass(eq=False, kw_only=True)
class SlotTaken(Refusal):
    """A booking overlaps another, or a lease that may run so long (LEASE-26)."""

    kind = Kind.BUSY
    code = "slot_taken"
    message = "{resource} is taken between {start} and {end}."
    hint = "Free then: {free}."

    resource: str
    start: str
    end: str
    free: str


@dataclass(eq=False, kw_only=True)
class StaleGeneration(Refusal):
    """The fence number is not the present one (LEASE-8)."""

    kind = Kind.CONFLICT
    code = "stale_generation"
    message = "{resource} has gone on to generation {present}; {given} is over."
    hint = "Somebody else has it now: {holder}, until {until}. Stop what you do there."

    resource: str
    given: int
    present: int
    holder: str = "nobody"
    until: str = "-"


@dataclass(eq=False, kw_only=True)
class LeaseLost(Refusal):
    """The lease can be trusted no more (LEASE-22)."""

    kind = Kind.CONFLICT
    code = "lease_lost"
    message = "The lease {lease} on {resource} is lost: {why}."
    hint = "Stop what needs it; `hostler reserve {resource}` takes it anew."

    lease: str
    resource: str
    why: str


@dataclass(eq=False, kw_only=True)
class Lapsed(Refusal):
    """A place, an offer or a slot that nobody took in time (LEASE-24)."""

    kind = Kind.BUSY
    code = "lapsed"
    message = "The place for {resource} is gone: {why}."
    hint = "`hostler reserve {resource} --wait` asks anew."

    resource: str
    lease: str
    why: str


@dataclass(eq=False, kw_only=True)
class WaitTimedOut(Refusal):
    """A client waited as long as it was told to; its place was given back (INTERFACE-4: 124)."""

    kind = Kind.BUSY
    code = "wait_timed_out"
    message = "{resource} was not to be had within {waited_s:duration}: {why}."
    hint = "`hostler why {resource}` says what it waits for."

    resource: str
    waited_s: int
    why: str


@dataclass(eq=False, kw_only=True)
class NotHead(Refusal):
    """This node does not own the schedule (R2, R3)."""

    kind = Kind.CONFLICT
    code = "not_head"
    message = "The schedule is owned by {head}, not by {here}."
    hint = "Set HOSTLER_HEAD_URL to {url}, with its key in HOSTLER_HEAD_API_KEY."

    head: str
    here: str
    url: str = ""

    def __post_init__(self) -> None:
        """Where the config says no URL, its owner does."""
        self.url = self.url or f"the URL of {self.head}"


@dataclass(eq=False, kw_only=True)
class ActivationFailed(Refusal):
    """A lease could not be activated; everything was put back, as `why` says (LEASE-12)."""

    kind = Kind.FAILED
    code = "activation_failed"
    message = "{resource} was not taken: {why}."
    hint = "`hostler history --lease {lease}` shows each step."

    resource: str
    lease: str
    why: str


@dataclass(eq=False, kw_only=True)
class Stuck(Refusal):
    """A lease could not be put back (LEASE-14)."""

    kind = Kind.STUCK
    code = "stuck"
    message = "{resource} is stuck at {step}: wanted {wanted}, seen {seen}."
    hint = "Mend it, then `hostler release {lease}`; an operator may `--abandon --because TEXT`."

    resource: str
    lease: str
    step: str
    wanted: str
    seen: str


@dataclass(eq=False, kw_only=True)
class StepFailed(Refusal):
    """A step was done and is not seen to hold, or could not be done."""

    kind = Kind.STUCK
    code = "step_failed"
    message = "{step}: {why}."

    step: str
    why: str


@dataclass(eq=False, kw_only=True)
class AlreadyRestored(Refusal):
    """The host puts the lease back by itself, or has: its deadman, or its cut-off node (WIN-7, F16)."""

    kind = Kind.CONFLICT
    code = "already_restored"
    message = "{host} puts the lease {lease} back by itself: {state}."
    hint = (
        "Nothing is left to do there: the lease ends with its report. Of windows: `hostler deadman status`."
    )

    lease: str
    host: str
    state: str


@dataclass(eq=False, kw_only=True)
class DeadmanFailed(Refusal):
    """A window has no living deadman on a host of it (WIN-1)."""

    kind = Kind.FAILED
    code = "deadman_failed"
    message = "The deadman of {window} on {host} is not seen alive: {why}."
    hint = "Its words are in {log}; without a deadman no window opens."

    window: str
    host: str
    why: str
    log: str = "-"


@dataclass(eq=False, kw_only=True)
class NodeUnreachable(Refusal):
    """A host's node does not answer (NODE-3)."""

    kind = Kind.UNREACHABLE
    code = "node_unreachable"
    message = "The node of {host} does not answer: {why}."
    hint = "`hostler nodes` shows since when; `hostler status` on {host} says whether its daemon runs."

    host: str
    why: str


@dataclass(eq=False, kw_only=True)
class NodeOutdated(Refusal):
    """Two nodes whose API numbers are more than one apart (NODE-7)."""

    kind = Kind.UNAVAILABLE
    code = "node_outdated"
    message = "{upgrade} must be upgraded: {here} speaks node API {ours}, {there} {theirs}."
    hint = "Upgrade Hostler on {upgrade}; one number apart is fine."

    upgrade: str
    here: str
    ours: int
    there: str
    theirs: int


@dataclass(eq=False, kw_only=True)
class ConfigDiffers(Refusal):
    """A command or webhook that two configs define differently (CONF-6)."""

    kind = Kind.CONFIG
    code = "config_differs"
    message = "{definition} is not the same in {file} on {host} and in {other}."
    hint = "Every host of a fleet reads the same bytes: copy the file, then `hostler reload` on each."

    definition: str
    host: str
    file: str
    other: str = "the head's config"
