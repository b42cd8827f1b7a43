"""`hostler ports`: what is written down and what files show, who listens, and which port is free (PORT-2..5).

Decides how reports are asked for and their exit codes. `live` asks the daemon; the rest needs none: `parts`
comes from `bootstrap`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter, Token

from hostler.domain.fleet import frozen
from hostler.domain.ports import ANY, HIGHEST, LOWEST, Status
from hostler.domain.values import parse_size, shorten
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.ports_text import say_live, say_proposal, say_report
from hostler.services.ports import Wish
from hostler.services.ports_live import LivePorts
from hostler.services.ports_parts import PortsParts
from hostler.wire.values import to_json

FINDINGS: Final = 65
"""Exit code where something was found (PORT-3)."""
NONE_FREE: Final = 71
UNKNOWN: Final = 69
"""Exit code where who listens could not be asked: nothing found is not nothing there."""
PATH: Final = "/v1/hostler/ports"
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_PAIR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)

Parts = Annotated[PortsParts, Parameter(parse=False)]
ConfigFile = Annotated[
    str | None,
    Parameter(name="--config", help="The config file; else $HOSTLER_CONFIG, and the usual places."),
]


def span_of(type_: object, tokens: Sequence[Token]) -> tuple[int, int]:
    """The ports of `8000-8099`, or of one number. ValueError for anything else, told as a usage error."""
    del type_
    match = _RANGE.fullmatch(tokens[0].value)
    if match is None or not LOWEST <= int(match[1]) <= int(match[2] or match[1]) <= HIGHEST:
        raise ValueError("expected a range of ports such as 8000-8099")
    return int(match[1]), int(match[2] or match[1])


def pair_of(type_: object, tokens: Sequence[Token]) -> tuple[str, ...]:
    """Each `NAME=VALUE`. ValueError for anything else."""
    del type_
    texts = tuple(token.value for token in tokens)
    if not all(_PAIR.fullmatch(text) for text in texts):
        raise ValueError("expected NAME=VALUE")
    return texts


def address_of(type_: object, tokens: Sequence[Token]) -> str:
    """An IP address, or `*`. ValueError for anything else."""
    del type_
    text = tokens[0].value.removeprefix("[").removesuffix("]")
    return text if text == ANY else str(ipaddress.ip_address(text))


def size_of(type_: object, tokens: Sequence[Token]) -> int:
    """The bytes of `92.6 GiB`. ValueError for anything else."""
    del type_
    return parse_size(tokens[0].value)


Span = Annotated[
    tuple[int, int],
    Parameter(name="--range", converter=span_of, n_tokens=1, metavar="FROM-TO", help="Where it may lie."),
]
OnHost = Annotated[str, Parameter(name="--host", help="Whose port it is to be.")]
Address = Annotated[
    str,
    Parameter(
        converter=address_of,
        n_tokens=1,
        metavar="IP",
        help="Where it is bound; else everywhere.",
    ),
]
Transport = Annotated[Literal["tcp", "udp"], Parameter(help="Its protocol.")]

app = App(name="ports", help="Check the ports of all hosts, see who listens, or take one.")


@app.command(help_epilogue="Example: hostler ports check /srv/bundles /srv/scripts --host crow")
def check(
    dirs: Annotated[tuple[str, ...], Parameter(help="Folders or files; else `ports.scan.dirs`.")] = (),
    /,
    *,
    host: Annotated[
        str | None, Parameter(help="Whose ports those are that neither address nor path tells.")
    ] = None,
    env: Annotated[
        tuple[str, ...],
        Parameter(
            converter=pair_of, n_tokens=1, help="NAME=VALUE: a variable that compose files are filled with."
        ),
    ] = (),
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Compare the registry with what compose files, scripts, units and the config show. Exit 65 if findings.

    Only text is read; nothing is executed. What is found is a lower bound.
    """
    known = {name: value for name, _, value in (each.partition("=") for each in env)}
    report = parts.check(dirs, host=host, env=frozen(known), config=config)
    if json:
        forms = [{"form": form, "found": report.found.get(form, 0)} for form in report.forms]
        wire = to_json(report)
        say_json({"clean": report.clean, **(wire if isinstance(wire, dict) else {}), "forms": forms})
    else:
        say_report(report)
    return 0 if report.clean else FINDINGS


@app.command(help_epilogue="Example: hostler ports live")
def live(
    *,
    host: Annotated[
        str | None, Parameter(help="The host whose listeners are shown; without it the daemon's own.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Show who listens on a host of the fleet, beside the registry. Exit 65 where somebody is in no row.

    Exit 69 where that host does not answer, or its listeners cannot be read.
    """
    from hostler.interfaces.cli.daemon import answer, connected

    with connected() as client:
        raw = client.get(PATH, {} if host is None else {"host": host})
    found = answer(raw, LivePorts)
    if json:
        say_json(raw)
    else:
        say_live(found)
    if found.unread:
        return UNKNOWN
    return 0 if all(port.known for port in found.ports) else FINDINGS


@app.command(help_epilogue="Example: hostler ports free --host raven --range 8000-8099")
def free(
    *,
    host: OnHost,
    span: Span,
    address: Address = ANY,
    protocol: Transport = "tcp",
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Propose a port that registry, files and listeners leave free. Exit 71 where none is.

    Exit 69 where it is not known who listens there: what is proposed is free in registry and files only.
    """
    wish = Wish(host=host, low=span[0], high=span[1], address=address, protocol=protocol)
    proposal = parts.free(wish, config=config)
    if json:
        say_json(to_json(proposal))
    else:
        say_proposal(proposal)
    if proposal.port is None:
        return NONE_FREE
    return UNKNOWN if proposal.unknown else 0


@app.command(
    help_epilogue="Example: hostler ports allocate --host raven --range 8000-8099 --service tts --by script"
)
def allocate(  # noqa: PLR0913 - a row has that many words, each an option of its own
    *,
    host: OnHost,
    span: Span,
    service: Annotated[str, Parameter(help="What is to have it.")],
    address: Address = ANY,
    protocol: Transport = "tcp",
    status: Annotated[
        Literal["production", "reserved", "transient"], Parameter(help="What kind of allocation it is.")
    ] = "reserved",
    by: Annotated[
        Literal["compose", "script", "hostler", "system"] | None, Parameter(help="Who starts it.")
    ] = None,
    needs: Annotated[
        int | None, Parameter(converter=size_of, n_tokens=1, metavar="SIZE", help="Memory that it takes.")
    ] = None,
    note: Annotated[str, Parameter(help="For people.")] = "",
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Write the row of a free port into the registry and read it back; everything else stays as it is.

    Exit 71 where none is free. Exit 69, and nothing is written, where it is not known who listens there.
    """
    wish = Wish(
        host=host,
        low=span[0],
        high=span[1],
        service=service,
        address=address,
        protocol=protocol,
        status=Status(status),
        by=by or "",
        needs=needs,
        note=note,
    )
    made = parts.allocate(wish, config=config)
    if json:
        say_json(to_json(made))
    else:
        row = made.row
        say(
            f"{row.ports} of {row.host} is {shorten(row.service)}'s ({row.status}): {shorten(row.place, 400)}"
        )
        say_proposal(made.proposal, taken=True)
    return 0
