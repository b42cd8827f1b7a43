"""`hostler doctor`: what is wrong or odd on this box, each with what helps.

Decides how findings are told and the exit code. What is one is decided by `hostler.domain.doctor`, and where
the config is read (CONF-2). Needs no daemon: `parts` comes from `bootstrap`.
"""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.doctor import Finding, Level, findings
from hostler.domain.values import shorten
from hostler.interfaces.cli.config import ConfigFile, HostOption
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.services.config_parts import ConfigReport, Problem
from hostler.services.doctor_parts import DoctorParts
from hostler.wire.values import to_json

FOUND: Final = 65
"""Exit code where an error was found; warnings alone are 0."""
LONGEST: Final = 600


def doctor(
    config: ConfigFile = None,
    *,
    host: HostOption = None,
    offline: Annotated[
        bool, Parameter(negative="", show_default=False, help="Ask no daemon, and nothing on the network.")
    ] = False,
    json: AsJson = False,
    parts: Annotated[DoctorParts, Parameter(parse=False)],
) -> int:
    """Look this box over: each finding with a hint and the command that helps. Exit 65 for an error."""
    seen = parts.look(config=config, host=host, offline=offline)
    every = (*_of_config(seen.report), *findings(seen.facts))
    found = sorted(every, key=lambda it: it.level is not Level.ERROR)
    errors = sum(it.level is Level.ERROR for it in found)
    if json:
        say_json({"findings": [to_json(it) for it in found], "errors": errors})
    else:
        for it in found:
            _tell(it)
        warned = len(found) - errors
        say(f"{errors} error{'' if errors == 1 else 's'}, {warned} warning{'' if warned == 1 else 's'}.")
    return FOUND if errors else 0


def _of_config(report: ConfigReport | None) -> tuple[Finding, ...]:
    """What the config's own check says, in the doctor's form."""
    if report is None:
        return (
            Finding(
                check="config",
                level=Level.ERROR,
                what="There is no hostler.yaml: nothing can be served.",
                hint="Let one be written from what is on this box.",
                command="hostler init",
            ),
        )
    errors = [_problem(it, Level.ERROR) for it in report.problems]
    return (*errors, *(_problem(it, Level.WARNING) for it in report.warnings))


def _problem(problem: Problem, level: Level) -> Finding:
    path = f"{problem.path}: " if problem.path else ""
    return Finding(
        check="config",
        level=level,
        what=f"{problem.place}: {path}{problem.message}",
        hint=problem.hint or "See the line, and correct it.",
        command="hostler config check",
    )


def _tell(finding: Finding) -> None:
    say(f"{finding.level.value}: {finding.check}: {shorten(finding.what, LONGEST)}")
    say(f"  hint: {shorten(finding.hint, LONGEST)}")
    if finding.command:
        say(f"  {shorten(finding.command, LONGEST)}")
