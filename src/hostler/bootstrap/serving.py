"""`hostler serve`: find, check, lock, listen, and run one node (CONF-5, GATE-4, API-4).

Decides the order: nothing is opened before the config is right, nothing listens before the lock is had.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from hostler.adapters.clock import SystemClock
from hostler.adapters.config.find import find_config
from hostler.adapters.config.paths import Paths, resolve_paths
from hostler.adapters.config.source import FileSource
from hostler.adapters.daemon_lock import DaemonLocks, take_all
from hostler.adapters.hold_path import resolve
from hostler.adapters.keys_file import kept_keys, local_key
from hostler.adapters.state_files import DirectoryStateFiles, make_private
from hostler.bootstrap.build import build
from hostler.bootstrap.engines import stray_containers, strays
from hostler.bootstrap.ground import Ground
from hostler.bootstrap.place import bound, check_tls, listen_on
from hostler.bootstrap.speech import speech
from hostler.client.room import unusable
from hostler.domain.errors import Refusal, StateUnusable
from hostler.domain.fleet import Fleet
from hostler.services.keys import Keyring, check_listen, keyring

GC_AFTER: Final = 20_000
"""New objects between two looks of the collector: a request makes about 100, and nearly none in cycles."""
DISABLE: Final = "HOSTLER_DISABLE_ORCHESTRATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Runs the daemon of this host in the foreground."""

    env: Mapping[str, str]

    def serve(self, *, config: str | None, host: str | None, listen: tuple[str, ...]) -> int:
        """Serve until told to end; the exit code."""
        os.umask(0o077)
        # A hang-up asks for a reload (CONF-3): while the config is being read anyway it must not end us.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        file = find_config(self.env, config, here=Path.cwd())
        source = FileSource(file=file, env=self.env, host=host, listen=listen)
        fleet = source.read()
        check_tls(fleet.node.tls, str(file))
        place = resolve(self.env, os.geteuid(), fleet.node.hold_path)
        paths = resolve_paths(self.env, fleet.node, place.path)
        _own_state(self.env, paths)
        local = _local_key(paths)

        def keys(fleet: Fleet) -> Keyring:
            return _keyring(fleet, paths, local, str(file))

        ring = keys(fleet)
        disabled = disabled_by(self.env)
        lock = self._lock(fleet, paths, disabled)
        said = speech(fleet, paths, [local])
        sockets = [listen_on(address) for address in fleet.node.listen]
        ground = Ground(
            fleet=fleet,
            paths=paths,
            env=self.env,
            config_file=str(file),
            source=source,
            keyring=ring,
            keys=keys,
            sockets=sockets,
            listen=tuple(bound(sock) for sock in sockets),
            lock=lock,
            disabled=disabled,
            speech=said,
            warnings=(
                *place.warnings,
                *_unread(paths),
                *strays(fleet, paths),
                *stray_containers(fleet, self.env),
            ),
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                return runner.run(_run(ground))
            except Exception as error:
                if not isinstance(error, Refusal):
                    said.bug(error)  # Whoever typed the command is told one line; the log has all of it.
                raise

    def _lock(self, fleet: Fleet, paths: Paths, disabled: str | None) -> DaemonLocks:
        """The lock of the one orchestrating daemon, which others need not have, and that of its state.

        Refuses `daemon_runs`, and `state_unusable` or `store_full` where a lock's file cannot be had.
        """
        orchestrates = disabled is None and fleet.host.orchestration
        box = (paths.daemon_lock,) if orchestrates else ()
        try:
            return take_all((*box, paths.state_lock), paths.state_dir)
        except OSError as error:
            raise unusable(Path(error.filename or paths.state_lock), error) from error


def _local_key(paths: Paths) -> str:
    """The local key, which no text may show. Refuses `state_unusable`, `store_full`."""
    try:
        return local_key(paths.state_dir).value
    except OSError as error:
        raise unusable(paths.local_key, error) from error
    except ValueError as error:
        why, _, way = str(error).partition(": ")
        raise StateUnusable(path=str(paths.local_key), why=why, way=f"{way[:1].upper()}{way[1:]}.") from error


def _keyring(fleet: Fleet, paths: Paths, local: str, file: str) -> Keyring:
    """The keys of the config and of keys.json. Refuses `invalid_config` when all could come in."""
    kept = kept_keys(DirectoryStateFiles(root=paths.state_dir))
    node = None if fleet.host.key is None else fleet.host.key.value
    ring = keyring(
        configured=fleet.keys,
        kept=kept,
        local=local,
        clock=SystemClock(),
        node=node,
        peers=fleet.peers.values(),
    )
    check_listen(fleet.node.listen, ring, file=file)
    return ring


def _unread(paths: Paths) -> tuple[str, ...]:
    """A sentence when keys.json cannot be read."""
    if kept_keys(DirectoryStateFiles(root=paths.state_dir)) is not None:
        return ()
    return (f"{paths.keys} cannot be read: none of its keys opens anything",)


def _own_state(env: Mapping[str, str], paths: Paths) -> None:
    """Make the state directory and see that it can be written. Refuses `state_unusable`, `store_full`."""
    named = env.get("HOSTLER_STATE_DIR", "")
    if named and not Path(named).is_absolute():
        raise StateUnusable(path=named, why="it is no whole path")
    try:
        make_private(paths.state_dir, paths.state_dir)
    except OSError as error:
        raise unusable(paths.state_dir, error) from error
    if not os.access(paths.state_dir, os.R_OK | os.W_OK | os.X_OK):
        raise StateUnusable(path=str(paths.state_dir), why="it cannot be written")


def disabled_by(env: Mapping[str, str]) -> str | None:
    """Why the environment switches orchestration off, None when it does not: `1` and `true` do (GATE-4)."""
    value = env.get(DISABLE, "").strip()
    return f"${DISABLE} is {value}" if value.lower() in ("1", "true") else None


async def _run(ground: Ground) -> int:
    try:
        daemon = build(ground)
    except OSError as error:
        raise unusable(Path(error.filename or ground.paths.state_dir), error) from error
    # What was built stays: the collector need not walk it again and again beside every request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_AFTER)
    return await daemon.run(os._exit)
