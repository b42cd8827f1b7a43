"""A daemon of one engine and one window, inside a systemd unit: tests/adapters/test_driver_transient.py.

python -m tests.fakes.transient_daemon FOLDER start|adopt
"""

import asyncio
import os
import sys
from pathlib import Path

from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.drivers import transient
from hostler.adapters.drivers.process import ProcessDriver
from hostler.services.deadman_needs import Orders
from tests.fakes.fake_engine import fake_launch

WINDOW = "lease_1"
PORT = 18_000
"""Nothing else listens in the test's moment; the engine's health is not asked."""


async def main(folder: Path, what: str) -> None:
    """Start the engine, arm a window's deadman and stay; or adopt it, tell both pids, and end both."""
    units = transient.manager(uid=1000, runtime_dir=os.environ["XDG_RUNTIME_DIR"])
    assert units is not None, "a manager runs here"
    driver = ProcessDriver(environment=os.environ, units=units)
    deadmen = SystemDeadmen(
        root=folder, host="crow", hold_path=folder / "hold", environment=os.environ, units=units
    )
    launch = fake_launch(folder, port=PORT)
    if what == "start":
        run = await driver.start(launch)
        deadmen.write(Orders(window=WINDOW, mode="heavy", host="crow", cap_s=600.0, end=(), start=()))
        deadmen.note(WINDOW, "open")
        await deadmen.start(WINDOW)
        await asyncio.to_thread((folder / "started").write_text, f"{run.pid} {pid_of(deadmen)}")
        await asyncio.Event().wait()
    found = await driver.adopt(launch)
    if found is not None:
        await asyncio.to_thread((folder / "adopted").write_text, f"{found.pid} {pid_of(deadmen)}")
        await driver.stop(launch, found, timeout_s=5)
    await deadmen.end(WINDOW)


def pid_of(deadmen: SystemDeadmen) -> int | None:
    """Who the deadman is, None when none lives."""
    found = deadmen.state(WINDOW)
    return None if found is None else found.pid


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
