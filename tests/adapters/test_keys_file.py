import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hostler.adapters.keys_file import kept_keys, local_key
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.services.keys import digest_of
from tests.fakes.state_files import MemoryStateFiles

ROW: dict[str, object] = {
    "name": "bots",
    "sha256": digest_of("hk_bots").hex(),
    "scope": ["infer", "schedule:read"],
    "routes": ["chat"],
    "class": "chat",
    "limits": {"per_minute": 600, "concurrent": 8},
    "expires": "2027-06-30T00:00:00Z",
}


def test_the_first_start_makes_a_key(tmp_path: Path) -> None:
    """API-4: local.key is made once, 0600, and is the same key at every later start."""
    state = tmp_path / "state"
    key = local_key(state)
    assert re.fullmatch(r"hk_[A-Za-z0-9_-]{43}", key.value)
    assert (state / "local.key").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert local_key(state) == key
    assert local_key(tmp_path / "other") != key
    assert key.value not in repr(key)


def test_starts_at_once_share_one_key(tmp_path: Path) -> None:
    """API-4: first starts at the same moment end with one key that all of them know."""
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: local_key(tmp_path).value, range(8)))
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["local.key"]


@pytest.mark.parametrize("content", [b"", b"short\n", b"\0" * 46, b"two words " * 5, "ü".encode() * 50])
def test_a_broken_local_key_is_kept(tmp_path: Path, content: bytes) -> None:
    """API-4: a local.key that holds no key is an error that names it, and is not replaced by another."""
    path = tmp_path / "local.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="holds no key"):
        local_key(tmp_path)
    assert path.read_bytes() == content


def test_a_local_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """SEC-1: a key file that others can read, or a link to one, is not used."""
    local_key(tmp_path)
    path = tmp_path / "local.key"
    path.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        local_key(tmp_path)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        local_key(tmp_path)


def test_kept_keys_are_read(tmp_path: Path) -> None:
    """API-4: keys.json gives each key whole, with digest, scopes, limits and expiry; no file is no keys."""
    files = DirectoryStateFiles(root=tmp_path)
    assert kept_keys(files) == ()
    files.save("keys", {"version": 1, "keys": [ROW, {"name": "b", "sha256": "00" * 32, "scope": ["board"]}]})
    keys = kept_keys(files)
    assert keys is not None
    bots, board = keys
    assert (bots.name, bots.digest, bots.scopes) == (
        "bots",
        digest_of("hk_bots"),
        frozenset({"infer", "schedule:read"}),
    )
    assert (bots.routes, bots.request_class, bots.expires) == (frozenset({"chat"}), "chat", ROW["expires"])
    assert (bots.per_minute, bots.concurrent) == (600, 8)
    assert (board.routes, board.request_class, board.per_minute, board.expires) == (None, None, None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../up"},
        {"sha256": "abc"},
        {"sha256": "00" * 31},
        {"scope": []},
        {"scope": ["everything"]},
        {"scope": ["logs"]},
        {"scope": "infer"},
        {"routes": "chat"},
        {"limits": {"per_minute": "600"}},
        {"limits": {"concurrent": 0}},
        {"limits": {"per_minute": 10**400}},
        {"expires": "tomorrow"},
        {"expires": "2027-06-30T00:00:00"},
    ],
)
def test_a_row_that_is_not_as_it_was_written_spoils_all(change: Mapping[str, object]) -> None:
    """API-4: one broken row makes keys.json unreadable, which is told apart from having no keys."""
    files = MemoryStateFiles()
    files.save("keys", {"keys": [ROW]})
    assert kept_keys(files) is not None
    files.save("keys", {"keys": [ROW, {**ROW, **change}]})
    assert kept_keys(files) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"keys": {}}', '{"keys": [1]}', '{"keys": [{}]}'])
def test_a_broken_file_of_keys_is_not_no_keys(text: str) -> None:
    """API-4: a keys.json that cannot be read is unreadable, not empty."""
    files = MemoryStateFiles()
    files.texts["keys"] = text
    assert kept_keys(files) is None
