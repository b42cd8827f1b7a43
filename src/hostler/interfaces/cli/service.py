"""`hostler service`: the daemon as a unit of systemd. Decides the words only; needs no daemon.

`parts` comes from `bootstrap`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter

from hostler.domain.values import shorten
from hostler.interfaces.cli.config import ConfigFile, HostOption
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.services.service_parts import ServiceParts

Parts = Annotated[ServiceParts, Parameter(parse=False)]
System = Annotated[bool, Parameter(negative="", help="For the machine's systemd, as root; else this user's.")]
Force = Annotated[
    bool, Parameter(negative="", help="Also when the unit is not as we wrote it; its text is kept beside.")
]
DryRun = Annotated[bool, Parameter(negative="", help="Only tell what would be done.")]

app = App(name="service", help="Let systemd run the daemon.")


@app.command(help_epilogue="Example: hostler service install --dry-run")
def install(
    config: ConfigFile = None,
    *,
    host: HostOption = None,
    system: System = False,
    dry_run: DryRun = False,
    force: Force = False,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Write the daemon's unit, and start it now and at boot. What runs in another terminal must end first."""
    found = parts.install(config=config, host=host, system=system, force=force, dry_run=dry_run)
    if json:
        say_json(asdict(found))
        return 0
    if dry_run:
        say(f"{found.path} would be:\n\n{found.text}")
        _say_commands(found.commands)
    elif found.commands:
        say(f"{found.unit} is installed and serves: {shorten(found.path)}")
    else:
        say(f"{found.unit} is installed and serves already; nothing was changed.")
    _say_kept(found.kept_as)
    for note in found.notes:
        say(note)
    return 0


@app.command(help_epilogue="Example: hostler service uninstall")
def uninstall(
    *,
    system: System = False,
    dry_run: DryRun = False,
    force: Force = False,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Stop the daemon and remove its unit. Engines run on, unless the config says `on_exit: stop`."""
    found = parts.uninstall(system=system, force=force, dry_run=dry_run)
    if json:
        say_json(asdict(found))
        return 0
    if not found.commands:
        say(f"There is no {shorten(found.path)}: nothing was changed.")
    elif dry_run:
        say(f"{shorten(found.path)} would be removed.")
        _say_commands(found.commands)
    else:
        say(f"{found.unit} is stopped and removed: {shorten(found.path)}")
    _say_kept(found.kept_as)
    if found.engines:
        say(f"Still running: {', '.join(map(shorten, found.engines))}. The next `hostler serve` adopts them.")
    return 0


def _say_commands(commands: Sequence[Sequence[str]]) -> None:
    for argv in commands:
        say(f"would run: {shlex.join(argv)}")


def _say_kept(path: str | None) -> None:
    if path is not None:
        say(f"What was there before is kept: {shorten(path)}")
