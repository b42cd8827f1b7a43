"""What `hostler doctor` asks for: one look at this box, and one Protocol (INTERFACE-3).

Decides nothing: `hostler.domain.doctor` judges what was seen, `hostler.adapters.doctor` looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hostler.domain.doctor import Facts
    from hostler.services.config_parts import ConfigReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was seen. `report` None: there is no config."""

    facts: Facts
    report: ConfigReport | None


class DoctorParts(Protocol):
    """Looks at this box for the doctor. Changes nothing, starts nothing."""

    def look(self, *, config: str | None, host: str | None, offline: bool) -> Examined:
        """The facts of this box. `offline`: nothing is asked over the network, and no daemon.

        A config that is wrong is no refusal here: it is what was asked for.
        """
        ...
