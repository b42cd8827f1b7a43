"""The demo's second act: two agents share a box without asking each other."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from demo.stage import SAYS, DemoError
from demo.story import Story

BOX = "box"
STREAM_TOKENS = 400
"""Long enough to be in flight when the drain begins, short enough to end by itself within it."""
SCRIPT = (
    'echo "hostler: progress 1/2 runs" >&2; echo "hostler: metric tok_s=41.5" >&2; '
    'echo "hostler: progress 2/2 runs" >&2; echo measured'
)


@dataclass(kw_only=True)
class Stream:
    """A stream of chat that is read in a thread of its own, to its end."""

    reply: http.client.HTTPResponse
    line: http.client.HTTPConnection
    text: bytes = b""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        try:
            self.text = self.reply.read()
        except (OSError, http.client.HTTPException) as error:
            self.text = f"cut: {error!r}".encode()
        finally:
            self.line.close()

    def ended(self) -> bytes:
        """All of it, once it is over."""
        self.thread.join(60)
        return self.text


@dataclass(kw_only=True)
class LeaseStory:
    """The steps of the second act, in order."""

    story: Story
    anna: str = ""
    bert: subprocess.Popen[str] | None = None
    cursor: str = ""

    def reserve(self) -> None:
        """Anna takes the box while a stream runs: the route moves away, the stream ends whole."""
        it = self.story
        it.show.step("Anna reserves the box while somebody streams: traffic moves away, nobody is cut")
        self.cursor = str(it.call("GET", "/gateway/schedule").json.get("cursor"))
        stream = self._stream()
        it.cli("reserve", BOX, "--for", "10m", "--reason", "a benchmark", "--holder", "anna")
        text = stream.ended()
        whole = text.rstrip().endswith(b"data: [DONE]")
        if not whole:
            raise DemoError(f"the stream was cut: {text[-200:]!r}")
        it.show.told(f"the stream ended whole: {len(text)} bytes")
        it.expect("fast", it.state("fast"), "stopped")
        self.anna = self._lease("active")
        self._chat(SAYS["spare"])

    def queue(self) -> None:
        """Bert's job waits in the queue."""
        it = self.story
        it.show.step("Bert wants the box for a job: it waits in the queue, and anybody sees why")
        words = ("run", BOX, "--for", "5m", "--wait", "--title", "bert's bench", "--holder", "bert")
        it.show.asked(f"hostler {' '.join(words)} -- sh -c '…' &")
        self.bert = subprocess.Popen(
            [sys.executable, "-m", "hostler", *words, "--", "sh", "-c", SCRIPT],
            env=it.stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        it.until("bert waits", lambda: bool(self._leases("queued")), 20)
        it.cli("why", BOX)
        it.cli("schedule")

    def stuck(self) -> None:
        """The daemon is killed in the middle of Anna's release: nothing is free, nothing is lost."""
        it = self.story
        it.show.step("Anna releases, and the daemon is killed with -9 in the middle of it")
        it.cli("release", self.anna, "--no-wait")
        it.until("fast is on its way back", lambda: it.state("fast") != "stopped", 20)
        it.stage.kill_daemon()
        it.show.asked("hostler serve")
        it.show.told("listening again", it.stage.start_daemon())
        self._lease("stuck")
        self._chat(SAYS["spare"])
        it.cli("schedule")

    def mended(self) -> None:
        """One more release puts everything back, verified, before traffic returns."""
        it = self.story
        it.show.step("Stuck: the resource stays held until a release succeeds; here it does")
        it.cli("release", self.anna)
        self._lease("released", ended=True)

    def taken_over(self) -> None:
        """Bert's command rode out the crash; its turn has come, and it ends by itself."""
        it = self.story
        it.show.step("Bert's command rode out the crash: its turn comes, it runs, it gives the box back")
        if self.bert is None or self.bert.stdout is None:
            raise DemoError("bert's command was never started")
        try:
            out, _ = self.bert.communicate(timeout=60)
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"bert's command does not end\n{it.stage.last_log()}") from error
        for text in out.splitlines()[-8:]:
            it.show.line(f"   | {text}")
        it.expect("bert's exit code", self.bert.returncode, 0)
        it.until("nobody has the box", lambda: not self._leases("active", "releasing"), 30)
        it.cli("job", "list", "--all")
        self._chat(SAYS["fast"])

    def replay(self) -> None:
        """Whoever looked away reads what happened, once and in order."""
        it = self.story
        it.show.step("Whoever looked away replays the feed from its cursor: once, and in order")
        kinds: list[str] = []
        cursor, more = self.cursor, True
        while more:
            page = it.call(
                "GET", f"/gateway/schedule?since={cursor}&type=lease_active,lease_stuck,lease_ended"
            )
            events = page.json.get("events")
            for row in events if isinstance(events, list) else []:
                kinds.append(f"{row['type']} {row['subject'].get('lease', '')[-4:]}")
                it.show.told(f"{row['seq']} {row['type']}  {row['message']}")
            cursor, more = str(page.json.get("cursor")), page.json.get("more") is True
        it.expect("what happened", [kind.split()[0] for kind in kinds], EXPECTED)
        it.cli("history", "--lease", self.anna)

    # ------------------------------------------------------------ looking

    def _leases(self, *states: str, ended: bool = False) -> list[dict[str, object]]:
        path = "/v1/hostler/leases" + ("?ended=true" if ended else "")
        rows = self.story.call_quietly("GET", path).json.get("leases")
        found = rows if isinstance(rows, list) else []
        return [row for row in found if row.get("state") in states]

    def _lease(self, state: str, *, ended: bool = False) -> str:
        found = self._leases(state, ended=ended)
        if not found:
            raise DemoError(
                f"no lease is {state}: {json.dumps(self._leases('active', 'stuck', 'releasing'))}"
            )
        return str(found[0]["id"])

    def _chat(self, says: str) -> None:
        answer = self.story.chat("hello")
        self.story.show.told(answer.text, answer.seconds)
        self.story.expect("the text", answer.text.strip(), says)

    def _stream(self) -> Stream:
        it = self.story
        line = http.client.HTTPConnection("127.0.0.1", it.stage.port, timeout=60)
        body = {
            "model": "long",
            "stream": True,
            "max_tokens": STREAM_TOKENS,
            "messages": [{"role": "user", "content": "go on"}],
        }
        it.show.asked("POST /v1/chat/completions " + json.dumps({**body, "messages": "…"}))
        line.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = line.getresponse()
        it.expect("the stream's status", reply.status, 200)
        return Stream(reply=reply, line=line)

    def steps(self) -> tuple[Callable[[], None], ...]:
        """Every step, in order."""
        return self.reserve, self.queue, self.stuck, self.mended, self.taken_over, self.replay

    def end(self) -> None:
        """End what this act started, whatever became of it."""
        if self.bert is not None and self.bert.poll() is None:
            self.bert.terminate()
            deadline = time.monotonic() + 20
            while self.bert.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if self.bert.poll() is None:
                self.bert.kill()
            self.bert.wait()


TOLD = ("lease_active", "lease_stuck", "lease_ended")
EXPECTED = ["lease_active", "lease_stuck", "lease_ended", "lease_active", "lease_ended"]
