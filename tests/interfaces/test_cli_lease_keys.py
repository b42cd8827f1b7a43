from pathlib import Path

from hostler.domain.lease import State
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
