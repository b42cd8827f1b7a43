"""One inference request, from its choice of targets to the last byte of its answer (GW-9, GW-13, GW-14).

Decides how an answer is begun, passed on, and ended when something breaks: before the first byte a
refusal, after it an error frame, never an invented clean end. Which target serves it is `choose`'s
decision; the bytes of heads and frames are `exchange`'s and `stream`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hostler.domain.errors import (
    Internal,
    Refusal,
    TooLarge,
    UpstreamBroke,
    UpstreamUnreachable,
)
from hostler.domain.values import Requester
from hostler.gateway import headers as head_rules
from hostler.gateway.backoff import Backoff
from hostler.gateway.choose import Attempt, Choice
from hostler.gateway.exchange import CutShort, Receive, Scope, Send, on_hang_up
from hostler.gateway.stream import Framing, Tracker, comment
from hostler.gateway.upstream import (
    RequestHead,
    RequestRefused,
    Response,
    Upstream,
    UpstreamDied,
    UpstreamError,
    UpstreamSilent,
)
from hostler.gateway.upstream import UpstreamUnreachable as Unreached
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.needs import Clock
from hostler.services.requests import Outcome, Requests
from hostler.wire.refusals import error_of, inference_answer

GRACE_S: Final = 1.0
"""A stream whose start is done or refused within this gets a real status; then comments begin (GW-6)."""
COMMENT_S: Final = 10.0
"""How often a stream that waits for a start gets a comment line (GW-6)."""
LATE_ERROR_BYTES: Final = 64 << 10

Fields = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client closed its connection before the answer was whole."""


