"""The command line: which commands there are, and how a call of one ends.

Decides names, help and examples, and that every failure is one error line and one hint line with its exit
code. What a command does is in its own module, loaded when it is called (PERF-11).
"""

from __future__ import annotations

import difflib
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cyclopts import App, CycloptsError

from hostler import __version__
from hostler.domain.errors import Refusal
from hostler.interfaces.cli.failure import BROKEN_PIPE, INTERRUPTED, fail, nowhere, unforeseen, usage
from hostler.interfaces.cli.plain_help import FoldedHelp
from hostler.interfaces.cli.signals import Signalled
from hostler.services.catalog_parts import CatalogParts
from hostler.services.config_parts import ConfigParts
from hostler.services.deadman_offline import OfflineDeadmen
from hostler.services.doctor_parts import DoctorParts
from hostler.services.holds_offline import BoxParts
from hostler.services.import_parts import ImportParts
from hostler.services.ports_parts import PortsParts
from hostler.services.schedule_offline import OfflineSchedule
from hostler.services.service_parts import ServiceParts
from hostler.services.serving import ServeParts
from hostler.services.sight_parts import SightParts


class Bootstrap(Protocol):
    """What builds the parts of commands that need no daemon (INTERFACE-3), each when it is asked for."""

    def box(self) -> BoxParts:
        """For `hostler box`. Refusals: invalid_config, hold_path_unusable."""
        ...

    def config(self) -> ConfigParts:
        """For `hostler config` and `hostler paths`."""
        ...

    def imports(self) -> ImportParts:
        """For `hostler import` and `hostler init`."""
        ...

    def sight(self) -> SightParts:
        """For `hostler init`."""
        ...

    def ports(self) -> PortsParts:
        """For `hostler ports` and `hostler fits`."""
        ...

    def doctor(self) -> DoctorParts:
        """For `hostler doctor`."""
        ...

    def catalog(self) -> CatalogParts:
        """For `hostler catalog`, `hostler engine` and `hostler pull`."""
        ...

    def serving(self) -> ServeParts:
        """For `hostler serve`."""
        ...

    def schedule(self) -> OfflineSchedule:
        """For `hostler history --offline` and `hostler schedule restore`. Refusals: invalid_config."""
        ...

    def service(self) -> ServiceParts:
        """For `hostler service`."""
        ...

    def deadmen(self) -> OfflineDeadmen:
        """For `hostler deadman status`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: where its function or its own app is. An app has its examples itself."""

    name: str
    path: str
    help: str
    example: str = ""


NEAR: Final = 0.6
"""How alike two options are, at least, for one to be meant by the other; 1 is the same."""
_SUGGESTED: Final = re.compile(r"--(?P<given>[\w-]+)\S*(?P<more> Did you mean --(?P<meant>[\w-]+)\?)")
_HERE: Final = "hostler.interfaces.cli"

