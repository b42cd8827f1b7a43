"""`hostler config`: whether the config is right, what it comes to, and where two differ.

Decides how problems are told. What is right is decided where the config is read (CONF-2). Needs no daemon:
`parts` comes from `bootstrap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.values import escape_controls, shorten
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import WHOLE, say_table
from hostler.services.config_parts import ConfigParts, ConfigReport, Difference, Problem

INVALID: Final = 78
"""Exit code of a config with errors (INTERFACE-4)."""
LONGEST: Final = 600
"""A message holds sums of a few engines; what is longer is cut."""

Parts = Annotated[ConfigParts, Parameter(parse=False)]
ConfigFile = Annotated[
    str | None,
    Parameter(name="--config", help="The config file; else $HOSTLER_CONFIG, and the usual places."),
]
HostOption = Annotated[
    str | None, Parameter(name="--host", help="As this host sees it; else $HOSTLER_HOST, or this machine.")
]

app = App(name="config", help="Check and show the config.")


@app.command(help_epilogue="Example: hostler config check hostler.yaml")
def check(config: ConfigFile = None, *, host: HostOption = None, json: AsJson = False, parts: Parts) -> int:
    """Check the config: every error at once, each with its line. Exit 78 when there is one."""
    report = parts.check(config, host)
    if json:
        say_json(_wire(report))
    else:
        _tell(report)
    return INVALID if report.problems else 0


@app.command(help_epilogue="Example: hostler config show --host crow")
def show(config: ConfigFile = None, *, host: HostOption = None, json: AsJson = False, parts: Parts) -> int:
    """Show the config with every default filled in, as this host sees it. Secrets are ****."""
    found = parts.show(config, host)
    if json:
        say_json({"file": found.file, "host": found.host, "config": found.document})
    else:
        say(found.text.rstrip("\n"))
    return 0


@app.command(help_epilogue="Example: hostler config schema > hostler.schema.json")
def schema(*, json: AsJson = False, parts: Parts) -> int:
    """Print the JSON Schema of hostler.yaml, for editors. It is JSON with --json and without."""
    del json
    say(parts.schema().rstrip("\n"))
    return 0


@app.command(help_epilogue="Example: hostler config diff /etc/hostler/hostler.yaml hostler.yaml")
def diff(
    before: Annotated[str, Parameter(help="A config file.")],
    after: Annotated[str, Parameter(help="Another.")],
    /,
    *,
    host: HostOption = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Show where two configs differ, defaults filled in. A secret that changed is **** on both sides."""
    found = parts.diff(before, after, host)
    if json:
        say_json([_change(each) for each in found])
        return 0
    rows = [(each.path, each.change, _shown(each.before), _shown(each.after)) for each in found]
    say_table(("KEY", "CHANGE", "BEFORE", "AFTER"), rows, empty="Both come to the same.", longest=WHOLE)
    return 0


def _tell(report: ConfigReport) -> None:
    for title, found in (("error", report.problems), ("warning", report.warnings)):
        for line in problem_lines(title, found):
            say(line)
    file, warned = shorten(report.file, LONGEST), _number(len(report.warnings), "warning")
    if report.problems:
        say(f"{file}: {_number(len(report.problems), 'error')}, {warned}.")
        return
    there = (_number(count, name.removesuffix("s")) for name, count in report.counts.items() if count)
    say(f"{file} is right as host {report.host}: {', '.join(there)}; {warned}.")


def problem_lines(title: str, found: Sequence[Problem]) -> list[str]:
    """A table of place, kind, path and message; a hint stands below its message."""
    places = [escape_controls(each.place) for each in found]
    width = max(map(len, places), default=0)
    lines = []
    for place, each in zip(places, found, strict=True):
        path = f"{each.path}: " if each.path else ""
        lines.append(f"{place:<{width}}  {title}  {shorten(path + each.message, LONGEST)}")
        if each.hint:
            lines.append(f"{'':<{width}}  {'':<{len(title)}}  hint: {shorten(each.hint, LONGEST)}")
    return lines


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _wire(report: ConfigReport) -> dict[str, object]:
    return {
        "file": report.file,
        "host": report.host,
        "valid": not report.problems,
        "problems": [each.facts() for each in report.problems],
        "warnings": [each.facts() for each in report.warnings],
        "counts": dict(report.counts),
    }


def _change(difference: Difference) -> dict[str, object]:
    return {
        "path": difference.path,
        "change": difference.change,
        "before": difference.before,
        "after": difference.after,
    }


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
