"""What services need from the world. Adapters provide these; tests fake them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hostler.domain.curation import Crossing, LinkSeen
from hostler.domain.engine import ExitReport, Launch, Probe, Restore, Run, StopReport
from hostler.domain.errors import Refusal
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import Engine
from hostler.domain.gate import Ask
from hostler.domain.hold import HoldView
from hostler.domain.memory import Pools
from hostler.domain.moment import Moment
from hostler.services.picture import Picture


class Clock(Protocol):
    """Time. `now` is for records, `elapsed` for decisions (CLOCK_BOOTTIME seconds)."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def elapsed(self) -> float:
        """Seconds since boot, suspend included."""
        ...

    def moment(self) -> Moment:
        """Both clocks at once, and which run of the machine it is (LEASE-21)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a fake one returns when its time is moved on."""
        ...


class Ids(Protocol):
    """Fresh identities and dice."""

    def new(self, prefix: str) -> str:
        """`<prefix>_<26 characters>`, unique and unguessable."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1) for back-off."""
        ...


class HoldReader(Protocol):
    """The hold file of this host (HOLD-6). Never raises: what cannot be read is a held view."""

    def read(self) -> HoldView:
        """The present meaning: one stat when cached; expiry is judged anew each time."""
        ...


class Driver(Protocol):
    """One way of running engines (ENG-2). One conformance suite holds for all of them."""

    async def start(self, launch: Launch) -> Run:
        """Spawn it; returns once its identity is durable. Refusals: engine_failed, not_launchable."""
        ...

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look: no inference, no waking. Never raises; takes at most 3 s."""
        ...

    async def adopt(self, launch: Launch) -> Run | None:
        """The recorded run if that very process still lives (ENG-7), else None."""
        ...

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """SIGTERM, wait, SIGTERM again, SIGKILL, then look (ENG-6). `now` skips the waits."""
        ...

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when that run has ended, whoever ended it."""
        ...

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last log lines, oldest first, as the engine wrote them."""
        ...

    def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Log lines as they come."""
        ...

    def restore(self, launch: Launch) -> Restore:
        """The start in words that need no driver."""
        ...

    def rss(self, run: Run) -> int | None:
        """Bytes that the run's processes hold in memory now, None where it cannot be told (MEM-5)."""
        ...

    async def revival(self, launch: Launch) -> str | None:
        """What else brings it up again by itself, in words that `set_revival` takes back: `restart: always`.

        None: nothing does, or the engine is not there. Such an engine passes every gate by (ENG-2). Refuses
        `engine_failed` when it cannot be asked.
        """
        ...

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Let nothing else bring it up (None), or put back what `revival` told. Again changes nothing.

        Refuses `engine_failed` when that cannot be done.
        """
        ...


class MemberGates(Protocol):
    """The gates of the members of a distributed engine, each on its own host (ENG-11)."""

    async def refusal(self, engine: Engine, ask: Ask) -> Refusal | None:
        """The first refusal that a member would meet now, None when all may start. Starts nothing."""
        ...


class MemoryReader(Protocol):
    """Live memory of this host (MEM-1)."""

    def read(self) -> Pools:
        """Every pool now. Raises OSError when the machine cannot be read."""
        ...


class PortTable(Protocol):
    """Who listens where on this host."""

    def holder(self, address: str, port: int) -> str | None:
        """`pid 123 (nginx)` of whoever listens there, overlapping wildcards too; None when free."""
        ...


class StateFiles(Protocol):
    """Small files written whole in the state directory: what must be known without a database."""

    def load(self, name: str) -> Mapping[str, object] | None:
        """The object in `<state>/<name>.json`; None when missing. Raises ValueError when it is broken."""
        ...

    def save(self, name: str, value: Mapping[str, object]) -> None:
        """Write it whole: temp file, fsync, rename. Raises OSError; the old one stays then."""
        ...

    def set_aside(self, name: str) -> None:
        """Keep what is there now as `<name>.json.unreadable-…`, if anything is. Raises OSError."""
        ...

    def directory(self, name: str) -> str:
        """The path of `<state>/<name>`, made 0700 when missing."""
        ...


class Models(Protocol):
    """Model files."""

    def path(self, name: str) -> str:
        """The path of a model file: `name` itself when absolute, else below models_dir."""
        ...

    def size(self, name: str) -> int | None:
        """Its size in bytes, None when it is not there."""
        ...


class Store(Protocol):
    """The schedule's store: the event log (FEED-2). One conformance suite holds for all of them."""

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        """Append all in one transaction, durably; seq order is commit order."""
        ...

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        """Later events, oldest first. CursorReset for a foreign, future or pruned cursor."""
        ...

    async def cursor(self) -> str:
        """Where the log stands now."""
        ...

    def listen(self, hear: Callable[[Sequence[Recorded]], None]) -> None:
        """Call `hear` in the loop with every batch of committed events, in commit order (FEED-2).

        Before whoever wrote them goes on. Only what this store object commits is heard.
        """
        ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Drop up to `limit` events older than `before`; returns how many went."""
        ...

    async def close(self) -> None:
        """Finish what was asked and close."""
        ...


class Events(Protocol):
    """Where services report what happened: never blocks, never fails (HOLD-15)."""

    def emit(self, event: Event) -> None:
        """Queue it for the log; a full queue drops it and counts."""
        ...


class Connections(Protocol):
    """Our own connections to engines (ENG-6)."""

    def close(self, url: str) -> None:
        """Close every connection to that base URL, idle ones and those in use."""
        ...


class Activity(Protocol):
    """What an engine itself says of its work, for traffic that does not pass us (ENG-9)."""

    async def read(self, launch: Launch) -> float | None:
        """A number that changes while the engine works: from /slots or /metrics; inf when busy now.

        None where the engine does not say. Never wakes it, never raises.
        """
        ...


class ForcedChanges(Protocol):
    """What `box hold --take-over` and `box release --force` wrote to box.ndjson (HOLD-9)."""

    def take(self) -> Sequence[str]:
        """The lines since the last call, one sentence each; never raises."""
        ...


class Programs(Protocol):
    """Executables of this machine."""

    def exists(self, program: str, env: Mapping[str, str], cwd: str) -> bool:
        """Whether `program` is an executable file: by its path, else on the engine's PATH."""
        ...

    def report(self, program: str, env: Mapping[str, str], cwd: str) -> str | None:
        """What the binary said of its build (CAT-8), empty where it did not; None: it was not asked yet."""
        ...

    async def ask(self, program: str, env: Mapping[str, str], cwd: str) -> None:
        """Ask the binary for its build, once as it lies on the disk. Never raises."""
        ...


class Links(Protocol):
    """The cables from this host to others (CAT-8)."""

    async def probe(self, crossings: Sequence[Crossing]) -> Sequence[LinkSeen]:
        """What is seen of each now, in their order. Never raises; takes at most 3 s."""
        ...


class Meters(Protocol):
    """The metrics of this daemon (METRIC-1). Never raises; labels are bounded."""

    def request(
        self, *, route: str, engine: str, outcome: str, seconds: float, first_byte_s: float | None
    ) -> None:
        """A request is over."""
        ...

    def degraded(self, *, route: str, code: str) -> None:
        """An answer was degraded."""
        ...

    def refused(self, *, code: str) -> None:
        """The gate refused a start."""
        ...

    def render(self, picture: Picture) -> bytes:
        """The exposition text, its gauges read off `picture`."""
        ...