COMMANDS: Final = (
    Command(
        name="init",
        path=f"{_HERE}.init:init",
        help="Look at this box and write a config that works.",
        example="hostler init --dry-run",
    ),
    Command(
        name="serve",
        path=f"{_HERE}.serve:serve",
        help="Run the daemon of this host in the foreground.",
        example="hostler serve --config hostler.yaml",
    ),
    Command(
        name="status",
        path=f"{_HERE}.status:status",
        help="Show what runs, what is held, and how the daemon is.",
        example="hostler status --watch",
    ),
    Command(
        name="engines",
        path=f"{_HERE}.engines:engines",
        help="List the engines of this host.",
        example="hostler engines --json",
    ),
    Command(
        name="start",
        path=f"{_HERE}.engines:start",
        help="Start an engine and wait until it is ready.",
        example="hostler start large-14b --timeout 5m",
    ),
    Command(
        name="stop",
        path=f"{_HERE}.engines:stop",
        help="Stop an engine.",
        example="hostler stop large-14b --timeout 30s",
    ),
    Command(
        name="drain",
        path=f"{_HERE}.engines:drain",
        help="Let an engine finish what it has and take nothing new.",
        example="hostler drain large-14b --timeout 2m",
    ),
    Command(
        name="suspend",
        path=f"{_HERE}.engines:suspend",
        help="Stop an engine and keep it stopped.",
        example="hostler suspend large-14b",
    ),
    Command(
        name="resume",
        path=f"{_HERE}.engines:resume",
        help="Let a suspended or draining engine run again.",
        example="hostler resume large-14b",
    ),
    Command(
        name="clear",
        path=f"{_HERE}.engines:clear",
        help="Let a failed engine be tried again at once.",
        example="hostler clear large-14b",
    ),
    Command(
        name="logs",
        path=f"{_HERE}.engines:logs",
        help="Print an engine's last log lines.",
        example="hostler logs large-14b -f -n 50",
    ),
    Command(
        name="why",
        path=f"{_HERE}.why:why",
        help="Print why an engine would start, or a resource is to be had, or not.",
        example="hostler why pair",
    ),
    Command(name="routes", path=f"{_HERE}.routes:app", help="Show where each route leads, or switch one."),
    Command(
        name="nodes",
        path=f"{_HERE}.nodes:nodes",
        help="List the nodes of the fleet: which answer, their clocks, holds and leases.",
        example="hostler nodes --json",
    ),
    Command(
        name="sync",
        path=f"{_HERE}.sync:app",
        help="Share engines and upstreams with paired nodes that have a config of their own.",
    ),
    Command(
        name="requests",
        path=f"{_HERE}.requests:requests",
        help="List the inference requests under way.",
        example="hostler requests --json",
    ),
    Command(
        name="cancel",
        path=f"{_HERE}.leases:cancel",
        help="Call off a lease, or end a request under way.",
        example="hostler cancel rq_01jz0000000000000000000000",
    ),
    Command(
        name="schedule",
        path=f"{_HERE}.schedule:app",
        help="Show who has what and who waits, or what happened since a cursor.",
    ),
    Command(
        name="reserve",
        path=f"{_HERE}.reserve:reserve",
        help="Take a resource for yourself, for a time.",
        example="hostler reserve pair --for 2h --wait=30m --reason bench",
    ),
    Command(
        name="mine",
        path=f"{_HERE}.leases:mine",
        help="Show what you hold and wait for, with the next command.",
        example="hostler mine --json",
    ),
    Command(
        name="claim",
        path=f"{_HERE}.leases:claim",
        help="Take up an offer.",
        example="hostler claim pair",
    ),
    Command(
        name="renew",
        path=f"{_HERE}.leases:renew",
        help="Extend a lease, or keep a place.",
        example="hostler renew pair --for 1h",
    ),
    Command(
        name="release",
        path=f"{_HERE}.leases:release",
        help="Give a lease back.",
        example="hostler release pair",
    ),
    Command(
        name="run",
        path=f"{_HERE}.run.command:app",
        help="Run a command under a lease and with a job.",
    ),
    Command(
        name="job", path=f"{_HERE}.jobs:app", help="Report how a piece of work goes, or see how it does."
    ),
    Command(
        name="history",
        path=f"{_HERE}.history:history",
        help="Show what happened, of a lease, a job, the last days.",
        example="hostler history --since 7d",
    ),
    Command(name="mode", path=f"{_HERE}.modes:app", help="Show which mode the fleet is in."),
    Command(name="window", path=f"{_HERE}.windows:app", help="Stay in another mode for a time."),
    Command(name="fence", path=f"{_HERE}.fence:app", help="Hold the schedule still for a deployment."),
    Command(
        name="deadman",
        path=f"{_HERE}.deadman:app",
        help="See the deadmen of windows on this host. Needs no daemon.",
    ),
    Command(name="box", path=f"{_HERE}.box:app", help="Hold this box, or see who does. Needs no daemon."),
    Command(
        name="doctor",
        path=f"{_HERE}.doctor:doctor",
        help="Look this box over, each finding with what helps. Needs no daemon.",
        example="hostler doctor --offline",
    ),
    Command(name="config", path=f"{_HERE}.config:app", help="Check and show the config."),
    Command(
        name="catalog",
        path=f"{_HERE}.catalog:app",
        help="Check and show the catalog: known shapes of models, and how dangerous each is.",
    ),
    Command(
        name="engine", path=f"{_HERE}.from_catalog:app", help="Write the config of an engine of the catalog."
    ),
    Command(
        name="pull",
        path=f"{_HERE}.pull:pull",
        help="Fetch a model's files, or adopt those that are there. Starts nothing.",
        example="hostler pull qwen3-0.6b#Q8_0",
    ),
    Command(
        name="reload",
        path=f"{_HERE}.reload:reload",
        help="Take up the changed config; nothing that runs is stopped.",
        example="hostler reload --dry-run",
    ),
    Command(name="service", path=f"{_HERE}.service:app", help="Let systemd run the daemon. Needs no daemon."),
    Command(name="import", path=f"{_HERE}.imports:app", help="Make a config from another program's."),
    Command(
        name="ports",
        path=f"{_HERE}.ports:app",
        help="Check the ports of all hosts, see who listens, or take one.",
    ),
    Command(
        name="fits",
        path=f"{_HERE}.fits:fits",
        help="Add up what engines need, against what a host has.",
        example="hostler fits large-14b fast-4b --on raven",
    ),
    Command(name="paths", path=f"{_HERE}.paths:app", help="Show where everything is."),
    Command(
        name="completion",
        path=f"{_HERE}.completion:completion",
        help="Print the script that completes commands in a shell.",
        example="hostler completion fish > ~/.config/fish/completions/hostler.fish",
    ),
)


