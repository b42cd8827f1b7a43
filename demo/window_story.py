"""The demo's third act: the box goes into another mode for a while, and back, whoever dies on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from demo.lease_story import Stream
from demo.stage import DRAIN_BEFORE_S, SAYS, DemoError
from demo.story import Story

CAP_S = 12
"""Long enough to see it open, short enough for a demo."""
SHORT_S = 10


@dataclass(kw_only=True)
class WindowStory:
    """The steps of the third act, in order."""

    story: Story
    window: str = ""
    stream: Stream | None = None

    def planned(self) -> None:
        """What a window would do, with its arithmetic, and nothing is changed."""
        it = self.story
        it.show.step(
            "The heavy model needs the box alone: a mode, whose plan is shown before anything is done"
        )
        it.cli("mode")
        it.cli("mode", "plan", "heavy")
        it.expect("fast", it.state("fast"), "ready")

    def opened(self) -> None:
        """A window: deadman first, hold, evictions, a look at the memory, then the heavy engine."""
        it = self.story
        it.show.step("A window opens it: a deadman of its own process first, then hold, drain, evict, start")
        self._open(CAP_S)
        it.cli("deadman", "status")
        it.expect("fast", it.state("fast"), "stopped")
        line, reply = it.open_stream("heavy")
        self.stream = Stream(reply=reply, line=line)
        it.show.told("a turn of the heavy engine is in flight")

    def capped(self) -> None:
        """No new turns before the cap; the turn in flight ends at it with an error frame."""
        it = self.story
        it.show.step(f"{DRAIN_BEFORE_S} s before its cap it takes no new turns; at the cap all is put back")
        it.until("new turns are refused", self._closing, 30)
        answer = it.chat("hello", model="heavy")
        error = answer.json.get("error")
        it.show.told(f"{answer.status} {error.get('message') if isinstance(error, dict) else error}")
        if self.stream is None:
            raise DemoError("there was no turn in flight")
        last = self.stream.ended().decode().split("data: ")[-1].strip()
        it.show.told(f"the turn in flight ended with an error frame: {last}")
        if '"code":"draining"' not in last.replace(" ", ""):
            raise DemoError(f"the turn ended otherwise than with an error frame: {last[:200]}")
        took_s = it.until("fast is back", it.is_ready("fast"), 30)
        it.show.told("fast: ready", took_s)
        it.until("the window is over", lambda: not self._windows(), 30)
        it.cli("window", "report", self.window)

    def killed(self) -> None:
        """Another window, and nobody left but its deadman."""
        it = self.story
        it.show.step("Another window, and the daemon is killed with -9 in it: its deadman knows what to do")
        self._open(SHORT_S)
        it.stage.kill_daemon()
        it.show.told(f"no daemon is left; the hold stands: {it.stage.hold.exists()}")
        took_s = it.until("the deadman lifts the hold", lambda: not it.stage.hold.exists(), 60)
        it.show.told("restored and verified by the deadman, the hold lifted", took_s)
        it.show.asked("hostler serve")
        it.show.told("listening again", it.stage.start_daemon())
        it.until("the window is over", lambda: not self._windows(), 30)
        it.cli("window", "report", self.window)
        it.cli("mode")
        answer = it.chat("hello")
        it.show.told(answer.text, answer.seconds)
        it.expect("the text", answer.text.strip(), SAYS["fast"])

    # ------------------------------------------------------------ looking

    def _open(self, cap_s: int) -> None:
        it = self.story
        words = ("--cap", f"{cap_s}s", "--reason", "the nightly eval", "--override", "windowed")
        it.cli("window", "open", "heavy", *words)
        found = self._windows()
        if not found:
            raise DemoError("no window is open")
        self.window = str(found[0]["id"])
        it.expect("heavy", it.state("heavy"), "ready")

    def _windows(self) -> list[dict[str, object]]:
        rows = self.story.call_quietly("GET", "/v1/hostler/windows").json.get("leases")
        return rows if isinstance(rows, list) else []

    def _closing(self) -> bool:
        body = {"model": "heavy", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
        return self.story.call_quietly("POST", "/v1/chat/completions", body).status == 503

    def steps(self) -> tuple[Callable[[], None], ...]:
        """Every step, in order."""
        return self.planned, self.opened, self.capped, self.killed

    def end(self) -> None:
        """End what this act started, whatever became of it."""
        if self.stream is not None:
            self.stream.line.close()
