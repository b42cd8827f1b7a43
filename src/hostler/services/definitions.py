"""Commands and webhooks by their names: a node does what its own config says, and nothing else (CONF-6).

Decides which definition a name means here, and that another digest is refused before anything is done. What a
lease did under an older config is undone as it was done: its receipt has it (LEASE-5).
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors import ConfigDiffers, NotFound
from hostler.domain.plan import command, webhook
from hostler.domain.step import CallWebhook, RunCommand, Step, Undo
from hostler.domain.undo import undo_of_command, undo_of_webhook
from hostler.domain.values import HostName
from hostler.domain.window_plan import script_of
from hostler.services.present import Present
from hostler.services.receipts import Receipts
from hostler.wire.node_forms import Named

UNDOS = ("unexec", "unwebhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The commands and webhooks of this host. `file` is the config that they are in."""

    config: Present
    receipts: Receipts
    file: str

    def find(self, named: Named, lease: str) -> Step | Undo:
        """What is named, from this host's own config. Refuses `config_differs`, `not_found`."""
        step: RunCommand | CallWebhook | None = self._of_config(named)
        if step is None or step.digest != named.digest:
            step = self.receipts.step_of(lease, named.digest) if lease else None
        if step is None or step.kind != named.kind.removeprefix("un"):
            here = self.config.fleet.here
            raise ConfigDiffers(definition=named.definition, host=here, file=self.file)
        if named.kind not in UNDOS:
            return step
        undo = undo_of_command(step) if isinstance(step, RunCommand) else undo_of_webhook(step)
        if undo is None:
            raise NotFound(what="undo of the definition", name=named.definition)
        return undo

    def _of_config(self, named: Named) -> RunCommand | CallWebhook | None:
        found = script_of(self.config.fleet, named.definition, HostName(named.host), named.cap_s)
        if found is not None:
            return found
        for resource in self.config.fleet.resources.values():
            for action in resource.actions:
                if action.definition == named.definition and action.host == named.host:
                    return command(action) if action.verb == "exec" else webhook(action)
        return None
