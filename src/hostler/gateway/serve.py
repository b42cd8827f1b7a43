"""One inference request, from its choice of targets to the last byte of its answer (GW-9, GW-13, GW-14).

Decides how an answer is begun, passed on, and ended when something breaks: before the first byte a
refusal, after it an error frame, never an invented clean end. Which target serves it is `choose`'s
decision; the bytes of heads and frames are `exchange`'s and `stream`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hostler.domain.errors import Internal, Refusal, UpstreamBroke, UpstreamUnreachable
from hostler.domain.values import Requester
from hostler.gateway import headers as head_rules
from hostler.gateway.ask import SHORT_BYTES, Means, ask, late_error, translated
from hostler.gateway.choose import Attempt, Choice
from hostler.gateway.exchange import Exchange
from hostler.gateway.intake import ClientGone, Seat
from hostler.gateway.renaming import Renaming, renaming
from hostler.gateway.stream import STREAM_HEAD, Framing, Tracker, comment
from hostler.gateway.upstream import Response, UpstreamError, UpstreamSilent
from hostler.services.lanes import Lane, heard
from hostler.services.requests import Outcome, Requests
from hostler.wire.refusals import error_of, inference_answer

GRACE_S: Final = 1.0
"""A stream whose start is done or refused within this gets a real status; then comments begin (GW-6)."""
COMMENT_S: Final = 10.0
"""How often a stream that waits for a start gets a comment line (GW-6)."""
END_S: Final = 2.0
"""How long a client may take to read why its request ended; then its connection is cut."""
DRAINED_S: Final = 600.0
"""How long an engine that wants to finish an answer whose client left may go on (`on_disconnect: drain`)."""

Fields = list[tuple[bytes, bytes]]
_log = logging.getLogger("hostler.routes")


class Serving:
    """The state of one request under way, and its row of the in-flight table.

    `unfinished`: its answer has begun and cannot be ended by a frame, so its connection must be cut.
    """

    __slots__ = (
        "_asked",
        "_cause",
        "_deadline",
        "_ending",
        "_exchange",
        "_gone",
        "_gone_at",
        "_head_sent",
        "_lane",
        "_means",
        "_renaming",
        "_route",
        "_stopped",
        "_task",
        "_tracker",
        "entry",
        "method",
        "seat",
        "status",
        "unfinished",
        "wants_stream",
    )

    def __init__(self, means: Means, requests: Requests, requester: Requester, exchange: Exchange) -> None:
        self._means = means
        self._exchange = exchange
        self._task = exchange.task
        self._cause: Refusal | None = None
        self._lane: Lane | None = None
        self._asked = self._gone = self._head_sent = self._ending = self._stopped = False
        self._gone_at = self._deadline = 0.0
        self._tracker: Tracker | None = None
        self._renaming: Renaming | None = None
        self._route: Fields = []
        self.seat = Seat(means.hall)
        self.entry = requests.open(requester, route="-", path=exchange.asked.path, cut=self.cut)
        self.method = exchange.asked.method
        self.status = 0
        self.wants_stream = self.unfinished = False
        exchange.when_gone(self._hung_up)

    # ------------------------------------------------------------ how it may be ended from outside

    def cut(self, cause: Refusal) -> None:
        """End this request soon, with an error frame if its answer has begun."""
        if not self._stopped and not self._ending:
            self._cause = cause
            self._stop()

    def _hung_up(self) -> None:
        """The client left: the upstream is told, in every phase, unless its engine wants to finish (GW-9)."""
        self._gone = True
        lane = self._lane
        if lane is not None and self._asked and not self._stopped and lane.engine.on_disconnect == "drain":
            self._gone_at = self._means.clock.elapsed()
            self.entry.phase = "drained"
        elif not self._ending:
            self._stop()

    def _stop(self) -> None:
        """Once only: a second cancel would hit the ending itself."""
        if not self._stopped and self._task is not None:
            self._stopped = True
            self._task.cancel()

    # ------------------------------------------------------------ the whole of it

    async def run(self, work: Awaitable[None]) -> Outcome:
        """Run `work` and end its answer properly, whatever happens. How it ended."""
        try:
            await work
            outcome = Outcome.UPSTREAM_ERROR if self.status >= 500 else Outcome.OK
        except asyncio.CancelledError:
            outcome = await self._cancelled()
        except ClientGone:
            outcome = Outcome.CLIENT_GONE
        except Refusal as refusal:
            await self._end(refusal)
            outcome = Outcome.UPSTREAM_DIED if isinstance(refusal, UpstreamBroke) else Outcome.REFUSED
        except UpstreamError as error:
            await self._end(translated(self.entry.engine or self.entry.route, error))
            outcome = Outcome.SILENT if isinstance(error, UpstreamSilent) else Outcome.UPSTREAM_DIED
        except Exception as error:  # noqa: BLE001 - any bug becomes one logged id, and the answer says no more
            await self._end(Internal(id=self._means.bug(error)))
            outcome = Outcome.INTERNAL
        finally:
            self._leave()
        return Outcome.CLIENT_GONE if self._gone else outcome

    async def _cancelled(self) -> Outcome:
        if not self._stopped:
            # The server ends, not this request: that is not ours to swallow.
            raise asyncio.CancelledError
        if self._task is not None:
            self._task.uncancel()
        if self._cause is None:
            return Outcome.CLIENT_GONE
        await self._end(self._cause)
        return Outcome.CUT

    async def _end(self, refusal: Refusal) -> None:
        """Tell the caller: a refusal before the first byte, an error frame after it (GW-14).

        The engine is left first: a client that does not read keeps nobody from stopping it.
        """
        self._ending = True
        self._leave()
        if self._gone:
            return
        telling = asyncio.ensure_future(self._tell(refusal))
        timer = asyncio.ensure_future(self._means.clock.sleep(END_S))
        try:
            await asyncio.wait({telling, timer}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
            else:
                self.unfinished = True
        finally:
            telling.cancel()
            timer.cancel()

    async def _tell(self, refusal: Refusal) -> None:
        if not self._head_sent:
            status, fields, payload = inference_answer(refusal)
            await self.answer(status, [*fields, *self._route], payload)
        elif self._tracker is not None:
            await self._write(self._held())
            await self._say(self._tracker.closing(Framing.OPENAI, error_of(refusal)), last=True)
        else:
            self.unfinished = True

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
        self.entry.degraded, self.entry.engine = attempt.degraded, None
        if attempt.degraded is not None or choice.reason:
            facts = {"route": choice.route, "served_by": attempt.name, "by": self.entry.requester.tag()}
            _log.info("route decided", extra={**facts, "why": choice.reason or attempt.degraded})
        self._route = choice.headers(attempt.degraded)
        served = choice.served(attempt)
        if attempt.lane is not None:
            await self._enter(attempt, attempt.lane, served)
        self.entry.phase = "asked"
        self._asked = True
        try:
            response = await ask(self._means, attempt)
        except Internal:
            raise
        except Refusal:
            self._asked = False
            self._leave()
            raise
        try:
            await self._pass_on(attempt, response, served)
        finally:
            response.close()

    async def _enter(self, attempt: Attempt, lane: Lane, served: Fields) -> None:
        """Into the engine, once it is ready (GW-6). Refuses `loading` when the wait is over.

        All targets of a request share one wait: the second is not waited for as long again.
        """
        clock = self._means.clock
        while not lane.ready:
            if not self._deadline:
                self._deadline = clock.elapsed() + attempt.wait_s
            left = min(self._deadline - clock.elapsed(), attempt.wait_s)
            if left <= 0:
                raise self._means.engines.starting.loading(lane)
            await self._until_ready(attempt, lane, left, served)
        closing = self._means.engines.gate.closing(lane.engine.id)
        if closing is not None:
            raise closing
        lane.enter(self.entry)
        self._lane = lane

    def _leave(self) -> None:
        if self._lane is not None:
            self._lane.leave(self.entry, self._means.clock.elapsed())
            self._lane = None

    async def _until_ready(self, attempt: Attempt, lane: Lane, wait_s: float, served: Fields) -> None:
        """Wait for the start: a stream with comment lines, anything else only if it can be in time."""
        starting, ask = self._means.engines.starting, attempt.ask
        if ask is None:
            raise starting.loading(lane)
        if not self.wants_stream and starting.hopeless(lane, wait_s):
            self._means.engines.gate.admit(ask)
            raise starting.loading(lane)
        self.entry.phase = "loading"
        ready = asyncio.ensure_future(starting.ensure_ready(lane, ask, wait_s=wait_s))
        ready.add_done_callback(heard)
        try:
            if self.wants_stream:
                await self._comment_until(ready, lane, served)
            await ready
        finally:
            ready.cancel()

    async def _comment_until(self, ready: asyncio.Future[None], lane: Lane, served: Fields) -> None:
        """A stream whose start takes longer begins at once and lives by comments (GW-6)."""
        while not await self._within(ready, COMMENT_S if self._head_sent else GRACE_S):
            if not self._head_sent:
                self.status = 200
                self._start(200, [*STREAM_HEAD, *served])
                self._tracker = Tracker()
            await self._say(comment(self._means.engines.starting.progress(lane)))

    async def _within(self, ready: asyncio.Future[None], seconds: float) -> bool:
        """Whether it is done, after at most `seconds`."""
        timer = asyncio.ensure_future(self._means.clock.sleep(seconds))
        try:
            await asyncio.wait({ready, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        return ready.done()

    async def _pass_on(self, attempt: Attempt, response: Response, served: Fields) -> None:
        """Each chunk is written on at once; the write waits for a slow client (GW-13)."""
        fields = response.headers
        streams = head_rules.is_stream(response.content_type)
        plain = head_rules.is_plain(response.content_encoding)
        if self._head_sent and (response.status >= 300 or not streams or not plain):
            raise await late_error(self._means, attempt, response)
        self.status = response.status
        if response.status >= 400 and plain and not streams:
            theirs = [(name, self._means.redacted(value)) for name, value in fields]
            told = head_rules.to_caller(theirs, streams=False, added=served)
            await self._pass_changed(told, response, self._means.redacted)
            return
        frames = streams and plain
        self._renaming = renaming(attempt.names, response.content_type) if plain else None
        told = head_rules.to_caller(fields, streams=frames, added=served)
        if self._renaming is not None and not streams:
            await self._pass_changed(told, response, self._renaming.feed)
            return
        if not self._head_sent:
            self._start(response.status, told)
            self._tracker = Tracker() if frames else None
        self.entry.phase = "streaming" if streams else "answering"
        await self._pass_body(response)

    async def _pass_body(self, response: Response) -> None:
        """Pass on what came with the head, then the rest as it comes; wait only for a slow client."""
        exchange = self._exchange
        if response.is_over and not exchange.flow.write_paused:
            data = response.take()
            if data:
                data = self._passed(data)
            exchange.write(data + self._held() if response.at_end else data, last=response.at_end)
            if response.at_end:
                return
        if not response.waiting:
            exchange.flush()
        while await response.pass_to(self._pass):
            await exchange.flow.drain()
        await self._write(self._held(), last=True)

    def _pass(self, chunk: bytes) -> bool:
        """Write a chunk; whether the client takes more. Called as each comes, not by our task."""
        self._exchange.write(self._passed(chunk))
        if self._gone and self._means.clock.elapsed() - self._gone_at > DRAINED_S:
            raise ClientGone
        return not self._exchange.flow.write_paused

    def _held(self) -> bytes:
        """What waited to be seen whole: nothing comes any more."""
        renaming, self._renaming = self._renaming, None
        return b"" if renaming is None else renaming.rest()

    def _passed(self, chunk: bytes) -> bytes:
        """What is written of a chunk: with the asked name, where it is another."""
        if self._renaming is not None:
            chunk = self._renaming.feed(chunk)
        self._note(chunk)
        return chunk

    def _note(self, chunk: bytes) -> None:
        """Count what passes, and follow a stream that a frame of ours may have to end."""
        entry = self.entry
        if entry.first_byte is None:
            entry.first_byte = self._means.clock.elapsed()
        entry.bytes_out += len(chunk)
        if self._tracker is not None:
            self._tracker.feed(chunk)

    async def _pass_changed(
        self, fields: Fields, response: Response, change: Callable[[bytes], bytes]
    ) -> None:
        """A body that changes as it passes: with its new length, where it is short (GW-11, GW-14)."""
        self.entry.phase = "answering"
        parts: list[bytes] = []
        while sum(map(len, parts)) < SHORT_BYTES and (chunk := await response.next()):
            parts.append(chunk)
        if parts:
            self._note(b"")
        text = change(b"".join(parts))
        if response.at_end:
            text += self._held()
        if self.method != "HEAD":
            fields = head_rules.with_length(fields, len(text) if response.at_end else None)
        self._start(response.status, fields)
        await self._say(text, last=response.at_end)
        while chunk := await response.next():
            await self._say(change(chunk))
        if not self._exchange.response_complete:
            await self._say(self._held(), last=True)

    # ------------------------------------------------------------ bytes to the caller

    async def answer(self, status: int, fields: Fields, payload: bytes) -> None:
        """A whole answer of ours."""
        self.status = status
        self._start(status, [*fields, (b"content-length", b"%d" % len(payload))])
        await self._say(payload, last=True)

    def _start(self, status: int, fields: Fields) -> None:
        self._exchange.start(status, fields)
        self._head_sent = True

    async def _say(self, data: bytes, *, last: bool = False) -> None:
        self.entry.bytes_out += len(data)
        await self._write(data, last=last)

    async def _write(self, data: bytes, *, last: bool = False) -> None:
        if self._exchange.flow.write_paused:
            await self._exchange.flow.drain()
        self._exchange.write(data, last=last)