async def read_body(receive: Receive, limit: int, declared: int | None) -> bytes:
    """The whole request body. Refuses `too_large` before reading when its declared length says so."""
    if declared is not None and declared > limit:
        raise TooLarge(what="request body", limit=limit)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(what="request body", limit=limit)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every request of a gateway is served with. `bug` logs an exception and returns its id."""

    engines: Engines
    upstream: Upstream
    backoff: Backoff
    clock: Clock
    bug: Callable[[BaseException], str]


class Serving:
    """The state of one request under way, and its row of the in-flight table. `close` it at the end."""

    __slots__ = (
        "_asked",
        "_cause",
        "_gone",
        "_head_sent",
        "_lane",
        "_means",
        "_route",
        "_send",
        "_task",
        "_tracker",
        "entry",
        "method",
        "status",
        "wants_stream",
    )

    def __init__(
        self, means: Means, requests: Requests, requester: Requester, scope: Scope, send: Send
    ) -> None:
        self._means = means
        self._send = send
        self._task = asyncio.current_task()
        self._cause: Refusal | None = None
        self._lane: Lane | None = None
        self._asked = self._gone = self._head_sent = False
        self._tracker = Tracker()
        self._route: Fields = []
        self.entry = requests.open(requester, route="-", path=scope["path"], cut=self.cut)
        self.method: str = scope["method"]
        self.status = 0
        self.wants_stream = False
        on_hang_up(scope, self._hung_up)

    # ------------------------------------------------------------ how it may be ended from outside

    def cut(self, cause: Refusal) -> None:
        """End this request soon, with an error frame if its answer has begun."""
        if self._cause is None and not self._gone and self._task is not None:
            self._cause = cause
            self._task.cancel()

    def _hung_up(self) -> None:
        """The client left: the upstream is told, in every phase, unless its engine wants to finish (GW-9)."""
        self._gone = True
        lane = self._lane
        if lane is not None and self._asked and lane.engine.on_disconnect == "drain":
            self.entry.phase = "drained"
        elif self._task is not None and self._cause is None:
            self._task.cancel()

    # ------------------------------------------------------------ the whole of it

    async def run(self, work: Callable[[], Awaitable[None]]) -> Outcome:
        """Run `work` and end its answer properly, whatever happens. How it ended."""
        try:
            outcome = await self._outcome(work)
        finally:
            self._leave()
        if self._gone:
            return Outcome.CLIENT_GONE
        return outcome

    async def _outcome(self, work: Callable[[], Awaitable[None]]) -> Outcome:
        try:
            await work()
        except asyncio.CancelledError:
            return await self._cancelled()
        except ClientGone:
            return Outcome.CLIENT_GONE
        except Refusal as refusal:
            await self._end(refusal)
            return Outcome.UPSTREAM_DIED if isinstance(refusal, UpstreamBroke) else Outcome.REFUSED
        except UpstreamError as error:
            await self._end(translated(self.entry.engine or self.entry.route, error))
            return Outcome.SILENT if isinstance(error, UpstreamSilent) else Outcome.UPSTREAM_DIED
        except CutShort:
            raise
        except Exception as error:  # noqa: BLE001 - any bug becomes one logged id, and the answer says no more
            await self._end(Internal(id=self._means.bug(error)))
            return Outcome.INTERNAL
        return Outcome.UPSTREAM_ERROR if self.status >= 500 else Outcome.OK

    async def _cancelled(self) -> Outcome:
        cause = self._cause
        if cause is None and not self._gone:
            raise asyncio.CancelledError
        if self._task is not None:
            self._task.uncancel()
        if cause is None:
            return Outcome.CLIENT_GONE
        await self._end(cause)
        return Outcome.CUT

    async def _end(self, refusal: Refusal) -> None:
        """Tell the caller: a refusal before the first byte, an error frame after it (GW-14)."""
        if self._gone:
            return
        if not self._head_sent:
            status, fields, payload = inference_answer(refusal)
            await self.answer(status, [*fields, *self._route], payload)
            return
        if not self.wants_stream:
            raise CutShort
        await self._write(self._tracker.closing(Framing.OPENAI, error_of(refusal)), last=True)

    # ------------------------------------------------------------ serving

    async def serve(self, choice: Choice) -> None:
        """Serve by the first target that can, in order; then by the fallback; else the last refusal."""
        self._route = choice.headers(None)
        self.entry.route = choice.route
        last: Refusal | None = None
        for attempt in choice.attempts:
            try:
                await self._attempt(choice, attempt())
                return
            except Refusal as refusal:
                if self._asked or self._head_sent:
                    raise
                last = refusal
        if last is None:
            raise UpstreamUnreachable(target=choice.route, why="its profile has no targets")
        other = choice.otherwise(last)
        if other is None:
            raise last
        await self._attempt(choice, other)

    async def _attempt(self, choice: Choice, attempt: Attempt) -> None:
        self.entry.degraded = attempt.degraded
        self._route = choice.headers(attempt.degraded)
        if attempt.lane is not None:
            await self._enter(attempt, attempt.lane)
        self.entry.phase = "asked"
        response = await self._ask(attempt)
        try:
            await self._pass_on(attempt, response, choice.served(attempt))
        finally:
            response.close()

    async def _ask(self, attempt: Attempt) -> Response:
        """Send the request. A target that cannot be reached refuses: the next one may be tried (GW-13)."""
        head = RequestHead(
            method=self.method.encode("latin-1"),
            target=attempt.target,
            headers=attempt.headers,
            silence_s=attempt.silence_s,
        )
        self._asked = True
        try:
            response = await self._means.upstream.request(attempt.address, head, attempt.body)
        except Unreached as error:
            self._asked = False
            self._leave()
            self._failed(attempt)
            raise translated(attempt.name, error) from error
        except UpstreamDied:
            self._failed(attempt)
            raise
        except RequestRefused as error:
            raise Internal(id=self._means.bug(error)) from error
        self._judge(attempt, response)
        return response

    def _failed(self, attempt: Attempt, retry_after: float | None = None) -> None:
        if attempt.lane is None:
            self._means.backoff.failed(attempt.name, retry_after)

    def _judge(self, attempt: Attempt, response: Response) -> None:
        """What an upstream's status says of it: a 5xx or a 429 with Retry-After is left alone for a while."""
        if attempt.lane is not None:
            return
        after = head_rules.first(response.headers, b"retry-after")
        if response.status >= 500 or (response.status == 429 and after is not None):
            seconds = float(after) if after is not None and after.isdigit() else None
            self._failed(attempt, seconds)
        else:
            self._means.backoff.worked(attempt.name)

    async def _enter(self, attempt: Attempt, lane: Lane) -> None:
        """Into the engine, once it is ready (GW-6). Refuses `loading` when the wait is over."""
        clock = self._means.clock
        if not lane.ready:
            deadline = clock.elapsed() + attempt.wait_s
            while not lane.ready:
                left = deadline - clock.elapsed()
                if left <= 0:
                    raise self._means.engines.starting.loading(lane)
                await self._until_ready(attempt, lane, left)
        lane.enter(self.entry)
        self._lane = lane

    def _leave(self) -> None:
        if self._lane is not None:
            self._lane.leave(self.entry, self._means.clock.elapsed())
            self._lane = None

    async def _until_ready(self, attempt: Attempt, lane: Lane, wait_s: float) -> None:
        """Wait for the start: a stream with comment lines, anything else only if it can be in time."""
        starting, ask = self._means.engines.starting, attempt.ask
        if ask is None:
            raise starting.loading(lane)
        if not self.wants_stream and starting.hopeless(lane, wait_s):
            self._means.engines.gate.admit(ask)
            raise starting.loading(lane)
        self.entry.phase = "loading"
        ready = asyncio.ensure_future(starting.ensure_ready(lane, ask, wait_s=wait_s))
        try:
            if self.wants_stream:
                await self._comment_until(ready, lane)
            await ready
        finally:
            ready.cancel()

    async def _comment_until(self, ready: asyncio.Future[None], lane: Lane) -> None:
        pause = COMMENT_S if self._head_sent else GRACE_S
        while not (await asyncio.wait({ready}, timeout=pause))[0]:
            if not self._head_sent:
                fields = [
                    (b"content-type", b"text/event-stream"),
                    (b"cache-control", b"no-cache"),
                    (b"x-accel-buffering", b"no"),
                    *self._route,
                ]
                await self._start(200, fields)
            await self._write(comment(self._means.engines.starting.progress(lane)))
            pause = COMMENT_S

    async def _pass_on(self, attempt: Attempt, response: Response, served: Fields) -> None:
        """Each chunk is written on at once; the write waits for a slow client (GW-13)."""
        fields = response.headers
        streams = head_rules.is_stream(fields)
        if self._head_sent and response.status >= 300:
            text = (await response.read(LATE_ERROR_BYTES)).decode("utf-8", "replace")
            raise UpstreamBroke(target=attempt.name, why=f"it answered {response.status}: {text[:500]}")
        self.status = response.status
        self.wants_stream = streams and head_rules.is_plain(fields)
        if not self._head_sent:
            await self._start(
                response.status, head_rules.to_caller(fields, streams=self.wants_stream, added=served)
            )
        entry = self.entry
        entry.phase = "streaming" if streams else "answering"
        while chunk := await response.next():
            if entry.first_byte is None:
                entry.first_byte = self._means.clock.elapsed()
            if self.wants_stream:
                self._tracker.feed(chunk)
                await self._write(chunk)
            elif response.at_end:
                await self._write(chunk, last=True)
                return
            else:
                await self._write(chunk)
        await self._write(b"", last=True)

    # ------------------------------------------------------------ bytes to the caller

    async def answer(self, status: int, fields: Fields, payload: bytes) -> None:
        """A whole answer of ours."""
        self.status = status
        await self._start(status, [*fields, (b"content-length", b"%d" % len(payload))])
        await self._write(payload, last=True)

    async def _start(self, status: int, fields: Fields) -> None:
        self._head_sent = True
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def _write(self, data: bytes, *, last: bool = False) -> None:
        self.entry.bytes_out += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})


def translated(target: str, error: UpstreamError) -> Refusal:
    """An error of the upstream client as the refusal that a caller is told."""
    if isinstance(error, Unreached):
        return UpstreamUnreachable(target=target, why=error.reason, retry_after=1)
    return UpstreamBroke(target=target, why=error.reason)
