"""One call of the daemon as values: what is sent, and what the answer means. Sends nothing itself.

Decides headers, deadlines and how an answer becomes a value or the refusal that the daemon raised. The
same for the synchronous and the asynchronous sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from hostler.client.address import HEAD_URL_VAR, KEY_VAR, URL_VAR, Address
from hostler.domain.addresses import shown_url
from hostler.domain.errors import DaemonUnreachable, InvalidRequest, NoKey, Refusal, WrongScope
from hostler.domain.values import shorten
from hostler.wire.redaction import Redactor
from hostler.wire.told import refusal_from
from hostler.wire.values import dump, is_deeper, to_json

_Model = TypeVar("_Model")
_Refusal = TypeVar("_Refusal", bound=Refusal)

CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
"""How long an answer may take that waits for nothing."""
SILENCE_S: Final = 60.0
"""A stream has a heartbeat every 15 s: after four are missing it is broken."""
MAX_LINE: Final = 1 << 20
DEEPEST: Final = 200
"""How deep an answer may be nested."""
MOST_TEXT: Final = 500
"""Characters of a text in a refusal (R97)."""
AGENT: Final = "hostler-client"
REDIRECTED: Final = "it answers with a redirect, which is not followed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the daemon at `address`. `silence_s` is how long no byte may come, None for ever."""

    address: Address
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    silence_s: float | None


def call(
    address: Address,
    method: str,
    path: str,
    *,
    query: Mapping[str, object] | None = None,
    body: object = None,
    timeout_s: float | None = ANSWER_S,
    headers: Mapping[str, str] | None = None,
) -> Call:
    """The request for `path` of that daemon. `query` values of None are left out, lists are repeated.

    Refuses `invalid_request` for a key or a tag that no header can hold.
    """
    sent = {"user-agent": AGENT, "accept": "application/json", **(headers or {})}
    for name, value in sent.items():
        if not _fits(value):
            what = f"{shorten(value)} cannot be sent as {name}."
            raise InvalidRequest(what=what, expected="Write it in printable ASCII.", where=name)
    if address.key is not None:
        if not _fits(address.key.value):
            what = f"{address.key_by or 'The key'} holds what no key has."
            raise InvalidRequest(what=what, expected="A key is printable ASCII, without spaces around it.")
        sent["authorization"] = f"Bearer {address.key.value}"
    if body is not None:
        sent["content-type"] = "application/json"
    asked = {name: _query(item) for name, item in (query or {}).items() if item is not None}
    return Call(
        address=address,
        method=method,
        url=f"{address.url}{path}{'?' + urlencode(asked, doseq=True) if asked else ''}",
        headers=sent,
        body=None if body is None else dump(body),
        silence_s=timeout_s,
    )


def _fits(value: str) -> bool:
    """Whether it can be the value of a header."""
    return value.isascii() and value.isprintable() and value == value.strip()


def _query(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(item) for item in value] if isinstance(value, list | tuple) else str(value)


def answer(request: Call, status: int, body: bytes) -> object:
    """The JSON value of an answer. Raises the refusal that it carries, as the class that was raised.

    What no daemon of ours would answer (a redirect, a page) is `daemon_unreachable`: somebody else
    listens there.
    """
    if 300 <= status < 400:
        raise _unanswered(request, REDIRECTED)
    try:
        found = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = f"what answers there (HTTP status {status}) is no Hostler daemon"
        raise _unanswered(request, why) from None
    if is_deeper(found, DEEPEST):
        raise _unanswered(request, "its answer is nested too deep")
    if status >= 400:
        refusal = _refusal(_clean(found, Redactor(_secrets(request))), status)
        raise _noted(refusal, key_advice(request)) if isinstance(refusal, NoKey | WrongScope) else refusal
    value: object = found
    return value


def fitted(value: object, model: type[_Model], url: str) -> _Model:
    """An answer's JSON as `model`; keys of a newer daemon are passed over. Refuses `daemon_unreachable`."""
    try:
        return msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        why = f"its answer is not of this version: {error}"
        raise DaemonUnreachable(url=shown_url(url), why=why) from error


def plain(body: object) -> Mapping[str, object]:
    """A request's dataclass as the JSON object that is sent, to be kept and sent again the same."""
    found = to_json(body)
    return found if isinstance(found, dict) else {}


