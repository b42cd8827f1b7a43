import asyncio
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from hostler.domain.errors import WrongScope
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease, ReserveBody
from tests.fakes.head import KEY, Head, echoes
from tests.fakes.signals import send
from tests.interfaces.going import Start, ended, going, shown
from tests.interfaces.terminal import Ended, Shell
from tests.interfaces.test_cli import told


@pytest.fixture
async def start(user: Shell) -> AsyncIterator[Start]:
    async with going(user) as begin:
        yield begin


async def until(head: Head, what: str, *states: State) -> None:
    """Return once a lease is in one of these states."""
    await asyncio.to_thread(head.until, lambda: bool(head.of(*states)), what)


class Kept(NamedTuple):
    """A file that a command left."""

    path: Path
    mode: int
    text: str


def files(folder: Path) -> list[Kept]:
    """The files in there."""
    return [Kept(it, it.stat().st_mode & 0o777, it.read_text()) for it in folder.iterdir()]


def private(folder: Path) -> list[str]:
    """What is left of this user's leases."""
    return sorted(it.name for it in (folder / "client").rglob("*.json"))


async def test_a_free_resource_is_taken_and_given_back(head: Head, user: Shell, tmp_path: Path) -> None:
    """LEASE-25, R93: reserve exits 0 with an active lease, mine shows it, release gives it back."""
    got = await user.run("reserve", "pair", "--for", "2h", "--reason", "bench")
    (lease,) = head.of(State.ACTIVE)
    assert (got.code, got.err) == (0, "")
    assert (
        got.out == f"pair is active: lease {lease.id}, generation {lease.generation}, without an end.\n"
        or (lease.id in got.out)
    )
    assert (lease.holder, lease.reason, lease.ttl_s) == ("ada", "bench", 7200.0)
    mine = await user.inside("mine")
    assert [
        part for part in (lease.id, "pair", "active", f"hostler renew {lease.id}") if part not in mine.out
    ] == []
    gone = await user.inside("release", "pair")
    assert (gone.code, gone.out) == (0, f"lease {lease.id} on pair is released.\n")
    assert private(tmp_path) == []
    assert (await user.inside("mine")).out == "You hold nothing and wait for nothing.\n"


async def test_a_held_resource_is_refused_with_who_has_it(head: Head, user: Shell, tmp_path: Path) -> None:
    """LEASE-25, R93, R96: without --wait a held resource exits 75, names its holder, leaves no place."""
    head.leases.taken("pair", "bob")
    code, lines = told(await user.run("reserve", "pair"))
    assert code == 75
    assert lines[0] == "error: pair is held by bob until 21:15."
    assert head.of(State.QUEUED) == []
    assert private(tmp_path) == []


async def test_a_place_is_no_lease(head: Head, user: Shell) -> None:
    """LEASE-25: reserve --queue prints the place and exits 75, so that what follows `&&` does not run."""
    head.leases.taken("pair", "bob")
    got = await user.run("reserve", "pair", "--queue", "12h")
    (place,) = head.of(State.QUEUED)
    assert got.code == 75
    assert got.out.startswith(f"place 1 for pair (lease {place.id}): bob has it")
    assert head.asked("POST", "/leases")[0].body["detached_s"] == 43_200.0
    assert head.asked("POST", "/leases")[0].body["now"] is False
    gone = await user.inside("cancel", place.id)
    assert gone.code == 0
    assert [it.id for it in head.of(State.CANCELLED)] == [place.id]


async def test_waiting_ends_active(head: Head, start: Start) -> None:
    """LEASE-25, R93: reserve --wait shows the place on stderr and exits 0 once the lease is active."""
    held = head.leases.taken("pair", "bob")
    run = await start("reserve", "pair", "--wait")
    await until(head, "a place", State.QUEUED)
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "a renewal of the place")
    head.end(held)
    got = await ended(run)
    (lease,) = head.of(State.ACTIVE)
    assert got.code == 0
    assert lease.id in got.out
    assert "place 1 for pair" in got.err
    assert "\x1b" not in got.err


async def test_waiting_in_vain_gives_the_place_back(head: Head, user: Shell, tmp_path: Path) -> None:
    """LEASE-25, R93: reserve --wait=TIME exits 124 when it was not to be had, and the place is given back."""
    head.leases.taken("pair", "bob")
    code, lines = told_last(await user.run("reserve", "pair", "--wait=300ms"))
    assert code == 124
    assert lines[0].startswith("error: pair was not to be had within 0 s")
    assert head.of(State.QUEUED) == []
    assert private(tmp_path) == []


