"""What the commands `hostler ports` and `hostler fits` ask for: one Protocol, light enough to load always.

Decides nothing; `hostler.adapters.scan` fulfils it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hostler.services.ports import Allocation, FitReport, PortReport, Proposal, Wish


class PortsParts(Protocol):
    """Ports as commands see them that need no daemon (INTERFACE-3).

    `config` None searches; without any there is no registry. All raise InvalidConfig for a config, or a file
    of rows, with errors, and NotFound for a folder that is not there.
    """

    def check(
        self, dirs: Sequence[str], *, host: str | None, env: Mapping[str, str], config: str | None
    ) -> PortReport:
        """Scan `dirs`, else those of the config; `env` are variables for compose files."""
        ...

    def free(self, wish: Wish, *, config: str | None) -> Proposal:
        """A port that registry, files and listeners leave free. Refusals: not_found for the host."""
        ...

    def allocate(self, wish: Wish, *, config: str | None) -> Allocation:
        """Write its row and read it back. Refusals: also limit where none is free, registry_unusable."""
        ...

    def fits(self, engines: Sequence[str], *, on: str | None, config: str | None) -> FitReport:
        """The sum of these engines on a host. Refusals: engine_not_found, not_found for the host."""
        ...
