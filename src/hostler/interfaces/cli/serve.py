"""`hostler serve`: the daemon, in the foreground."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from hostler.interfaces.cli.config import ConfigFile, HostOption
from hostler.services.serving import ServeParts


def serve(
    *,
    config: ConfigFile = None,
    host: HostOption = None,
    listen: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Where to listen instead of node.listen; may be given again.",
        ),
    ] = (),
    parts: Annotated[ServeParts, Parameter(parse=False)],
) -> int:
    """Run the daemon of this host in the foreground."""
    return parts.serve(config=config, host=host, listen=listen)
