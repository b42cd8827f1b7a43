"""One target asked once, and what its answer says of it (GW-13).

Decides which failures let another target be tried, and which make an upstream be left alone for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hostler.domain.errors import Internal, NodeUnreachable, Refusal, UpstreamBroke, UpstreamUnreachable
from hostler.gateway import headers as head_rules
from hostler.gateway.backoff import Backoff, asked_for, fails
from hostler.gateway.choose import Attempt
from hostler.gateway.intake import Hall
from hostler.gateway.upstream import (
    RequestRefused,
    Response,
    Upstream,
    UpstreamError,
    UpstreamForbidden,
)
from hostler.gateway.upstream import UpstreamUnreachable as Unreached
from hostler.services.engines import Engines
from hostler.services.needs import Clock
from hostler.wire.told import refusal_from

SERVED_BY: Final = b"x-hostler-served-by"
REFUSAL_BYTES: Final = 64 << 10
SHORT_BYTES: Final = 64 << 10
"""A body of so much is read whole, where it is changed, or is an error that comes too late to pass on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every request of a gateway is served with.

    `bug` logs an exception and returns its id; `redact` takes our secrets out of an upstream's error (SEC-1).
    """

    engines: Engines
    upstream: Upstream
    backoff: Backoff
    clock: Clock
    bug: Callable[[BaseException], str]
    redact: Callable[[str], str] = str
    hall: Hall = field(default_factory=Hall)

    def redacted(self, data: bytes) -> bytes:
        """Bytes of an upstream's error, less our secrets."""
        return self.redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


async def ask(means: Means, attempt: Attempt) -> Response:
    """Send the request and return its answer when its head is here.

    Refuses `upstream_unreachable`, or for another host's engine `node_unreachable` and what its gateway
    refuses, when nothing was sent to it: then another target may be tried. Raises UpstreamError for what
    came to nothing after that.
    """
    is_probe = attempt.lane is None and _is_probe(means, attempt)
    try:
        response = await means.upstream.request(attempt.address, attempt.head, attempt.body)
    except UpstreamError as error:
        if attempt.lane is None:
            means.backoff.failed(attempt.line)
        if isinstance(error, Unreached | UpstreamForbidden):
            raise unreached(attempt, error) from error
        raise
    except RequestRefused as error:
        raise Internal(id=means.bug(error)) from error
    finally:
        if is_probe:
            means.backoff.probed(attempt.line)
    if attempt.peer is not None:
        means.backoff.worked(attempt.line)
        await _refused(response)
    elif attempt.lane is None:
        _judge(means, attempt.name, response)
    return response


def _is_probe(means: Means, attempt: Attempt) -> bool:
    """Whether this is its probe. Refuses while it is left alone, a node by its own name (NODE-3)."""
    try:
        return means.backoff.check(attempt.line)
    except UpstreamUnreachable as off:
        if attempt.peer is None:
            raise
        raise NodeUnreachable(host=attempt.peer, why=off.why, retry_after=off.retry_after) from off


async def _refused(response: Response) -> None:
    """Raise what the gateway of the engine's host refused: the engine itself was not asked (NODE-6)."""
    served = head_rules.first(response.headers, SERVED_BY) is not None
    if response.status < 400 or served:
        return
    try:
        text = await response.read(REFUSAL_BYTES)
    finally:
        response.close()
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    raise refusal_from(error, response.status)


def _judge(means: Means, name: str, response: Response) -> None:
    after = head_rules.first(response.headers, b"retry-after")
    if fails(response.status, after):
        means.backoff.failed(name, asked_for(after, means.clock.now()))
    else:
        means.backoff.worked(name)


def unreached(attempt: Attempt, error: UpstreamError) -> Refusal:
    """Nothing was sent: of an engine of another host its node is named (NODE-3)."""
    if attempt.peer is None:
        return translated(attempt.name, error)
    return NodeUnreachable(host=attempt.peer, why=error.reason, retry_after=1)


async def late_error(means: Means, attempt: Attempt, response: Response) -> UpstreamBroke:
    """What is said of an answer that is no stream, where comments of ours began one already."""
    text = (await response.read(SHORT_BYTES)).decode("utf-8", "replace")
    why = f"it answered {response.status}: {means.redact(text)[:500]}"
    return UpstreamBroke(target=attempt.name, why=why)


def translated(target: str, error: UpstreamError) -> Refusal:
    """An error of the upstream client as the refusal that a caller is told."""
    if isinstance(error, Unreached | UpstreamForbidden):
        return UpstreamUnreachable(target=target, why=error.reason, retry_after=1)
    return UpstreamBroke(target=target, why=error.reason)
