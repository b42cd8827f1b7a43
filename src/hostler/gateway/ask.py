"""One target asked once, and what its answer says of it (GW-13).

Decides which failures let another target be tried, and which make an upstream be left alone for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.domain.errors import Internal, Refusal, UpstreamBroke, UpstreamUnreachable
from hostler.gateway import headers as head_rules
from hostler.gateway.backoff import Backoff, asked_for, fails
from hostler.gateway.choose import Attempt
from hostler.gateway.intake import Hall
from hostler.gateway.upstream import (
    RequestHead,
    RequestRefused,
    Response,
    Upstream,
    UpstreamError,
    UpstreamForbidden,
)
from hostler.gateway.upstream import UpstreamUnreachable as Unreached
from hostler.services.engines import Engines
from hostler.services.needs import Clock


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


async def ask(means: Means, method: str, attempt: Attempt) -> Response:
    """Send the request and return its answer when its head is here.

    Refuses `upstream_unreachable` when nothing was sent: then another target may be tried. Raises
    UpstreamError for what came to nothing after that.
    """
    head = RequestHead(
        method=method.encode("latin-1"),
        target=attempt.target,
        headers=attempt.headers,
        silence_s=attempt.silence_s,
    )
    is_probe = attempt.lane is None and means.backoff.check(attempt.name)
    try:
        response = await means.upstream.request(attempt.address, head, attempt.body)
    except UpstreamError as error:
        if attempt.lane is None:
            means.backoff.failed(attempt.name)
        if isinstance(error, Unreached | UpstreamForbidden):
            raise translated(attempt.name, error) from error
        raise
    except RequestRefused as error:
        raise Internal(id=means.bug(error)) from error
    finally:
        if is_probe:
            means.backoff.probed(attempt.name)
    if attempt.lane is None:
        _judge(means, attempt.name, response)
    return response


def _judge(means: Means, name: str, response: Response) -> None:
    after = head_rules.first(response.headers, b"retry-after")
    if fails(response.status, after):
        means.backoff.failed(name, asked_for(after, means.clock.now()))
    else:
        means.backoff.worked(name)


def translated(target: str, error: UpstreamError) -> Refusal:
    """An error of the upstream client as the refusal that a caller is told."""
    if isinstance(error, Unreached | UpstreamForbidden):
        return UpstreamUnreachable(target=target, why=error.reason, retry_after=1)
    return UpstreamBroke(target=target, why=error.reason)
