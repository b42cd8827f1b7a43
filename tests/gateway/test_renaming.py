"""The model's name in an answer, however its bytes come (GW-11, BG-11)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.renaming import Renaming

NAMES = st.text(min_size=1, max_size=12)


def passed(renaming: Renaming, pieces: list[bytes]) -> bytes:
    """What the caller gets."""
    return b"".join([*(renaming.feed(piece) for piece in pieces), renaming.rest()])


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_name_is_what_was_asked_for(separators: tuple[str, str]) -> None:
    """GW-11: of a whole answer only the name changes, written compactly or with spaces."""
    answer = {"id": "c1", "model": "fast-4b", "choices": [{"message": {"content": "fast-4b"}}]}
    body = json.dumps(answer, separators=separators).encode()
    expected = json.dumps({**answer, "model": "chat"}, separators=separators).encode()
    assert passed(Renaming("fast-4b", "chat"), [body]) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"fast-4b-q8"}',
        '{"model":"fast"}',
        '{"models":"fast-4b"}',
        '{"base_model":"fast-4b"}',
        '{"content":"say \\"model\\":\\"fast-4b\\" now"}',
        '{"model":null,"x":"fast-4b"}',
    ],
)
def test_what_is_not_the_name_stays(text: str) -> None:
    """GW-11: other names, other keys and the text of a model pass as they came."""
    assert passed(Renaming("fast-4b", "chat"), [text.encode()]) == text.encode()


def test_every_event_of_a_stream_has_it() -> None:
    """GW-11, GW-13: each event is written on at once, with the asked name."""
    renaming = Renaming("fast-4b", 'a\\b "c" é')
    for n in range(3):
        event = b'data: {"model":"fast-4b","n":%d}\n\n' % n
        out = renaming.feed(event)
        assert json.loads(out.removeprefix(b"data: ")) == {"model": 'a\\b "c" é', "n": n}
    assert renaming.rest() == b""


def test_only_a_beginning_of_the_name_waits() -> None:
    """GW-13: a piece that ends amid the name waits with these few bytes; what turns out another goes on."""
    renaming = Renaming("fast", "chat")
    assert renaming.feed(b'data: {"mod') == b"data: {"
    assert renaming.feed(b'el": "fa') == b""
    assert renaming.feed(b'st"') == b'"model": "chat'
    assert renaming.feed(b', "mode') == b'", '
    assert renaming.feed(b'sty": 1') == b'"modesty": 1'
    assert renaming.feed(b' "model":"fas') == b" "
    assert renaming.rest() == b'"model":"fas'


@given(
    st.recursive(
        NAMES | st.integers(),
        lambda inner: st.dictionaries(st.sampled_from(["model", "id", "text"]), inner, max_size=3),
        max_leaves=6,
    ),
    NAMES,
    NAMES,
    st.lists(st.integers(min_value=1, max_value=9), max_size=40),
    st.booleans(),
)
def test_however_it_is_cut(value: object, sent: str, asked: str, sizes: list[int], compact: bool) -> None:
    """GW-11: cut into any pieces an answer reads as the same with each name that was sent replaced."""
    value = {"model": sent, "more": value}
    text = json.dumps(value, separators=(",", ":") if compact else None, ensure_ascii=False)
    body = text.encode("utf-8", "surrogatepass")
    pieces, at = [], 0
    for size in sizes:
        pieces.append(body[at : at + size])
        at += size
    got = passed(Renaming(sent, asked), [*pieces, body[at:]])
    assert json.loads(got.decode("utf-8", "surrogatepass")) == renamed(value, sent, asked)


def renamed(value: object, sent: str, asked: str) -> object:
    """The same with each `model` that is `sent` as `asked`."""
    if not isinstance(value, dict):
        return value
    return {
        key: asked if key == "model" and it == sent else renamed(it, sent, asked) for key, it in value.items()
    }
