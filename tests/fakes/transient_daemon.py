"""A daemon of one engine, run inside a systemd unit by tests/adapters/test_driver_transient.py.

python -m tests.fakes.transient_daemon FOLDER start|adopt
"""

import asyncio
import os
import sys
from pathlib import Path

from hostler.adapters.drivers import transient
from hostler.adapters.drivers.process import ProcessDriver
from tests.fakes.fake_engine import fake_launch

PORT = 18_000
"""Nothing else listens in the test's moment; the engine's health is not asked."""


async def main(folder: Path, what: str) -> None:
    """Start the engine and stay; or adopt it, tell its pid, and stop it."""
    units = transient.manager(uid=1000, runtime_dir=os.environ["XDG_RUNTIME_DIR"])
    assert units is not None, "a manager runs here"
    driver = ProcessDriver(environment=os.environ, units=units)
    launch = fake_launch(folder, port=PORT)
    if what == "start":
        run = await driver.start(launch)
        await asyncio.to_thread((folder / "started").write_text, str(run.pid))
        await asyncio.Event().wait()
    found = await driver.adopt(launch)
    if found is not None:
        await asyncio.to_thread((folder / "adopted").write_text, str(found.pid))
        await driver.stop(launch, found, timeout_s=5)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
