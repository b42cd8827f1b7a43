import pytest

from hostler.domain.journal import Entry, EntryState, owed, unverified
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    Found,
    FoundCommand,
    FoundDeadman,
    FoundEngine,
    FoundHold,
    FoundNothing,
    FoundRoute,
    HoldHost,
    PointRoute,
    RemoveHold,
    ResumeEngine,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)
from hostler.domain.undo import drifted, holds_true, inverse, is_back, unserved, unsound, withdrawal

LEASE = "ls_1"
ANN = "person:ann"
HOLD = HoldHost(host="crow")
ROUTE = PointRoute(host="crow", route="chat", profile="away")
DRAIN = DrainEngine(host="crow", engine="big", drain_s=60.0)
SUSPEND = SuspendEngine(host="crow", engine="big")
STOP = StopEngine(host="crow", engine="big")
START = StartEngine(host="crow", engine="big")
FANS = RunCommand(
    host="crow", argv=("fans", "full"), undo=("fans", "auto"), check=("fans", "is"), timeout_s=5.0
)
HOOK = CallWebhook(host="crow", url="https://h.example.net/a", undo="https://h.example.net/b", timeout_s=3.0)

UP, DOWN = FoundEngine(up=True), FoundEngine(up=False)
OURS = FoundEngine(up=False, suspended_by=(LEASE,))
ANNS = FoundEngine(up=False, suspended_by=(ANN,))
BOTH = FoundEngine(up=False, suspended_by=(ANN, LEASE))
DRAINED = FoundEngine(up=True, draining_by=(LEASE,))
ALWAYS = "restart: always"
LEFT = FoundEngine(up=False, state="failed", lives=True)
ANNS_LEFT = FoundEngine(up=False, suspended_by=(ANN,), state="failed", lives=True)
REVIVED, KEPT_UP = FoundEngine(up=False, revival=ALWAYS), FoundEngine(up=True, revival=ALWAYS)
OTHERWISE = FoundEngine(up=True, revival="restart: unless-stopped")
ANNS_REVIVED = FoundEngine(up=False, suspended_by=(ANN,), revival=ALWAYS)
FREE = FoundHold()
MINE = FoundHold(identity="x", owner=f"lease:{LEASE}", lease=LEASE)
BOBS = FoundHold(identity="y", owner="bob")
LOCAL, AWAY, CLOUD = FoundRoute(profile="local"), FoundRoute(profile="away"), FoundRoute(profile="cloud")
UNSET = FoundRoute(profile=None)
IS, ISNT, UNKNOWN = FoundCommand(already=True), FoundCommand(already=False), FoundCommand()
NOTHING = FoundNothing()
ARM = ArmDeadman(host="crow", window=LEASE, mode="heavy", cap_s=60.0, bring_back=("big",), end=("coder",))
UNARMED, ARMED, KILLED = FoundDeadman(), FoundDeadman(window=LEASE, alive=True), FoundDeadman(window=LEASE)
BOBS_WINDOW = FoundDeadman(window="ls_9", alive=True)


@pytest.mark.parametrize(
    ("step", "seen", "expected"),
    [
        (HOLD, MINE, True),
        (HOLD, FREE, False),
        (HOLD, BOBS, False),
        (ROUTE, AWAY, True),
        (ROUTE, LOCAL, False),
        (DRAIN, DRAINED, True),
        (DRAIN, ANNS, True),
        (DRAIN, DOWN, False),
        (DRAIN, UP, False),
        (SUSPEND, ANNS, True),
        (SUSPEND, OURS, True),
        (SUSPEND, DOWN, False),
        (SUSPEND, FoundEngine(up=True, suspended_by=(ANN,)), False),
        (SUSPEND, ANNS_REVIVED, False),
        (SUSPEND, ANNS_LEFT, False),
        (STOP, LEFT, False),
        (STOP, REVIVED, False),
        (STOP, DOWN, True),
        (STOP, UP, False),
        (START, UP, True),
        (START, DOWN, False),
        (FANS, IS, True),
        (FANS, ISNT, False),
        (FANS, UNKNOWN, False),
        (HOOK, NOTHING, False),
        (ARM, ARMED, True),
        (ARM, KILLED, False),
        (ARM, UNARMED, False),
        (ARM, BOBS_WINDOW, False),
    ],
)
def test_whether_a_step_is_so_already(step: Step, seen: Found, *, expected: bool) -> None:
    """LEASE-10, R18, R19, F13: a step whose effect is there already, whoever made it, is not done."""
    assert holds_true(step, seen, lease=LEASE) is expected


