"""Refusals of what cannot be reached or was not whole, and bugs."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors.base import Kind, Refusal


@dataclass(eq=False, kw_only=True)
class ScheduleUnavailable(Refusal):
    """The schedule's store cannot be used; inference is not touched (REL-1)."""

    kind = Kind.UNAVAILABLE
    code = "schedule_unavailable"
    message = "The schedule cannot be read: {why}."
    hint = "Inference goes on. The file is kept as found: {file}."

    why: str
    file: str


@dataclass(eq=False, kw_only=True)
class StoreFull(Refusal):
    """There is no room to write; what was there stands unchanged (507)."""

    kind = Kind.UNAVAILABLE
    code = "store_full"
    message = "{file} was not written: {why}."
    hint = "What was there before stands unchanged. Make room there, then try again."

    file: str
    why: str


@dataclass(eq=False, kw_only=True)
class DaemonUnreachable(Refusal):
    """The command needs the daemon, and none answers."""

    kind = Kind.UNAVAILABLE
    code = "daemon_unreachable"
    message = "No daemon answers at {url}: {why}."
    hint = "Start it with `hostler serve`; or name another in HOSTLER_URL, with its key in HOSTLER_API_KEY."

    url: str
    why: str


@dataclass(eq=False, kw_only=True)
class StateUnusable(Refusal):
    """The state directory cannot be used: nothing could be remembered, so nothing is started."""

    kind = Kind.CONFIG
    code = "state_unusable"
    message = "The state in {path} cannot be used: {why}."
    hint = "{way}"

    path: str
    why: str
    way: str = "Set $HOSTLER_STATE_DIR or node.state_dir to a directory of yours, with its whole path."


@dataclass(eq=False, kw_only=True)
class RegistryUnusable(Refusal):
    """The file of the registry of ports could not be written, or was read back as another (PORT-5)."""

    kind = Kind.CONFIG
    code = "registry_unusable"
    message = "The registry {path} could not be written: {why}."
    hint = "Look at the file and its folder, then allocate again; no row counts that was not read back."

    path: str
    why: str


@dataclass(eq=False, kw_only=True)
class NotListening(Refusal):
    """The daemon cannot listen where it was told to."""

    kind = Kind.UNAVAILABLE
    code = "not_listening"
    message = "Nothing can listen on {address}: {why}."
    hint = "Free that port, or set node.listen to another."

    address: str
    why: str


@dataclass(eq=False, kw_only=True)
class DaemonRuns(Refusal):
    """One orchestrating daemon per box (CONF-5)."""

    kind = Kind.BUSY
    code = "daemon_runs"
    message = "Another daemon orchestrates this box already: pid {pid}, {where}."
    hint = "Stop it first, or set orchestration: false for this one."

    pid: int
    where: str


@dataclass(eq=False, kw_only=True)
class ServiceEdited(Refusal):
    """The daemon's unit file is not as `hostler service install` wrote it: somebody else's work."""

    kind = Kind.CONFLICT
    code = "service_edited"
    message = "{path} was not written by `hostler service install`, or was edited since; it stays as it is."
    hint = "Look what is in it. With --force it goes; its text is kept beside it."

    path: str


@dataclass(eq=False, kw_only=True)
class ServiceFailed(Refusal):
    """The daemon's unit could not be installed, started, or removed."""

    kind = Kind.UNAVAILABLE
    code = "service_failed"
    message = "{unit}: {why}."
    hint = "{fix}"

    unit: str
    why: str
    fix: str


@dataclass(eq=False, kw_only=True)
class ListenersUnknown(Refusal):
    """Nobody could be asked who listens where a port is to be taken (PORT-5)."""

    kind = Kind.UNREACHABLE
    code = "listeners_unknown"
    message = "No port of {host} was taken: {why}."
    hint = "Nothing was written. `hostler ports free` names a port that is in no row and no file."

    host: str
    why: str


@dataclass(eq=False, kw_only=True)
class UpstreamUnreachable(Refusal):
    """The target does not answer (GW-14)."""

    kind = Kind.UNREACHABLE
    code = "upstream_unreachable"
    message = "{target} cannot be reached: {why}."
    hint = "`hostler status` shows what runs."

    target: str
    why: str


@dataclass(eq=False, kw_only=True)
class UpstreamBroke(Refusal):
    """The target's answer ended before it was whole (GW-14)."""

    kind = Kind.UNREACHABLE
    code = "upstream_died"
    message = "The answer of {target} ended early: {why}."
    hint = "The text so far is not the whole answer. Ask again."

    target: str
    why: str


@dataclass(eq=False, kw_only=True)
class EngineFailed(Refusal):
    """A start failed, timed out, or the engine crashed (ENG-3)."""

    kind = Kind.UNREACHABLE
    code = "engine_failed"
    message = "{engine} failed: {why}."
    hint = "`hostler logs {engine}` shows its last lines, `hostler clear {engine}` lets it be tried at once."

    engine: str
    why: str


@dataclass(eq=False, kw_only=True)
class Loop(Refusal):
    """A request came through a gateway twice (GW-11)."""

    kind = Kind.UNREACHABLE
    code = "loop"
    message = "This request has passed a gateway already."
    hint = "A target's URL points back at a gateway; `hostler routes` shows where each route leads."


@dataclass(eq=False, kw_only=True)
class Internal(Refusal):
    """A bug: logged under its id, told without its cause."""

    kind = Kind.INTERNAL
    code = "internal"
    message = "Internal error {id}."
    hint = "The daemon's log has the cause under that id."

    id: str


@dataclass(eq=False, kw_only=True)
class RowUnreached(Refusal):
    """A row is not published while a node that would inherit it does not reach it (SYNC-4).

    `seen` is what each node saw: its name, a colon, and `reached` or why not.
    """

    kind = Kind.CONFLICT
    code = "row_unreached"
    message = "{row} is not published: {first}."
    hint = "Let it listen where all reach it, or name who need not: --allow-unreachable NODE --because WHY."

    row: str
    first: str
    nodes: tuple[str, ...]
    seen: tuple[str, ...]
