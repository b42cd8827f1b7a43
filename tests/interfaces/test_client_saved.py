from pathlib import Path

import pytest

from hostler.client.facade import Hostler
from hostler.client.lease import Leases
from hostler.client.saved import SavedLease, read_private, saved_leases
from hostler.domain.errors import NotYours
from tests.fakes.head import Head


def test_mine_is_what_has_not_ended(head: Head, holder: Hostler) -> None:
    """LEASE-9: this user's leases are found again, the ended are forgotten, other heads' left alone."""
    first, second = holder.leases.prepare("pair"), holder.leases.prepare("box")
    ids = [holder.run(holder.leases.ask(saved)).lease.id for saved in (first, second)]
    elsewhere = Leases(files=holder.leases.files, url="http://raven.lan:7070").prepare("pair")
    head.end(ids[0])
    ((saved, one),) = holder.run(holder.leases.mine())
    assert (saved.request_id, one.lease.id) == (second.request_id, ids[1])
    assert {it.request_id for it in holder.leases.files.list()} == {second.request_id, elsewhere.request_id}
    assert holder.leases.files.find(ids[1]) == saved


def test_a_secret_goes_to_its_own_head_only(head: Head, holder: Hostler) -> None:
    """LEASE-9, R90: a lease of one head is not spoken of to another: its secret stays."""
    saved = Leases(files=holder.leases.files, url="http://raven.lan:7070").prepare("pair")
    with pytest.raises(NotYours) as refused:
        holder.run(holder.leases.renew(saved))
    assert "raven" in refused.value.advice()
    assert head.heard == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "a" * 31, "A" * 32, "", "ls_1/../x"])
def test_an_id_from_outside_is_no_file_name(tmp_path: Path, name: str) -> None:
    """SEC-2, LEASE-9: only what looks like a request id of ours becomes a file's name."""
    with pytest.raises(ValueError, match="no request id"):
        saved_leases(tmp_path).path(name)


def test_a_file_that_others_can_read_counts_for_nothing(tmp_path: Path) -> None:
    """LEASE-9: a secret that others can read, a link, a broken or a foreign file is not taken for a lease."""
    drawer = saved_leases(tmp_path)
    saved = SavedLease(request_id="0" * 32, secret="s", url="http://crow.lan", resource="pair")
    drawer.save(saved)
    path = drawer.path(saved.request_id)
    assert drawer.list() == [saved]
    path.chmod(0o640)
    assert (drawer.list(), read_private(path)) == ([], None)
    path.chmod(0o600)
    drawer.path("1" * 32).symlink_to(path)
    drawer.path("2" * 32).write_text("{")
    drawer.path("3" * 32).write_bytes(path.read_bytes())
    drawer.path("4" * 32).write_text('{"later": ' + "[" * 20_000)
    for number in "234":
        drawer.path(number * 32).chmod(0o600)
    assert drawer.list() == [saved]