@pytest.mark.parametrize(
    ("step", "found", "expected"),
    [
        (HOLD, FREE, RemoveHold(host="crow")),
        (ROUTE, LOCAL, PointRoute(host="crow", route="chat", profile="local")),
        (ROUTE, AWAY, None),
        (ROUTE, UNSET, None),
        (DRAIN, UP, EndDrain(host="crow", engine="big")),
        (DRAIN, ANNS, None),
        (SUSPEND, UP, ResumeEngine(host="crow", engine="big", start=True)),
        (SUSPEND, DOWN, ResumeEngine(host="crow", engine="big", start=False)),
        (
            SUSPEND,
            FoundEngine(up=True, suspended_by=(ANN,)),
            ResumeEngine(host="crow", engine="big", start=False),
        ),
        (SUSPEND, ANNS, None),
        (SUSPEND, ANNS_REVIVED, ResumeEngine(host="crow", engine="big", start=False)),
        (SUSPEND, ANNS_LEFT, ResumeEngine(host="crow", engine="big", start=False)),
        (STOP, LEFT, None),
        (STOP, KEPT_UP, ResumeEngine(host="crow", engine="big", start=True)),
        (STOP, REVIVED, ResumeEngine(host="crow", engine="big", start=False)),
        (STOP, UP, START),
        (STOP, DOWN, None),
        (START, DOWN, STOP),
        (START, UP, None),
        (FANS, ISNT, UndoCommand(host="crow", argv=("fans", "auto"), check=("fans", "is"), timeout_s=5.0)),
        (FANS, IS, None),
        (RunCommand(host="crow", argv=("x",)), UNKNOWN, None),
        (HOOK, NOTHING, UndoWebhook(host="crow", url="https://h.example.net/b", timeout_s=3.0)),
        (CallWebhook(host="crow", url="https://h.example.net/a"), NOTHING, None),
        (ARM, UNARMED, DisarmDeadman(host="crow", window=LEASE)),
        (ARM, BOBS_WINDOW, DisarmDeadman(host="crow", window=LEASE)),
    ],
)
def test_what_puts_a_step_back(step: Step, found: Found, expected: Undo | None) -> None:
    """LEASE-10: what a step found decides its undo: a cold engine is left cold, no change has none."""
    assert inverse(step, found) == expected


@pytest.mark.parametrize(
    ("step", "found", "seen", "expected"),
    [
        (HOLD, FREE, FREE, True),
        (HOLD, FREE, MINE, False),
        (HOLD, FREE, BOBS, False),
        (HOLD, BOBS, BOBS, True),
        (ROUTE, LOCAL, LOCAL, True),
        (ROUTE, LOCAL, AWAY, False),
        (ROUTE, LOCAL, CLOUD, False),
        (DRAIN, UP, UP, True),
        (DRAIN, UP, DRAINED, False),
        (SUSPEND, UP, UP, True),
        (SUSPEND, UP, DOWN, False),
        (SUSPEND, UP, OURS, False),
        (SUSPEND, UP, ANNS, False),
        (SUSPEND, DOWN, DOWN, True),
        (SUSPEND, DOWN, UP, True),
        (SUSPEND, DOWN, OURS, False),
        (SUSPEND, KEPT_UP, UP, False),
        (SUSPEND, KEPT_UP, KEPT_UP, True),
        (SUSPEND, KEPT_UP, OTHERWISE, True),
        (STOP, KEPT_UP, UP, False),
        (STOP, REVIVED, DOWN, False),
        (STOP, REVIVED, REVIVED, True),
        (STOP, UP, UP, True),
        (STOP, UP, DOWN, False),
        (STOP, DOWN, DOWN, True),
        (START, DOWN, DOWN, True),
        (START, DOWN, UP, False),
        (START, UP, UP, True),
        (FANS, ISNT, ISNT, True),
        (FANS, ISNT, IS, False),
        (FANS, UNKNOWN, UNKNOWN, False),
        (HOOK, NOTHING, NOTHING, False),
        (ARM, UNARMED, UNARMED, True),
        (ARM, UNARMED, BOBS_WINDOW, True),
        (ARM, UNARMED, ARMED, False),
        (ARM, UNARMED, KILLED, False),
    ],
)
def test_whether_it_is_back_already(step: Step, found: Found, seen: Found, *, expected: bool) -> None:
    """LEASE-11, F06: what is seen as it was found is back already, and nothing is undone."""
    assert is_back(step, found, seen, lease=LEASE) is expected


