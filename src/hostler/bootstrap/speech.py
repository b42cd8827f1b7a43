"""What the daemon says: its log, without any secret in it, and the ids of its bugs (SEC-1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from hostler.adapters.config.paths import Paths
from hostler.adapters.ids import SystemIds
from hostler.adapters.telemetry import Logs, RotatedFile, set_up
from hostler.domain.events import Event
from hostler.domain.fleet import Fleet
from hostler.services.needs import Events, Meters
from hostler.wire.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvents:
    """Events on their way into the event log: each is a line of the daemon's log too (HOLD-14)."""

    queue: Events
    meters: Meters

    def emit(self, event: Event) -> None:
        """Write the line, then queue the event."""
        structlog.get_logger("hostler.events").info(
            event.type,
            **{name: value for name, value in event.subject.items() if name != "event"},
            actor=event.actor,
            before=event.before,
            after=event.after,
            text=event.message,
        )
        if event.type in ("start_refused", "deferred") and event.after is not None:
            self.meters.refused(code=event.after)
        self.queue.emit(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The daemon's log and its redaction."""

    logs: Logs
    redact: Callable[[str], str]
    ids: SystemIds
    pid: int

    def bug(self, error: BaseException) -> str:
        """Log an unexpected exception under a new id, and return the id: all that a caller is told."""
        number = self.ids.new("err")
        structlog.get_logger("hostler").error("bug", id=number, exc_info=error)
        return number


def speech(fleet: Fleet, paths: Paths, secrets: Sequence[str]) -> Speech:
    """Begin to log as `node.log` says, to stderr and to files in the state directory."""
    redact = Redactor([*secrets, *_secrets_of(fleet)])
    file = RotatedFile(directory=paths.logs, size=fleet.node.log_size, files=fleet.node.log_files)
    logs = set_up(redact=redact, level=fleet.node.log_level, file=file)
    return Speech(logs=logs, redact=redact, ids=SystemIds(), pid=os.getpid())


def _secrets_of(fleet: Fleet) -> Iterator[str]:
    """Every key in the config that is kept in clear: those that are sent to others."""
    keys = [
        *(host.key for host in fleet.hosts.values()),
        *(engine.key for engine in fleet.engines.values()),
        *(upstream.key for upstream in fleet.upstreams.values()),
    ]
    yield from (key.value for key in keys if key is not None)
