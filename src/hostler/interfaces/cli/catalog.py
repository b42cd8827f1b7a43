"""`hostler catalog`: whether the catalog is right, what is in it, and what of it fits a box.

Decides how it is told. What is right is decided where it is read. Needs no daemon: `parts` comes from
`bootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.domain.values import format_size, shorten
from hostler.interfaces.cli.config import LONGEST, ConfigFile, problem_lines
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import say, say_json
from hostler.interfaces.cli.tables import say_table
from hostler.services.catalog_parts import CatalogParts, CatalogReport
from hostler.services.catalog_views import EntryView, EvidenceView, VariantView, entry_view
from hostler.wire.values import to_json

INVALID: Final = 65
"""Exit code of a catalog with errors (CAT-11)."""

Parts = Annotated[CatalogParts, Parameter(parse=False)]
EntryId = Annotated[str, Parameter(help="Its id; `hostler catalog list` has them.")]

app = App(name="catalog", help="Check and show the catalog.")


@app.command(help_epilogue="Example: hostler catalog check /srv/hostler-catalog")
def check(
    path: Annotated[
        str | None, Parameter(help="A file or directory; else what is shipped and the config's directory.")
    ] = None,
    /,
    *,
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Check the catalog: every error at once, each with its line and its arithmetic. Exit 65 with one."""
    report = parts.check(path, config)
    if json:
        say_json(
            {
                "places": list(report.places),
                "valid": not report.problems,
                "entries": report.entries,
                "problems": [each.facts() for each in report.problems],
            }
        )
    else:
        _tell(report)
    return INVALID if report.problems else 0


def _tell(report: CatalogReport) -> None:
    for line in problem_lines("error", report.problems):
        say(line)
    places = ", ".join(shorten(place, LONGEST) for place in report.places)
    count = len(report.problems)
    if count:
        say(f"{places}: {count} error{'' if count == 1 else 's'}.")
    else:
        say(f"{places}: right, {report.entries} entr{'y' if report.entries == 1 else 'ies'}.")


@app.command(help_epilogue="Example: hostler catalog schema > catalog-entry.schema.json")
def schema(*, json: AsJson = False, parts: Parts) -> int:
    """Print the JSON Schema of a catalog entry, for editors. It is JSON with --json and without."""
    del json
    say(parts.schema().rstrip("\n"))
    return 0


@app.command(name="list", help_epilogue="Example: hostler catalog list")
def list_entries(*, config: ConfigFile = None, json: AsJson = False, parts: Parts) -> int:
    """List the entries with their class, what they need, and the shapes that are known."""
    found = parts.catalog(config)
    views = [entry_view(found.entries[name]) for name in sorted(found.entries)]
    if json:
        say_json({"directory": found.directory, "trouble": found.trouble, "entries": to_json(views)})
        return 0
    if found.trouble:
        say(f"warning: {shorten(found.trouble, LONGEST)}")
    rows = [(it.id, it.serving_class, it.task, _least(it), _shapes(it), it.license or "?") for it in views]
    columns = ("ENTRY", "CLASS", "TASK", "MIN RAM", "VARIANTS", "LICENCE")
    say_table(columns, rows, empty="The catalog is empty.", spare=("LICENCE", "TASK"))
    return 0


def _least(it: EntryView) -> str:
    known = [quant.min_ram for quant in it.quants if quant.min_ram is not None]
    return format_size(min(known)) if known else "?"


def _shapes(it: EntryView) -> str:
    return ", ".join(f"{each.id}{'' if each.proven else ' (unproven)'}" for each in it.variants)


@app.command(help_epilogue="Example: hostler catalog show qwen3.8-flash-next")
def show(entry: EntryId, /, *, config: ConfigFile = None, json: AsJson = False, parts: Parts) -> int:
    """Show one entry: its class and why, its quants, its shapes and what was seen of them."""
    view = entry_view(parts.entry(entry, config))
    if json:
        say_json(to_json(view))
        return 0
    for line in _lines(view):
        say(shorten(line, LONGEST))
    return 0