@pytest.mark.parametrize(
    ("step", "found", "seen", "expected"),
    [
        (HOLD, FREE, BOBS, "the hold of crow is bob's, not the lease's"),
        (HOLD, FREE, FoundHold(identity="z"), "the hold of crow is unknown's, not the lease's"),
        (HOLD, FREE, MINE, None),
        (ROUTE, LOCAL, CLOUD, "route chat is on cloud, not away"),
        (ROUTE, LOCAL, UNSET, "route chat is on no profile, not away"),
        (ROUTE, LOCAL, AWAY, None),
        (SUSPEND, UP, BOTH, f"engine big is suspended by {ANN}"),
        (SUSPEND, UP, ANNS, f"engine big is suspended by {ANN}"),
        (SUSPEND, FoundEngine(up=True, suspended_by=(ANN,)), BOTH, None),
        (SUSPEND, UP, OURS, None),
        (SUSPEND, UP, DOWN, None),
        (STOP, UP, ANNS, f"engine big is suspended by {ANN}"),
        (STOP, UP, DOWN, None),
        (START, DOWN, UP, None),
        (DRAIN, UP, DRAINED, None),
        (FANS, ISNT, IS, None),
        (HOOK, NOTHING, NOTHING, None),
    ],
)
def test_what_somebody_changed_is_told_by_name_and_value(
    step: Step, found: Found, seen: Found, expected: str | None
) -> None:
    """LEASE-11, R29, R30, F12: what a person changed meanwhile is told by its name and what it is now; a half
    undone engine is nobody's change.
    """
    assert drifted(step, found, seen, lease=LEASE) == expected


def test_a_failed_engine_that_lives_is_not_down() -> None:
    """ENG-6, WIN-4: a failed engine of which something runs still is ended by the undo of its start."""
    assert is_back(START, DOWN, LEFT, lease=LEASE) is False
    assert is_back(START, UP, LEFT, lease=LEASE) is True


def test_a_suspension_of_somebody_with_what_was_not_compared() -> None:
    """LEASE-11: an engine whose state before is unknown is compared as one that nobody had suspended."""
    assert drifted(SUSPEND, NOTHING, BOTH, lease=LEASE) == f"engine big is suspended by {ANN}"


@pytest.mark.parametrize("call", [holds_true, lambda step, seen, lease: inverse(step, seen)])
def test_a_step_that_finds_what_it_cannot_find_is_a_bug(call: object) -> None:
    """LEASE-10: what is of another kind than its step is never compared."""
    assert callable(call)
    with pytest.raises(ValueError, match="a step hold does not find route"):
        call(HOLD, LOCAL, lease=LEASE)
    with pytest.raises(ValueError, match="a step hold does not find engine"):
        is_back(HOLD, FREE, UP, lease=LEASE)


def test_a_route_without_a_way_back_is_not_begun() -> None:
    """LEASE-10, R20: a route without an active profile is not moved: there is nothing to go back to."""
    assert unsound(ROUTE, UNSET) == "it has no active profile to go back to"
    assert unsound(ROUTE, LOCAL) is None
    assert unsound(SUSPEND, UP) is None


def test_only_the_own_claim_is_taken_away() -> None:
    """NODE-5, R29: of an engine that a person suspended too, only the lease's claim is taken away."""
    assert withdrawal(SUSPEND, BOTH, lease=LEASE) == ResumeEngine(host="crow", engine="big", start=False)
    assert withdrawal(SUSPEND, ANNS, lease=LEASE) is None
    assert withdrawal(STOP, BOTH, lease=LEASE) is None


@pytest.mark.parametrize(
    ("seen", "engines", "expected"),
    [
        (UNSET, {}, "it has no active profile"),
        (AWAY, {}, None),
        (FoundRoute(profile="mix", engines=("big",), upstreams=("cloud",)), {"big": ANNS}, None),
        (FoundRoute(profile="local", engines=("big", "small")), {"big": ANNS, "small": UP}, None),
        (FoundRoute(profile="local", engines=("big",)), {"big": DOWN}, None),
        (
            FoundRoute(profile="local", engines=("big",)),
            {"big": ANNS},
            f"local leads to big, which is suspended by {ANN}",
        ),
        (
            FoundRoute(profile="local", engines=("big", "small")),
            {"big": FoundEngine(up=False, state="failed")},
            "local leads to big, which is failed, small, which cannot be seen",
        ),
    ],
)
def test_whether_a_route_that_was_left_serves(
    seen: FoundRoute, engines: dict[str, FoundEngine], expected: str | None
) -> None:
    """LEASE-11: a route that leads to an upstream, or to an engine that is up or may be started, serves."""
    assert unserved(seen, engines) == expected


