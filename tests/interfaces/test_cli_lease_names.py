"""Whose lease a resource's name means, where several holders share an account (LEASE-9)."""

from dataclasses import replace
from pathlib import Path

from hostler.client.saved import saved_leases
from hostler.domain.lease import State
from tests.fakes.head import Head
from tests.interfaces.terminal import Shell


async def test_two_holders_of_one_account_do_not_end_each_others_turn(head: Head, user: Shell) -> None:
    """LEASE-9: a resource's name means the turn of one holder, none where another waits, and one's own."""
    printed = await user.run("reserve", "pair", "--holder", "anna", "--shell")
    (annas,) = head.of(State.ACTIVE)
    await user.run("reserve", "pair", "--holder", "ben", "--queue", "1h")
    (bens,) = head.of(State.QUEUED)
    refused = await user.inside("release", "pair")
    assert refused.code == 65
    assert annas.id in refused.err
    assert bens.id in refused.err
    assert [it.id for it in head.of(State.ACTIVE)] == [annas.id]
    under = dict(line.removeprefix("export ").split("=", 1) for line in printed.out.splitlines())
    assert (await user.run("release", "pair", **under)).code == 0
    assert head.of(State.ACTIVE) == []


async def test_the_accounts_own_name_is_meant_among_several_holders(head: Head, user: Shell) -> None:
    """LEASE-9: who took it under the account's name releases it by the resource, whoever else waits there."""
    await user.run("reserve", "pair")
    (own,) = head.of(State.ACTIVE)
    await user.run("reserve", "pair", "--holder", "ben", "--queue", "1h")
    assert own.holder == "ada"
    assert (await user.inside("release", "pair")).code == 0
    assert [it.id for it in head.of(State.RELEASED)] == [own.id]


async def test_ones_own_window_is_meant_by_what_it_leases(head: Head, user: Shell, tmp_path: Path) -> None:
    """LEASE-9, MODE-3: it was asked for by its mode, and is proven by its secret; nothing more is given."""
    await user.run("reserve", "pair")
    (own,) = head.of(State.ACTIVE)
    files = saved_leases(tmp_path)
    (saved,) = files.list()
    files.save(replace(saved, resource="heavy"))
    head.leases.turn(own.id, kind="window", limited_by="cap")
    got = await user.inside("renew", "pair", "--for", "10m")
    assert head.asked("POST", "/renew")[-1].body["secret"] == saved.secret
    assert got.out.startswith("pair is active: lease ")
