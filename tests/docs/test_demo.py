import pytest

from demo.show import WIDTH, Show


def test_the_demo_prints_an_answer_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """INTERFACE-2: a refusal is shown to its last word, in lines of a page's width, the time at its end."""
    words = [f"word-{n}" for n in range(60)]
    Show().told("\n".join(words), 0.005)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == ["   < ", *["     "] * (len(lines) - 1)]
    assert lines[-1].endswith("   (5.0 ms)")
    assert " ".join(line[5:] for line in lines).removesuffix("   (5.0 ms)").split() == words
    assert max(len(line[5:]) for line in lines[:-1]) <= WIDTH
