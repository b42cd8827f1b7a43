"""`hostler pull`: a model's files from where the catalog says, or those that are there (CAT-12).

Decides what is shown, the licence before anything is fetched. What counts as the file is decided where it is
fetched. Starts nothing and deletes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from hostler.domain.values import format_size, shorten
from hostler.interfaces.cli.catalog import Parts
from hostler.interfaces.cli.config import ConfigFile
from hostler.interfaces.cli.options import AsJson
from hostler.interfaces.cli.output import on_terminal, say, say_json
from hostler.services.catalog_parts import Outcome, Pulled, PullPlan
from hostler.wire.values import to_json

WIDTH: Final = 30
"""Characters of a whole bar."""
_CLEAR_LINE: Final = "\r\x1b[K"


def pull(
    reference: Annotated[str, Parameter(help="ID#QUANT; without a quant the only one.")],
    /,
    *,
    config: ConfigFile = None,
    json: AsJson = False,
    parts: Parts,
) -> int:
    """Fetch a model's files into models_dir; what is there already is proven and adopted. Starts nothing."""
    plan = parts.plan(reference, config)
    if not json:
        for line in _before(plan):
            say(line)
    bar, done = Bar(shown=on_terminal(sys.stderr)), []
    try:
        for wanted in plan.files:
            pulled = parts.pull(wanted, bar.show)
            bar.clear()
            done.append(pulled)
            if not json:
                say(_after(pulled))
    finally:
        bar.clear()
    if json:
        say_json({"reference": plan.reference, "license": plan.license, "files": to_json(done)})
    return 0


def _before(plan: PullPlan) -> Iterator[str]:
    licence = plan.license or "not known: see its publisher"
    gated = "; its publisher asks for an account or a consent" if plan.gated else ""
    yield f"{plan.reference} of {shorten(plan.repository or 'an unknown publisher')}"
    yield f"licence: {shorten(licence)}{gated}"
    sizes = [wanted.file.size for wanted in plan.files]
    known = [size for size in sizes if size is not None]
    total = format_size(sum(known)) if len(known) == len(sizes) else "size not known"
    yield f"{len(sizes)} file{'' if len(sizes) == 1 else 's'}, {total}, into {shorten(plan.models_dir, 600)}"


def _after(pulled: Pulled) -> str:
    words = {
        Outcome.DOWNLOADED: "fetched, its SHA-256 is right",
        Outcome.VERIFIED: "was there, its SHA-256 is right: adopted",
        Outcome.UNVERIFIED: f"unverified: {pulled.why}",
    }
    anew = f"; fetched anew, for {pulled.anew}" if pulled.anew else ""
    return f"{shorten(pulled.file)}: {format_size(pulled.size)}, {words[pulled.outcome]}{anew}"


@dataclass(eq=False, slots=True)
class Bar:
    """One moving line on a terminal, and nothing elsewhere (INTERFACE-2)."""

    shown: bool
    last: int = -1

    def show(self, what: str, file: str, done: int, total: int | None) -> None:
        """Draw it anew, at each percent or each 64 MiB."""
        step = done * 100 // total if total else done >> 26
        if not self.shown or step == self.last:
            return
        self.last = step
        sys.stderr.write(f"{_CLEAR_LINE}{what} {shorten(file, 40)} {_bar(done, total)}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take it away."""
        if self.shown and self.last >= 0:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
        self.last = -1


def _bar(done: int, total: int | None) -> str:
    if not total:
        return format_size(done)
    full = min(WIDTH, done * WIDTH // total)
    return (
        f"[{'#' * full}{'.' * (WIDTH - full)}] {done * 100 // total} %,"
        f" {format_size(done)} of {format_size(total)}"
    )
