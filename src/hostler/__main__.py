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
    from hostler.services.holds_offline import BoxParts
    from hostler.services.schedule_offline import OfflineSchedule
    from hostler.services.serving import ServeParts


class Lazily:
    """The bootstrap, loaded when a command asks for a part of it."""

    def box(self) -> BoxParts:
        from hostler.bootstrap.offline import offline_box

        return offline_box(os.environ)

    def config(self) -> ConfigParts:
        from hostler.bootstrap.offline import offline_config

        return offline_config(os.environ)

    def catalog(self) -> CatalogParts:
        from hostler.bootstrap.offline import offline_catalog

        return offline_catalog(os.environ)

    def serving(self) -> ServeParts:
        from hostler.bootstrap.serving import Serving

        return Serving(env=os.environ)

    def schedule(self) -> OfflineSchedule:
        from hostler.bootstrap.offline_schedule import offline_schedule

        return offline_schedule(os.environ)


def main() -> None:
    """Run one command and leave with its exit code (INTERFACE-4)."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"hostler {__version__}")
        return
    from hostler.interfaces.cli.main import run

    sys.exit(run(arguments, Lazily()))


if __name__ == "__main__":
    main()