def test_a_journal_owes_the_exact_reverse_of_what_was_changed() -> None:
    """LEASE-4, R26, R33: what is owed comes last first; what was skipped, is back or was left is not owed."""
    states = (EntryState.DONE, *EntryState)
    entries = [
        Entry(lease=LEASE, n=n, step=ROUTE, found=LOCAL, state=state) for n, state in enumerate(states, 1)
    ]
    back = PointRoute(host="crow", route="chat", profile="local")
    assert [(entry.n, undo) for entry, undo in owed(entries)] == [(3, back), (2, back), (1, back)]


def test_what_an_operator_leaves() -> None:
    """LEASE-14: each undo that was not done has a phrase; what nothing puts back has none."""
    entries = [
        Entry(lease=LEASE, n=1, step=ROUTE, found=LOCAL),
        Entry(lease=LEASE, n=2, step=SUSPEND, found=UP, state=EntryState.DONE),
        Entry(lease=LEASE, n=3, step=CallWebhook(host="crow", url="https://h.example.net"), found=NOTHING),
    ]
    assert unverified(entries) == ("resume big", "route chat to local on crow")


# ---------------------------------------------------------------- windows

ARM = ArmDeadman(host="crow", window="w", mode="heavy", cap_s=60.0, bring_back=("big",), end=())
LOOK = CheckMemory(host="crow")
VERIFY = VerifyRestore(host="crow", mode="heavy")
NOBODY, ARMED = FoundDeadman(), FoundDeadman(window="w", alive=True)
DEAD, OTHERS = FoundDeadman(window="w"), FoundDeadman(window="v", alive=True)


def test_a_deadman_is_armed_until_it_is_disarmed() -> None:
    """WIN-1: only a live one of this very window counts; it is disarmed whatever was there before."""
    assert [holds_true(ARM, it, lease="w") for it in (NOBODY, ARMED, DEAD, OTHERS)] == [
        False,
        True,
        False,
        False,
    ]
    assert inverse(ARM, NOBODY) == DisarmDeadman(host="crow", window="w")
    assert [is_back(ARM, NOBODY, it, lease="w") for it in (NOBODY, ARMED, DEAD, OTHERS)] == [
        True,
        False,
        False,
        True,
    ]
    assert drifted(ARM, NOBODY, ARMED, lease="w") is None


def test_memory_is_always_looked_at_and_never_put_back() -> None:
    """WIN-3: nothing was changed by the look."""
    assert not holds_true(LOOK, NOTHING, lease="w")
    assert inverse(LOOK, NOTHING) is None
    assert not is_back(LOOK, NOTHING, NOTHING, lease="w")


def test_a_restore_is_verified_each_time() -> None:
    """WIN-4: its undo is itself, and it is never there already."""
    assert not holds_true(VERIFY, NOTHING, lease="w")
    assert inverse(VERIFY, NOTHING) == VERIFY
    assert not is_back(VERIFY, NOTHING, NOTHING, lease="w")


def test_what_is_not_to_come_back_is_only_let_go() -> None:
    """WIN-8: an engine beyond the standing mode may start again, and is not started."""
    beyond = SuspendEngine(host="crow", engine="big", back=False)
    assert inverse(beyond, UP) == ResumeEngine(host="crow", engine="big", start=False)
    assert is_back(beyond, UP, DOWN, lease=LEASE)
    assert not is_back(beyond, UP, OURS, lease=LEASE)


def test_the_undo_of_a_script_has_a_time_of_its_own() -> None:
    """MODE-4, CONF-6: it is told the cap as the script itself is, and known by the same definition."""
    script = RunCommand(
        host="crow",
        argv=("win", "open"),
        undo=("win", "close"),
        undo_timeout_s=9.0,
        cap_s=60.0,
        definition="box/1",
        digest="d1",
    )
    undo = inverse(script, UNKNOWN)
    assert undo == UndoCommand(
        host="crow", argv=("win", "close"), timeout_s=9.0, cap_s=60.0, definition="box/1", digest="d1"
    )


def test_a_stop_that_owes_no_start() -> None:
    """WIN-8: what a window found up outside both modes is not started again; a restart policy is put back."""
    gone = StopEngine(host="crow", engine="big", back=False)
    assert inverse(gone, UP) is None
    assert inverse(gone, KEPT_UP) == ResumeEngine(host="crow", engine="big", start=False)
    assert is_back(gone, UP, DOWN, lease=LEASE)
    assert not is_back(STOP, UP, DOWN, lease=LEASE)
