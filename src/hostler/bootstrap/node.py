"""This host's node, joined: what the schedule tells to do the steps of leases here (NODE-1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hostler.adapters.commands import SystemCommands
from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.drivers import transient
from hostler.adapters.hold_write import HoldWriter
from hostler.adapters.host import pools
from hostler.adapters.host.lease_groups import SystemProcesses
from hostler.adapters.proving_http import HttpCompletions
from hostler.adapters.receipts import DirectoryRecords
from hostler.adapters.webhooks import HttpWebhooks
from hostler.services.engines import Engines
from hostler.services.guard_files import GuardFiles
from hostler.services.holds import Holds
from hostler.services.lease_processes import LeaseProcesses
from hostler.services.needs import Events, StateFiles
from hostler.services.node import LocalNode
from hostler.services.node_commands import NodeCommands
from hostler.services.node_deadman import NodeDeadman
from hostler.services.node_engines import NodeEngines
from hostler.services.node_hold import NodeHold
from hostler.services.node_routes import NodeRoutes
from hostler.services.node_windows import NodeWindows
from hostler.services.proving import Proving
from hostler.services.receipts import Receipts
from hostler.services.routes import Routes
from hostler.services.window_strikes import WindowStrikes


def node_of(
    *,
    engines: Engines,
    routes: Routes,
    holds: Holds,
    hold_writer: HoldWriter,
    files: StateFiles,
    events: Events,
    state_dir: Path,
    env: Mapping[str, str],
) -> tuple[LocalNode, tuple[str, ...]]:
    """The node, what it knew before this start recalled, and a sentence for each file that cannot be read.

    `hold_writer` writes the file that `holds` reads. Gate and routes ask one guard: ValueError otherwise.
    """
    guard, clock = engines.gate.guard, engines.clock
    proving = Proving(drivers=engines.drivers, work=HttpCompletions(), clock=clock)
    system = SystemCommands(environment=env)
    hold_path = holds.view().path
    if routes.guard is not guard:
        raise ValueError("routes and the gate ask two guards: what one refuses, the other lets through")
    here = engines.lanes.config.fleet.here
    deadmen = SystemDeadmen(
        root=state_dir,
        host=here,
        hold_path=Path(hold_writer.reader.path),
        environment=env,
        units=transient.manager(uid=os.geteuid(), runtime_dir=env.get("XDG_RUNTIME_DIR")),
        meminfo=pools.available_file(engines.lanes.config.fleet.host.reader),
    )
    node = LocalNode(
        host=here,
        engines=NodeEngines(engines=engines, proving=proving),
        routes=NodeRoutes(routes=routes, lanes=engines.lanes),
        hold=NodeHold(holds=holds, writer=hold_writer, clock=clock, events=events),
        commands=NodeCommands(commands=system, webhooks=HttpWebhooks(), hold_path=hold_path),
        deadman=NodeDeadman(host=here, deadmen=deadmen, engines=engines, clock=clock, events=events),
        windows=NodeWindows(
            engines=engines,
            proving=proving,
            commands=system,
            memory=engines.gate.memory,
            ports=engines.gate.ports,
            files=files,
            clock=clock,
            events=events,
            hold_path=hold_path,
        ),
        strikes=WindowStrikes(host=here, files=files, clock=clock),
        receipts=Receipts(records=DirectoryRecords(root=state_dir, directory="receipts"), clock=clock),
        processes=LeaseProcesses(
            records=DirectoryRecords(root=state_dir, directory="leases"),
            table=SystemProcesses(),
            clock=clock,
        ),
        files=GuardFiles(guard=guard, files=files, clock=clock),
        clock=clock,
    )
    return node, node.recall()