def told_last(found: Ended) -> tuple[int, list[str]]:
    """As `told`, without what was shown while it waited."""
    assert found.out == ""
    lines = found.err.splitlines()
    return found.code, lines[next(i for i, line in enumerate(lines) if line.startswith("error: ")) :]


@pytest.mark.parametrize(
    ("state", "code"),
    [(State.FAILED, 74), (State.LAPSED, 75), (State.STUCK, 73), (State.CANCELLED, 76)],
)
async def test_each_end_of_a_wait_has_its_code(head: Head, start: Start, state: State, code: int) -> None:
    """R93: failed and undone exits 74, lapsed 75, stuck 73, called off by others 76."""
    head.leases.activates = False
    run = await start("reserve", "pair")
    await until(head, "an activation", State.ACTIVATING)
    (lease,) = head.of(State.ACTIVATING)
    head.end(lease.id, state, "the drain took too long")
    found, lines = told_last(await ended(run))
    assert found == code
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]


async def test_who_may_not_is_told_once(head: Head, user: Shell) -> None:
    """R93, R98: a call that the key may not make exits 77 after one request, with --wait too."""
    head.refuses = WrongScope(key="ada", scope="schedule:write")
    code, _ = told(await user.run("reserve", "pair", "--wait"))
    assert code == 77
    assert len(head.heard) == 1
    head.refuses = None
    code, _ = told(await user.run("reserve", "pair", "--wait", HOSTLER_HEAD_API_KEY="hk_wrong"))
    assert code == 77
    assert len(head.heard) == 2


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
async def test_an_interrupt_gives_the_place_back(
    head: Head, start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """R93, R95: Ctrl-C, SIGTERM and SIGHUP while waiting give the place back and exit 130 or 143."""
    head.leases.taken("pair", "bob")
    run = await start("reserve", "pair", "--wait")
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "a renewal of the place")
    send(run, number)
    got = await ended(run)
    assert (got.code, got.out) == (code, "")
    assert got.err.splitlines()[-1] == "interrupted: the place was given back"
    assert head.of(State.QUEUED) == []
    assert private(tmp_path) == []


@pytest.mark.slow
async def test_no_interrupt_leaves_a_lease_behind(head: Head, start: Start) -> None:
    """R95: SIGINT at any moment of 100 reserves leaves a lease only where the exit code is 0."""
    for number in range(100):
        run = await start("reserve", "pair", "--wait")
        # From before the first import to after the last word: 0 to 1 s in steps of 10 ms.
        await asyncio.wait({asyncio.ensure_future(run.wait())}, timeout=number / 100)
        if run.returncode is None:
            send(run, signal.SIGINT)
        await run.wait()
        held = head.of(State.QUEUED, State.OFFERED, State.ACTIVATING, State.ACTIVE)
        assert bool(held) is (run.returncode == 0), f"after {number * 10} ms: exit {run.returncode}"
        for lease in held:
            head.end(lease.id)


async def test_an_interrupt_gives_back_what_became_active(head: Head, start: Start) -> None:
    """R95: a lease that is being activated when Ctrl-C comes is given back."""
    head.leases.activates = False
    run = await start("reserve", "pair")
    await asyncio.to_thread(
        head.until, lambda: bool(head.asked("POST", "/renew")), "a look at the activation"
    )
    send(run, signal.SIGINT)
    assert (await ended(run)).code == 130
    assert head.of(State.ACTIVATING, State.ACTIVE) == []


async def test_the_second_interrupt_leaves_at_once(head: Head, start: Start) -> None:
    """R95: while the place is given back to a head that does not answer, a second Ctrl-C leaves at once."""
    head.leases.taken("pair", "bob")
    run = await start("reserve", "pair", "--wait")
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "a renewal of the place")
    with head.leases.changed:
        # Nobody answers while this is held: giving back hangs.
        send(run, signal.SIGINT)
        assert run.stderr is not None
        await asyncio.wait_for(shown(run, "interrupted: giving back"), 10)
        send(run, signal.SIGINT)
        code = await asyncio.wait_for(run.wait(), 10)
    assert code == 130


