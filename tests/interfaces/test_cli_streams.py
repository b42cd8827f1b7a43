import asyncio
import json
import os
import shlex
from pathlib import Path

import pytest

from tests.interfaces.terminal import HOSTLER


@pytest.mark.parametrize(
    ("words", "code"), [("paths", 0), ("box status", 0), ("status", 69), ("nosuch", 2)], ids=str
)
@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&-", "2>/dev/full"])
async def test_a_stream_that_nobody_reads_changes_no_exit_code(
    tmp_path: Path, words: str, code: int, streams: str
) -> None:
    """INTERFACE-4: with stdin, stdout or stderr closed, or stderr full, a command ends as it would."""
    assert (await by_shell(tmp_path, words, streams))[0] == code


async def test_an_answer_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """INTERFACE-4: an answer on a full disk is one error and exit 70, never a success and no traceback."""
    code, err = await by_shell(tmp_path, "paths", ">/dev/full")
    assert code == 70
    assert err.splitlines() == [
        "error: The answer could not be written: No space left on device.",
        "hint: What the command did is done; ask again to see it.",
    ]
    code, err = await by_shell(tmp_path, "paths --json", ">/dev/full")
    assert (code, json.loads(err)["error"]["code"]) == (70, "unwritten")
    assert (await by_shell(tmp_path, "paths", ">/dev/full 2>/dev/full"))[0] == 70


async def by_shell(tmp_path: Path, words: str, streams: str) -> tuple[int | None, str]:
    """The exit code and stderr of a command whose streams a shell has led elsewhere; there is no daemon."""
    line = f"{shlex.join(HOSTLER)} {words} {streams}"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HOSTLER_STATE_DIR": str(tmp_path / "state"),
        "HOSTLER_BOX_RESERVATION_PATH": str(tmp_path / "box.json"),
        "HOSTLER_URL": "http://127.0.0.1:9",
    }
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", line, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    return process.returncode, err.decode()
