"""Ports for people: verdicts, what was read and what was not, and who listens.

Decides the order and the words; all foreign text is escaped (BG-22).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hostler.domain.port_verdicts import Kind
from hostler.domain.values import shorten
from hostler.interfaces.cli.output import say
from hostler.interfaces.cli.tables import WHOLE, say_table
from hostler.services.ports import NECESSARY, PortReport, Proposal
from hostler.services.ports_live import LivePort, LivePorts

COLUMNS: Final = ("WHAT", "HOST", "PORT", "DETAILS")
LIVE: Final = ("PORT", "ADDRESS", "PID", "PROCESS", "UNIT", "CONTAINER", "ENGINE", "ROW")
SPARE: Final = ("CONTAINER", "UNIT", "ADDRESS")
LONGEST: Final = 600


def say_report(report: PortReport) -> None:
    """The verdicts, then how much of the world they rest on (PORT-4)."""
    rows = [
        (
            it.kind.value if it.kind.counts else f"({it.kind.value})",
            it.host or "-",
            "-" if it.port is None else f"{it.port}/{it.protocol}",
            it.text,
        )
        for it in report.verdicts
    ]
    say_table(COLUMNS, rows, empty="Nothing to be said was found.", longest=WHOLE)
    kinds = Counter(source.kind for source in report.read)
    read = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    say(f"Read {len(report.read)} files: {read}.")
    for skipped in report.skipped:
        many = "" if skipped.count == 1 else f" ({skipped.count})"
        say(f"Skipped {shorten(skipped.what, LONGEST)}{many}: {shorten(skipped.why)}.")
    found = [f"{form} {report.found.get(form, 0)}" for form in report.forms]
    say(f"Forms tried: {', '.join(found)}.")
    for each in report.coverage:
        blind = "; no file was read that could show its rows" if each.blind else ""
        say(f"{shorten(each.host)}: {each.rows} rows, {each.files} files, {each.findings} ports{blind}.")
    if not any(it.kind is Kind.COLLISION for it in report.verdicts):
        say("Collisions: found none.")
    counting = sum(it.kind.counts for it in report.verdicts)
    say(f"{counting} findings, {len(report.verdicts) - counting} remarks. {report.lower_bound}")


def say_proposal(proposal: Proposal, *, taken: bool = False) -> None:
    """The port, where it was looked for, and what that does not say."""
    where = f"{proposal.low}-{proposal.high} of {shorten(proposal.host)}"
    if not taken:
        say(_proposed(proposal, where))
    say(f"Looked at {', '.join(proposal.looked)}.")
    for missed in proposal.missed:
        say(shorten(missed, LONGEST))
    say(NECESSARY)


def _proposed(proposal: Proposal, where: str) -> str:
    if proposal.port is None:
        return f"None in {where} is free."
    if proposal.unknown:
        return f"Whether {proposal.port} in {where} is free is not known: it is in no row and no file."
    return f"{proposal.port} in {where} is free."


def say_live(found: LivePorts) -> None:
    """Every listener with its owner, then the rows on whose ports nothing listens."""
    if found.unread:
        say(f"Who listens on {shorten(found.host)} is not known. {shorten(found.note, LONGEST)}")
        return
    say_table(LIVE, [_row(each) for each in found.ports], empty="Nothing was found listening.", spare=SPARE)
    for row in found.silent:
        ports = str(row.port) if row.port == row.last else f"{row.port}-{row.last}"
        say(f"{ports}/{row.protocol} is {shorten(row.service)}'s ({shorten(row.place, 200)}); none listens.")
    low, high = found.auto_from, found.auto_to
    unknown = sum(not each.known for each in found.ports)
    say(f"{shorten(found.host)}: {len(found.ports)} ports, {unknown} in no row; `auto` takes {low}-{high}.")
    if found.note:
        say(shorten(found.note, LONGEST))


def _row(each: LivePort) -> tuple[str, ...]:
    row = f"{each.service} ({each.status})" if each.service else ""
    return (
        f"{each.port}/{each.protocol}",
        each.address,
        "-" if each.pid is None else str(each.pid),
        each.process or "-",
        each.unit or "-",
        each.container or "-",
        each.engine or "-",
        row or ("-" if each.known else "none"),
    )
