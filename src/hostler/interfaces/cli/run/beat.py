"""The beating process of `hostler run`: `python -m hostler.interfaces.cli.run.beat FILE JOB` (JOB-5).

Decides when a lease is renewed and a job beaten for, in a process of its own, so that neither a busy child
nor a busy `hostler run` can starve it. FILE is this user's private file of the lease: no secret is in the
arguments or the environment. Ends with its stdin. Says one JSON object a line: `trusted_until` (elapsed
seconds of this machine, null without an end) with `limited_by`, `trouble`, `lost`.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hostler.client import Client
from hostler.client.address import find_head
from hostler.client.drive import drive
from hostler.client.job import JOBS
from hostler.client.lease import Leases
from hostler.client.machine import Machine
from hostler.client.patience import between
from hostler.client.saved import Drawer, SavedLease
from hostler.client.trust import LEAST_MARGIN_S, MARGIN, trusted
from hostler.domain.errors import Ended, IllegalTransition, LeaseNotFound, Refusal, StaleGeneration
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease

EVERY_S: Final = 20.0
"""A lost lease is noticed after so long at the latest."""
LEAST_S: Final = 0.1
_LOST: Final = (Ended, IllegalTransition, LeaseNotFound, StaleGeneration)


def main(arguments: Sequence[str]) -> int:
    """Beat until the lease is lost or nobody listens any more."""
    path, job = Path(arguments[0]), arguments[1]
    files = Drawer(root=path.parent, model=SavedLease)
    saved = files.get(path.stem)
    if saved is None:
        say(trouble=f"{path} is no private file of a lease")
        return 1
    try:
        return _beating(saved, files, job)
    except BrokenPipeError:
        # Whom we beat for is gone: nobody is left to be told. What is buffered would raise again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _beating(saved: SavedLease, files: Drawer[SavedLease], job: str) -> int:
    machine, tries = Machine(), 0
    with Client(find_head(os.environ)) as client:
        leases = Leases(files=files, url=saved.url, machine=machine)
        while True:
            try:
                pause = beat(client, leases, saved, job)
                tries = 0
            except _LOST as refusal:
                say(lost=str(refusal))
                return 0
            except Refusal as refusal:
                say(trouble=str(refusal))
                pause = min(EVERY_S, between(tries, machine.jitter()))
                tries += 1
            if pause is None or over(pause):
                return 0


def beat(client: Client, leases: Leases, saved: SavedLease, job: str) -> float | None:
    """Renew once and beat once: seconds until the next time, None when the lease is lost."""
    began = leases.machine.elapsed()
    one = drive(client, leases.renew(saved, ttl_s=saved.ttl_s, claim=False), time.sleep)
    if one.lease.state != State.ACTIVE:
        say(lost=one.lease.why or f"it is {one.lease.state}")
        return None
    say(trusted_until=trusted(one, began), limited_by=one.lease.limited_by)
    try:
        client.post(
            f"{JOBS}/{job}/updates",
            {"secret": saved.secret, "epoch": one.lease.epoch, "generation": one.lease.generation},
        )
    except Refusal as refusal:
        # The job may be over, or the schedule busy: the lease is what counts here.
        say(trouble=str(refusal))
    return every(one)


def every(one: OneLease) -> float:
    """Seconds between two beats: three of them in the time that one renewal is trusted for."""
    left = one.lease.expires_in_s
    if left is None:
        return EVERY_S
    return max(LEAST_S, min(EVERY_S, (left - max(LEAST_MARGIN_S, MARGIN * left)) / 3))


def over(seconds: float) -> bool:
    """Wait so long; whether our stdin ended meanwhile: then whom we beat for is gone."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], seconds)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


def say(**what: object) -> None:
    """One line for `hostler run`."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
