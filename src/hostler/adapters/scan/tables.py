"""Markdown tables of ports, as people keep them: the first cell is the port (PORT-1).

Decides which rows are allocations. A bare number belongs to the table's host; with none it is a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hostler.adapters.scan.args import address_of
from hostler.domain.ports import ANY, HIGHEST, LOWEST, Row, Status, Trouble

_SEPARATOR: Final = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_CELLS: Final = re.compile(r"(?<!\\)\|")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_SPAN: Final = re.compile(
    r"([0-9]{1,5})(?:\s*[-\N{EN DASH}\N{EM DASH}\N{NON-BREAKING HYPHEN}]\s*([0-9]{1,5}))?"
)
_PLACE: Final = re.compile(
    r"(?:(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):)?(?P<ports>.+)", re.DOTALL
)
_PROTOCOL: Final = re.compile(r"(.*?)\s*(?:/\s*|\(|\s)(tcp|udp|sctp)\)?", re.IGNORECASE | re.DOTALL)
_MARKS: Final = re.compile(r"[`*~]|(?<!\w)_|_(?!\w)|<[^>]*>")


def table_rows(file: str, text: str, host: str | None) -> Iterator[Row | Trouble]:
    """The allocations of every table in a document. `host`: whose its bare numbers are."""
    for line, cells in _rows(text):
        found = list(_cell(cells[0], host))
        service = next((_words(cell) for cell in cells[1:] if _words(cell)), "")
        status = next((one for cell in cells[1:] if (one := _status(cell))), Status.PRODUCTION)
        for owner, first, last, protocol in found:
            if owner is None:
                ports = first if first == last else f"{first}-{last}"
                message = f"{ports} has no host: a bare number, and the table names none"
                yield Trouble(file=file, line=line, message=message)
            elif not LOWEST <= first <= last <= HIGHEST:
                message = f"{first}-{last} is no range of ports" if first != last else f"{first} is no port"
                yield Trouble(file=file, line=line, message=message)
            else:
                yield Row(
                    host=owner,
                    port=first,
                    last=last,
                    protocol=protocol,
                    service=service or "-",
                    status=status,
                    address=address_of(owner) or ANY,
                    file=file,
                    line=line,
                )


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row below a table's head."""
    inside, fenced, before = False, False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or "|" not in line:
            inside = False
        elif _SEPARATOR.fullmatch(line) and "|" in before:
            inside = True
        elif inside:
            yield number, [cell.strip() for cell in _CELLS.split(line.strip().strip("|"))]
        before = line


def _cell(cell: str, host: str | None) -> Iterator[tuple[str | None, int, int, str]]:
    """Host (None: nobody's), span and protocol of each port in a first cell; none where it is no port."""
    text, protocol = _MARKS.sub("", cell).strip(), "tcp"
    if (match := _PROTOCOL.fullmatch(text)) is not None:
        text, protocol = match[1], match[2].lower()
    found: list[tuple[str | None, int, int, str]] = []
    owner = host
    for part in re.split(r"\s*[,/;]\s*|\s+and\s+", text):
        place = _PLACE.fullmatch(part.strip())
        span = _SPAN.fullmatch(place["ports"].strip()) if place is not None else None
        if place is None or span is None or (place["host"] or "").isdigit():
            return
        if place["host"]:
            owner = place["host"].strip("[]")
        found.append((owner, int(span[1]), int(span[2] or span[1]), protocol))
    yield from found


def _words(cell: str) -> str:
    return " ".join(_MARKS.sub("", cell).replace("\\|", "|").split())


def _status(cell: str) -> Status | None:
    """The status that a cell is, by itself or as its first word: `reserved`, `freed 2026-08`."""
    first = _words(cell).lower().partition(" ")[0].rstrip(".,:;")
    return next((each for each in Status if each.value == first), None)
