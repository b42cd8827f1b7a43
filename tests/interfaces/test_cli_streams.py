import asyncio
import json
import os
import shlex
from pathlib import Path

import pytest

from hostler.interfaces.cli.failure import unforeseen
from tests.interfaces.terminal import HOSTLER, shell


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


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (f"catalog check {'x' * 3000}", 65, "unusable_file"),
        (f"import llama-swap {'x' * 3000}", 65, "unusable_file"),
        (f"ports check {'x' * 3000}", 65, "unusable_file"),
        ("drain big --timeout 10000000d", 2, "usage"),
        ("start big --timeout 10000000d", 2, "usage"),
        ("ports free --host a --range 9000-9100 --address zz", 2, "usage"),
        ("ports allocate --host a --range 9-10 --service a --address 1.2.3", 2, "usage"),
        (f"ports allocate --host a --range 9-10 --service a --needs {'9' * 400}GiB", 2, "usage"),
    ],
    ids=lambda it: str(it)[:40],
)
async def test_what_no_command_foresaw_is_one_error(tmp_path: Path, words: str, code: int, kind: str) -> None:
    """INTERFACE-2: a path too long, a time beyond the calendar, no address: one error, and no traceback."""
    user = shell(tmp_path, HOSTLER_URL="http://127.0.0.1:9")
    ended = await user.inside(*words.split())
    assert (ended.code, len(ended.err.splitlines()), ended.err[:7]) == (code, 2, "error: "), ended.err[-400:]
    ended = await user.inside(*words.split(), "--json")
    assert (ended.code, json.loads(ended.err)["error"]["code"]) == (code, kind)


@pytest.mark.parametrize("error", [ValueError("zz is none"), OverflowError("too large"), OSError("odd")])
def test_a_bug_is_one_error_too(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    """INTERFACE-2: any other exception is one line that names it, exit 70."""
    assert unforeseen(error, as_json=False) == 70
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"error: This failed unexpectedly: {type(error).__name__}: {error}."
    assert told[1].startswith("hint: Look at what was given. If that is right it is a bug")


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