async def test_a_head_that_restarts_is_ridden_out(head: Head, start: Start) -> None:
    """R94: --wait keeps its place through refused and reset connections, 5xx and a restart of the head."""
    held = head.leases.taken("pair", "bob")
    run = await start("reserve", "pair", "--wait")
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "a renewal of the place")
    (place,) = head.of(State.QUEUED)
    await asyncio.to_thread(head.down)
    await shown(run, "Trying again")
    before = len(head.asked("POST", "/renew"))
    head.fail_next("reset", "500", "503", "lost")
    await asyncio.to_thread(head.up)
    await asyncio.to_thread(head.until, lambda: len(head.asked("POST", "/renew")) >= before + 4, "renewals")
    head.end(held)
    got = await ended(run)
    assert got.code == 0
    assert [it.id for it in head.of(State.ACTIVE)] == [place.id]
    assert len(head.asked("POST", "/leases")) == 1


async def test_a_head_that_is_away_is_69_without_wait(head: Head, user: Shell) -> None:
    """INTERFACE-4: without --wait a head that does not answer is 69."""
    await asyncio.to_thread(head.down)
    code, lines = told_last(await user.run("release", "pair"))
    assert code == 69
    assert lines[0].startswith("error: No daemon answers at http://127.0.0.1:")


async def test_an_echoed_key_reaches_nobody(head: Head, user: Shell) -> None:
    """R97: a refusal with the key just sent, in six encodings, is told without it, on one line of 500."""
    head.echo = True
    for more in ((), ("--json",)):
        got = await user.run("reserve", "pair", *more)
        assert got.code == 65
        lines = got.err.splitlines()
        assert len(lines) == (1 if more else 2)
        assert "\x1b" not in got.err
        assert [form for form in echoes(KEY).split() if form.strip('"') in got.err] == []
        if not more:
            assert [len(line) for line in lines if len(line.partition(": ")[2]) > 500] == []


async def test_a_shell_gets_the_lease_and_never_the_secret(head: Head, user: Shell, tmp_path: Path) -> None:
    """JOB-5: reserve --shell prints what a shell exports: the file of the secret, never the secret."""
    got = await user.run("reserve", "pair", "--shell")
    assert got.code == 0
    found = dict(line.removeprefix("export ").split("=", 1) for line in got.out.splitlines())
    (lease,) = head.of(State.ACTIVE)
    assert found["HOSTLER_LEASE"] == lease.id
    assert found["HOSTLER_GENERATION"] == str(lease.generation)
    (secret,) = files(tmp_path / "client" / "secrets")
    assert found["HOSTLER_LEASE_SECRET_FILE"] == str(secret.path)
    assert secret.mode == 0o600
    assert secret.text not in got.out + got.err
    assert found["HOSTLER_TRUSTED_UNTIL"] == "2026-06-01T12:57:00.000Z"
    assert (await user.inside("release", lease.id)).code == 0
    assert files(tmp_path / "client" / "secrets") == []


async def test_a_shell_is_told_of_a_refusal(head: Head, user: Shell) -> None:
    """LEASE-25: what reserve --shell prints for a held resource makes the shell's eval fail with its code."""
    head.leases.taken("pair", "bob")
    got = await user.run("reserve", "pair", "--shell")
    assert (got.code, got.out) == (75, "(exit 75)\n")


async def test_a_release_that_sticks_is_told(head: Head, user: Shell) -> None:
    """LEASE-14, R93: release exits 73 when stuck, naming step, wanted, seen; --no-wait prints the id."""
    await user.run("reserve", "pair")
    head.leases.release_stuck = True
    code, lines = told(await user.run("release", "pair"))
    assert code == 73
    assert lines[0] == "error: pair is stuck at resume large: wanted healthy, seen not healthy."
    head.leases.release_stuck = False
    (lease,) = head.of(State.STUCK)
    got = await user.run("release", "pair", "--no-wait")
    assert (got.code, got.out) == (0, f"{lease.id}\n")


async def test_anothers_lease_needs_a_reason(head: Head, user: Shell) -> None:
    """R37, LEASE-9: release of another's lease exits 77; with --because it is sent as an operator."""
    held = head.leases.taken("pair", "bob")
    code, _ = told(await user.run("release", held))
    assert code == 77
    await user.run("release", held, "--generation", "2", "--because", "bob is away")
    sent = head.asked("POST", "/release")[-1].body
    assert (sent["secret"], sent["generation"], sent["because"]) == (None, 2, "bob is away")


