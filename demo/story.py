"""The demo's story: what a box does while bots, people and an exclusive job share it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from demo.show import Show, took
from demo.stage import EMBED, IDLE_REVERT_S, SAYS, DemoError, Stage

LOOK_S = 0.1
ROWS = 24
"""Lines of a command that are shown: of more, the first and the last."""
REFUSAL_S = 1.0
"""A refusal or a degraded answer must come without a start: far above what it takes, below any load."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP answer: status, headers by lower-case name, body, and seconds it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> dict[str, object]:
        """The body as an object; DemoError when it is none."""
        try:
            found = json.loads(self.body)
        except ValueError as error:
            raise DemoError(f"an answer that is no JSON: {self.body[:200]!r}") from error
        if not isinstance(found, dict):
            raise DemoError(f"an answer that is no object: {self.body[:200]!r}")
        return found

    @property
    def text(self) -> str:
        """The assistant's text."""
        match self.json:
            case {"choices": [{"message": {"content": str(text)}}]}:
                return text
        raise DemoError(f"no assistant's text in {self.body[:300]!r}")


@dataclass(frozen=True, kw_only=True)
class Story:
    """The steps, in order."""

    stage: Stage
    show: Show

    def call(self, method: str, path: str, body: object = None, *, note: str = "") -> Answer:
        """One request with real HTTP, printed."""
        shown = json.dumps(body) if body is not None else ""
        self.show.asked(f"{method} {path} {shown}{note}")
        return self.call_quietly(method, path, body)

    def call_quietly(self, method: str, path: str, body: object = None) -> Answer:
        """One request with real HTTP."""
        line = http.client.HTTPConnection("127.0.0.1", self.stage.port, timeout=60)
        try:
            begun = time.monotonic()
            data = json.dumps(body) if body is not None else None
            line.request(method, path, data, {"Content-Type": "application/json", "x-hostler-client": "demo"})
            reply = line.getresponse()
            content = reply.read()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(
                status=reply.status, headers=headers, body=content, seconds=time.monotonic() - begun
            )
        except OSError as error:
            raise DemoError(f"{method} {path}: {error}") from error
        finally:
            line.close()

    def chat(self, text: str, model: str = "chat") -> Answer:
        """One chat completion."""
        messages = [{"role": "user", "content": text}]
        return self.call("POST", "/v1/chat/completions", {"model": model, "messages": messages})

    def expect(self, what: str, found: object, wanted: object) -> None:
        """DemoError unless what was found is what was wanted."""
        if found != wanted:
            raise DemoError(f"{what}: expected {wanted!r}, found {found!r}")

    def state(self, engine: str) -> str:
        """An engine's state, from the status."""
        return str(self.engine(engine).get("state"))

    def engine(self, engine: str) -> dict[str, object]:
        """An engine's row of `/v1/hostler/engines`."""
        rows = self.call_quietly("GET", "/v1/hostler/engines").json.get("engines")
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and row.get("id") == engine:
                return row
        raise DemoError(f"no engine {engine!r} in the status")

    def is_ready(self, engine: str) -> Callable[[], bool]:
        """Whether the engine is ready, when it is asked."""
        return lambda: self.state(engine) == "ready"

    def until(self, what: str, done: Callable[[], bool], seconds: float) -> float:
        """Wait until `done`; seconds that took. DemoError when it does not come true."""
        begun = time.monotonic()
        while not done():
            if time.monotonic() - begun > seconds:
                raise DemoError(f"{what}: not within {seconds:.0f} s\n{self.stage.last_log()}")
            time.sleep(LOOK_S)
        return time.monotonic() - begun

    # ------------------------------------------------------------ the steps

    def residents(self) -> None:
        """The daemon comes up and brings the residents up, one after the other."""
        self.show.step("A box with six engines: the daemon starts, and the residents come up by themselves")
        self.show.asked("hostler serve")
        self.show.told("listening", self.stage.start_daemon())
        for name in (EMBED, "fast"):
            took_s = self.until(f"{name} is ready", self.is_ready(name), 30)
            self.show.told(f"{name}: ready", took_s)
        self.show.told(f"large: {self.state('large')} (it excludes fast: one group)")

    def chat_on_fast(self) -> None:
        """A plain chat goes to the fast engine."""
        self.show.step("A bot chats: the fast engine answers")
        answer = self.chat("hello")
        self.show.told(answer.text, answer.seconds)
        self.expect("the text", answer.text.strip(), SAYS["fast"])
        self.expect("served by", answer.headers.get("x-hostler-served-by"), "fast")

    def escalate(self) -> None:
        """The token asks for the large engine: fast is stopped, large is started, on demand."""
        self.show.step("The same bot escalates: fast makes room, large is started on demand")
        answer = self.chat("!escalate hello")
        self.show.told(answer.text, answer.seconds)
        self.expect("the text", answer.text.strip(), SAYS["large"])
        self.show.told(f"fast: {self.state('fast')}, large: {self.state('large')}")
        self.expect("fast", self.state("fast"), "stopped")

    def revert(self) -> None:
        """Nobody uses large for a while: the group's default comes back."""
        self.show.step(f"Nobody asks large for {IDLE_REVERT_S} s: the group reverts to its default")
        took_s = self.until("fast is back", lambda: self.state("fast") == "ready", 30)
        self.show.told(f"fast: ready, large: {self.state('large')}", took_s)

    def hold(self) -> None:
        """A person takes the box for a benchmark."""
        self.show.step("A person needs the box alone: a hold, a file on tmpfs that any script can write")
        self.cli("box", "hold", "--owner", "bench-42", "--reason", "a benchmark", "--minutes", "30")
        self.cli("box", "status")

    def degraded(self) -> None:
        """While held, an escalation is answered by fast at once, and says so."""
        self.show.step("The bot escalates again: degraded at once, nothing is started")
        answer = self.chat("!escalate hello")
        self.show.told(f"{answer.status} {answer.text}", answer.seconds)
        for name in ("x-hostler-degraded", "x-hostler-served-by"):
            self.show.told(f"{name}: {answer.headers.get(name)}")
        self.expect("the status", answer.status, 200)
        self.expect("degraded", answer.headers.get("x-hostler-degraded"), "box_reserved")
        self.expect("served by", answer.headers.get("x-hostler-served-by"), "fast")
        self.quick(answer)
        self.expect("large", self.state("large"), "stopped")

    def refused(self) -> None:
        """While held, asking for large by name is refused in milliseconds."""
        self.show.step("Asking for large itself, and warming it, is refused in milliseconds")
        answer = self.chat("hello", model="large")
        error = answer.json.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        self.show.told(
            f"{answer.status} {code}, Retry-After {answer.headers.get('retry-after')}:"
            f" {error.get('message') if isinstance(error, dict) else error}",
            answer.seconds,
        )
        self.expect("status and code", (answer.status, code), (503, "box_reserved"))
        self.expect("x-should-retry", answer.headers.get("x-should-retry"), "false")
        self.quick(answer)
        answer = self.call("POST", "/llm/acquire", {"provider": "large"})
        self.show.told(f"{answer.status} {answer.body.decode()}", answer.seconds)
        self.expect("acquire", (answer.status, answer.json.get("owner")), (409, "bench-42"))
        self.quick(answer)

    def held_back(self) -> None:
        """A resident that goes down while held stays down; an essential engine may start."""
        self.show.step(
            "fast is stopped by hand while held: its residency waits; the essential engine comes back"
        )
        self.cli("stop", "fast")
        self.cli("stop", EMBED)
        answer = self.call("POST", "/v1/embeddings", {"model": EMBED, "input": "still there?"})
        self.show.told(f"{answer.status} from {answer.headers.get('x-hostler-served-by')}", answer.seconds)
        self.expect("embeddings", answer.status, 200)
        self.cli("why", "fast")
        self.expect("fast", self.state("fast"), "stopped")

    def release(self) -> None:
        """The hold ends, and production comes back by itself."""
        self.show.step("The hold is released: production comes back by itself")
        self.cli("box", "release", "--owner", "bench-42")
        took_s = self.until("fast is back", lambda: self.state("fast") == "ready", 15)
        self.show.told("fast: ready", took_s)
        answer = self.chat("hello")
        self.show.told(answer.text, answer.seconds)
        self.expect("the text", answer.text.strip(), SAYS["fast"])

    def crash(self) -> None:
        """The daemon is killed in the middle of a stream; the engine lives on and is adopted."""
        self.show.step("The daemon is killed with -9 in the middle of a stream")
        line, reply = self.open_stream()
        first = reply.read1(200)
        pid = self.engine("endless").get("pid")
        self.show.told(f"streaming from engine pid {pid}: {first[:60]!r}…")
        self.stage.kill_daemon()
        rest = drain(reply)
        line.close()
        self.show.told(f"the stream was cut after {len(first) + len(rest)} bytes, with no clean end")
        if b"[DONE]" in rest:
            raise DemoError("the cut stream looked complete")
        self.show.asked("hostler serve")
        self.show.told("listening again", self.stage.start_daemon())
        took_s = self.until("endless is adopted", lambda: self.state("endless") == "ready", 15)
        again = self.engine("endless").get("pid")
        self.show.told(f"engine adopted, pid {again}", took_s)
        self.expect("the engine's pid", again, pid)
        answer = self.chat("hello")
        self.show.told(answer.text, answer.seconds)
        self.expect("the text", answer.text.strip(), SAYS["fast"])

    def open_stream(
        self, model: str = "endless"
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """An endless stream, begun."""
        line = http.client.HTTPConnection("127.0.0.1", self.stage.port, timeout=60)
        body = {
            "model": model,
            "stream": True,
            "max_tokens": 100_000,
            "messages": [{"role": "user", "content": "go on"}],
        }
        self.show.asked("POST /v1/chat/completions " + json.dumps({**body, "messages": "…"}))
        line.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = line.getresponse()
        self.expect("the stream's status", reply.status, 200)
        return line, reply

    def cli(self, *argv: str) -> None:
        """A command of the real CLI, printed; DemoError when it fails."""
        self.show.asked("hostler " + " ".join(argv))
        begun = time.monotonic()
        done = self.stage.command(*argv)
        lines = done.stdout.splitlines()
        for text in lines if len(lines) <= ROWS else [*lines[: ROWS // 2], "…", *lines[-ROWS // 2 :]]:
            self.show.line(f"   | {text}")
        if done.returncode != 0:
            raise DemoError(f"hostler {' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
        self.show.told("done", time.monotonic() - begun)

    def quick(self, answer: Answer) -> None:
        """DemoError when an answer that must wait for nothing took long."""
        if answer.seconds > REFUSAL_S:
            raise DemoError(f"an answer that needs no start took {took(answer.seconds)}")

    def steps(self) -> tuple[Callable[[], None], ...]:
        """Every step, in order."""
        return (
            self.residents,
            self.chat_on_fast,
            self.escalate,
            self.revert,
            self.hold,
            self.degraded,
            self.refused,
            self.held_back,
            self.release,
            self.crash,
        )


def drain(reply: http.client.HTTPResponse) -> bytes:
    """The rest of a stream that is being cut."""
    parts = []
    try:
        while part := reply.read1(65536):
            parts.append(part)
    except (OSError, http.client.HTTPException):
        return b"".join(parts)
    return b"".join(parts)
