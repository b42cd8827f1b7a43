"""The parts of `hostler doctor`: this box, its config, its runtimes, and the daemon where one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.doctor import BoxDoctor
from hostler.adapters.host.listeners import HostListeners
from hostler.adapters.scan.offline import OfflinePorts
from hostler.bootstrap.engines import drivers_of
from hostler.client import Client, find_daemon
from hostler.domain.errors import Refusal
from hostler.services.doctor_parts import DoctorParts

STATUS = "/v1/hostler/status"
NODES = "/v1/hostler/nodes"
ASK_S = 5.0
"""How long a daemon is asked: one that hangs is a finding of its own."""


def offline_doctor(env: Mapping[str, str]) -> DoctorParts:
    """What `hostler doctor` looks with."""
    config = OfflineConfig(env=env, here=Path.cwd())

    def told() -> Sequence[str]:
        """The warnings of this user's daemon; none where none runs, which is no fault of the box."""
        daemon = _asked(env, STATUS).get("daemon")
        warnings = daemon.get("warnings") if isinstance(daemon, Mapping) else None
        return [str(text) for text in warnings] if isinstance(warnings, list) else []

    def skews() -> Sequence[tuple[str, float]]:
        """By how many seconds the clocks of other hosts are ahead, as far as the daemon knows."""
        rows = _asked(env, NODES).get("nodes")
        found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        return [
            (str(row["host"]), float(row["skew_s"]))
            for row in found
            if isinstance(row.get("skew_s"), int | float) and "host" in row
        ]

    return BoxDoctor(
        env=env,
        config=config,
        ports=OfflinePorts(config=config, listeners=HostListeners()),
        drivers=drivers_of(env),
        told=told,
        skews=skews,
    )


def _asked(env: Mapping[str, str], path: str) -> Mapping[str, object]:
    """What this user's daemon answers; nothing where none runs, or it does not answer."""
    try:
        with Client(find_daemon(env)) as client:
            answer = client.get(path, timeout_s=ASK_S)
    except Refusal:
        return {}
    return answer if isinstance(answer, Mapping) else {}
