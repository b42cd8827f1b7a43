"""`hostler run`: take a resource, run a command under the lease and with a job, give it back (JOB-5).

Decides the order: lease, job, command, the end of its whole process group, the job's end, release. The exit
code is the command's; 76 when its lease was lost and it was ended for that.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Annotated, Final

from cyclopts import App, Parameter

from hostler.client import Client, find_daemon
from hostler.client.address import state_dir
from hostler.client.drive import drive
from hostler.client.job import FINISH_S, Jobs, Result
from hostler.client.lease import RELEASE_S
from hostler.client.saved import SavedLease
from hostler.client.trust import proof
from hostler.domain.errors import Ended, LeaseLost, NotHead, Refusal
from hostler.domain.values import shorten
from hostler.interfaces.cli import lease_text
from hostler.interfaces.cli.daemon import at, person, to_head
from hostler.interfaces.cli.failure import complain, fail, usage
from hostler.interfaces.cli.lease_env import JOB_VAR, environment, forget_secret, write_secret
from hostler.interfaces.cli.options import Duration, Waiting, patience
from hostler.interfaces.cli.own_leases import LEASES
from hostler.interfaces.cli.run.beating import beating
from hostler.interfaces.cli.run.child import Child, check, started
from hostler.interfaces.cli.run.lines import Tail
from hostler.interfaces.cli.run.reports import Reports
from hostler.interfaces.cli.run.watch import OnLost, Ran, Watch, collected
from hostler.interfaces.cli.signals import Interruptible, Signalled
from hostler.interfaces.cli.waiting import Holder, holder, taking
from hostler.wire.jobs import ReceiptBody
from hostler.wire.schedule import MAX_TITLE, OneLease

EVERY_S: Final = 60.0
"""The job's interval: it is beaten for three times as often at least."""
FOR: Final = "The lease's time at first; each sign of life gives the resource's default."
HELP: Final = "Give it after `--`: hostler run pair --for 2h -- ./sweep.sh"
CLOSE_S: Final = 10.0
"""How long what the child said last may take to be sent; what is left is in the spool."""
LOST_S: Final = 2.0
INTERRUPTED_BY: Final = frozenset({129, 130, 143})
"""Exit codes of a command that a person or the system ended: its job is called off, not failed."""

app = App(
    name="run",
    usage="Usage: hostler run RESOURCE [OPTIONS] -- CMD...",
    help_epilogue='Example: hostler run pair --for 2h --title "q8 sweep" --wait -- ./sweep.sh',
)


