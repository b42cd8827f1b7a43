"""What the engine API tells of a container, as a value, and what that means (ENG-2, ENG-6).

Decides how an inspect answer is read: running or not, which start of it, how it ended, what brings it up
again. Asks nobody.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hostler.domain.engine import ExitReport
from hostler.domain.values import format_size

ENGINE_LABEL: Final = "hostler.engine"
DEFINITION_LABEL: Final = "hostler.definition"
_KILLED: Final = 128
"""An exit code above it tells a signal, as shells do; the API has no field of its own for that."""
_FRACTION: Final = re.compile(r"\.(\d{1,6})\d*")
_REVIVAL: Final = re.compile(r"restart: (always|unless-stopped|on-failure)(?::([1-9]\d{0,8}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A restart policy; `most` bounds the tries of `on-failure`, 0: no bound."""

    name: str
    most: int = 0

    def __str__(self) -> str:
        """`restart: on-failure:3`, as `revival` tells it."""
        return f"restart: {self.name}" + (f":{self.most}" if self.most else "")

    @property
    def body(self) -> Mapping[str, object]:
        """What the API's update takes."""
        return {"RestartPolicy": {"Name": self.name, "MaximumRetryCount": self.most}}


NEVER: Final = Policy(name="no")


def policy(revival: str) -> Policy | None:
    """The policy that such words mean; None for any others."""
    match = _REVIVAL.fullmatch(revival)
    return Policy(name=match[1], most=int(match[2] or 0)) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container as it is seen now. `restarting`: it has ended and its policy will start it again.

    `finished` is the end of its last start that has ended, of the year 1 when none has. `published` are its
    ports on this host, as (address, port); `pid` 0 when nothing of it runs.
    """

    id: str
    name: str
    image: str
    running: bool
    restarting: bool
    pid: int
    exit_code: int
    oom_killed: bool
    started: str
    finished: str
    labels: Mapping[str, str]
    network: str
    addresses: tuple[str, ...]
    published: tuple[tuple[str, int], ...]
    restart: Policy
    memory_limit: int
    tty: bool
    stop_signal: str

    @property
    def up(self) -> bool:
        """Whether something of it runs now."""
        return self.running and not self.restarting

    @property
    def identity(self) -> str:
        """Which start of which container: `<id> <when>`, never a name."""
        return f"{self.id} {self.started}"

    @property
    def started_at(self) -> datetime:
        """When this start was, aware, in UTC."""
        return instant(self.started)

    @property
    def ended(self) -> ExitReport:
        """How it ended. Ask only when it is not up."""
        return exit_report(self.exit_code, oom_killed=self.oom_killed, limit=self.memory_limit)


def exit_report(code: int, *, oom_killed: bool, limit: int) -> ExitReport:
    """An exit code of the API as status or signal. A kill for want of memory is named as such."""
    hint = ""
    if oom_killed:
        within = f" within its limit of {format_size(limit)}" if limit else ""
        hint = f"out of memory{within}: the kernel killed it, or a process of it"
    number = code - _KILLED
    if 0 < number < signal.NSIG:
        return ExitReport(status=None, signal=number, hint=hint)
    return ExitReport(status=code, signal=None, hint=hint)


def instant(text: str) -> datetime:
    """A time of the API, which has nine digits after the second, or an offset, or none of both."""
    found = datetime.fromisoformat(_FRACTION.sub(lambda it: f".{it[1]:0<6}", text))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def container(value: object) -> Container:
    """An inspect answer as a value. Raises ValueError, TypeError or KeyError for anything else."""
    top = _table(value)
    state, config, host = _table(top["State"]), _table(top["Config"]), _table(top["HostConfig"])
    network = _table(top.get("NetworkSettings") or {})
    restart = _table(host.get("RestartPolicy") or {})
    return Container(
        id=_text(top["Id"]),
        name=_text(top["Name"]).removeprefix("/"),
        image=_text(top["Image"]),
        running=state["Running"] is True,
        restarting=state.get("Restarting") is True,
        pid=_number(state.get("Pid")),
        exit_code=_number(state.get("ExitCode")),
        oom_killed=state.get("OOMKilled") is True,
        started=_text(state["StartedAt"]),
        finished=str(state.get("FinishedAt") or ""),
        labels={name: str(label) for name, label in _table(config.get("Labels") or {}).items()},
        network=str(host.get("NetworkMode") or ""),
        addresses=_addresses(network),
        published=_published(_table(network.get("Ports") or {})),
        restart=Policy(name=_restart_name(restart), most=_number(restart.get("MaximumRetryCount"))),
        memory_limit=_number(host.get("Memory")),
        tty=config.get("Tty") is True,
        stop_signal=str(config.get("StopSignal") or "SIGTERM"),
    )


def _restart_name(restart: Mapping[str, object]) -> str:
    """Docker says `no` or nothing where there is none, some versions of Podman `never`."""
    name = str(restart.get("Name") or "")
    return NEVER.name if name in ("", "never") else name


def _published(ports: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    found = []
    for name, bindings in ports.items():
        if not name.endswith("/tcp") or not isinstance(bindings, list):
            continue
        for binding in map(_table, bindings):
            port = str(binding.get("HostPort") or "")
            if port.isdigit():
                found.append((str(binding.get("HostIp") or ""), int(port)))
    return tuple(found)


def _addresses(network: Mapping[str, object]) -> tuple[str, ...]:
    nets = (_table(one) for one in _table(network.get("Networks") or {}).values())
    return tuple(str(one["IPAddress"]) for one in nets if one.get("IPAddress"))


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("not an answer of a container engine")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text is missing in the answer of the container engine")
    return value


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
