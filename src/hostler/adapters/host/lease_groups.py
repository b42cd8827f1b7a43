"""Process groups that work under leases, as /proc tells them: the need `ProcessTable` (JOB-5).

Decides who belongs to a registered leader: its group, and all that descends from it. Every signal goes to
one process of known pid and start time, never to a number.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from hostler.adapters.host import process_table
from hostler.adapters.host.process_table import Process
from hostler.services.node_needs import Member


@dataclass(frozen=True, slots=True)
class SystemProcesses:
    """This host's processes. None of ours is ever among them."""

    def leads(self, pid: int, start_ticks: int) -> bool:
        process = process_table.read(pid)
        return (
            process is not None
            and process_table.alive(pid, start_ticks)
            and process.group == pid
            and pid != os.getpgrp()
        )

    def family(self, pid: int, start_ticks: int) -> Sequence[Member]:
        if not process_table.alive(pid, start_ticks):
            return []
        table = process_table.everyone()
        group = {it.pid for it in table.values() if it.group == pid} if table[pid].group == pid else set()
        wanted = {pid} | group | process_table.descendants(table, pid)
        return [_member(table[one]) for one in sorted(wanted - _ours(table)) if not table[one].gone]

    def orphans(self, group: int, start_ticks: int) -> Sequence[Member]:
        table = process_table.everyone()
        leader = table.get(group)
        if leader is not None and leader.start_ticks != start_ticks:
            # That number is somebody else's by now, and so is the group of that name.
            return []
        left = (it for it in table.values() if it.group == group and it.start_ticks >= start_ticks)
        return [_member(it) for it in left if not it.gone]

    def alive(self, member: Member) -> bool:
        return process_table.alive(member.pid, member.start_ticks)

    def end(self, member: Member, *, hard: bool) -> None:
        number = signal.SIGKILL if hard else signal.SIGTERM
        process_table.send(member.pid, member.start_ticks, number)


def _member(process: Process) -> Member:
    return Member(pid=process.pid, start_ticks=process.start_ticks, comm=process.comm)


def _ours(table: dict[int, Process]) -> set[int]:
    """This process and all above it."""
    found, pid = set(), os.getpid()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].ppid
    return found
