"""The demo's stage: a directory of its own, a few tiny models, a config, and a daemon to kill.

Decides where everything lies and how the daemon is started and ended. Knows nothing of the story.
Nothing outside the directory is read or written, the hold file included.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from demo.real_engine import EngineProgram
from demo.tiny_gguf import write_model
from hostler.adapters.host import process_table

SAYS = {
    "fast": "I am the fast one.",
    "large": "I am the large one, and I took my time.",
    "spare": "I am the spare one.",
}
EMBED = "embed"
MARK = ".hostler-demo"
"""A file that says that a directory is a demo's: no other is ever removed."""
BOX = {
    "title": "the whole box",
    "drain": "30s",
    "actions": [
        {"hold": "local", "allow": ["spare"]},
        {"route": "chat", "to": "away"},
        {"route": "long", "to": "away"},
        {"suspend": "fast", "memory_back": True},
        {"suspend": "large"},
        {"suspend": "endless"},
    ],
}
"""What the second act leases: traffic goes to the spare engine meanwhile."""
MODES = {
    "standard": {
        "standing": True,
        "hosts": {"local": ["fast", "spare", EMBED]},
        "routes": {"chat": "local"},
    },
    "heavy": {
        "serving_class": "windowed",
        "resource": "box",
        "hosts": {"local": ["heavy", EMBED]},
        "routes": {"chat": "heavy"},
        "cap": {"default": "5m", "max": "1h"},
        "drain_before": "3s",
    },
}
"""What the third act enters and leaves: the heavy engine has the box for itself."""
DRAIN_BEFORE_S = 3
IDLE_REVERT_S = 4
UP_S = 30.0


class DemoError(Exception):
    """A step was not as told; the text is the reason."""


@dataclass(kw_only=True)
class Stage:
    """One demo's directory and its daemon."""

    engine: EngineProgram
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="hostler-demo-")))
    port: int = 0
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The gateway's base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def hold(self) -> Path:
        """The demo's hold file."""
        return self.root / "box-reservation.json"

    @property
    def config(self) -> Path:
        """The demo's hostler.yaml."""
        return self.root / "hostler.yaml"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the daemon and of every command of the demo."""
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TERM") if name in os.environ}
        return {
            **keep,
            "HOSTLER_CONFIG": str(self.config),
            "HOSTLER_STATE_DIR": str(self.root / "state"),
            "HOSTLER_BOX_RESERVATION_PATH": str(self.hold),
            "HOSTLER_URL": self.url,
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "PYTHONUNBUFFERED": "1",
        }

    def set_up(self) -> None:
        """Write the models and the config."""
        models = self.root / "models"
        models.mkdir(parents=True)
        (self.root / "run").mkdir(mode=0o700)
        (self.root / MARK).touch()
        for name, says in SAYS.items():
            write_model(models / f"{name}.gguf", says=says)
        write_model(models / "slow.gguf", says="and so on", layers=8, endless=True)
        # Its context is full only long after the cap of a window.
        write_model(models / "heavy.gguf", says="and so on", layers=48, endless=True)
        write_model(models / f"{EMBED}.gguf", says="I am the embedding.", embeddings=True)
        self.port, low = free_port(), free_range(20)
        self.config.write_text(json_config(self, low), encoding="utf-8")
        self.config.chmod(0o600)

    def start_daemon(self) -> float:
        """Start `hostler serve` and wait until it answers; seconds that took. DemoError if it does not."""
        begun = time.monotonic()
        log = (self.root / "daemon.log").open("ab")
        self.daemon = subprocess.Popen(
            [sys.executable, "-m", "hostler", "serve"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        while time.monotonic() - begun < UP_S:
            if self.daemon.poll() is not None:
                raise DemoError(f"the daemon ended with {self.daemon.returncode}:\n{self.last_log()}")
            with socket.socket() as probe:
                probe.settimeout(0.2)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return time.monotonic() - begun
            time.sleep(0.02)
        raise DemoError(f"the daemon did not listen within {UP_S:.0f} s:\n{self.last_log()}")

    def kill_daemon(self) -> None:
        """Kill the daemon's whole process group with -9."""
        assert self.daemon is not None
        os.killpg(self.daemon.pid, signal.SIGKILL)
        self.daemon.wait()

    def last_log(self) -> str:
        """The daemon's last words."""
        log = self.root / "daemon.log"
        return "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:]) if log.exists() else ""

    def command(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run `hostler …` in the demo's environment."""
        return subprocess.run(
            [sys.executable, "-m", "hostler", *argv],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def tear_down(self) -> None:
        """Stop the engines and the daemon by their own ids, and remove the directory."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.end_engines()
        shutil.rmtree(self.root, ignore_errors=True)

    def end_engines(self) -> None:
        """End engines whose daemon is not there to do it, by the identity that their supervisors recorded."""
        for record in (self.root / "state" / "engines").glob("*/run.json"):
            found = json.loads(record.read_text(encoding="utf-8"))
            pid, ticks = found.get("supervisor_pid"), found.get("supervisor_ticks")
            if isinstance(pid, int) and isinstance(ticks, int):
                process_table.send(pid, ticks, signal.SIGTERM)


def json_config(stage: Stage, low: int) -> str:
    """The demo's config. JSON is YAML, and needs no quoting rules."""
    models = stage.root / "models"

    def engine(file: str, *more: str, **keys: object) -> dict[str, object]:
        return {
            "argv": list(stage.engine.argv("{file}", "{model}", *more)),
            "files": [str(models / file)],
            "env": dict(stage.engine.env),
            "port": "auto",
            "memory": "128 MiB",
            **keys,
        }

    return json.dumps(
        {
            "version": 1,
            "node": {"listen": f"127.0.0.1:{stage.port}", "on_exit": "stop", "shutdown": "2s"},
            "hosts": {
                "local": {
                    "ports": {"range": f"{low}-{low + 19}"},
                    "memory": {"reserve": "256 MiB"},
                    "groups": {
                        "main": {
                            "idle_revert": "fast",
                            "idle": f"{IDLE_REVERT_S}s",
                            "min_resident": "1s",
                            "yield_after": "2s",
                        }
                    },
                }
            },
            "engines": {
                EMBED: engine(
                    "embed.gguf", "--embeddings", task="embed", essential=True, resident=True, order=10
                ),
                "fast": engine("fast.gguf", group="main", resident=True, order=20),
                "large": engine("large.gguf", group="main"),
                "spare": engine("spare.gguf", resident=True, order=30),
                "endless": engine("slow.gguf", ttl="5m"),
                "heavy": engine("heavy.gguf", serving_class="windowed"),
            },
            "routes": {
                "chat": {
                    "aliases": ["gpt-4o-mini"],
                    "profiles": {
                        "local": {"fast": "fast", "large": "large"},
                        "away": "spare",
                        "heavy": "heavy",
                    },
                    "active": "local",
                    "escalate": {"token": "!escalate"},
                },
                "long": {"profiles": {"local": "endless", "away": "spare"}, "active": "local"},
            },
            "reservations": {"resources": {"box": BOX}},
            "modes": MODES,
        },
        indent=1,
    )


def free_port() -> int:
    """A TCP port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def free_range(size: int) -> int:
    """The first of `size` neighbouring ports of loopback that are free now."""
    for low in range(20_000, 32_000, size):
        if all(_is_free(port) for port in range(low, low + size)):
            return low
    raise DemoError(f"no {size} neighbouring free ports between 20000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
