"""The daemon as a unit of systemd: what `hostler service` asks for, and the answers (INTERFACE-3).

Decides nothing: it is the seam between the command and what does the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The daemon's unit as it is now, or with `dry_run` would be.

    `commands` are those that were run (would be), in order; none where it was all so already. `kept_as` is
    where the text is that was there before and was not ours. `notes` are sentences for a person.
    """

    unit: str
    path: str
    text: str
    commands: tuple[tuple[str, ...], ...]
    kept_as: str | None = None
    notes: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstalled:
    """What became of the unit. `removed` False: there was none. `engines` are those that run on, in words."""

    unit: str
    path: str
    removed: bool
    commands: tuple[tuple[str, ...], ...]
    engines: tuple[str, ...] = ()
    kept_as: str | None = None
    dry_run: bool = False


class ServiceParts(Protocol):
    """The unit of this host's daemon: of this user's manager, or with `system` of the machine's."""

    def install(
        self, *, config: str | None, host: str | None, system: bool, force: bool, dry_run: bool
    ) -> Installed:
        """Write it, enable it, and start it anew unless it runs just so. Again changes nothing.

        `force` replaces a file that is not ours as we wrote it. Refusals: no_config, invalid_config,
        daemon_runs (one that is not the unit's), service_edited, service_failed.
        """
        ...

    def uninstall(self, *, system: bool, force: bool, dry_run: bool) -> Uninstalled:
        """Stop the daemon and remove what `install` wrote. Engines run on, but with `on_exit: stop`.

        Refusals: service_edited, service_failed, invalid_config.
        """
        ...