def _lines(it: EntryView) -> Iterator[str]:
    context = "?" if it.context is None else f"{it.context} tokens"
    yield f"{it.id}: {it.family}, {it.task}, context {context}"
    yield f"class      {it.serving_class}{f': {it.why}' if it.why else ''}"
    if it.affordance.text:
        yield f"           {it.affordance.text}"
    gated = ", gated" if it.gated else ""
    yield f"source     {it.repository or 'not known'}{gated}, licence {it.license or 'not known'}"
    if it.tags:
        yield f"tags       {', '.join(it.tags)}"
    for quant in it.quants:
        weights = "?" if quant.weights is None else format_size(quant.weights)
        least = "?" if quant.min_ram is None else format_size(quant.min_ram)
        proof = "sha256 known" if quant.verifiable else "sha256 not known"
        yield f"quant      {quant.name}: {weights} of files, needs {least}, {proof}"
    for variant in it.variants:
        yield from _variant(variant)
    for note in it.notes:
        yield f"note       {note}"
    for seen in it.evidence:
        yield f"seen       {_seen(seen)}"


def _variant(it: VariantView) -> Iterator[str]:
    marks = [it.serving_class, "proven" if it.proven else "unproven", *(["default"] if it.default else [])]
    context = "" if it.context is None else f", context {it.context}"
    yield f"variant    {it.reference}: {it.quant}{context}; {', '.join(marks)}"
    if it.boxes > 1:
        link = f", link of {it.link_speed}" if it.link_speed else ""
        yield f"           on {it.boxes} boxes: {', '.join(it.roles)}{link}"
    peaks = [f"{role or 'peak'} {format_size(size)}" for role, size in it.peak.items()]
    if it.available is not None:
        peaks.append(f"{format_size(it.available)} available before its start")
    if peaks:
        yield f"           measured: {', '.join(peaks)}"
    if it.build is not None:
        build = it.build
        asked = [
            *([f"tree {build.tree}"] if build.tree else []),
            *([f"release {build.release} or later"] if build.release else []),
            *([f"commit {' or '.join(build.commits)}"] if build.commits else []),
            *(f"pull request {number}" for number in build.pull_requests),
        ]
        yield f"           build: {', '.join(asked)}"
    if it.flags:
        yield f"           flags: {' '.join(it.flags)}"
    for seen in it.evidence:
        yield f"           seen: {_seen(seen)}"
    for note in it.notes:
        yield f"           note: {note}"


def _seen(it: EvidenceView) -> str:
    parts = [
        *([it.date] if it.date else []),
        *([f"{it.runs} run{'' if it.runs == 1 else 's'}"] if it.runs else []),
        *([it.configuration] if it.configuration else []),
        *([f"{it.tokens_per_s:g} tokens/s"] if it.tokens_per_s is not None else []),
        *(["identity checked"] if it.identity else []),
        *([f"{it.quality_runs} judged"] if it.quality_runs else []),
        *([it.note] if it.note else []),
    ]
    return "; ".join(parts)


@app.command(help_epilogue="Example: hostler catalog fit qwen3.8-flash-next --on raven")
def fit(
    entry: EntryId,
    /,
    *,
    on: Annotated[str | None, Parameter(name="--on", help="A host of the config; else this machine.")] = None,
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Show whether each shape fits a box, by all that it has. What is not known is unknown, never a fit."""
    found = parts.fit(entry, on, config)
    if json:
        say_json(
            {
                "host": found.host,
                "memory": dict(found.memory),
                "fits": [{"what": it.what, "result": it.result, "text": it.text} for it in found.fits],
            }
        )
        return 0
    pools = (f"{name} {'?' if size is None else format_size(size)}" for name, size in found.memory.items())
    say(f"{shorten(found.host)}: {', '.join(pools)}")
    rows = [(it.what, it.result, it.text) for it in found.fits]
    say_table(("SHAPE", "RESULT", "SUM"), rows, empty="It has no shapes.")
    return 0
