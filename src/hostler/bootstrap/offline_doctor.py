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


def offline_doctor(env: Mapping[str, str]) -> DoctorParts:
    """What `hostler doctor` looks with."""
    config = OfflineConfig(env=env, here=Path.cwd())

    def told() -> Sequence[str]:
        """The warnings of this user's daemon; none where none runs, which is no fault of the box."""
        try:
            with Client(find_daemon(env)) as client:
                answer = client.get(STATUS, timeout_s=5.0)
        except Refusal:
            return ()
        daemon = answer.get("daemon") if isinstance(answer, dict) else None
        warnings = daemon.get("warnings") if isinstance(daemon, dict) else None
        return [str(text) for text in warnings] if isinstance(warnings, list) else []

    return BoxDoctor(
        env=env,
        config=config,
        ports=OfflinePorts(config=config, listeners=HostListeners()),
        drivers=drivers_of(env),
        told=told,
    )
