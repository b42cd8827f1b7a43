"""Events: what happened, as rows of the one log (FEED-3).

Decides the shape of an event and which types exist. Never carries a secret or a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hostler.domain.fleet import frozen
from hostler.domain.values import Priority

TYPES: Final[Mapping[str, str]] = frozen(
    {
        "daemon_started": "A daemon began to serve this host.",
        "daemon_stopped": "A daemon shut down in order.",
        "config_reloaded": "A changed config was taken up.",
        "config_rejected": "A changed config is not right; the one in force stays.",
        "engine_starting": "The gate said yes; a start began.",
        "engine_ready": "An engine serves as itself.",
        "engine_draining": "An engine takes no new requests.",
        "engine_drain_ended": "An engine takes requests again.",
        "engine_stopping": "A stop began.",
        "engine_stopped": "An engine was seen to be gone.",
        "engine_failed": "A start, a stop or three probes failed, or it crashed.",
        "engine_found": "A running engine of an earlier daemon was found.",
        "engine_cleared": "A failed engine may be tried again.",
        "engine_suspended": "A person suspended an engine.",
        "engine_resumed": "A person let a suspended engine start again.",
        "revival_off": "What else brings an engine up, such as a restart policy, was switched off.",
        "revival_back": "What else brought an engine up does so again.",
        "engine_measured": "What an engine really took was recorded.",
        "start_refused": "The gate refused a start.",
        "evicted": "An engine was stopped to make room for another.",
        "deferred": "A residency, retry or revert was put off.",
        "resident_down": "A resident engine has not been ready for 10 minutes.",
        "hold_opened": "A hold was seen for the first time.",
        "hold_first_refusal": "A hold refused its first start.",
        "hold_expired": "A hold lapsed.",
        "hold_released": "A hold was removed or replaced.",
        "hold_unreadable": "The hold record cannot be read and counts as held.",
        "hold_aged_out": "An unreadable hold record no longer counts.",
        "hold_changed_by_force": "Somebody took over or released another owner's hold.",
        "route_switched": "A route's active profile changed.",
        "request_ended": "A request ended other than well.",
        "memory_residue": "Memory did not come back after a stop.",
        "memory_floor": "Memory stayed under the floor.",
        "clock_jumped": "The wall clock jumped.",
        "lease_booked": "A slot was booked ahead.",
        "lease_queued": "A claim waits for its resource.",
        "lease_waiting": "The first in line waits for a condition.",
        "lease_offered": "The resource is kept for a claim until it is taken up.",
        "lease_granted": "A claim has the resource; its steps begin.",
        "lease_active": "Every step was seen to hold; the holder may use the resource.",
        "lease_renewed": "A lease or a place was renewed.",
        "lease_shifted": "A fence came down: the time under it counts toward nothing.",
        "lease_expiring": "A lease will expire soon.",
        "lease_reminder": "A lease without an end goes on.",
        "lease_cancelling": "An activation is called off; its step finishes first.",
        "lease_releasing": "What the lease did is being put back.",
        "lease_stuck": "A lease could not be put back; the resource stays held.",
        "lease_drifted": "Somebody changed what a lease had changed; it was left.",
        "lease_ended": "A lease is over.",
        "lease_abandoned": "An operator freed a stuck lease.",
        "window_closing": "A window's soft deadline: its engines take no new requests.",
        "window_strike": "An engine came up against a window.",
        "window_restored": "What a window had evicted is back on a host, and was verified.",
        "hold_written_again": "The hold record of a lease or window was gone, and was written again.",
        "hold_lost": "A lease or window goes on without its hold: it was taken away, or another is there.",
        "window_hold_lapsed": "The hold record of a window lapsed before its restore was verified.",
        "step_begun": "A step was recorded; its effect follows.",
        "step_done": "A step was seen to hold.",
        "step_undone": "A step was put back, and seen to be.",
        "step_failed": "A step, or its undo, was not seen to hold.",
        "deadman_restarted": "A deadman was gone; the daemon started another.",
        "deadman_missing": "A deadman is gone, and no other could be started.",
        "deadman_restored": "A deadman put its host back.",
        "deadman_failed": "A deadman could not put back all of its host.",
        "fence_up": "A deployment fence went up.",
        "fence_down": "The deployment fence came down.",
        "node_lost": "A host's node does not answer its head any more.",
        "lease_left_there": "A node told what a lease that is over did there, and it was not put back.",
        "node_back": "A host's node answers again, and was compared with the schedule.",
        "head_lost": "This node has not heard of its head for a while: it keeps what leases hold here.",
        "head_back": "The head asks this node again.",
        "lease_restored_here": "A node that was cut off put a lease back at its hard end.",
        "lease_kept_here": "A node that was cut off could not put a lease back.",
        "row_published": "This node tells its peers of something that can be asked.",
        "row_retired": "This node tells its peers that a row is over.",
        "rows_heard": "A paired node told of new rows.",
        "rows_odd": "Something of the file of rows is not as it should be; it was kept as it was found.",
        "peer_lost": "A paired node does not answer, or not as it should.",
        "peer_back": "A paired node exchanges rows again.",
        "job_started": "A job began.",
        "job_updated": "A job's holder reported.",
        "job_quiet": "A job's holder has not been heard of for three intervals.",
        "job_stalled": "A job's holder has not been heard of for ten intervals.",
        "job_abandoned": "A job's holder has not been heard of for a day.",
        "job_recovered": "A job's holder was heard of again.",
        "job_lease_lost": "A job's lease ended before the job.",
        "job_ended": "A job is over.",
        "schedule_recovered": "The schedule began anew, or went on after it had gone back.",
        "history_failing": "The history file cannot be written.",
        "events_dropped": "Events were lost to a full queue.",
        "store_unavailable": "The schedule's store cannot be used.",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. `subject` names what it happened to, by kind: `engine`, `hold`, `route`.

    `facts` are plain JSON values. `priority` None: no notice. `once` is the notice's identity: a second
    event with the same one gives no second notice.
    """

    type: str
    at: datetime
    actor: str = "daemon"
    subject: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    before: str | None = None
    after: str | None = None
    message: str = ""
    facts: Mapping[str, object] = field(default_factory=lambda: frozen({}))
    priority: Priority | None = None
    once: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event with its place in the log: `cursor` is `epoch:seq`, opaque to clients (FEED-2)."""

    seq: int
    epoch: str
    event: Event

    @property
    def cursor(self) -> str:
        """Where a reader that has seen this event goes on."""
        return f"{self.epoch}:{self.seq}"
