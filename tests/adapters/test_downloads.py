"""Downloads from real files and a real server on loopback."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.adapters import downloads
from hostler.adapters.downloads import alike, pull
from hostler.domain.errors import DownloadFailed, NotTheFile, StoreFull
from hostler.services.catalog_parts import Outcome
from tests.adapters.download_site import BODY, SHA, Site, names, serving, silent, wanted


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


def test_a_file_is_fetched_and_proven(tmp_path: Path, site: Site) -> None:
    """CAT-12: a file is fetched whole, its SHA-256 compared, and its progress told from 0 to its size."""
    told: list[tuple[str, int, int | None]] = []
    made = pull(wanted(tmp_path, site.url), lambda what, _, done, total: told.append((what, done, total)))
    assert (made.outcome, made.size) == (Outcome.DOWNLOADED, len(BODY))
    assert Path(made.path).read_bytes() == BODY
    assert told[-1] == ("reads", len(BODY), len(BODY))
    assert ("fetches", len(BODY), len(BODY)) in told
    assert names(tmp_path) == ["tiny.gguf"]


def test_a_broken_line_is_taken_up_where_it_broke(tmp_path: Path, site: Site) -> None:
    """CAT-12: a download whose line breaks twice goes on by Range, within one call."""
    site.cut, site.cuts = 300_000, 2
    made = pull(wanted(tmp_path, site.url), silent)
    assert Path(made.path).read_bytes() == BODY
    assert [asked for _, asked in site.asked] == [None, "bytes=300000-", "bytes=600000-"]


def test_a_download_goes_on_at_the_next_call(tmp_path: Path, site: Site) -> None:
    """CAT-12: what was fetched stays, and the next pull fetches the rest alone."""
    site.cut = 100_000
    with pytest.raises(DownloadFailed, match="was not fetched"):
        pull(wanted(tmp_path, site.url), silent)
    assert names(tmp_path) == ["tiny.gguf.part"]
    site.cut = None
    site.asked.clear()
    made = pull(wanted(tmp_path, site.url), silent)
    assert site.asked == [("/tiny.gguf", "bytes=300000-")]
    assert (Path(made.path).read_bytes(), made.outcome) == (BODY, Outcome.DOWNLOADED)


def test_a_line_that_drops_after_a_few_bytes_loses_and_doubles_none(tmp_path: Path, site: Site) -> None:
    """CAT-12: what came before the line dropped counts, however little: the next try begins behind it."""
    site.cut, site.cuts = 100, 2
    assert Path(pull(wanted(tmp_path, site.url), silent).path).read_bytes() == BODY
    assert [asked for _, asked in site.asked] == [None, "bytes=100-", "bytes=200-"]


def test_a_server_without_ranges_sends_it_all_again(tmp_path: Path, site: Site) -> None:
    """CAT-12: where the other side cannot begin in the middle, the file is fetched from its beginning."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(b"x" * 500)
    site.ranges = False
    assert Path(pull(wanted(tmp_path, site.url), silent).path).read_bytes() == BODY


def test_a_part_that_is_whole_is_not_fetched_again(tmp_path: Path, site: Site) -> None:
    """CAT-12: a part that has all bytes already is proven and named."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(BODY)
    assert Path(pull(wanted(tmp_path, site.url), silent).path).read_bytes() == BODY


def test_a_part_of_another_file_is_begun_anew(tmp_path: Path, site: Site) -> None:
    """CAT-12: a part that is longer than what is there now is thrown away, and the file fetched whole."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(BODY + b"more")
    assert Path(pull(wanted(tmp_path, site.url), silent).path).read_bytes() == BODY


def test_another_content_is_not_kept(tmp_path: Path, site: Site) -> None:
    """CAT-12: bytes of another SHA-256, or of another size, are no model and leave nothing behind."""
    site.body = BODY[:-1] + b"!"
    with pytest.raises(NotTheFile, match="its SHA-256 is"):
        pull(wanted(tmp_path, site.url), silent)
    assert names(tmp_path) == []
    with pytest.raises(NotTheFile, match="bytes, the catalog's is"):
        pull(wanted(tmp_path, site.url, sha256=None, size=2 * len(BODY)), silent)
    assert names(tmp_path) == []


def test_without_a_sha256_a_download_is_unverified(tmp_path: Path, site: Site) -> None:
    """CAT-12: a file of which the catalog has no SHA-256 is fetched, and called unverified."""
    made = pull(wanted(tmp_path, site.url, sha256=None), silent)
    assert (made.outcome, made.why) == (Outcome.UNVERIFIED, "the catalog has no SHA-256 of it")


def test_a_file_url_is_copied(tmp_path: Path) -> None:
    """CAT-12: a source on the disk is copied, from where an earlier copy ended, and is left as it is."""
    source = tmp_path / "a model.gguf"
    source.write_bytes(BODY)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(BODY[:1000])
    made = pull(wanted(tmp_path, source.as_uri()), silent)
    assert Path(made.path).read_bytes() == BODY
    assert source.read_bytes() == BODY
    with pytest.raises(DownloadFailed, match="No such file"):
        pull(wanted(tmp_path / "other", (tmp_path / "none").as_uri()), silent)


# ---------------------------------------------------------------- adoption


