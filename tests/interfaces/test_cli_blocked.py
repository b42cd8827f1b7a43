from pathlib import Path

from tests.interfaces.room import Room
from tests.interfaces.terminal import served


async def test_a_resident_that_cannot_start_is_told(box: Room, tmp_path: Path) -> None:
    """GATE-2, INTERFACE-2: what keeps an engine down for good is in its NOTE, and of a resident a warning."""
    async with served(box.app, tmp_path) as user:
        box.held("bench", minutes=42)
        box.machine.absent.add("llama-server")
        ended = await user.run("status")
        lines = ended.out.splitlines()
        notes = {name: next(it for it in lines if it.startswith(name)) for name in ("embed", "large", "far")}
        blocked = "blocked: not_launchable {} cannot be started here: llama-server is not there; "
        assert blocked.format("embed") + "resident" in notes["embed"]
        assert blocked.format("large") in notes["large"]
        assert "blocked" not in notes["far"]
        told = "llama-server is not there. It is a resident and is down: `hostler why embed`"
        warned = [it for it in lines if "It is a resident and is down" in it]
        assert [told in it and "embed cannot be started" in it for it in warned] == [True]
        box.machine.absent.clear()
        assert "is a resident and is down" not in (await user.run("status")).out
