"""Where the hold file is (HOLD-1, HOLD-2): one function for the writer and the gate.

Decides the path, and what has to be said about it. Does not read the file.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.domain.errors import HoldPathUnusable
from hostler.services.holds_offline import HoldPath

OURS: Final = "HOSTLER_BOX_RESERVATION_PATH"
THEIRS: Final = "CROW_BOX_RESERVATION_PATH"
"""The variable of the scripts that were there before us."""
FILE_NAME: Final = "crow-box-reservation.json"

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class _Choice:
    """A path and its source. `instead_of` is the usual directory that is missing, for a fallback."""

    path: str
    source: str
    default: bool = False
    instead_of: str | None = None


def resolve(env: Mapping[str, str], uid: int, config_hold_path: str | None, root: str = "/") -> HoldPath:
    """The hold file of this user, environment and config.

    `root` stands for `/` in tests. Raises HoldPathUnusable for a path that is not absolute, and for a
    directory of ours below $TMPDIR that somebody else made.
    """
    choice = _named(env, config_hold_path) or _default(env, uid, Path(root))
    if not choice.path.startswith("/") or "\0" in choice.path:
        raise HoldPathUnusable(path=choice.path, why=f"{choice.source} must name an absolute path")
    path = os.path.normpath(choice.path)
    kind = file_system(Path(path).parent, root)
    survives = None if kind is None else kind not in _IN_MEMORY
    return HoldPath(
        path=path,
        source=choice.source,
        default=choice.default,
        survives_reboot=survives,
        notes=(_note(path, choice.instead_of, survives),) if choice.instead_of else (),
        warnings=tuple(_warnings(env, path, default=choice.default)),
    )


def _named(env: Mapping[str, str], config_hold_path: str | None) -> _Choice | None:
    """The path that somebody named: the environment wins over the config."""
    for name in (OURS, THEIRS):
        if env.get(name):
            return _Choice(env[name], f"${name}")
    return _Choice(config_hold_path, "node.hold_path") if config_hold_path else None


def _default(env: Mapping[str, str], uid: int, root: Path) -> _Choice:
    usual, service = root / "run/user" / str(uid), root / "run/hostler"
    if usual.is_dir():
        return _Choice(f"{usual}/{FILE_NAME}", str(usual), default=True)
    if service.is_dir():
        return _Choice(f"{service}/{FILE_NAME}", str(service), default=True, instead_of=str(usual))
    # A directory for all is safe for this: ours in it is made 0700, and refused when somebody else made it.
    own = Path(env.get("TMPDIR") or "/tmp", f"hostler-{uid}")  # noqa: S108 - as the comment above says
    if own.is_absolute():
        _make_ours(own, uid)
    return _Choice(f"{own}/{FILE_NAME}", "$TMPDIR", default=True, instead_of=str(usual))


def _make_ours(directory: Path, uid: int) -> None:
    """Make it 0700. One that is there must be ours: anybody may have made it."""
    try:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(0o700)
        found = directory.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == uid
        if ours and stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            directory.chmod(0o700)
    except OSError as error:
        why = f"{directory} cannot be made: {error.strerror}"
        raise HoldPathUnusable(path=f"{directory}/{FILE_NAME}", why=why) from error
    if not ours:
        raise HoldPathUnusable(path=f"{directory}/{FILE_NAME}", why=f"{directory} is not ours")


def _note(path: str, missing: str, survives: bool | None) -> str:  # noqa: FBT001 - an answer, not a flag
    reboot = "may survive" if survives is None else "survives" if survives else "does not survive"
    return f"The hold file is {path}, for there is no {missing}; it {reboot} a reboot."


def _warnings(env: Mapping[str, str], path: str, *, default: bool) -> Iterator[str]:
    theirs, runtime, here = env.get(THEIRS), env.get("XDG_RUNTIME_DIR"), Path(path).parent
    if env.get(OURS) and theirs and os.path.normpath(theirs) != path:
        yield f"${THEIRS} names {theirs}: who knows only that one writes a hold that no gate reads."
    if default and runtime and os.path.realpath(runtime) != os.path.realpath(here):
        yield (
            f"$XDG_RUNTIME_DIR is {runtime}: a script that defaults to it writes its hold there,"
            f" and the gate reads {here}."
        )


def lingering_warning(path: str, uid: int, root: str = "/") -> str | None:
    """What to say when the directory of `path` goes with its user's last session (HOLD-2), else None."""
    usual = Path(root, "run/user", str(uid))
    if not path.startswith(f"{usual}/") or not Path(root, "run/systemd/system").is_dir():
        return None
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    if Path(root, "var/lib/systemd/linger", user).exists():
        return None
    return (
        f"{usual} goes when the last session of {user} ends, and this hold with it:"
        f" `loginctl enable-linger {user}` keeps it."
    )


def file_system(directory: Path, root: str = "/") -> str | None:
    """The type of the file system that `directory` lies on, such as `tmpfs`; None where it cannot be told."""
    try:
        table = Path(root, "proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real, best, kind = f"{os.path.realpath(directory)}/", -1, None
    for line in table.splitlines():
        head, _, tail = line.partition(" - ")
        fields, types = head.split(" "), tail.split(" ")
        if len(fields) < 5 or not tail:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        # The last of two mounts on one point is the one that is seen.
        if real.startswith(f"{point.rstrip('/')}/") and len(point) >= best:
            best, kind = len(point), types[0]
    return kind
