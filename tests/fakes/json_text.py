"""JSON as clients may spell it: random values, white space, escapes and repeated keys, for Hypothesis."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SPACE = st.sampled_from(["", "", "", " ", "\n", "\t\r\n ", "   "])

_NUMBERS = st.sampled_from(
    ["0", "-0", "12", "1.50", "-1e5", "1E+2", "0.1e-7", "123456789012345678901234567890"]
)
_PLAIN = st.sampled_from(["true", "false", "null"])


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """A string with some of its characters escaped, the way a writer is free to."""
    out = []
    for char in text:
        how = draw(st.integers(0, 5))
        if how == 0 and ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        elif how == 1 and char == "/":
            out.append("\\/")
        else:
            out.append(json.dumps(char, ensure_ascii=how > 2)[1:-1])
    return '"' + "".join(out) + '"'


_TEXTS = st.one_of(
    st.sampled_from(["model", "messages", "a/b", "mo\u0000del", '"model":"x"', "\\", "{", "}]", ",", "😀"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)

_strings = _TEXTS.flatmap(spelled)


@st.composite
def _array(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(inner, max_size=3))
    return "[" + ",".join(draw(SPACE) + item + draw(SPACE) for item in items) + draw(SPACE) + "]"


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """An object whose values are of `inner`, keys of its own and `model` among them, repeats included."""
    pairs = draw(st.lists(st.tuples(_strings, inner), max_size=5))
    fields = [f"{draw(SPACE)}{key}{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}" for key, value in pairs]
    return "{" + ",".join(fields) + draw(SPACE) + "}"


VALUES = st.recursive(
    st.one_of(_NUMBERS, _PLAIN, _strings),
    lambda inner: st.one_of(_array(inner), objects(inner)),
    max_leaves=12,
)

BODIES = st.tuples(st.sampled_from(["", "\ufeff"]), SPACE, objects(VALUES), SPACE).map("".join)
