import pytest

from hostler.interfaces.cli.run.lines import LAST_BYTES, LAST_LINES, Said, Tail, meant
from hostler.interfaces.cli.run.reports import joined
from hostler.wire.jobs import MAX_NOTE, ProgressBody


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hostler: progress 3/10", Said(progress=ProgressBody(n=3, total=10))),
        (
            "hostler: progress 3 / 10 sizes of q8",
            Said(progress=ProgressBody(n=3, total=10, label="sizes of q8")),
        ),
        ("hostler: progress 0.25", Said(progress=ProgressBody(value=0.25))),
        ("hostler: progress 25 % warm", Said(progress=ProgressBody(value=0.25, label="warm"))),
        ("hostler: metric tok_s=41", Said(metrics=(("tok_s", 41.0),))),
        ("hostler: metric a=1 b=-2.5e3", Said(metrics=(("a", 1.0), ("b", -2500.0)))),
        ("hostler: note loading the model", Said(note="loading the model")),
        ("hostler: progress 11/10", None),
        ("hostler: progress 1/0", None),
        ("hostler: progress nan", None),
        ("hostler: progress", None),
        ("hostler: metric tok_s=nan", None),
        ("hostler: metric tok_s=1e999", None),
        ("hostler: metric tok_s", None),
        ("hostler: metric a=1 a=2", None),
        ("hostler: note", None),
        ("hostler: finish", None),
        (" hostler: progress 3/10", None),
        ("progress 3/10", None),
    ],
)
def test_a_line_means_what_it_says(line: str, said: Said | None) -> None:
    """JOB-5: progress, metrics and notes of the child are understood; anything else is its own text."""
    assert meant(line) == said


def test_a_note_is_cut_to_what_a_note_may_be() -> None:
    """JOB-7: a longer note of the child is cut at 16 KiB, between characters."""
    said = meant("hostler: note " + "ä" * MAX_NOTE)
    assert said is not None
    assert said.note == "ä" * (MAX_NOTE // 2)


def test_lines_that_come_together_are_one_update_and_lose_nothing() -> None:
    """JOB-5: several lines become one update, unless a note or a value of a metric would be lost by it."""
    said = [
        Said(progress=ProgressBody(n=1, total=9)),
        Said(metrics=(("a", 1.0),)),
        Said(progress=ProgressBody(n=2, total=9)),
        Said(note="one"),
        Said(metrics=(("b", 1.0),)),
        Said(metrics=(("a", 2.0),)),
        Said(note="two"),
        Said(note="three"),
    ]
    found = joined(said)
    assert [it.note for it in found] == ["one", "two", "three"]
    assert found[0].progress == ProgressBody(n=2, total=9)
    assert [value for it in found for name, value in it.metrics if name == "a"] == [1.0, 2.0]
    many = joined([Said(metrics=((f"m{n}", 1.0),)) for n in range(150)])
    assert [len(it.metrics) for it in many] == [100, 50]


def test_the_last_lines_are_kept() -> None:
    """JOB-5: the note at the end has the child's last lines, without blank ones and those for the job."""
    tail = Tail()
    for number in range(LAST_LINES + 5):
        tail.add(f"line {number}")
        tail.add("hostler: progress 1/2")
        tail.add("   ")
    assert tail.note().splitlines() == [f"line {number}" for number in range(5, LAST_LINES + 5)]
    tail.add("x" * (2 * LAST_BYTES))
    assert tail.note() == "x" * LAST_BYTES
