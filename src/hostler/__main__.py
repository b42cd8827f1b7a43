"""`hostler` and `python -m hostler`: hands the bootstrap to the command line.

Decides nothing but that `--version` needs neither (PERF-11).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hostler import __version__

if TYPE_CHECKING:
    from hostler.services.catalog_parts import CatalogParts
    from hostler.services.config_parts import ConfigParts
    from hostler.services.deadman_offline import OfflineDeadmen
    from hostler.services.doctor_parts import DoctorParts
    from hostler.services.holds_offline import BoxParts
    from hostler.services.import_parts import ImportParts
    from hostler.services.ports_parts import PortsParts
    from hostler.services.schedule_offline import OfflineSchedule
    from hostler.services.service_parts import ServiceParts
    from hostler.services.serving import ServeParts
    from hostler.services.sight_parts import SightParts


class Lazily:
    """The bootstrap, loaded when a command asks for a part of it."""

    def box(self) -> BoxParts:
        from hostler.bootstrap.offline import offline_box

        return offline_box(os.environ)

    def config(self) -> ConfigParts:
        from hostler.bootstrap.offline import offline_config

        return offline_config(os.environ)

    def imports(self) -> ImportParts:
        from hostler.bootstrap.offline import offline_import

        return offline_import(os.environ)

    def sight(self) -> SightParts:
        from hostler.bootstrap.offline import offline_sight

        return offline_sight(os.environ)

    def ports(self) -> PortsParts:
        from hostler.bootstrap.offline import offline_ports

        return offline_ports(os.environ)

    def doctor(self) -> DoctorParts:
        from hostler.bootstrap.offline_doctor import offline_doctor

        return offline_doctor(os.environ)

    def catalog(self) -> CatalogParts:
        from hostler.bootstrap.offline import offline_catalog

        return offline_catalog(os.environ)

    def serving(self) -> ServeParts:
        from hostler.bootstrap.serving import Serving

        return Serving(env=os.environ)

    def schedule(self) -> OfflineSchedule:
        from hostler.bootstrap.offline_schedule import offline_schedule

        return offline_schedule(os.environ)

    def service(self) -> ServiceParts:
        from hostler.bootstrap.offline import offline_service

        return offline_service(os.environ)

    def deadmen(self) -> OfflineDeadmen:
        from hostler.bootstrap.offline_deadmen import offline_deadmen

        return offline_deadmen(os.environ)


def main() -> None:
    """Run one command and leave with its exit code (INTERFACE-4)."""
    _open_standard_streams()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"hostler {__version__}")
        return
    from hostler.interfaces.cli.main import run

    sys.exit(run(arguments, Lazily()))


def _open_standard_streams() -> None:
    """A standard stream that was closed leads to nowhere: no file that is opened later takes its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))


if __name__ == "__main__":
    main()
