"""What a look at this box means: findings, each with its hint and the command that helps.

Decides which facts are wrong or odd, and what to do about each. Looks at nothing itself: the facts come from
`services.doctor_parts`. What the config says wrong is found where it is read (CONF-2), and told here as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hostler.domain.fleet import DriverKind, Engine
from hostler.domain.values import format_duration

SKEW_S: Final = 5.0
"""Clocks of two hosts that differ more make their logs hard to read; leases go by durations (LEASE-21)."""
LEAST_FREE: Final = 64 << 20
"""Bytes that the state directory's disk should have: a restore is written there."""


class Level(StrEnum):
    """How bad it is: an error keeps something from working now, a warning will one day."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing: the check that found it, what is so, what would be right, and the command that helps."""

    check: str
    level: Level
    what: str
    hint: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFile:
    """A file that only its owner may read. `mode` are its permission bits, `ours`: its owner is this user."""

    path: str
    mode: int
    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something that an engine needs and that is not there: a model `file`, or its `program`."""

    engine: str
    what: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongBuild:
    """An engine whose binary is not the build that its catalog entry needs, and why not."""

    engine: str
    entry: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revived:
    """An engine that something else brings up, in its driver's words: `restart: always`, `enabled`."""

    engine: Engine
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A target that requests would go to now, and nobody answers at its URL."""

    name: str
    url: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRow:
    """A row that is not retired, of this node or a paired one, and nobody answers at its URL (SYNC-5)."""

    id: str
    author: str
    url: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was seen. None stands for what was not looked at, or is not to be had on this machine.

    `hold_survives`: the hold file outlives a reboot. `lingers`: this user's manager runs without a login.
    `skews` are seconds by which the clocks of other hosts are ahead.
    """

    user: str
    uid: int
    hold_path: str
    hold_survives: bool | None = None
    lingers: bool | None = None
    runtime_dir: str | None = None
    usual_runtime_dir: str | None = None
    private: tuple[PrivateFile, ...] = ()
    state_dir: str = ""
    unwritable: tuple[tuple[str, str], ...] = ()
    free: int | None = None
    missing: tuple[Missing, ...] = ()
    builds: tuple[WrongBuild, ...] = ()
    revived: tuple[Revived, ...] = ()
    dead: tuple[Dead, ...] = ()
    rows: tuple[DeadRow, ...] = ()
    clashes: tuple[str, ...] = ()
    skews: tuple[tuple[str, float], ...] = ()
    told: tuple[str, ...] = ()


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Everything that is wrong or odd."""
    return (
        *_holds(facts),
        *_user(facts),
        *_files(facts),
        *_engines(facts),
        *_targets(facts),
        *_rows(facts),
        *_others(facts),
    )


def _holds(facts: Facts) -> Iterator[Finding]:
    if facts.hold_survives:
        yield Finding(
            check="hold path",
            level=Level.WARNING,
            what=f"The hold file {facts.hold_path} survives a reboot: it is on no tmpfs.",
            hint="Name a path on one: node.hold_path in the config, such as /run/hostler/box.json.",
            command="hostler box path",
        )


def _user(facts: Facts) -> Iterator[Finding]:
    if facts.lingers is False:
        yield Finding(
            check="lingering",
            level=Level.WARNING,
            what=f"Lingering is off: what {facts.user} runs, and the hold file, end with the last logout.",
            hint="Switch it on, so that the user's manager runs always.",
            command=f"loginctl enable-linger {shlex.quote(facts.user)}",
        )
    usual, given = facts.usual_runtime_dir, facts.runtime_dir
    if usual is not None and given is not None and given != usual:
        yield Finding(
            check="runtime directory",
            level=Level.WARNING,
            what=f"$XDG_RUNTIME_DIR is {given}, and this user's is {usual}: two places for holds and locks.",
            hint="Let every shell, timer and service of this user have the same one.",
            command=f"export XDG_RUNTIME_DIR={shlex.quote(usual)}",
        )


def _files(facts: Facts) -> Iterator[Finding]:
    for file in facts.private:
        if not file.ours:
            yield Finding(
                check="key file",
                level=Level.ERROR,
                what=f"{file.path} is another user's: the keys in it are not ours to trust.",
                hint="Look whose it is, then remove it; the next start makes another.",
                command=f"ls -l {shlex.quote(file.path)}",
            )
        elif file.mode & 0o077:
            yield Finding(
                check="key file",
                level=Level.ERROR,
                what=f"Others may open {file.path}: its mode is {file.mode:04o}.",
                hint="Make it this user's alone.",
                command=f"chmod 600 {shlex.quote(file.path)}",
            )
    for path, why in facts.unwritable:
        yield Finding(
            check="state",
            level=Level.ERROR,
            what=f"{path} cannot be written: {why}.",
            hint="Nothing can be leased, suspended or switched durably until it can.",
            command=f"ls -ld {shlex.quote(path)}",
        )
    if facts.free is not None and facts.free < LEAST_FREE:
        yield Finding(
            check="state",
            level=Level.WARNING,
            what=f"The disk of {facts.state_dir} has {facts.free >> 20} MiB left.",
            hint="Make room: what a lease did is written there before it is put back.",
            command=f"df -h {shlex.quote(facts.state_dir)}",
        )


def _engines(facts: Facts) -> Iterator[Finding]:
    for each in facts.missing:
        yield Finding(
            check=f"engine {each.kind}",
            level=Level.ERROR,
            what=f"{each.engine} cannot start: there is no {each.kind} {each.what}.",
            hint="Put it there, or correct the engine in the config.",
            command=f"hostler why {shlex.quote(each.engine)}",
        )
    for build in facts.builds:
        yield Finding(
            check="engine build",
            level=Level.ERROR,
            what=f"{build.engine} cannot start: {build.why}.",
            hint="Install a build that its catalog entry takes, and name it in argv.",
            command=f"hostler catalog show {shlex.quote(build.entry.partition('#')[0])}",
        )
    for revived in facts.revived:
        engine = revived.engine
        yield Finding(
            check="restarted elsewhere",
            level=Level.WARNING,
            what=f"Something else brings {engine.id} up again ({revived.words}): that start passes no gate.",
            hint="Let Hostler alone start it; `resident: true` keeps it up.",
            command=_not_revived(engine),
        )


def _not_revived(engine: Engine) -> str:
    """The command that takes the other starter away."""
    if engine.driver is DriverKind.CONTAINER and engine.container is not None:
        return f"docker update --restart=no {shlex.quote(engine.container.name)}"
    if engine.driver is DriverKind.SYSTEMD and engine.unit is not None:
        user = "--user " if engine.scope == "user" else ""
        return f"systemctl {user}disable {shlex.quote(engine.unit)}"
    return f"hostler suspend {shlex.quote(engine.id)}"


def _targets(facts: Facts) -> Iterator[Finding]:
    for dead in facts.dead:
        yield Finding(
            check="dead target",
            level=Level.ERROR,
            what=f"Requests would go to {dead.name}, and {dead.url} does not answer: {dead.why}.",
            hint="Start it where it runs, or switch its routes to another profile.",
            command="hostler routes",
        )


def _rows(facts: Facts) -> Iterator[Finding]:
    for row in facts.rows:
        yield Finding(
            check="dead row",
            level=Level.ERROR,
            what=f"{row.author} shares {row.id}, and {row.url} does not answer here: {row.why}.",
            hint=f"Start it where it runs, or retire it on {row.author}: hostler sync retire {row.id}.",
            command=f"hostler sync explain {shlex.quote(row.id)}",
        )


def _others(facts: Facts) -> Iterator[Finding]:
    for clash in facts.clashes:
        yield Finding(
            check="port",
            level=Level.ERROR,
            what=clash,
            hint="Give one of them another port, or say in the registry that they never run at once.",
            command="hostler ports check",
        )
    for host, ahead in facts.skews:
        if abs(ahead) >= SKEW_S:
            way = "ahead of" if ahead > 0 else "behind"
            yield Finding(
                check="clock",
                level=Level.WARNING,
                what=f"The clock of {host} is {format_duration(abs(ahead))} {way} this one.",
                hint="Let one time service set both; leases go by durations, logs and bookings do not.",
                command="timedatectl",
            )
    for text in facts.told:
        yield Finding(
            check="daemon",
            level=Level.WARNING,
            what=text,
            hint="The daemon's status has it too.",
            command="hostler status",
        )
