"""What a job's holder sends, checked and cleaned: texts without secrets and without what moves a cursor.

Decides what of a text is kept (JOB-7). Its bounds are `hostler.domain.job_update`'s, those of single texts
`hostler.wire.schedule`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.job import Progress, Receipt
from hostler.domain.job_update import MAX_LABEL, Update, check_metrics, check_note, progress_of
from hostler.domain.values import escape_controls, shorten
from hostler.wire.jobs import ProgressBody, ReceiptBody, UpdateBody
from hostler.wire.redaction import MARK

_CREDENTIALS: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
Redact = Callable[[str], str]
LONGEST_PLACE = 1000
"""Characters of a receipt's path or URL."""


def line(text: str, redact: Redact, limit: int = MAX_LABEL) -> str:
    """A text of one line: redacted, its control characters shown, at most `limit` characters."""
    return shorten(redact(text), limit)


def lines(text: str, redact: Redact) -> str:
    """A note: redacted, control characters shown; only its line ends stay what they are."""
    clean = redact(text).replace("\r\n", "\n")
    return "\n".join(escape_controls(each) for each in clean.split("\n"))


def title_of(text: str, redact: Redact) -> str:
    """A job's title. Refuses `invalid_request` for an empty one."""
    if not text.strip():
        raise InvalidRequest(what="A job needs a title.", expected="from 1 to 200 characters", where="title")
    return line(text.strip(), redact)


def note_of(text: str | None, redact: Redact) -> str | None:
    """A note, None without one. Refuses `invalid_request` for one over its bound."""
    check_note(text)
    return None if text is None else lines(text, redact)


def update_of(body: UpdateBody, redact: Redact) -> Update:
    """The update that was sent. Refuses `invalid_request` for anything in it that does not fit."""
    check_metrics(body.metrics)
    return Update(
        n=body.n,
        note=note_of(body.note, redact),
        progress=None if body.progress is None else _progress(body.progress, redact),
        metrics=frozen({line(name, redact): value for name, value in body.metrics.items()}),
        receipts=tuple(_receipt(each, redact) for each in body.receipts),
        source=body.source,
    )


def _progress(body: ProgressBody, redact: Redact) -> Progress:
    return progress_of(body.value, body.n, body.total, line(body.label, redact))


def _receipt(body: ReceiptBody, redact: Redact) -> Receipt:
    if not body.kind.strip() or not body.name.strip():
        raise InvalidRequest(
            what="A receipt needs a kind and a name.",
            expected="such as kind `file`, name `results.json`",
            where="receipts",
        )
    return Receipt(
        kind=line(body.kind, redact),
        name=line(body.name, redact),
        path=None if body.path is None else line(body.path, redact, LONGEST_PLACE),
        url=None if body.url is None else line(without_credentials(body.url), redact, LONGEST_PLACE),
        sha256=body.sha256,
        exit_code=body.exit_code,
    )


def without_credentials(url: str) -> str:
    """A URL whose user and password, if it has any, are hidden (SEC-1)."""
    return _CREDENTIALS.sub(rf"\1{MARK}@", url)