async def test_abandon_says_why(head: Head, user: Shell) -> None:
    """LEASE-14: release --abandon without --because is a wrong use; with it the body says both."""
    held = head.leases.taken("pair", "bob")
    assert (await user.run("release", held, "--abandon")).code == 2
    await user.run("release", held, "--abandon", "--because", "burnt")
    assert head.asked("POST", "/release")[-1].body["abandon"] is True


async def test_a_lease_is_renewed(head: Head, user: Shell) -> None:
    """R44: renew says how much was given and until when the lease is."""
    await user.run("reserve", "pair", "--for", "1h")
    got = await user.inside("renew", "pair", "--for", "2h")
    assert got.code == 0
    assert got.out.startswith("2 h more. pair is active: lease ")
    assert head.asked("POST", "/renew")[-1].body["ttl_s"] == 7200.0


async def test_anothers_lease_is_renewed_with_a_reason(head: Head, user: Shell) -> None:
    """LEASE-9: what the refusal asks an operator for, renew has."""
    held = head.leases.taken("pair", "bob")
    await user.run("renew", held, "--generation", "2", "--because", "bob is away")
    sent = head.asked("POST", "/renew")[-1].body
    assert (sent["secret"], sent["generation"], sent["because"]) == (None, 2, "bob is away")


async def test_a_booking_says_how_it_is_taken(
    head: Head, user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-26: at its start it is an offer for 15 min; --help says so as well. The exit stays 75."""
    reserve = head.leases._reserve  # noqa: SLF001 - the head books nothing by itself

    def booked(body: ReserveBody, request_id: str, run: int) -> OneLease:
        one = reserve(body, request_id, run)
        slot = {"start_at": "2026-12-01T20:00:00.000Z", "end_at": "2026-12-01T21:00:00.000Z"}
        head.leases.turn(one.lease.id, state=State.SCHEDULED, **slot)
        return replace(one, lease=head.leases.rows[one.lease.id].view)

    monkeypatch.setattr(head.leases, "_reserve", booked)
    got = await user.run("reserve", "pair", "--at", "2026-12-01T20:00Z", "--for", "1h")
    (lease,) = head.of(State.SCHEDULED)
    assert got.code == 75
    assert f"`hostler claim {lease.id}` takes it within 15 min" in got.out
    shown = " ".join((await user.inside("reserve", "--help")).out.replace("│", " ").split())
    assert "within 15 min" in shown


async def test_an_offer_is_claimed(head: Head, user: Shell) -> None:
    """LEASE-24: claim takes up the offer of a detached place and exits 0 once the lease is active."""
    held = head.leases.taken("pair", "bob")
    await user.run("reserve", "pair", "--queue", "1h")
    head.end(held)
    (offered,) = head.of(State.OFFERED)
    got = await user.run("claim", "pair")
    assert got.code == 0
    assert [it.id for it in head.of(State.ACTIVE)] == [offered.id]


@pytest.mark.parametrize(
    "words",
    [
        ("reserve", "pair", "--now", "--wait"),
        ("reserve", "pair", "--wait", "--queue", "1h"),
        ("reserve", "pair", "--at", "2026-12-01T20:00Z", "--now"),
        ("reserve", "pair", "--indefinite", "--for", "1h"),
        ("reserve", "pair", "--shell", "--json"),
        ("reserve", "pair", "--wait=soon"),
        ("reserve", "pair", "--for", "5"),
        ("run", "pair"),
    ],
)
async def test_wrong_use_asks_nobody(head: Head, user: Shell, words: tuple[str, ...]) -> None:
    """INTERFACE-4: options that contradict each other are exit 2, and nothing is asked of the head."""
    assert (await user.inside(*words)).code == 2
    assert head.heard == []


async def test_an_unknown_resource_is_66(head: Head, user: Shell, tmp_path: Path) -> None:
    """R4: a resource that there is not exits 66 and lists what there is."""
    code, lines = told(await user.run("reserve", "nope"))
    assert code == 66
    assert lines[1].startswith("hint: There are pair, box. ")
    assert private(tmp_path) == []


async def test_json_is_one_document(head: Head, user: Shell) -> None:
    """R88, INTERFACE-2: with --json each command answers with one document of the wire."""
    got = json.loads((await user.run("reserve", "pair", "--json")).out)
    assert got["lease"]["state"] == "active"
    for words in (("renew", "pair"), ("mine",), ("release", "pair")):
        found = await user.inside(*words, "--json")
        assert (found.code, found.err, found.out.count("\n")) == (0, "", 1)
        json.loads(found.out)
