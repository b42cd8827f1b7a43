from dataclasses import replace

import pytest

from hostler.client.trust import ending
from hostler.domain.lease import State
from hostler.interfaces.api.shapes import Schedule
from hostler.interfaces.cli import job_text, lease_text, plots, schedule_text
from hostler.interfaces.cli.ics import LONGEST, calendar
from hostler.services.schedule_views import ENDINGS
from hostler.wire.jobs import JobView, OneJob, PointView, ProgressView, ReceiptView
from hostler.wire.schedule import FenceView, LeaseView, OneLease, StepView, StuckView
from tests.fakes.schedule import AT, JOB, LEASE, RESOURCE

NASTY = "red\x1b[31m\u202e\nsecond line"
LATER = "2026-09-04T20:47:11.000Z"
STEP = StepView(n=2, host="crow", text="suspend fast", state="begun")
STUCK = StuckView(n=2, step="resume fast", wanted="ready as fast", seen="health is 503")


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal's zone is the tests' own."""
    monkeypatch.setenv("TZ", "Europe/Berlin")


def lease(**changes: object) -> LeaseView:
    return replace(LEASE, **changes)  # type: ignore[arg-type]  # a test's shorthand for some of its fields


@pytest.mark.parametrize(
    ("it", "parts"),
    [
        (lease(expires_at=LATER), ("both boxes is active: lease ls_1, generation 1, ends ",)),
        (lease(expires_at=None), ("without an end",)),
        (lease(expires_at=LATER, limited_by="booking"), ("when a booking begins",)),
        (lease(expires_at=LATER, limited_by="slot"), (", the end of its slot",)),
        (
            lease(state="queued", place=2, held_by="bob", held_until=AT, earliest_at=LATER, why="fenced"),
            ("place 2 for both boxes (lease ls_1): bob has it until ", "earliest start ", "; fenced"),
        ),
        (
            lease(state="offered", offer_expires_in_s=900),
            ("is kept for lease ls_1 for 15 min", "hostler claim ls_1"),
        ),
        (lease(state="activating", steps=(STEP,)), ("step 1 of 1, suspend fast",)),
        (
            lease(state="stuck", stuck=STUCK),
            ("(lease ls_1): resume fast: wanted ready as fast, seen health is 503",),
        ),
        (lease(state="scheduled", start_at=LATER, end_at=LATER), ("is booked (lease ls_1): it starts ",)),
        (
            lease(state="expired", why="its time was up"),
            ("lease ls_1 on both boxes is expired: its time was up",),
        ),
    ],
)
def test_a_lease_is_told_in_one_sentence(it: LeaseView, parts: tuple[str, ...]) -> None:
    """LEASE-23, R96: where a lease stands is one sentence with holder, end, place and reason."""
    told = lease_text.standing(it, AT)
    assert [part for part in parts if part not in told] == []
    assert "\n" not in told


def test_that_all_was_put_back_is_said_once() -> None:
    """LEASE-12: of an activation that failed the head says so, and the refusal that it becomes not again."""
    one = OneLease(
        at=AT, lease=lease(resource="pair", state="failed", why=f"{ENDINGS[State.FAILED]}: no room")
    )
    assert str(ending(one)) == (
        "pair was not taken: its activation failed, and everything was put back: no room."
    )


def test_text_of_others_breaks_no_line() -> None:
    """R97: whatever a holder wrote is one line of printable characters wherever the schedule shows it."""
    it = lease(
        title=NASTY, holder=NASTY, reason=NASTY, why=NASTY, state="queued", held_by=NASTY, drift=(NASTY,)
    )
    job = replace(JOB, title=NASTY, holder=NASTY, note=NASTY)
    board = Schedule(
        cursor="ep:1",
        time=AT,
        resources=(replace(RESOURCE, name=NASTY, holder=NASTY, changed=NASTY),),
        leases=(it, replace(it, state="stuck", stuck=replace(STUCK, step=NASTY, seen=NASTY))),
        jobs=(job,),
        fence=FenceView(up=True, by=NASTY, reason=NASTY),
    )
    lines = [
        *schedule_text.panels(board),
        lease_text.standing(it, AT),
        *lease_text.drift(it),
        *calendar([replace(it, start_at=AT, end_at=LATER)], AT).split("\r\n"),
    ]
    assert [line for line in lines if not line.isprintable()] == []


def test_an_end_has_one_word_in_every_table() -> None:
    """R69, LEASE-18: ENDS, and `without an end`, of leases as of resources."""
    held = replace(RESOURCE, holder="ann", lease="ls_1", state="active", until=None)
    offered = replace(held, state="offered")
    ends = schedule_text.COLUMNS.index("ENDS")
    assert [row[ends] for row in schedule_text.resource_rows([held, offered], AT)] == ["without an end", "-"]
    assert schedule_text.resource_line(held, AT) == "active, ann has it without an end"
    assert schedule_text.resource_line(offered, AT) == "offered, ann has it"
    (row,) = lease_text.rows([lease(expires_at=None)], AT)
    assert row[lease_text.COLUMNS.index("ENDS")] == "without an end"


def test_a_wait_is_told_once() -> None:
    """LEASE-23: the place, who has it until when and the earliest start, each once, in every list."""
    why = f"place 2: bob has pair until {LATER}"
    it = lease(state="queued", place=2, held_by="bob", held_until=LATER, earliest_at=LATER, why=why)
    told = lease_text.waits_for(it, AT)
    assert (told[:19], told[-12:]) == ("bob has pair until ", " (in 42 min)")
    assert lease_text.standing(it, AT) == f"place 2 for both boxes (lease ls_1): {told}"
    assert told.count("42 min") == told.count("bob") == 1
    behind = replace(it, earliest_at="2026-09-04T21:47:11.000Z")
    assert "; earliest start in 102 min (" in lease_text.waits_for(behind, AT)
    stuck = replace(it, why="place 2: the lease of bob on pair is stuck", held_until=AT)
    assert "has it" not in lease_text.waits_for(stuck, AT)


@pytest.mark.parametrize(
    ("it", "row", "notes"),
    [
        (
            lease(expires_at=LATER, why="it is held"),
            ("ls_1", "pair", "active", "in 42 min"),
            ["next: hostler renew ls_1 --for 1h"],
        ),
        (
            lease(expires_at=LATER, why="it is held", notice="expires in 42 min"),
            ("ls_1", "pair", "active", "in 42 min"),
            ["pair: expires in 42 min", "next: hostler renew ls_1 --for 1h"],
        ),
        (
            lease(state="offered", offer_expires_in_s=900, notice="your turn"),
            ("ls_1", "pair", "offered", "-"),
            ["pair: your turn, kept for 15 min", "next: hostler claim ls_1"],
        ),
        (
            lease(state="queued", place=2, why="place 2", earliest_at=LATER),
            ("ls_1", "pair", "queued", "starts in 42 min"),
            ["pair: place 2", "next: hostler cancel ls_1"],
        ),
        (
            lease(state="expired", expires_at=AT, why="its time was up"),
            ("ls_1", "pair", "expired", "in 0 s"),
            ["pair: its time was up", "next: hostler history --lease ls_1"],
        ),
    ],
)
def test_mine_has_a_row_and_what_is_next(it: LeaseView, row: tuple[str, ...], notes: list[str]) -> None:
    """INTERFACE-2: a row that fits 80 columns, then why and the next command, each fact once."""
    (shown,) = lease_text.rows([it], AT)
    assert (*shown[:-1], shown[-1].partition(" (")[0]) == row
    assert list(lease_text.notes(it, AT)) == notes


@pytest.mark.parametrize(
    ("state", "command"),
    [("active", "close"), ("stuck", "close"), ("activating", "status"), ("releasing", "status")],
)
def test_what_is_next_of_a_window(state: str, command: str) -> None:
    """MODE-3, WIN-2: `mine` renews no window: it is closed, or looked at."""
    assert lease_text.next_command(lease(kind="window", state=state)) == f"hostler window {command} ls_1"


def test_the_panels_show_what_stands_and_what_to_do() -> None:
    """R69: the schedule tells the stuck step with the next command, the queue, the bookings and the jobs."""
    board = Schedule(
        cursor="ep:1",
        time=AT,
        resources=(RESOURCE,),
        leases=(
            lease(id="ls_9", state="stuck", stuck=STUCK),
            lease(id="ls_8", state="queued", place=2, number=3, why="waits for ls_9"),
            lease(id="ls_7", state="queued", place=1, number=2),
            lease(id="ls_6", state="scheduled", start_at=LATER, end_at=LATER),
        ),
        jobs=(replace(JOB, note="3 of 8"),),
        fence=FenceView(up=True, by="ada", reason="deploy", running=("ls_9",)),
    )
    lines = list(schedule_text.panels(board))
    assert "STUCK    pair, lease ls_9 of bench" in lines
    assert [line.split()[0] for line in lines if line.startswith("  ")][:4] == [
        "failed",
        "wanted",
        "seen",
        "next",
    ]
    assert "  next   hostler release ls_9" in lines
    queue = [line for line in lines if "ls_7" in line or "ls_8" in line]
    assert [line.split("(")[1].split(")")[0] for line in queue] == ["ls_7", "ls_8"]
    assert any(line.startswith("bookings") and "ls_6" in line for line in lines)
    assert any(line.startswith("jobs") and "3 of 8" in line for line in lines)
    assert lines[0].startswith("fence up by ada")


def test_a_stuck_lease_tells_what_failed_and_what_is_owed() -> None:
    """LEASE-14: the failed step with its host, how many are put back, what is owed, and the one command."""
    states = ("skipped", "undone", "drifted", "done", "begun", "planned")
    steps = tuple(
        StepView(n=n, host="crow", text=f"suspend e{n}", state=state) for n, state in enumerate(states, 1)
    )
    it = lease(state="stuck", stuck=replace(STUCK, n=4, step="resume e4"), steps=steps)
    assert list(lease_text.stuck_lines(it)) == [
        "failed resume e4 on crow",
        "wanted ready as fast",
        "seen   health is 503",
        "back   2 of 4 steps are put back; not yet: suspend e4, suspend e5",
        "next   hostler release ls_1",
    ]
    assert lease_text.standing(it, AT).endswith(
        "is stuck (lease ls_1): resume e4 on crow: wanted ready as fast, seen health is 503;"
        " 2 of 4 steps are put back"
    )
    whole = lease(state="stuck", stuck=replace(STUCK, n=0, step="restore crow by its deadman"))
    assert lease_text.stuck(whole).startswith("restore crow by its deadman: wanted ")
    window = replace(it, kind="window")
    assert list(lease_text.stuck_lines(window))[-1] == "next   hostler window close ls_1"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"beat_s": 7200.0, "ttl_s": 1200.0, "hard_in_s": 14_400},
            "the default of pair, not for 20 min, at most 4 h from now",
        ),
        ({"beat_s": 7200.0, "ttl_s": 7200.0}, None),
        ({"beat_s": None, "ttl_s": 1200.0}, None),
        ({"beat_s": 7200.0, "ttl_s": None}, None),
    ],
)
def test_what_beats_make_of_it(changes: dict[str, object], told: str | None) -> None:
    """LEASE-20: only where a beat gives more than was asked for there is something to say."""
    said = lease_text.beating(lease(resource="pair", **changes))
    assert said is None if told is None else told in (said or "")


def test_a_hold_that_is_not_the_lease_s_is_told_as_wrong() -> None:
    """HOLD-11: `schedule` has a WRONG line of it, `mine` a line below, and neither is broken by it."""
    sentence = f"crow is held by {NASTY} until {LATER}, not by this lease"
    it = lease(wrong=(sentence,), notice=sentence)
    (line,) = schedule_text.panels(Schedule(cursor="ep:1", time=AT, leases=(it,)))
    assert line.startswith("WRONG     ls_1: crow is held by red")
    assert line.isprintable()
    assert next(lease_text.notes(it, AT)).startswith(f"{it.resource}: crow is held by red")


def test_a_job_is_drawn_with_its_progress_and_metrics() -> None:
    """HIST-2: job show has a bar of the progress and a small plot of each metric with its bounds."""
    points = tuple(PointView(name="tok_s", elapsed_s=float(i), value=float(i)) for i in range(80))
    job = replace(
        JOB,
        progress=ProgressView(value=0.3, n=3, total=10, label="sizes"),
        metrics={"tok_s": 79.0},
        receipts=(ReceiptView(kind="exit", name="sweep", path=None, url=None, sha256=None, exit_code=0),),
    )
    lines = list(job_text.whole(OneJob(at=AT, job=job, points=points, notes=("one\ntwo",)), blocks=False))
    assert "progress  [############............................] 30 %  3/10 sizes" in lines
    plot = next(line for line in lines if line.startswith("metric"))
    assert plot.startswith("metric    tok_s 79  ")
    assert plot.endswith("  0 to 79")
    assert len(plot.split("  ")[3].strip()) == plots.WIDTH
    assert "receipt   exit sweep  exit 0" in lines
    assert lines[-2:] == ["note      one", "          two"]


def test_a_plot_shows_the_shape() -> None:
    """HIST-2: a plot rises with its values, is flat for equal ones, and survives the greatest floats."""
    assert plots.line([0, 1, 2, 3, 4, 5, 6, 7], blocks=True) == plots.BLOCKS
    assert len(set(plots.line([5.0] * 9, blocks=True))) == 1
    assert len(plots.line([-1.7e308, 1.7e308], blocks=True)) == 2
    assert plots.line([], blocks=True) == ""
    assert plots.bar(2.0, blocks=True, width=4) == "[████] 100 %"
    assert plots.bar(-1.0, blocks=False, width=4) == "[....] 0 %"


def test_bookings_are_a_calendar() -> None:
    """LEASE-26: schedule --ics has an entry per booking in UTC, its lines end with CRLF and hold 75 bytes."""
    booked = lease(state="scheduled", start_at=AT, end_at=LATER, reason="a, b; c\\d " + "ä" * 80)
    text = calendar([booked, lease(start_at=None, activated_at=None)], AT)
    lines = text.split("\r\n")
    assert lines[0] == "BEGIN:VCALENDAR"
    assert lines[-2:] == ["END:VCALENDAR", ""]
    assert text.count("BEGIN:VEVENT") == 1
    assert "DTEND:20260904T204711Z" in lines
    assert max(len(line.encode()) for line in lines) <= LONGEST
    assert "DESCRIPTION:a\\, b\\; c\\\\d" in text
    assert "\n" not in text.replace("\r\n", "")


def test_a_silent_job_is_told_as_such() -> None:
    """R69: one line of a job has its state, how far it is, its last note and how long ago it was heard."""
    job: JobView = replace(JOB, state="stalled", note="warming up", quiet_s=3000, lease_lost=True)
    line = job_text.line(job)
    assert [
        part for part in ("stalled", "lease lost", "warming up", "heard 50 min ago") if part not in line
    ] == []
