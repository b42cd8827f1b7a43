import os
import stat
from pathlib import Path

import pytest

from hostler.adapters.hold_path import file_system, lingering_warning, resolve
from hostler.domain.errors import HoldPathUnusable

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / {root}/run rw,nosuid - tmpfs tmpfs rw
31 30 0:40 / {root}/run/user/1000 rw,nosuid shared:5 - tmpfs tmpfs rw
32 22 8:1 / {root}/with\\040blank rw - xfs /dev/sda1 rw
33 22 0:41 / {root}/over rw - ext4 /dev/sdb rw
34 33 0:42 / {root}/over rw - ramfs none rw
torn line
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root directory with a mount table: /run is tmpfs, the rest ext4."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS.format(root=tmp_path), encoding="utf-8")
    (tmp_path / "run").mkdir()
    return tmp_path


def test_the_environment_names_the_path(root: Path) -> None:
    """HOLD-1: our variable wins over the scripts' one, that over the config, and an empty one is none."""
    (root / "run/user/1000").mkdir(parents=True)
    both = {"HOSTLER_BOX_RESERVATION_PATH": "/a/h.json", "CROW_BOX_RESERVATION_PATH": "/b/h.json"}
    first = resolve(both, 1000, "/c/h.json", str(root))
    assert (first.path, first.source) == ("/a/h.json", "$HOSTLER_BOX_RESERVATION_PATH")
    both["HOSTLER_BOX_RESERVATION_PATH"] = ""
    second = resolve(both, 1000, "/c/h.json", str(root))
    assert (second.path, second.source) == ("/b/h.json", "$CROW_BOX_RESERVATION_PATH")
    third = resolve({}, 1000, "/c//x/../h.json", str(root))
    assert (third.path, third.source, third.default) == ("/c/h.json", "node.hold_path", False)


def test_the_default_is_the_name_that_scripts_write(root: Path) -> None:
    """HOLD-1: the default is crow-box-reservation.json in the user's run-time directory."""
    (root / "run/user/1000").mkdir(parents=True)
    (root / "run/hostler").mkdir()
    found = resolve({}, 1000, None, str(root))
    assert found.path == f"{root}/run/user/1000/crow-box-reservation.json"
    assert (found.default, found.survives_reboot, found.notes, found.warnings) == (True, False, (), ())


def test_a_service_uses_its_runtime_directory(root: Path) -> None:
    """HOLD-1: without /run/user/<uid> it is /run/hostler when that is there, and that is said."""
    (root / "run/hostler").mkdir()
    found = resolve({}, 1000, None, str(root))
    assert found.path == f"{root}/run/hostler/crow-box-reservation.json"
    assert found.notes == (
        f"The hold file is {found.path}, for there is no {root}/run/user/1000; it does not survive a reboot.",
    )


def test_elsewhere_it_is_a_private_directory(root: Path) -> None:
    """HOLD-1: without either it is $TMPDIR/hostler-<uid>, made 0700, and that is said with the reboot."""
    (root / "tmp").mkdir()
    found = resolve({"TMPDIR": f"{root}/tmp"}, os.getuid(), None, str(root))
    own = root / f"tmp/hostler-{os.getuid()}"
    assert found.path == f"{own}/crow-box-reservation.json"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert found.survives_reboot
    assert "it survives a reboot" in found.notes[0]
    own.chmod(0o777)
    assert resolve({"TMPDIR": f"{root}/tmp"}, os.getuid(), None, str(root)).path == found.path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_a_private_directory_of_somebody_else_is_refused(root: Path) -> None:
    """HOLD-1: $TMPDIR/hostler-<uid> that is a link, a file or another user's is refused."""
    (root / "tmp").mkdir()
    own = root / f"tmp/hostler-{os.getuid()}"
    own.symlink_to(root)
    with pytest.raises(HoldPathUnusable, match="is not ours"):
        resolve({"TMPDIR": f"{root}/tmp"}, os.getuid(), None, str(root))
    own.unlink()
    own.write_text("", encoding="utf-8")
    with pytest.raises(HoldPathUnusable, match="is not ours"):
        resolve({"TMPDIR": f"{root}/tmp"}, os.getuid(), None, str(root))
    (root / "tmp/hostler-4242").mkdir()
    with pytest.raises(HoldPathUnusable, match="is not ours"):
        resolve({"TMPDIR": f"{root}/tmp"}, 4242, None, str(root))


