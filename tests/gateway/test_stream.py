import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.stream import Framing, Tracker, comment, error_frame

ERROR = {"message": 'the engine "fast" died\n', "type": "server_error", "code": "upstream_unreachable"}
EVENTS = [Framing.OPENAI, Framing.ANTHROPIC]


@given(st.text())
def test_comment_is_one_frame(text: str) -> None:
    """GW-6: a comment is one frame that no reader takes for an event, whatever its text holds."""
    frame = comment(text.encode("utf-8", "replace").decode())
    assert frame.startswith(b": ")
    assert frame.endswith(b"\n\n")
    assert len(frame[:-2].splitlines()) == 1


def test_comment_text() -> None:
    """GW-6: a comment says how the loading goes."""
    assert comment("loading 41 s of 240 s, place 2") == b": loading 41 s of 240 s, place 2\n\n"


def test_openai_error() -> None:
    """GW-14: OpenAI's clients read an error from a frame without a name."""
    frame = error_frame(Framing.OPENAI, ERROR)
    assert frame.startswith(b"data: {")
    assert frame.endswith(b"}\n\n")
    assert frame.count(b"\n") == 2
    assert json.loads(frame[6:]) == {"error": ERROR}


def test_anthropic_error() -> None:
    """GW-14: Anthropic's clients read an error from an event of that name."""
    name, data = error_frame(Framing.ANTHROPIC, ERROR).removesuffix(b"\n\n").split(b"\n")
    assert name == b"event: error"
    assert json.loads(data.removeprefix(b"data: ")) == {"type": "error", "error": ERROR}
    untyped = error_frame(Framing.ANTHROPIC, {"message": "x"})
    assert b'"type":"api_error"' in untyped


def test_ollama_error() -> None:
    """GW-14: Ollama's clients read an error from a line."""
    frame = error_frame(Framing.OLLAMA, ERROR)
    assert frame.count(b"\n") == 1
    assert json.loads(frame) == {"error": ERROR["message"]}


@pytest.mark.parametrize(
    ("passed", "between"),
    [
        ([], True),
        ([b"data: 1\n\n"], True),
        ([b"data: 1\n", b"\n"], True),
        ([b"data: 1\r\n\r", b"\n"], True),
        ([b"data: 1\r\r"], True),
        ([b": hi\n\n", b""], True),
        ([b"data: 1\n"], False),
        ([b"data: 1\n\nda"], False),
        ([b"data: 1\r\n"], False),
        ([b"data: {\n\n", b"x"], False),
    ],
)
@pytest.mark.parametrize("framing", EVENTS)
def test_between_events(framing: Framing, passed: list[bytes], between: bool) -> None:
    """GW-14: an error frame follows at once only where the last event is whole, else after its end."""
    tracker = Tracker()
    for chunk in passed:
        tracker.feed(chunk)
    assert tracker.is_between(framing) is between
    closing = tracker.closing(framing, ERROR)
    assert closing == (b"" if between else b"\n\n") + error_frame(framing, ERROR)


def test_between_lines() -> None:
    """GW-14: in a stream of lines an error is a line of its own."""
    tracker = Tracker()
    tracker.feed(b'{"a":1}\n{"b"')
    assert not tracker.is_between(Framing.OLLAMA)
    assert tracker.closing(Framing.OLLAMA, ERROR).startswith(b"\n{")
    tracker.feed(b":2}\n")
    assert tracker.is_between(Framing.OLLAMA)
    assert tracker.closing(Framing.OLLAMA, ERROR).startswith(b"{")


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_tail(chunks: list[bytes], limit: int) -> None:
    """GW-15: the end of what passed is kept, at most twice the limit in memory, and its size counted."""
    tracker = Tracker(limit)
    for chunk in chunks:
        tracker.feed(chunk)
        assert len(tracker._tail) <= 2 * limit  # noqa: SLF001 # the bound is on what is held
    whole = b"".join(chunks)
    assert tracker.size == len(whole)
    assert tracker.tail == whole[-limit:]
