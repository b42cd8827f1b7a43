"""Where the daemon is, and with which key to speak to it (INTERFACE-3).

Decides that only what the user named or what this user's daemon wrote is believed: never a file found
by working directory, never a key from an argument, and the local key never leaves this machine.
"""

from __future__ import annotations

import ipaddress
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hostler.domain.addresses import place_of, shown_url
from hostler.domain.errors import DaemonUnreachable
from hostler.domain.fleet import Secret

DAEMON: Final = "daemon.json"
LOCAL_KEY: Final = "local.key"
DEFAULT_URL: Final = "http://127.0.0.1:7070"
MAX_BYTES: Final = 65536
URL_VAR: Final = "HOSTLER_URL"
KEY_VAR: Final = "HOSTLER_API_KEY"
HEAD_URL_VAR: Final = "HOSTLER_HEAD_URL"
HEAD_KEY_VAR: Final = "HOSTLER_HEAD_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A daemon's base URL, without a slash at its end, the key to send it, and the pin of its certificate.

    `url_by` and `key_by` are what names the two: a variable or a file. Empty where the caller did.
    """

    url: str
    key: Secret | None = None
    pin: str | None = None
    url_by: str = field(default="", compare=False)
    key_by: str = field(default="", compare=False)

    @property
    def local(self) -> bool:
        """Whether it is on this machine: no proxy of the environment is asked then."""
        return is_local(self.url)


def is_local(url: str) -> bool:
    """Whether the URL's host is this machine's loopback."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def state_dir(env: Mapping[str, str]) -> Path:
    """The state directory when no config names one (CONF-5)."""
    named = env.get("HOSTLER_STATE_DIR")
    if named:
        return Path(named)
    base = env.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.local/state").expanduser()) / "hostler"


def find_daemon(env: Mapping[str, str], state: Path | None = None) -> Address:
    """The local daemon: `$HOSTLER_URL`, else what `<state>/daemon.json` says; never anything else.

    The key is `$HOSTLER_API_KEY`, else `<state>/local.key`, which is sent to this machine only. Refuses
    `daemon_unreachable` when no daemon of this user runs.
    """
    state = state or state_dir(env)
    named = env.get(URL_VAR)
    url, pin = (named, None) if named else _running(state / DAEMON)
    url = _understood(url, URL_VAR if named else f"its address in {state / DAEMON}")
    given = env.get(KEY_VAR)
    key = given or (_local_key(state / LOCAL_KEY) if is_local(url) else None)
    return Address(
        url=url,
        key=Secret(key) if key else None,
        pin=pin,
        url_by=URL_VAR if named else str(state / DAEMON),
        key_by=str(state / LOCAL_KEY) if key and not given else KEY_VAR,
    )


def find_head(env: Mapping[str, str], state: Path | None = None) -> Address:
    """Who owns the schedule: `$HOSTLER_HEAD_URL` with `$HOSTLER_HEAD_API_KEY`, else the local daemon.

    To a head that is named goes the head's key or none: never the local one, nor `$HOSTLER_API_KEY`, which
    belong to another daemon (R89, R90). Refuses `daemon_unreachable` as `find_daemon` (R91).
    """
    named = env.get(HEAD_URL_VAR)
    if not named:
        return find_daemon(env, state)
    url = _understood(named, HEAD_URL_VAR)
    key = env.get(HEAD_KEY_VAR)
    return Address(url=url, key=Secret(key) if key else None, url_by=HEAD_URL_VAR, key_by=HEAD_KEY_VAR)


def _understood(url: str, what: str) -> str:
    """The URL without a slash at its end. Refuses `daemon_unreachable` for one that is read in two ways.

    What the HTTP library says of such a URL may hold a part of its password: it never sees it.
    """
    url = url.strip()
    if not url.lower().startswith(("http://", "https://")):
        raise DaemonUnreachable(url=shown_url(url), why=f"{what} begins with neither http:// nor https://")
    if place_of(url) is None or "?" in url or "#" in url:
        why = f"{what} cannot be understood; it has the form http://HOST:PORT, odd characters as %XX"
        raise DaemonUnreachable(url=shown_url(url), why=why)
    return url.rstrip("/")


def _running(path: Path) -> tuple[str, str | None]:
    """The address that the daemon wrote, and the pin of its certificate: it serves its own, whatever name."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_BYTES))
        url, pid, ticks = found["url"], found.get("pid"), found.get("start_ticks")
        pin = found.get("tls_pin")
    except FileNotFoundError:
        raise DaemonUnreachable(url=DEFAULT_URL, why=f"there is no {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DaemonUnreachable(url=DEFAULT_URL, why=f"{path} cannot be read: {error!r}") from error
    if not isinstance(url, str):
        raise DaemonUnreachable(url=DEFAULT_URL, why=f"{path} names no address")
    if isinstance(pid, int) and isinstance(ticks, int) and ticks and _gone(pid, ticks):
        # Whoever listens there now is somebody else, and must not be sent our key.
        raise DaemonUnreachable(url=shown_url(url), why=f"the daemon that wrote {path} (pid {pid}) is gone")
    return url, pin if isinstance(pin, str) else None


def _gone(pid: int, ticks: int) -> bool:
    """Whether that very process is gone, where /proc can tell."""
    if not Path("/proc/self/stat").exists():
        return False
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return int(line.rpartition(b")")[2].split()[19]) != ticks


def _local_key(path: Path) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None  # Not ours to read, or not there: what needs a key will say so.
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        text = file.read(MAX_BYTES).decode("ascii", "replace").strip()
    return text if text.isprintable() and text else None
