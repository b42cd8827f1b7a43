"""Ports for commands that need no daemon: the `PortsParts` of this machine (INTERFACE-3).

Decides which config, which folders and whose listeners a command means. The commands decide how it is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.scan.own import own
from hostler.adapters.scan.registry import keys_of, places_of, registry, rows_file
from hostler.adapters.scan.row_file import Taken, add_row
from hostler.adapters.scan.walk import scan
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.errors import (
    EngineNotFound,
    InvalidRequest,
    LimitReached,
    ListenersUnknown,
    NoConfig,
    NodeUnreachable,
    NotFound,
    Refusal,
)
from hostler.domain.fleet import Engine, Fleet, frozen
from hostler.domain.memory import Sizes, effective_need
from hostler.domain.port_memory import together
from hostler.domain.ports import Row
from hostler.domain.route import nearest
from hostler.domain.values import EngineId, HostName, shorten
from hostler.services.ports import (
    CONFIG,
    Allocation,
    FitReport,
    PortReport,
    Proposal,
    Registry,
    Scanned,
    Skipped,
    Source,
    Wish,
    propose,
    report,
    room_of,
)
from hostler.services.ports_live import FarListeners, Listeners, Listening

TRIES = 20
"""How often a port is proposed anew when others write a row for it first."""
PORTS = "ports"
"""The state file of the ports that engines with `port: auto` have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflinePorts:
    """The need `PortsParts`. `far` None: nobody is asked about other hosts."""

    config: OfflineConfig
    listeners: Listeners
    far: FarListeners | None = None

    def check(
        self, dirs: Sequence[str], *, host: str | None, env: Mapping[str, str], config: str | None
    ) -> PortReport:
        try:
            fleet, file, ours = self.config.fleet(config)
        except NoConfig:
            if config is not None or not dirs:
                raise
            return report(scan(dirs, env), Registry(), places_of(None, host), None)
        if host is not None and host not in fleet.hosts:
            raise _no_host(host, fleet)
        scanned = self._scanned(fleet, file, dirs, env, ours=ours)
        return report(scanned, registry(fleet, file), places_of(fleet, host), fleet)

    def _scanned(
        self, fleet: Fleet, file: Path, dirs: Sequence[str], env: Mapping[str, str], *, ours: bool
    ) -> Scanned:
        absent: tuple[Skipped, ...] = ()
        if not dirs:
            # One config serves hosts with other folders: what is not on this machine is told, no error.
            dirs = [each for each in _dirs(fleet) if Path(each).exists()]
            absent = tuple(
                Skipped(what=each, why="not on this machine") for each in _dirs(fleet) if each not in dirs
            )
        found = scan(dirs, env)
        configured = own(fleet, file, _loaded(self.config.state(fleet), PORTS) if ours else {})
        source = Source(path=str(file), kind=CONFIG)
        return Scanned(
            findings=(*configured, *found.findings),
            troubles=found.troubles,
            read=(source, *found.read),
            skipped=(*found.skipped, *absent),
            forms=(*found.forms, "hostler engine", "hostler listen"),
        )

    def free(self, wish: Wish, *, config: str | None) -> Proposal:
        fleet, _, ours = self.config.fleet(config)
        if wish.host not in fleet.hosts:
            raise _no_host(wish.host, fleet)
        if wish.low > wish.high:
            raise InvalidRequest(
                what=f"{wish.low}-{wish.high} is no range.", expected="Write the lower port first."
            )
        checked = self.check((), host=None, env=frozen({}), config=config)
        listening, missed = self._listening(fleet, wish, ours=ours)
        port = propose(wish, checked.rows, checked.findings, listening)
        absent = tuple(f"{each.what} is {each.why}." for each in checked.skipped if each.what.startswith("/"))
        looked = [f"{len(checked.rows)} rows", f"{len(checked.read)} files"]
        if not missed:
            looked.append(f"{len(listening)} listeners")
        return Proposal(
            host=wish.host,
            port=port,
            low=wish.low,
            high=wish.high,
            looked=tuple(looked),
            missed=(*missed, *absent),
            unknown=bool(missed),
        )

    def _listening(
        self, fleet: Fleet, wish: Wish, *, ours: bool
    ) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
        """What listens where the port is wanted, and a sentence where that could not be asked."""
        try:
            found = self._looked(fleet, wish, ours=ours)
        except Refusal as refusal:
            where = f"this machine is {fleet.here}" if ours else "this machine is no host of the config"
            why = f"{where}, and its daemon cannot tell: {str(refusal).removesuffix('.')}"
            return [], (f"The listeners of {wish.host} were not looked at: {why}.",)
        except OSError as error:
            return [], (f"The listeners could not be looked at: {error.strerror}.",)
        return [(it.address, it.port) for it in found if it.protocol == wish.protocol], ()

    def _looked(self, fleet: Fleet, wish: Wish, *, ours: bool) -> Sequence[Listening]:
        """Every listener of that host; of another one as its daemon tells ours. Refuses as that does."""
        if wish.host == fleet.here and ours:
            return self.listeners.listening()
        if self.far is None:
            raise NodeUnreachable(host=wish.host, why="nobody is asked")
        return self.far.listening_on(wish.host)

    def allocate(self, wish: Wish, *, config: str | None) -> Allocation:
        for _ in range(TRIES):
            proposal = self.free(wish, config=config)
            if proposal.port is None:
                break
            if proposal.unknown:
                raise ListenersUnknown(host=wish.host, why=proposal.missed[0].removesuffix("."))
            try:
                return Allocation(row=self._written(wish, proposal.port, config), proposal=proposal)
            except Taken:
                continue  # Another was quicker: the next free one is looked for.
        raise LimitReached(
            what=f"ports in {wish.low}-{wish.high} of {wish.host}", limit=wish.high - wish.low + 1
        )

    def _written(self, wish: Wish, port: int, config: str | None) -> Row:
        fleet, file, _ = self.config.fleet(config)
        path = rows_file(fleet, file)
        row = Row(
            host=wish.host,
            port=port,
            last=port,
            service=wish.service,
            address=wish.address,
            protocol=wish.protocol,
            status=wish.status,
            by=wish.by,
            needs=wish.needs,
            note=wish.note,
        )
        return add_row(path, row, in_config=path == file)

    def fits(self, engines: Sequence[str], *, on: str | None, config: str | None) -> FitReport:
        fleet, _, ours = self.config.fleet(config)
        name = on or str(fleet.here)
        if name not in fleet.hosts:
            raise _no_host(name, fleet)
        host = fleet.hosts[HostName(name)]
        members = [part for each in dict.fromkeys(engines) for part in _parts(fleet, each, name)]
        needs = {str(each.id): self._need(fleet, each, ours=ours) for each in members}
        rooms = {pool.name: room_of(host, pool.name) for pool in host.pools}
        return FitReport(host=name, sums=together(needs, rooms, name), remarks=tuple(_remarks(members, name)))

    def _need(self, fleet: Fleet, engine: Engine, *, ours: bool) -> Sizes | None:
        """What the config claims, or an earlier start on this host took, the larger (MEM-2)."""
        found: Mapping[str, object] = {}
        if ours and engine.host == fleet.here:
            found = _loaded(self.config.state(fleet), f"engines/{engine.id}/measured")
        peak = found.get("peak")
        measured = {
            str(pool): size
            for pool, size in (peak.items() if isinstance(peak, Mapping) else ())
            if isinstance(size, int) and size > 0
        }
        return effective_need(engine.need, measured)


