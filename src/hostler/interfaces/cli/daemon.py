"""The daemon as commands see it: the client of `hostler.client`, and answers as values (INTERFACE-3).

Decides how a path is put together, how a list is read to its end, and what an answer that does not fit
means. Which daemon and which key is the client's decision.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from hostler.client import Client, Sent, find_daemon
from hostler.client.address import Address, find_head
from hostler.client.call import unanswered
from hostler.domain.errors import CursorReset, ScheduleUnavailable
from hostler.domain.values import requester
from hostler.interfaces.cli.lease_env import LEASE_VAR

Model = TypeVar("Model")

SCHEDULE: Final = "/gateway/schedule"
ASKED: Final[ContextVar[Address | None]] = ContextVar("asked", default=None)
"""The daemon that this command last made a client of: it is the one whose answer may not fit."""
SLACK_S: Final = 30.0
"""How much longer than the daemon was asked to take an answer may be on its way."""


def connected(lease: str | None = None) -> Client:
    """A client of this user's daemon; close it, or use it in `with`. Refuses `daemon_unreachable`.

    It acts under `lease`, else under that of $HOSTLER_LEASE: what it holds it may start and stop (LEASE-15).
    """
    under = lease or os.environ.get(LEASE_VAR) or None
    return Client(_asked(find_daemon(os.environ)), client=person(os.environ), lease=under)


def to_head() -> Client:
    """A client of the node that owns the schedule: `$HOSTLER_HEAD_URL`'s, else the local daemon (R91).

    Refuses `daemon_unreachable`.
    """
    return Client(_asked(find_head(os.environ)), client=person(os.environ))


def _asked(address: Address) -> Address:
    ASKED.set(address)
    return address


def person(env: Mapping[str, str]) -> str:
    """The user's name as the log of the daemon tells it (HOLD-14): a hint, no proof (HOLD-15)."""
    name = env.get("USER") or env.get("LOGNAME")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid-{os.getuid()}"
    return requester(ip=None, ua=None, client=name).client


def at(path: str, *parts: str) -> str:
    """`path` with `parts` below it, each quoted whole: a name may hold anything, a slash too (GW-2)."""
    return "/".join([path, *(quote(part, safe="") for part in parts)])


def answer(raw: object, model: type[Model]) -> Model:
    """The answer as `model`; keys of a newer daemon are passed over.

    Refuses `daemon_unreachable` when it does not fit: what answers there is no daemon of this version.
    """
    try:
        return msgspec.convert(raw, model)
    except msgspec.ValidationError as error:
        why = f"its answer is not of this version: {error}"
        raise unanswered(ASKED.get() or find_daemon(os.environ), why) from error


def sent_value(sent: Sent) -> object:
    """The value of an event of a stream. Refuses `daemon_unreachable` for what is no JSON."""
    try:
        value: object = msgspec.json.decode(sent.data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unanswered(
            ASKED.get() or find_daemon(os.environ), f"it sends what is no JSON: {error}"
        ) from error
    return value


def pages(
    client: Client, path: str, name: str, query: Mapping[str, object] | None = None
) -> Mapping[str, object]:
    """The whole list `name` at `path`: the first answer with the rows of every page in it."""
    asked = dict(query or {})
    first = _object(client.get(path, asked))
    rows, cursor = _rows(first, name), first.get("next")
    while cursor is not None:
        page = _object(client.get(path, {**asked, "cursor": cursor}))
        rows, cursor = [*rows, *_rows(page, name)], page.get("next")
    return {**first, name: rows, "next": None}


def cursor_now(client: Client) -> str | None:
    """Where the event log stands; None while it cannot be written."""
    try:
        cursor = _object(client.get(SCHEDULE)).get("cursor")
    except ScheduleUnavailable:
        return None
    return cursor if isinstance(cursor, str) else None


def next_cursor(client: Client, cursor: str, wait_s: float) -> str | None:
    """The cursor after the next event, or as it was after `wait_s`; None when the log must be read anew."""
    asked = {"since": cursor, "wait": wait_s}
    try:
        found = _object(client.get(SCHEDULE, asked, timeout_s=wait_s + SLACK_S)).get("cursor")
    except (CursorReset, ScheduleUnavailable):
        return None
    return found if isinstance(found, str) else None


def _object(raw: object) -> Mapping[str, object]:
    return answer(raw, dict[str, object])


def _rows(page: Mapping[str, object], name: str) -> list[object]:
    return answer(page.get(name), list[object])
