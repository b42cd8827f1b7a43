"""The unit file of the daemon: its text, and whether a file is still what we wrote (CONF-5).

Decides what the unit says. Its first line has a digest of all the others, so that a file that somebody
edited is told from one of ours, which may be replaced or removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.fleet import frozen

UNIT: Final = "hostler.service"
MARK: Final = "# Written by `hostler service install`; an edited one is not replaced. sha256 "
WRONG_CONFIG: Final = 78
"""The exit code of a config with errors: starting again would not mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the unit is made of. `argv` is the daemon's, `env` what it finds its places by.

    `stop_s` is how long its end may take. `system`: for the machine's manager, with a state directory there.
    """

    argv: tuple[str, ...]
    stop_s: float
    system: bool
    env: Mapping[str, str] = field(default_factory=lambda: frozen({}))

    def text(self) -> str:
        """The whole file.

        KillMode=process: only the daemon is ended, engines outlive its restart. Type=notify: a start
        returns when it serves.
        """
        service = [
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStart={command(self.argv)}",
            *(f"Environment={word(f'{name}={value}')}" for name, value in self.env.items()),
            "KillMode=process",
            f"TimeoutStopSec={self.stop_s:g}",
            "Restart=on-failure",
            "RestartSec=1",
            f"RestartPreventExitStatus={WRONG_CONFIG}",
        ]
        lines = ["[Unit]", "Description=Hostler, which looks after the inference engines of this host"]
        if self.system:
            lines += ["After=network.target"]
            service += ["StateDirectory=hostler", "StateDirectoryMode=0700"]
        wanted_by = "multi-user.target" if self.system else "default.target"
        lines += ["", "[Service]", *service, "", "[Install]", f"WantedBy={wanted_by}", ""]
        return marked("\n".join(lines))


def command(argv: Sequence[str]) -> str:
    """A command line for ExecStart=, to be split again into just these words."""
    return " ".join(word(one).replace("$", "$$") for one in argv)


def word(text: str) -> str:
    """One quoted word of a unit file: nothing in it is expanded. ValueError for what no line can hold."""
    if any(char in text for char in "\n\r\0"):
        raise ValueError("a line end or a null")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def marked(body: str) -> str:
    """`body` below the line with its digest."""
    return f"{MARK}{_digest(body)}\n{body}"


def is_ours(text: str) -> bool:
    """Whether that file was written by us and not changed since."""
    first, _, body = text.partition("\n")
    return first == f"{MARK}{_digest(body)}"


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