@app.default
def run(
    resource: Annotated[str, Parameter(help="What to take; `hostler schedule` lists what there is.")],
    /,
    *command: Annotated[
        str, Parameter(name="cmd", allow_leading_hyphen=True, help="The command and its arguments, after --.")
    ],
    time: Annotated[Duration | None, Parameter(name="--for", show_default=False, help=FOR)] = None,
    title: Annotated[str, Parameter(help="The job's title; else the command.", show_default=False)] = "",
    wait: Annotated[Waiting, Parameter(help="Wait for it, for ever or so long, and keep the place.")] = False,
    on_lost: Annotated[
        OnLost, Parameter(help="End the command when the lease is lost, or only warn.")
    ] = "stop",
    reason: Annotated[str, Parameter(help="What for; else the title.", show_default=False)] = "",
    holder_: Annotated[
        str, Parameter(name="--holder", help="Whose it is; else your user name.", show_default=False)
    ] = "",
    json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative="",
            show_default=False,
            help="Tell a failure of ours as JSON; the command's output is its own.",
        ),
    ] = False,
) -> int:
    """Run a command under a lease and with a job that tells how it goes. Its exit code is ours.

    Lines on its stderr such as `hostler: progress 3/10`, `hostler: metric tok_s=41` or `hostler: note TEXT`
    become updates of the job. 76: the lease was lost and the command ended for it.
    """
    if not command:
        return usage("There is no command.", HELP, as_json=json)
    check(command)
    longest = patience(wait)
    with to_head() as client:
        who = holder(client, quiet=json)
        saved = who.leases.prepare(
            resource,
            holder=holder_ or person(os.environ),
            reason=reason or title,
            ttl_s=time,
            now=longest == 0,
        )
        running = Running(
            who=who,
            saved=saved,
            command=command,
            title=title or shlex.join(command),
            on_lost=on_lost,
            as_json=json,
        )
        steps = who.leases.take(saved, wait_s=None if math.isinf(longest) else longest, told=who.shown.told)
        return taking(who, saved, steps, running.under, as_json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One command under one lease. `saved` is the request that took it."""

    who: Holder
    saved: SavedLease
    command: Sequence[str]
    title: str
    on_lost: OnLost
    as_json: bool

    def under(self, one: OneLease, signals: Interruptible) -> int:
        """Run the command under the active lease, and give that back whatever becomes of it."""
        if not self.as_json:
            complain(f"hostler: {lease_text.standing(one.lease, one.at)}")
            if (longer := lease_text.beating(one.lease)) is not None:
                complain(f"hostler: {longer}; it is given back when the command ends")
        try:
            ran = self._with_job(one)
        except BaseException:
            self.who.give_back(self.saved)
            raise
        finally:
            forget_secret(state_dir(os.environ), self.saved.request_id)
        if not self._release(ran):
            signals.keep()
        if ran.lost is not None and self.on_lost == "stop":
            lost = LeaseLost(lease=one.lease.id, resource=one.lease.resource, why=ran.lost)
            return fail(lost, as_json=self.as_json)
        return ran.code

    def _with_job(self, one: OneLease) -> Ran:
        # First what may fail: a job that began would be left behind.
        secret = write_secret(state_dir(os.environ), self.saved)
        jobs = Jobs(state=state_dir(os.environ), url=self.who.leases.url)
        known = self.who.leases.files.get(self.saved.request_id) or self.saved
        asked = jobs.prepare(
            self.title[:MAX_TITLE],
            every_s=EVERY_S,
            lease=known,
            release=True,
            holder=str(self.saved.body.get("holder", "")),
        )
        job = drive(self.who.client, jobs.start(asked), sleep).job.id
        reports = Reports(client=to_head, jobs=jobs, job=asked)
        env = {**os.environ, **environment(one, secret), JOB_VAR: job}
        tail = Tail()
        try:
            ran = self._watched(known, job, reports, tail, env)
        except Refusal as refusal:
            self._finish(reports, "failed", str(refusal), 127)
            raise
        except Signalled:
            self._finish(reports, "cancelled", "interrupted before the command began", 130)
            raise
        reports.close(_patience(ran, CLOSE_S))
        reports.patience_s = _patience(ran, FINISH_S)
        self._finish(reports, _result(ran, self.on_lost), _last(ran, tail), ran.code)
        return ran

    def _watched(
        self, known: SavedLease, job: str, reports: Reports, tail: Tail, env: Mapping[str, str]
    ) -> Ran:
        """The command from its start to the end of its group, beaten for and listened to."""
        file = self.who.leases.files.path(self.saved.request_id)
        with collected() as heard, started(self.command, env) as child, beating(file, job) as beats:
            self._register(known, child)
            reports.start()
            watch = Watch(
                child=child,
                beating=beats,
                signals=heard,
                tell=reports.tell,
                tail=tail,
                on_lost=self.on_lost,
                until=known.trusted_until,
            )
            return watch.run()

    def _register(self, known: SavedLease, child: Child) -> None:
        """Let this host's node know whom it may end at the hard end (JOB-5)."""
        body = {**proof(known), "pid": child.group, "start_ticks": child.ticks}
        path = at(LEASES, known.lease or "", "processes")
        try:
            try:
                with Client(find_daemon(os.environ), client=person(os.environ)) as node:
                    node.post(path, body)
            except NotHead as elsewhere:
                # The head tells this host's node; which host this is its daemon has just said.
                with to_head() as head:
                    head.post(path, {**body, "host": elsewhere.here})
        except Refusal as refusal:
            if child.ended():
                # A command as short as this needs nobody to end it.
                return
            _warn(f"this host's node does not know of the command: {refusal}")

    def _finish(self, reports: Reports, result: Result, note: str, code: int) -> None:
        """The job's end. A head that is away gets it later; nothing of it changes the command's exit code."""
        if reports.lost:
            _warn(f"{reports.lost} lines came too fast and were not reported")
        name = shorten(self.command[0], MAX_TITLE)
        try:
            reports.finish(result, note=note, receipt=ReceiptBody(kind="exit", name=name, exit_code=code))
        except Ended:
            return
        except Refusal as refusal:
            _warn(f"the job's end was not taken: {refusal}")

    def _release(self, ran: Ran) -> bool:
        """Give the lease back, and say what is wrong with it; whether it is over."""
        if ran.left:
            _warn(f"{ran.left} processes of the command would not end")
        try:
            one = self.who.do(self.who.leases.release(self.saved, patience_s=_patience(ran, RELEASE_S)))
        except Signalled:
            _warn("the release goes on by itself; `hostler mine` shows how")
            return False
        except Refusal as refusal:
            _warn(f"{refusal} {refusal.advice()}")
            return False
        for text in lease_text.drift(one.lease):
            _warn(text)
        return True


def _patience(ran: Ran, usual_s: float) -> float:
    """How long a head that is away is waited for: whose lease is lost has nothing to give back."""
    return min(usual_s, LOST_S) if ran.lost is not None else usual_s


def _result(ran: Ran, on_lost: OnLost) -> Result:
    if ran.lost is not None and on_lost == "stop":
        return "failed"
    if ran.code == 0:
        return "finished"
    return "cancelled" if ran.told_to_end or ran.code in INTERRUPTED_BY else "failed"


def _last(ran: Ran, tail: Tail) -> str:
    lost = f"The lease was lost: {ran.lost}.\n" if ran.lost is not None else ""
    return f"{lost}{tail.note()}"


def _warn(text: str) -> None:
    complain(f"hostler: {shorten(text, 400)}")
