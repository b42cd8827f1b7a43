"""Keys of `fleet`, `schedule` and `node`: the whole and this daemon."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from hostler.adapters.config.schema.base import (
    AbsolutePath,
    Duration,
    Line,
    Listen,
    Name,
    Size,
    Strict,
    Time,
    kind_of,
    list_form,
    matching,
)

_MODES = ("0600", "0640", "0644")


def _hold_mode(value: object) -> str:
    if value in _MODES:
        return str(value)
    unquoted = not isinstance(value, str)
    why = "; unquoted, 0640 is the number 640" if unquoted else ""
    raise ValueError(f'expected the quoted text "0600", "0640" or "0644", not {kind_of(value)}{why}')


HoldMode = Annotated[str, PlainValidator(_hold_mode), WithJsonSchema({"enum": list(_MODES)})]
UserName = Annotated[str, PlainValidator(matching(r"[a-z_][a-z0-9_.-]{0,31}\$?", "the name of a user"))]

Owner = Annotated[
    Annotated[Name, Tag("=one")] | Annotated[list[Name], Tag("=list")], Discriminator(list_form)
]
Listeners = Annotated[
    Annotated[Listen, Tag("=one")] | Annotated[list[Listen], Tag("=list")], Discriminator(list_form)
]


class Retention(Strict):
    """How long the past is kept."""

    ended: Time = 90 * 86_400.0
    """Ended leases and jobs, with their events."""
    requests: Time = 14 * 86_400.0
    """Rows of the request log, which has a database of its own."""


class FleetKeys(Strict):
    """The fleet as a whole."""

    name: Line = "hostler"
    """Shown in notices and on the dashboard."""
    timezone: Line | None = None
    """Zone of quiet hours and of bookings without one, as in Europe/Berlin; default: the head's."""
    retention: Retention = Retention()
    """How long the past is kept."""


class Schedule(Strict):
    """Who owns the schedule."""

    owner: Owner | None = None
    """The head; with PostgreSQL a list of hosts. Default: the only host."""


class TlsKeys(Strict):
    """TLS of the listener."""

    cert: AbsolutePath
    """File of the certificate chain, PEM."""
    key: AbsolutePath
    """File of its private key, as ${file:PATH}: 0600 or 0400, ours or root's."""


class Log(Strict):
    """Log files: the daemon's in <state_dir>/logs, an engine's in <state_dir>/engines/<id>."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important line that is kept."""
    size: Size = 10 << 20
    """A file that has grown to this is rotated."""
    files: Annotated[int, Field(ge=1, le=1000)] = 10
    """Rotated files kept."""


class NodeKeys(Strict):
    """This daemon. The same keys under hosts.<name>.node win on that host."""

    listen: Listeners = "127.0.0.1:7070"
    """Where the daemon listens, one or several; other than loopback needs keys. Port 0 picks a free one."""
    tls: TlsKeys | None = None
    """Certificate and key; absent: plain HTTP."""
    state_dir: AbsolutePath | None = None
    """Where state is kept; else $HOSTLER_STATE_DIR, else the XDG state directory."""
    models_dir: AbsolutePath | None = None
    """Where model files lie; default: models in the XDG data directory."""
    hold_path: AbsolutePath | None = None
    """The hold file; overrides the default, not the environment."""
    hold_mode: HoldMode = "0600"
    """Mode of the hold file, quoted: "0600", "0640" or "0644". Nobody else writes it."""
    hold_writers: list[UserName] = Field(default_factory=list)
    """Users besides this one and root whose hold records count."""
    on_exit: Literal["keep", "stop"] = "keep"
    """What SIGTERM to the daemon does to engines that it started."""
    shutdown: Duration = 30.0
    """How long open streams may finish when the daemon ends."""
    log: Log = Log()
    """Log files."""