def _secrets(request: Call) -> Iterator[str]:
    """What was just sent that nobody may read: the key, and the secret that proves a lease (LEASE-9)."""
    yield request.headers.get("authorization", "").removeprefix("Bearer ")
    sent = msgspec.json.decode(request.body) if request.body else None
    secret = sent.get("secret") if isinstance(sent, dict) else None
    if isinstance(secret, str):
        yield secret


def _clean(value: object, redact: Callable[[str], str]) -> object:
    """A refusal's JSON with every text redacted, in one line, of at most 500 characters (R97)."""
    if isinstance(value, str):
        return shorten(redact(value), MOST_TEXT)
    if isinstance(value, dict):
        return {_clean(name, redact): _clean(item, redact) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, redact) for item in value]
    return value


def _refusal(found: object, status: int) -> Refusal:
    """The refusal in an answer: under `error`, or flat as `/llm/acquire` has it."""
    error = found.get("error") if isinstance(found, dict) else found
    if isinstance(found, dict) and isinstance(error, str):
        facts = {name: item for name, item in found.items() if name not in ("ok", "error", "message")}
        error = {"code": error, "message": found.get("message") or error, "facts": facts}
    return refusal_from(error, status)


def unreachable(request: Call, error: Exception) -> DaemonUnreachable:
    """The refusal for a call that got no answer."""
    return _unanswered(request, str(error) or type(error).__name__)


def silent(request: Call) -> DaemonUnreachable:
    """The refusal for a call whose answer did not come in time. It may have been done all the same."""
    return _unanswered(request, f"it did not answer within {request.silence_s:g} s")


def _unanswered(request: Call, why: str) -> DaemonUnreachable:
    return unanswered(request.address, why)


def unanswered(address: Address, why: str) -> DaemonUnreachable:
    """The refusal for a daemon that gives no answer of ours, with what names it."""
    return _noted(DaemonUnreachable(url=shown_url(address.url), why=why), url_advice(address.url_by))


def _noted(refusal: _Refusal, note: str) -> _Refusal:
    """The refusal with what this side knows of it: its facts are the daemon's."""
    refusal.note_here(note)
    return refusal


def url_advice(named_by: str) -> str:
    """What decides which daemon is asked, of one that does not answer; empty where no variable does."""
    if named_by == HEAD_URL_VAR:
        return (
            "HOSTLER_HEAD_URL names it. Start it there; or set HOSTLER_HEAD_URL and, to its key,"
            " HOSTLER_HEAD_API_KEY; or unset both to ask the local daemon."
        )
    if named_by == URL_VAR:
        return (
            "HOSTLER_URL names it. Start it there; or set HOSTLER_URL and, to its key, HOSTLER_API_KEY;"
            " or unset both to ask the local daemon."
        )
    return ""


def key_advice(request: Call) -> str:
    """Who was asked with which key, and what decides both; empty where the caller named them."""
    at = request.address
    if not at.url_by:
        return ""
    asked = f"{shown_url(at.url)} (of {at.url_by}) was asked"
    if at.key is None:
        return f"{asked} without a key: set {at.key_by} to one of its keys."
    # The key of a file is replaced by a variable as well.
    way = "set it to another of its keys" if at.key_by.startswith("HOSTLER_") else f"set {KEY_VAR} to another"
    return f"{asked} with the key of {at.key_by}: {way}."


class Lines:
    r"""Bytes as they come, given back as whole lines of text. Lines end with `\n` or `\r\n` only."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes. ValueError when one is longer than 1 MiB."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            raise ValueError(f"a line is longer than {MAX_LINE} bytes")
        return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in whole]

    def end(self) -> list[str]:
        """What came after the last line end, if anything did."""
        rest, self._rest = self._rest, b""
        return [rest.decode("utf-8", "replace")] if rest else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One server-sent event. A heartbeat has no `data`; `id` is the cursor to go on from."""

    type: str
    data: str
    id: str


class SentEvents:
    """Lines of a stream as server-sent events; heartbeats come as events without data."""

    def __init__(self) -> None:
        self._type, self._data, self._id = "", list[str](), ""

    def feed(self, line: str) -> Iterator[Sent]:
        """The event that this line completes, if it does."""
        if not line:
            if self._type or self._data or self._id:
                yield Sent(type=self._type or "message", data="\n".join(self._data), id=self._id)
            self._type, self._data = "", []
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