def test_a_private_directory_that_cannot_be_made_is_told(root: Path) -> None:
    """HOLD-1: where $TMPDIR is not there, the error names the directory."""
    with pytest.raises(HoldPathUnusable, match=r"gone/hostler-\d+ cannot be made: No such file"):
        resolve({"TMPDIR": f"{root}/gone"}, os.getuid(), None, str(root))


@pytest.mark.parametrize("path", ["h.json", "~/h.json", "./h.json"])
def test_a_relative_path_is_refused(root: Path, path: str) -> None:
    """HOLD-1: a path that depends on the working directory would differ between writer and gate."""
    with pytest.raises(HoldPathUnusable, match="must name an absolute path"):
        resolve({"CROW_BOX_RESERVATION_PATH": path}, 1000, None, str(root))
    with pytest.raises(HoldPathUnusable, match="must name an absolute path"):
        resolve({}, 1000, path, str(root))


def test_another_runtime_directory_is_warned_of(root: Path) -> None:
    """HOLD-1: where scripts default to another $XDG_RUNTIME_DIR, the default path comes with a warning."""
    (root / "run/user/1000").mkdir(parents=True)
    (root / "other").mkdir()
    (root / "same").symlink_to(root / "run/user/1000")
    other = resolve({"XDG_RUNTIME_DIR": f"{root}/other"}, 1000, None, str(root))
    assert len(other.warnings) == 1
    assert f"{root}/other" in other.warnings[0]
    assert resolve({"XDG_RUNTIME_DIR": f"{root}/same"}, 1000, None, str(root)).warnings == ()
    named = {"XDG_RUNTIME_DIR": f"{root}/other", "HOSTLER_BOX_RESERVATION_PATH": "/a/h.json"}
    assert resolve(named, 1000, None, str(root)).warnings == ()


def test_two_names_for_two_files_are_warned_of(root: Path) -> None:
    """HOLD-1: scripts that know only their own variable would write what no gate reads."""
    both = {"HOSTLER_BOX_RESERVATION_PATH": "/a/h.json", "CROW_BOX_RESERVATION_PATH": "/b/h.json"}
    assert "/b/h.json" in resolve(both, 1000, None, str(root)).warnings[0]
    both["CROW_BOX_RESERVATION_PATH"] = "/a//h.json"
    assert resolve(both, 1000, None, str(root)).warnings == ()


def test_the_file_system_of_a_directory_is_known(root: Path) -> None:
    """HOLD-2: whether a path is on tmpfs is told by the innermost, last mount over it."""
    assert file_system(root / "run/user/1000", str(root)) == "tmpfs"
    assert file_system(root / "runs", str(root)) == "ext4"
    assert file_system(root / "with blank/x", str(root)) == "xfs"
    assert file_system(root / "over", str(root)) == "ramfs"
    assert file_system(root, "/nowhere") is None


def test_without_a_mount_table_nothing_is_claimed(tmp_path: Path) -> None:
    """HOLD-2: where the system does not tell its mounts, survival is left open and said so."""
    found = resolve({"TMPDIR": str(tmp_path)}, os.getuid(), None, str(tmp_path))
    assert found.survives_reboot is None
    assert "may survive a reboot" in found.notes[0]


def test_without_lingering_a_hold_goes_with_the_session(root: Path) -> None:
    """HOLD-2: in a run-time directory that goes with the last session a hold comes with a warning."""
    path = f"{root}/run/user/4242/crow-box-reservation.json"
    assert lingering_warning(path, 4242, str(root)) is None
    (root / "run/systemd/system").mkdir(parents=True)
    warning = lingering_warning(path, 4242, str(root))
    assert warning is not None
    assert "loginctl enable-linger 4242" in warning
    assert lingering_warning("/run/hostler/h.json", 4242, str(root)) is None
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/4242").touch()
    assert lingering_warning(path, 4242, str(root)) is None
