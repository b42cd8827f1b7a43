"""The catalog of a daemon that takes up a config: kept as the last good one, and told once (CAT-7)."""

from __future__ import annotations

from pathlib import Path

import structlog

from hostler.adapters.catalog.kept import keep
from hostler.domain.fleet import Fleet
from hostler.domain.uncurated import uncurated
from hostler.domain.values import EngineId


def take_catalog(fleet: Fleet, state_dir: Path, told: tuple[EngineId, ...] | None = None) -> None:
    """Keep the directory that is in force now; one log line names the engines that no entry speaks of.

    `told` are those that were named before: the same ones are not named again.
    """
    log = structlog.get_logger("hostler")
    try:
        keep(state_dir, fleet.catalog)
    except OSError as error:
        # What is in force stays so; a next start with a broken directory would be without it.
        log.warning("catalog not kept", why=error.strerror)
    if fleet.catalog.trouble:
        log.warning("catalog not read", why=fleet.catalog.trouble)
    without = uncurated(fleet)
    if without and without != told:
        log.info("uncurated engines", engines=", ".join(without), policy=fleet.uncurated)
