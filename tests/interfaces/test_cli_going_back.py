"""How far a lease is on its way back, shown while `release`, `cancel`, `window close` and `abort` wait."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.client import Client
from hostler.client.address import Address
from hostler.client.drive import Ask, Steps
from hostler.client.machine import Machine
from hostler.client.trust import hash_of
from hostler.domain.errors import Refusal
from hostler.domain.fleet import Secret
from hostler.interfaces.cli import lease_text, waiting
from hostler.interfaces.cli.waiting import End, Shown, put_back
from hostler.wire.schedule import OneLease, StepView
from tests.fakes.fake_engine import eventually
from tests.fakes.head import Head, listening
from tests.fakes.schedule import AT, LEASE
from tests.fakes.signals import send
from tests.interfaces.going import ended, going, shown
from tests.interfaces.terminal import Shell, shell

KEY = "hk_of-the-head"
HOLD = StepView(n=1, host="crow", text="hold crow", state="done")
PLAN = (
    HOLD,
    StepView(n=2, host="raven", text="suspend big", state="done"),
    StepView(n=3, host="crow", text="start giant", state="undone"),
    StepView(n=4, host="raven", text="route chat to away", state="skipped"),
)
BACK = tuple(replace(it, state="undone") if it.n > 1 else it for it in PLAN)
FIRST = "putting back pair (lease {id}): 1 of 3 steps are back; undo raven: suspend big; undo crow: hold crow"
LAST = "putting back pair (lease {id}): 3 of 4 steps are back; undo crow: hold crow"


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    monkeypatch.setattr(waiting, "LOOK_S", 0.0)
    monkeypatch.setattr(waiting, "sleep", lambda _: None)
    with listening() as it:
        it.key = KEY
        yield it


@pytest.fixture
def user(head: Head, tmp_path: Path) -> Shell:
    return shell(tmp_path, HOSTLER_HEAD_URL=head.url, HOSTLER_HEAD_API_KEY=KEY, USER="ada")


async def test_a_release_shows_what_it_waits_for(head: Head, user: Shell) -> None:
    """INTERFACE-2, LEASE-25: each step on the way back is shown with its host, on stderr; not with --json."""
    head.leases.putting_back[:] = [PLAN, BACK, BACK, None]
    assert (await user.run("reserve", "pair")).code == 0
    gone = await user.inside("release", "pair")
    (id_,) = head.leases.rows
    assert gone.out == f"lease {id_} on pair is released.\n"
    assert gone.err.splitlines() == [it.format(id=id_) for it in (FIRST, LAST)]
    assert (await user.run("reserve", "pair")).code == 0
    head.leases.putting_back[:] = [PLAN, None]
    assert (await user.inside("release", "pair", "--json")).err == ""


def test_what_is_not_to_be_asked_twice_is_looked_at(head: Head, capsys: pytest.CaptureFixture[str]) -> None:
    """WIN-10, LEASE-14: a window is closed once, then looked at; what it waits for is shown."""
    id_ = head.leases.taken("pair")
    head.leases.rows[id_].secret = hash_of("s")
    head.leases.putting_back[:] = [PLAN, BACK, None]
    with Client(Address(url=head.url, key=Secret(KEY))) as client:
        path = f"/v1/hostler/leases/{id_}"
        end = End(path=path, verb="release", body={"secret": "s"}, again=False)
        one = put_back(client, end, as_json=False)
    assert one.lease.state == "released"
    assert [it.method for it in head.heard] == ["POST", "GET", "GET"]
    assert capsys.readouterr().err.splitlines() == [it.format(id=id_) for it in (FIRST, LAST)]


async def test_a_terminal_says_for_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """INTERFACE-2: the line of a terminal counts while nothing changes, fits its row, and goes at the end."""
    monkeypatch.setattr(waiting, "COUNT_S", 0.001)
    monkeypatch.setenv("COLUMNS", "40")
    now, seen = [100.0], [""]
    shown = Shown(live=True, machine=Machine(elapsed=lambda: now[0]))

    def counted() -> bool:
        seen[0] += capsys.readouterr().err
        return "(35 s)" in seen[0]

    with shown.lasting():
        shown.say("pair waits for raven, which is a long story that no terminal has room for")
        assert not counted()
        now[0] += 35.0
        await eventually(counted, "the line counts")
    lines = (seen[0] + capsys.readouterr().err).split("\r\x1b[K")
    assert lines[-1] == ""
    assert lines[-2].startswith("pair waits for raven")
    assert max(map(len, lines)) == 39


def test_a_row_of_80_columns_has_the_news(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """INTERFACE-2: where not all fits, the id goes, and the step with its host stays."""
    now = [100.0]
    shown = Shown(live=True, machine=Machine(elapsed=lambda: now[0]))
    lease = replace(LEASE, id="ls_" + "0" * 26, title="both boxes", resource="pair")
    rows = {
        "releasing": "both boxes: 1 of 3 back; undo raven: suspend big; undo crow: hold crow",
        "activating": "both boxes: step 3 of 4, crow: start giant",
        "queued": "place 2 for both boxes: bob has it without an end",
    }
    steps = {
        "activating": (*PLAN[:2], replace(PLAN[2], state="begun"), replace(PLAN[3], state="planned")),
        "releasing": PLAN,
        "queued": (),
    }
    for state, row in rows.items():
        it = replace(lease, state=state, steps=steps[state], place=2, held_by="bob", held_until=None, why="")
        for columns, told in ((80, row), (240, lease_text.standing(it, AT))):
            monkeypatch.setenv("COLUMNS", str(columns))
            shown.said = ""
            shown.told(OneLease(at=AT, lease=it))
            assert capsys.readouterr().err == f"\r\x1b[K{told}"


@pytest.mark.parametrize("goes_on", [True, False])
def test_trying_again_is_said_where_it_is_done(
    head: Head, capsys: pytest.CaptureFixture[str], goes_on: bool
) -> None:
    """R94, INTERFACE-4: a head that is away from the start is not asked again, and nobody says that it is."""
    id_ = head.leases.taken("pair")
    head.leases.rows[id_].secret = hash_of("s")
    head.leases.putting_back[:] = [PLAN, None]
    path = f"/v1/hostler/leases/{id_}"
    end = End(path=path, verb="release", body={"secret": "s"})
    with Client(Address(url=head.url, key=Secret(KEY))) as client:
        if goes_on:
            head.fail_next("", "503")
            assert put_back(client, end, as_json=False).lease.state == "released"
        else:
            head.fail_next("503")
            with pytest.raises(Refusal):
                put_back(client, end, as_json=False)
    assert ("Trying again." in capsys.readouterr().err) is goes_on


def test_what_is_done_instead_is_no_second_try(head: Head, capsys: pytest.CaptureFixture[str]) -> None:
    """R94: where something else is asked after a failure, as in giving back, no second try is promised."""
    path = f"/v1/hostler/leases/{head.leases.taken('pair')}"

    def steps() -> Steps[object]:
        try:
            return (yield Ask(path=f"{path}/nothing"))
        except Refusal:
            return (yield Ask(path=path))

    head.fail_next("503")
    with Client(Address(url=head.url, key=Secret(KEY))) as client:
        waiting.Holder(client=client, leases=waiting.holder(client).leases, shown=Shown()).do(steps())
    assert capsys.readouterr().err == ""


async def test_who_interrupts_a_release_is_told_that_it_goes_on(head: Head, user: Shell) -> None:
    """LEASE-25: Ctrl-C ends the waiting alone: what goes on at the head is told, and the command to look."""
    head.leases.putting_back[:] = [PLAN] * 100
    assert (await user.run("reserve", "pair")).code == 0
    async with going(user) as start:
        run = await start("release", "pair")
        await shown(run, "putting back pair")
        send(run, signal.SIGINT)
        got = await ended(run)
    assert (got.code, got.out) == (130, "")
    assert got.err.splitlines()[-1] == (
        "interrupted: the head goes on putting it back; `hostler schedule` shows how far it is"
    )


def test_what_is_called_off_ends_a_step_first() -> None:
    """LEASE-16: a lease that is called off while it activates says which step is waited for, and where."""
    begun = (HOLD, StepView(n=2, host="raven", text="start giant", state="begun"))
    told = lease_text.going_back(
        replace(LEASE, title="", resource="pair", state="activating", steps=begun), AT
    )
    assert told == f"calling off pair (lease {LEASE.id}) after step 2 of 2, raven: start giant"
    over = replace(
        LEASE, title="", resource="pair", state="releasing", steps=(replace(HOLD, state="undone"),)
    )
    assert lease_text.going_back(over, AT).endswith(": all is back, and looked at once more")
