"""How the demo prints: each request, its answer, and the time that took."""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.stage import Stage

WIDTH = 100


@dataclass(kw_only=True)
class Show:
    """The printer; colours only on a terminal."""

    begun: float = field(default_factory=time.monotonic)
    step_number: int = 0

    def line(self, text: str) -> None:
        """One plain line."""
        print(text, flush=True)

    def step(self, title: str) -> None:
        """The head of a step."""
        self.step_number += 1
        self.line(f"\n{self._bold(f'{self.step_number}. {title}')}   [{time.monotonic() - self.begun:.1f} s]")

    def asked(self, what: str) -> None:
        """A request, or a command."""
        self.line(f"   > {what}")

    def told(self, answer: str, seconds: float | None = None) -> None:
        """Its answer, whole, in lines of a page's width, and its time."""
        time_taken = f"   ({took(seconds)})" if seconds is not None else ""
        wrapped = textwrap.wrap(" ".join(answer.split()), WIDTH, break_on_hyphens=False) or [""]
        for number, text in enumerate(wrapped, start=1):
            mark = "<" if number == 1 else " "
            self.line(f"   {mark} {text}{time_taken if number == len(wrapped) else ''}")

    def failed(self, reason: str) -> None:
        """The demo ends here."""
        print(f"\nThe demo FAILED: {reason}", file=sys.stderr, flush=True)

    def done(self, stage: Stage | None) -> None:
        """The last words."""
        self.line(f"\nAll {self.step_number} steps were as told, in {time.monotonic() - self.begun:.0f} s.")
        if stage is None:
            return
        self.line("\nIt is still running. Try, in another terminal:\n")
        for name in (
            "HOSTLER_CONFIG",
            "HOSTLER_STATE_DIR",
            "HOSTLER_BOX_RESERVATION_PATH",
            "HOSTLER_URL",
            "XDG_RUNTIME_DIR",
        ):
            self.line(f"  export {name}={stage.environment[name]}")
        self.line("\n  .venv/bin/hostler status")
        self.line("  .venv/bin/hostler box hold --owner me --reason 'a benchmark' --minutes 5")
        self.line("  .venv/bin/hostler why large")
        self.line("  .venv/bin/hostler box release")
        self.line("  .venv/bin/hostler run box --for 20m --title mine -- sh -c 'sleep 30'")
        self.line("  .venv/bin/hostler schedule; .venv/bin/hostler why box; .venv/bin/hostler mine")
        self.line(
            f"  curl {stage.url}/v1/chat/completions -d "
            '\'{"model": "chat", "messages": [{"role": "user", "content": "!escalate hello"}]}\''
        )
        self.line(f"\nEnd it, whatever is open in it, with: .venv/bin/python -m demo --end {stage.root}")

    def _bold(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def took(seconds: float) -> str:
    """`3.2 ms` or `1.4 s`."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
