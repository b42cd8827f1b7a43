"""How much a pull writes at most, and what it does not touch."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.adapters import downloads
from hostler.adapters.downloads import pull
from hostler.domain.errors import NotTheFile, StoreFull
from tests.adapters.download_site import BODY, SHA, Site, names, serving, silent, wanted


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


@pytest.mark.parametrize("sha256", [SHA, None])
def test_a_file_without_an_end_is_cut_off_at_the_catalogs_size(
    tmp_path: Path, site: Site, sha256: str | None
) -> None:
    """CAT-12: of a body that never ends no more is written than the catalog's size, and none of it kept."""
    site.endless = True
    written: list[int] = []
    with pytest.raises(NotTheFile, match=f"it goes on after the {len(BODY)} bytes that the catalog says"):
        pull(wanted(tmp_path, site.url, sha256=sha256), lambda _, __, done, ___: written.append(done))
    assert max(written) <= len(BODY) + len(BODY) // downloads.TOLERANCE
    assert names(tmp_path) == []


def test_a_file_that_says_that_it_is_longer_is_not_begun(tmp_path: Path, site: Site) -> None:
    """CAT-12: a source that announces more bytes than the catalog's size is refused before one is written."""
    site.body = BODY * 2
    with pytest.raises(NotTheFile, match="it goes on after"):
        pull(wanted(tmp_path, site.url), lambda *_: pytest.fail("a byte was fetched"))
    assert names(tmp_path) == []


def test_a_file_of_unknown_size_leaves_the_disk_its_reserve(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-12: where nobody says how long a file is, fetching ends with what stays free on the disk."""
    site.endless = True
    room, real = 48 << 20, shutil.disk_usage(tmp_path)

    def usage(folder: Path) -> object:
        part = folder / "tiny.gguf.part"
        return real._replace(free=downloads.SPARE + room - part.stat().st_size)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    written: list[int] = []
    with pytest.raises(StoreFull, match="stay free"):
        pull(
            wanted(tmp_path, site.url, sha256=None, size=None),
            lambda _, __, done, ___: written.append(done),
        )
    assert max(written) <= room


@pytest.mark.parametrize("size", [len(BODY), None])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_longer_than_the_file_is_begun_anew_and_told(
    tmp_path: Path, site: Site, size: int | None, ranges: bool
) -> None:
    """CAT-12: what an earlier pull left and is longer than the file is thrown away, which a sentence says."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(BODY + b"more" * 9000)
    site.ranges = ranges
    made = pull(wanted(tmp_path, site.url, size=size), silent)
    assert Path(made.path).read_bytes() == BODY
    assert made.anew == ("" if size is None else downloads.LONGER)


def test_a_range_behind_the_end_begins_anew(tmp_path: Path, site: Site) -> None:
    """CAT-12: a source that answers a range behind the file's end with none of it is asked from the start."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(BODY + b"more")
    site.odd = True
    made = pull(wanted(tmp_path, site.url, size=None), silent)
    assert (Path(made.path).read_bytes(), made.anew) == (BODY, downloads.LONGER)


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_what_is_no_file_is_left_alone(tmp_path: Path, site: Site, kind: str) -> None:
    """CAT-12, INTERFACE-2: a directory or a dead link of that name is one refusal, and stays as it is."""
    place = tmp_path / "models" / "tiny.gguf"
    place.parent.mkdir()
    place.mkdir() if kind == "directory" else place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(NotTheFile, match=r"it is no file|leads nowhere"):
        pull(wanted(tmp_path, site.url), silent)
    assert names(tmp_path) == ["tiny.gguf"]
    assert site.asked == []
