"""What the daemon says: its log, without any secret in it, and the ids of its bugs (SEC-1)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(eq=False, slots=True)
class Redaction:
    """Takes secrets out of text: those that it began with, and those of every config since (SEC-1).

    A secret that the config no longer has may still stand in what is said of the past.
    """

    secrets: frozenset[str]
    redactor: Redactor

    def __call__(self, text: str) -> str:
        """`text` without any secret."""
        return self.redactor(text)

    def hide(self, secrets: Iterable[str]) -> None:
        """From here on these are hidden as well."""
        every = self.secrets.union(secrets)
        if every != self.secrets:
            self.secrets, self.redactor = every, Redactor(every)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The daemon's log and its redaction."""

    logs: Logs
    redact: Redaction
    ids: SystemIds
    pid: int

    def bug(self, error: BaseException) -> str:
        """Log an unexpected exception under a new id, and return the id: all that a caller is told."""
        number = self.ids.new("err")
        structlog.get_logger("hostler").error("bug", id=number, exc_info=error)
        return number


def speech(fleet: Fleet, paths: Paths, secrets: Sequence[str]) -> Speech:
    """Begin to log as `node.log` says, to stderr and to files in the state directory."""
    every = frozenset([*secrets, *secrets_of(fleet)])
    redact = Redaction(every, Redactor(every))
    file = RotatedFile(directory=paths.logs, size=fleet.node.log_size, files=fleet.node.log_files)
    logs = set_up(redact=redact, level=fleet.node.log_level, file=file)
    return Speech(logs=logs, redact=redact, ids=SystemIds(), pid=os.getpid())


def secrets_of(fleet: Fleet) -> Iterator[str]:
    """Every key in the config that is kept in clear: those that are sent to others."""
    keys = [
        *(host.key for host in fleet.hosts.values()),
        *(engine.key for engine in fleet.engines.values()),
        *(upstream.key for upstream in fleet.upstreams.values()),
        *(peer.key for peer in fleet.peers.values()),
    ]
    yield from (key.value for key in keys if key is not None)
