"""A real Docker engine for the tests: its own socket, its own data, no bridge, no firewall rules.

Ended by its own pid file; what it leaves mounted is unmounted. Nothing of this machine's own Docker is used.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.adapters.drivers.container_api import ContainerApi, Unanswered

NEEDED: Final = ("dockerd", "containerd", "runc", "docker", "busybox", "tar")
IMAGE: Final = "toy:1"
UP_S: Final = 30.0
DOWN_S: Final = 30.0
COMPOSE: Final = ("docker-compose",)
SHARED: Final = ("/lib", "/lib64", "/usr")
"""What a program of this machine needs to run in a container that has nothing but busybox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """The engine of a test session; `image` is busybox with a shell."""

    root: Path
    image: str = IMAGE
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket(self) -> str:
        return str(self.root / "docker.sock")

    @property
    def host(self) -> str:
        """What DOCKER_HOST is for it."""
        return f"unix://{self.socket}"

    @property
    def api(self) -> ContainerApi:
        return ContainerApi(socket=self.socket)

    def cli(self, *words: str) -> str:
        """What the docker command says."""
        argv = ("docker", "--host", self.host, *words)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout.strip()

    def remove(self, *names: str) -> None:
        """Remove these containers, running or not; those that are not there do not matter."""
        if names:
            argv = ("docker", "--host", self.host, "rm", "--force", "--volumes", *names)
            subprocess.run(argv, capture_output=True, timeout=60, check=False)

    def begin(self) -> None:
        """Start it and wait until it takes calls."""
        root, log = self.root, self.root / "dockerd.log"
        argv = (
            *("dockerd", "--data-root", str(root / "data"), "--exec-root", str(root / "exec")),
            *("-p", str(root / "dockerd.pid"), "-H", self.host),
            *("--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs"),
        )
        with log.open("ab") as output:
            process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
        self.running.append(process)
        _until(lambda: self.answers() or process.poll() is not None, UP_S)
        assert process.poll() is None, log.read_text()[-3000:]
        assert self.answers(), log.read_text()[-3000:]

    def end(self) -> None:
        """End it by its pid file, and every container with it."""
        process = self.running.pop()
        if process.poll() is None:
            pid_file = self.root / "dockerd.pid"
            os.kill(int(pid_file.read_text()) if pid_file.exists() else process.pid, signal.SIGTERM)
        try:
            process.wait(DOWN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(DOWN_S)

    def restart(self) -> None:
        """End it and start it anew, as a reboot does: its restart policies decide what comes up."""
        self.end()
        self.begin()

    def answers(self) -> bool:
        """Whether it takes calls."""
        try:
            return self.api.ask_now("/_ping") == b"OK"
        except Unanswered:
            return False


def missing() -> str:
    """Why no engine of our own can be started here; empty when it can."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Docker engine of the tests' own needs root on Linux"
    return ""


def shared_paths() -> tuple[str, ...]:
    """What a container needs of this machine to run the tests' engines: libraries, Python, the wheel."""
    project = Path(__file__).parents[2]
    found = (*SHARED, sys.base_prefix, sys.prefix, str(project / "demo"))
    return tuple(dict.fromkeys(path for path in found if Path(path).is_dir()))


@contextmanager
def docker_engine() -> Iterator[Docker]:
    """Start one and import its image; at the end nothing of it runs or is mounted."""
    engine = Docker(root=Path(tempfile.mkdtemp(prefix="hostler-docker-")))
    try:
        engine.begin()
        _import(engine)
        yield engine
    finally:
        engine.end()
        _clean(engine.root)


def _import(engine: Docker) -> None:
    """An image of busybox alone: none can be pulled."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    rootfs = engine.root / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    shutil.copy(busybox, rootfs / "bin/busybox")
    for name in ("sh", "sleep", "cat"):
        (rootfs / "bin" / name).symlink_to("busybox")
    packed = engine.root / "rootfs.tar"
    subprocess.run(("tar", "-C", str(rootfs), "-cf", str(packed), "."), check=True, timeout=60)
    engine.cli("import", str(packed), engine.image)


def _clean(root: Path) -> None:
    """Unmount what it left, deepest first, and remove its directory."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = line.split()[1].replace("\\040", " ")
        if place.startswith(f"{root}/"):
            subprocess.run(("umount", "--lazy", place), check=False, timeout=30)
    shutil.rmtree(root, ignore_errors=True)


def _until(true: Callable[[], bool], within_s: float) -> None:
    ends = time.monotonic() + within_s
    while not true() and time.monotonic() < ends:
        time.sleep(0.05)