def _loaded(state: Path, name: str) -> Mapping[str, object]:
    """A state file of the daemon; a broken one counts as none, as the daemon has it."""
    try:
        return DirectoryStateFiles(root=state).load(name) or {}
    except ValueError:
        return {}


def _dirs(fleet: Fleet) -> tuple[str, ...]:
    scan_keys = keys_of(fleet).get("scan")
    given = scan_keys.get("dirs") if isinstance(scan_keys, Mapping) else None
    return tuple(str(each) for each in given) if isinstance(given, tuple) else ()


def _parts(fleet: Fleet, name: str, host: str) -> list[Engine]:
    """The engine of that name; of a distributed one the members on this host. Refuses `engine_not_found`."""
    engine = fleet.engines.get(EngineId(name))
    if engine is None:
        near = nearest(name, [str(each) for each in fleet.engines])
        raise EngineNotFound(engine=shorten(name), nearest=near)
    members = [fleet.engines[each] for each in engine.members]
    return [each for each in members if each.host == host] if members else [engine]


def _remarks(engines: Sequence[Engine], host: str) -> list[str]:
    found = [f"{each.id} is an engine of {each.host}" for each in engines if each.host != host]
    groups: dict[str, list[str]] = {}
    for each in engines:
        if each.group is not None and each.host == host:
            groups.setdefault(each.group, []).append(str(each.id))
    for group, names in groups.items():
        if len(names) > 1:
            found.append(f"{' and '.join(names)} exclude each other ({group}): they never run at once")
    return found


def _no_host(name: str, fleet: Fleet) -> NotFound:
    return NotFound(
        what="host", name=shorten(name), nearest=f"The hosts are {', '.join(str(it) for it in fleet.hosts)}."
    )