@pytest.mark.parametrize(
    ("sha256", "size", "outcome"),
    [
        (SHA, len(BODY), Outcome.VERIFIED),
        (SHA, None, Outcome.VERIFIED),
        (None, len(BODY) + 5000, Outcome.UNVERIFIED),
        (None, None, Outcome.UNVERIFIED),
    ],
)
def test_a_file_that_is_there_is_adopted(
    tmp_path: Path, sha256: str | None, size: int | None, outcome: Outcome
) -> None:
    """CAT-12: a file that lies there is adopted as it is: by its SHA-256, else unverified."""
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "tiny.gguf"
    path.write_bytes(BODY)
    before = path.stat()
    made = pull(wanted(tmp_path, "http://127.0.0.1:9/never", sha256=sha256, size=size), silent)
    assert made.outcome is outcome
    assert bool(made.why) == (outcome is Outcome.UNVERIFIED)
    assert path.stat() == before


@pytest.mark.parametrize(("sha256", "size"), [("0" * 64, len(BODY)), (None, len(BODY) + 6000)])
def test_another_file_is_neither_adopted_nor_deleted(tmp_path: Path, sha256: str | None, size: int) -> None:
    """CAT-12: a file that is not the catalog's is refused, with the figures, and stays as it is."""
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "tiny.gguf"
    path.write_bytes(BODY)
    with pytest.raises(NotTheFile) as told:
        pull(wanted(tmp_path, "http://127.0.0.1:9/never", sha256=sha256, size=size), silent)
    assert "Nothing was changed" in told.value.advice()
    assert path.read_bytes() == BODY


@pytest.mark.parametrize(
    ("size", "same"), [(1000, True), (1005, True), (995, True), (1006, False), (994, False)]
)
def test_half_a_percent(size: int, same: bool) -> None:
    """CAT-12: a size is taken for another within half a percent, and not beyond."""
    assert alike(size, 1000) is same


# ---------------------------------------------------------------- what does not go


def test_there_is_room_before_a_byte_is_written(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-12: a file that the disk has no room for is refused, with what is free, before it is fetched."""
    usage = shutil.disk_usage(tmp_path)._replace(free=downloads.SPARE + len(BODY) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreFull, match=r"it needs 1\.0 MiB more"):
        pull(wanted(tmp_path, site.url), silent)
    assert (tmp_path / "models" / "tiny.gguf.part").stat().st_size == 0


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """CAT-12: a models directory that cannot be made is one refusal with its reason."""
    (tmp_path / "models").write_bytes(b"")
    with pytest.raises(StoreFull, match=r"Not a directory|File exists"):
        pull(wanted(tmp_path, "http://127.0.0.1:9/x"), silent)


def test_a_model_without_a_source_is_put_there_by_hand(tmp_path: Path) -> None:
    """CAT-12: where the catalog knows no source the refusal says where to put the file."""
    with pytest.raises(DownloadFailed) as told:
        pull(wanted(tmp_path, None), silent)
    assert told.value.advice() == f"Put it at {tmp_path}/models/tiny.gguf; `hostler pull` then adopts it."


@pytest.mark.parametrize(("status", "tries"), [(403, 1), (404, 1), (503, 3), (429, 3)])
def test_a_server_that_refuses_is_told(tmp_path: Path, site: Site, status: int, tries: int) -> None:
    """CAT-12: a source that says no is told at once; one that cannot now is asked three times."""
    site.status = status
    with pytest.raises(DownloadFailed, match=f"answers {status}"):
        pull(wanted(tmp_path, site.url), silent)
    assert len(site.asked) == tries


def test_nobody_answers(tmp_path: Path) -> None:
    """CAT-12: a source that cannot be reached is one refusal, which says how to go on."""
    with pytest.raises(DownloadFailed) as told:
        pull(wanted(tmp_path, "http://127.0.0.1:9/x"), silent)
    assert "goes on where it ended" in told.value.advice()


def test_one_pull_at_a_time(tmp_path: Path, site: Site) -> None:
    """CAT-12: a second pull of a file that is being fetched is refused, and spoils nothing."""
    refused: list[str] = []

    def meanwhile(what: str, file: str, done: int, total: int | None) -> None:
        if what == "fetches" and not refused:
            with pytest.raises(DownloadFailed) as told:
                pull(wanted(tmp_path, site.url), silent)
            refused.append(told.value.why)

    assert Path(pull(wanted(tmp_path, site.url), meanwhile).path).read_bytes() == BODY
    assert refused == ["another pull fetches it now"]


def test_a_proxy_is_used(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-12: HTTPS_PROXY is asked for what is fetched over https, and HTTP_PROXY for the rest."""
    proxy = site.url.removesuffix("/tiny.gguf")
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(DownloadFailed):
        pull(wanted(tmp_path, "https://models.example.net/tiny.gguf"), silent)
    assert site.asked[0] == ("CONNECT models.example.net:443", None)
    made = pull(wanted(tmp_path, "http://models.example.net/tiny.gguf"), silent)
    assert made.outcome is Outcome.DOWNLOADED
    assert site.asked[-1][0] == "http://models.example.net/tiny.gguf"


def test_a_redirect_is_followed(tmp_path: Path, site: Site) -> None:
    """CAT-12: a source that moved the file is followed to where it is."""
    source = tmp_path / "other"
    source.mkdir()
    first = Site(status=302, location=site.url)
    answered = site.answer
    site.answer = lambda it: first.answer(it) if it.path == "/moved" else answered(it)  # type: ignore[method-assign]  # a turn of the server
    made = pull(wanted(tmp_path, site.url.replace("tiny.gguf", "moved")), silent)
    assert made.outcome is Outcome.DOWNLOADED
