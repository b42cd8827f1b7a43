"""What one command listens on, by its words: options, and programs with ways of their own (PORT-2).

Decides which options name a port that is listened on, and which only where to connect to. Runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.adapters.scan.args import Value, Word, address_of, port_of
from hostler.adapters.scan.containers import CONTAINERS, container
from hostler.adapters.scan.network import netcat, socat, ssh
from hostler.adapters.scan.options import options, pairs, uses
from hostler.adapters.scan.seen import Sight
from hostler.domain.ports import ANY, PROGRAM, UNSAID

WRAPPERS: Final = frozenset(
    {"sudo", "nohup", "exec", "setsid", "time", "nice", "ionice", "chrt", "taskset", "env", "command"}
    | {"stdbuf", "timeout", "unbuffer", "doas", "then", "do", "else", "!", "{", "builtin", "numactl"}
)
QUIET: Final = frozenset(
    {"echo", "printf", "mkdir", "touch", "rm", "cp", "mv", "ln", "install", "grep", "sed", "awk", "test", "["}
    | {"[[", "read", "export", "declare", "local", "readonly", "typeset", "set", "shift", "return", "exit"}
    | {"ps", "kill", "pkill", "pgrep", "lsof", "fuser", "ss", "netstat", "strace", "gdb", "perf", "patch"}
    | {"tar", "unzip", "logger", "journalctl", "git", "make", "pip", "pip3", "trap", "cd", "cat", "sleep"}
    | {"useradd", "systemctl", "loginctl", "renice", "wait", "type", "true", "false", ":", "seq", "date"}
    | {
        "ufw",
        "iptables",
        "nft",
        "firewall-cmd",
        "rsync",
        "cpulimit",
        "sort",
        "head",
        "tail",
        "log",
        "chown",
        "chgrp",
    }
)
"""Programs of which no word is a port that they listen on."""
CLIENTS: Final = frozenset(
    {"curl", "wget", "http", "https", "xh", "psql", "pg_isready", "mysql", "redis-cli", "mongo", "mongosh"}
    | {"telnet", "scp", "sftp", "wscat", "grpcurl", "nmap", "wait-for-it.sh", "wait-for-it", "mosquitto_pub"}
    | {"mosquitto_sub", "iperf3", "ab", "wrk", "hey", "mc", "aws", "nslookup", "dig", "ping", "influx"}
)
"""Programs whose ports are those that they connect to."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
Script = Callable[[str, str], None]
"""Reads a script inside a script: its text, and the host that it runs on, empty for this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How commands are read: `script` for what they run, `bare` for an address that nobody gives."""

    script: Script
    bare: str = PROGRAM


def command(args: Sequence[Word], sight: Sight, reader: Reader) -> None:
    """Everything that a command shows."""
    args = unwrapped(args)
    if not args:
        return
    name = args[0].text.rpartition("/")[2]
    rest = args[1:]
    if name in SHELLS:
        _shell(rest, reader)
    elif name in ("ssh", "autossh"):
        ssh(rest, sight, reader.script)
    elif name in ("nc", "ncat", "netcat"):
        netcat(rest, sight)
    elif name == "socat":
        socat(rest, sight)
    elif name in CONTAINERS:
        container(rest, sight)
    elif name in CLIENTS:
        _client(rest, sight)
    elif name not in QUIET and not _http_server(name, rest, sight):
        options(rest, sight, reader.bare)


def unwrapped(args: Sequence[Word]) -> Sequence[Word]:
    """The command behind `sudo`, `nohup`, `timeout 5`, `env A=B` and the like."""
    at = 0
    while at < len(args) and args[at].text.rpartition("/")[2] in WRAPPERS:
        at += 1
        while at < len(args) and re.fullmatch(r"-.*|[0-9.]+[smhd]?|\w+=.*", args[at].text, re.DOTALL):
            at += 1
    return args[at:]


def _shell(args: Sequence[Word], reader: Reader) -> None:
    """`sh -c TEXT`."""
    for at, word in enumerate(args[:-1]):
        if re.fullmatch(r"-[a-z]*c", word.text):
            reader.script(args[at + 1].text, "")
            return


def _client(args: Sequence[Word], sight: Sight) -> None:
    for word in args:
        uses(word, sight)


def _http_server(name: str, args: Sequence[Word], sight: Sight) -> bool:
    """`python -m http.server [--bind A] [N]`: whether it is one. Without a number it is 8000."""
    texts = [word.text for word in args]
    if not name.startswith("python") or "http.server" not in texts or "-m" not in texts:
        return False
    rest = args[texts.index("http.server") + 1 :]
    address, ports = ANY, [Value("8000")]
    for key, values, _ in pairs(rest):
        if key in ("--bind", "-b"):
            address = address_of(values.text) or UNSAID
        elif key == "":
            ports = list(values.values)
    for value in ports:
        if port_of(value.text) is not None:
            sight.found("http.server", port_of(value.text), value, address=address)
    return True
