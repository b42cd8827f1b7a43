from pathlib import Path

import pytest

from hostler.client import Sent
from hostler.client.address import Address
from hostler.client.call import unanswered, url_advice
from hostler.client.saved import SavedLease, saved_leases
from hostler.domain.errors import DaemonUnreachable, QueueFull
from hostler.domain.lease import State
from hostler.interfaces.cli.daemon import answer, connected, sent_value, to_head
from hostler.interfaces.cli.failure import advice
from hostler.wire.schedule import LeaseList
from tests.fakes.head import KEY, Head, listening
from tests.interfaces.terminal import Shell
from tests.interfaces.test_cli import told


async def test_the_local_key_goes_to_no_head(head: Head, user: Shell, tmp_path: Path) -> None:
    """R89, R90: a head gets its own key and no other, none without one, and no redirect is followed."""
    (tmp_path / "local.key").write_text("hk_local")
    (tmp_path / "local.key").chmod(0o600)
    env = {name: value for name, value in user.env.items() if name != "HOSTLER_HEAD_API_KEY"}
    _, err = told(await Shell(env={**env, "HOSTLER_API_KEY": "hk_other"}).run("reserve", "pair"))
    assert "asked without a key: set HOSTLER_HEAD_API_KEY to one of its keys" in err[1]
    assert [it.headers.get("authorization") for it in head.heard] == [None]
    head.redirect_to = "http://127.0.0.1:9"
    code, _ = told(await user.run("reserve", "pair", "--wait"))
    assert code == 69
    assert head.heard[-1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_secret_goes_to_no_other_head(head: Head, user: Shell) -> None:
    """LEASE-9, R89: what was asked of one head is not told or changed at another; `mine` says where it is."""
    assert (await user.run("reserve", "pair")).code == 0
    (lease,) = head.of(State.ACTIVE)
    with listening() as other:
        other.key = KEY
        elsewhere = Shell(env={**user.env, "HOSTLER_HEAD_URL": other.url})
        assert (await elsewhere.inside("mine")).out.splitlines() == [
            "You hold nothing and wait for nothing.",
            f"1 more at {head.url}: HOSTLER_HEAD_URL={head.url} hostler mine",
        ]
        assert "more at" not in (await user.inside("mine")).out
        for words in (("release", lease.id), ("renew", "pair"), ("job", "start", "x", "--lease", lease.id)):
            assert (await elsewhere.inside(*words)).code == 66
        assert [it for it in other.heard if it.body is not None] == []
    assert [it.id for it in head.of(State.ACTIVE)] == [lease.id]


async def test_mine_shows_no_password_of_another_address(head: Head, user: Shell) -> None:
    """SEC-1: of a head that was named with a password, the address is shown without it."""
    saved = SavedLease(
        request_id="0" * 32, secret="s", url="http://ann:PW-1/x@crow:7070", resource="pair", lease="lease_1"
    )
    saved_leases(Path(user.env["HOSTLER_STATE_DIR"])).save(saved)
    shown = (await user.inside("mine")).out
    assert "1 more at http://crow:7070: HOSTLER_HEAD_URL=http://crow:7070 hostler mine" in shown


def test_an_answer_of_another_form_is_of_who_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERFACE-2, SEC-1: the daemon that was asked is named, without its password, with what names it."""
    monkeypatch.setenv("HOSTLER_URL", "http://ann:PW-1@127.0.0.1:9")
    monkeypatch.setenv("HOSTLER_HEAD_URL", "http://ann:PW-1@127.0.0.2:9")
    for client, url, var in (
        (to_head, "http://127.0.0.2:9", "HOSTLER_HEAD_URL"),
        (connected, "http://127.0.0.1:9", "HOSTLER_URL"),
    ):
        with client(), pytest.raises(DaemonUnreachable) as refused:
            answer({"leases": 5}, LeaseList)
        assert refused.value.url == url
        with pytest.raises(DaemonUnreachable, match="what is no JSON") as refused:
            sent_value(Sent(type="message", data="[" * 20_000, id=""))
        assert refused.value.url == url
        assert advice(refused.value).startswith(f"{var} names it.")


def test_a_note_of_something_else_hides_no_hint() -> None:
    """INTERFACE-2: only what says who was asked takes the hint's place; other notes come after it."""
    busy = QueueFull(what="it", waiting=3)
    plain = advice(busy)
    busy.add_note("pair could not be given back: no.")
    assert (plain, advice(busy)) == (plain, f"{plain} pair could not be given back: no.")
    lost = unanswered(Address(url="http://127.0.0.1:9", url_by="HOSTLER_URL"), "no")
    lost.add_note("x.")
    assert advice(lost) == f"{url_advice('HOSTLER_URL')} x."
