"""What `hostler serve` says before it serves."""

import os
import signal
from pathlib import Path

import pytest

from hostler.bootstrap.serving import Serving
from hostler.domain.errors import Refusal, StateUnusable


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """Why a daemon with this state directory does not start."""
    config = tmp_path / "hostler.yaml"
    config.write_text("version: 1\nnode: {listen: 127.0.0.1:0}\n")
    config.chmod(0o600)
    # Of the process that runs the tests, which goes on.
    monkeypatch.setattr(os, "umask", lambda _: 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    env = {
        "HOSTLER_STATE_DIR": str(tmp_path / "state"),
        "HOSTLER_BOX_RESERVATION_PATH": str(tmp_path / "box.json"),
    }
    with pytest.raises(Refusal) as told:
        Serving(env=env).serve(config=str(config), host=None, listen=())
    return told.value


@pytest.mark.parametrize(
    ("text", "mode", "way"),
    [
        ("no key\n", 0o600, "Remove it, and the next start makes another."),
        ("k" * 50, 0o644, "Chmod 600 it, or remove it."),
    ],
)
def test_a_broken_local_key_has_its_own_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int, way: str
) -> None:
    """API-4, INTERFACE-2: a local.key that is none says so, and what to do with it, not another directory."""
    (tmp_path / "state").mkdir(mode=0o700)
    key = tmp_path / "state" / "local.key"
    key.write_text(text)
    key.chmod(mode)
    told = refused(tmp_path, monkeypatch)
    assert isinstance(told, StateUnusable)
    assert str(told).startswith(f"The state in {key} cannot be used: it ")
    assert told.advice() == way
    assert key.read_text() == text
