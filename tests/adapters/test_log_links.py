import asyncio
from pathlib import Path

from hostler.adapters.drivers.rotation import CURRENT, follow, tail


def test_a_link_in_a_log_s_place_shows_nothing(tmp_path: Path) -> None:
    """BG-23, SEC-2: of a log whose file is a link elsewhere nothing is shown; older files still are."""
    outside = tmp_path / "outside"
    outside.write_text("not for you\n")
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / CURRENT).symlink_to(outside)
    (directory / f"{CURRENT}.1").write_text("ours\n")
    assert tail(directory, 10, 3) == ["ours"]


async def test_a_link_in_a_log_s_place_is_not_followed(tmp_path: Path) -> None:
    """BG-23, SEC-2: who follows a log does not come through a link to what it leads to."""
    outside, current = tmp_path / "outside", tmp_path / CURRENT
    outside.write_text("")
    current.symlink_to(outside)
    lines = follow(tmp_path, 3)
    first = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)  # It has begun, and found the link.
    outside.write_text("not for you\n")
    current.unlink()
    current.write_text("ours\n")
    assert await asyncio.wait_for(first, 20) == "ours"
    await lines.aclose()  # type: ignore[attr-defined]  # an async generator