def build() -> App:
    """The command line with every command by its path: none is imported yet."""
    app = App(
        name="hostler",
        help="Looks after the inference engines of a few GPU boxes. For example: hostler status",
        version=f"hostler {__version__}",
        version_flags=["--version", "-V"],
        help_formatter="default" if sys.stdout.isatty() else FoldedHelp(),
    )
    for it in COMMANDS:
        epilogue = {"help_epilogue": f"Example: {it.example}"} if it.example else {}
        app.command(it.path, name=it.name, help=it.help, **epilogue)
    return app


def run(arguments: Sequence[str], bootstrap: Bootstrap) -> int:
    """Run one command; its exit code (INTERFACE-4)."""
    try:
        code = _run(arguments, bootstrap)
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere(sys.stdout)
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback who cannot do anything with it
        return unforeseen(error, as_json="--json" in _own(arguments))
    return code


def _own(arguments: Sequence[str]) -> Iterator[str]:
    """Ours: behind `--` stands a command of somebody else, with options of its own."""
    return itertools.takewhile(lambda it: it != "--", arguments)


def _run(arguments: Sequence[str], bootstrap: Bootstrap) -> int:
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    as_json = "--json" in _own(arguments)
    try:
        command, bound, ignored = build().parse_args(list(arguments), print_error=False, exit_on_error=False)
        parts = {name: _part(bootstrap, wanted) for name, wanted in ignored.items()}
        return _code(command, bound.args, {**bound.kwargs, **parts})
    except CycloptsError as error:
        words = " ".join(["hostler", *(error.command_chain or ())])
        return usage(
            _sensible(str(error).strip()), f"`{words} --help` shows how it is used.", as_json=as_json
        )
    except Refusal as refusal:
        return fail(refusal, as_json=as_json)
    except Signalled as signalled:
        return signalled.code
    except KeyboardInterrupt:
        return INTERRUPTED


def _sensible(message: str) -> str:
    """The message without a suggestion that has little to do with what was written."""
    found = _SUGGESTED.search(message)
    if found is None or difflib.SequenceMatcher(None, found["given"], found["meant"]).ratio() >= NEAR:
        return message
    return message[: found.start("more")] + message[found.end("more") :]


def _code(command: Callable[..., object], args: Sequence[object], options: dict[str, object]) -> int:
    """The command's exit code; help and version give none, which is 0."""
    code = command(*args, **options)
    return code if isinstance(code, int) else 0


def _part(bootstrap: Bootstrap, wanted: type) -> object:
    """The part that a command's parameter asks for by its type."""
    built: dict[type, Callable[[], object]] = {
        BoxParts: bootstrap.box,
        ConfigParts: bootstrap.config,
        DoctorParts: bootstrap.doctor,
        ImportParts: bootstrap.imports,
        SightParts: bootstrap.sight,
        ServeParts: bootstrap.serving,
        OfflineSchedule: bootstrap.schedule,
        ServiceParts: bootstrap.service,
        PortsParts: bootstrap.ports,
        OfflineDeadmen: bootstrap.deadmen,
        CatalogParts: bootstrap.catalog,
    }
    if wanted not in built:
        raise TypeError(f"no part of the bootstrap is a {wanted!r}")
    return built[wanted]()
