import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.body import DuplicateKey, locate, route
from hostler.gateway.edit import (
    Edit,
    Message,
    Place,
    apply,
    model_edit,
    note_edit,
    outline,
    patch_edits,
    replace_model,
    token_edit,
)
from tests.fakes.json_text import BODIES

BODY = (
    b'{ "model" : "fast",\n "messages":[{"role":"system","content":"Be kind."},'
    b' {"role":"user","content":"hi"}], "temperature":1.50, "seed": 12345678901234567890123 }'
)


@given(BODIES, st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_only_the_model_changes(text: str, name: str) -> None:
    """GW-11: after the model is replaced every other byte is as it came, and the new name is read."""
    body = text.encode()
    try:
        where = route(body)
    except (ValueError, DuplicateKey):
        return
    changed = replace_model(body, where.span, name)
    assert changed[: where.span[0]] == body[: where.span[0]]
    assert changed.endswith(body[where.span[1] :])
    assert json.loads(changed.decode("utf-8-sig"))["model"] == name
    assert apply(body, [model_edit(where.span, name)]) == changed


PATCHES = st.dictionaries(
    st.sampled_from(["model", "a/b", "{", "new", "messages"]),
    st.recursive(
        st.one_of(
            st.integers(), st.booleans(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
        ),
        lambda inner: st.dictionaries(st.sampled_from(["model", "{", "z"]), inner, max_size=3),
        max_leaves=4,
    ),
    max_size=3,
)


def merged(value: object, patch: object) -> object:
    """What a patch means, by building it."""
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    return value | {key: merged(value[key], one) if key in value else one for key, one in patch.items()}


@given(BODIES, PATCHES)
def test_patch_means_a_merge(text: str, patch: dict[str, object]) -> None:
    """GW-4: a patched body reads as the body merged with the patch, key by key."""
    body = text.encode()
    changed = apply(body, patch_edits(body, locate(body), patch))
    assert json.loads(changed.decode("utf-8-sig")) == merged(json.loads(body.decode("utf-8-sig")), patch)


def test_patch_leaves_other_bytes() -> None:
    """GW-11: a patch adds or replaces its keys only; white space, order and number formats stay."""
    body = b'{ "temperature" : 1.50 ,"template_kwargs":{ "a" : 1e0 }, "n":1}'
    found = locate(body)
    patch = {"template_kwargs": {"enable_thinking": False}, "n": 2, "m": [1]}
    assert apply(body, patch_edits(body, found, patch)) == (
        b'{ "temperature" : 1.50 ,"template_kwargs":{ "a" : 1e0,"enable_thinking":false }, "n":2,"m":[1]}'
    )


@pytest.mark.parametrize("body", [b"{}", b"{ }", b"\xef\xbb\xbf{\n}"])
def test_patch_of_an_empty_object(body: bytes) -> None:
    """GW-4: a patch of an object without keys leaves no stray comma."""
    changed = apply(body, patch_edits(body, locate(body), {"a": {"b": 1}}))
    assert json.loads(changed.decode("utf-8-sig")) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'"!escalate do it"', b'"do it"'),
        (b'"!escalate"', b'""'),
        (b'"\\u0021escalate\\n\\u0020do"', b'"do"'),
        (b'" \\n!escalate  do"', b'" \\ndo"'),
        (b'"!escalate \\ud83d\\ude00 \xc3\xa9"', b'"\\ud83d\\ude00 \xc3\xa9"'),
        (b'[{"type":"image_url"},{"type":"text","text":"!escalate do"}]', None),
        (b'[ {"text" : "!escalate x", "type":"text"} , 1]', b'[ {"text" : "x", "type":"text"} , 1]'),
    ],
)
def test_token_is_stripped(content: bytes, expected: bytes | None) -> None:
    """GW-4: the token goes from the start of the latest user message, string or parts, however escaped."""
    body = b'{"messages":[{"role":"user","content":"!escalate old"},{"content":%b ,"role":"user"}],"n":1.0}'
    edit = token_edit(body % content, locate(body % content), "!escalate")
    assert edit is not None
    wanted = expected or b'[{"type":"image_url"},{"type":"text","text":"do"}]'
    assert apply(body % content, [edit]) == body % wanted


@pytest.mark.parametrize(
    "content",
    [
        b'"please !escalate"',
        b'"!escalated"',
        b'"!escal"',
        b'"!Escalate x"',
        b'""',
        b"null",
        b"7",
        b"[]",
        b'["!escalate"]',
        b'[{"text":"x"},{"text":"!escalate"}]',
        b'"\xff!escalate"',
    ],
)
def test_token_that_is_none(content: bytes) -> None:
    """GW-4: what only looks like the token, or stands elsewhere, is left alone."""
    body = (
        b'{"messages":[{"role":"user","content":%b},{"role":"assistant","content":"!escalate x"},3]}'
        % content
    )
    assert token_edit(body, locate(body), "!escalate") is None


@pytest.mark.parametrize("body", [b"{}", b'{"messages":{}}', b'{"messages":[{"content":"!escalate"}]}'])
def test_token_without_user(body: bytes) -> None:
    """GW-4: a body without a user message has no token."""
    assert token_edit(body, locate(body), "!escalate") is None


def noted(body: bytes, place: Place) -> bytes:
    edit = note_edit(body, locate(body), 'Held by "mia"\n', place)
    assert edit is not None
    return apply(body, [edit])


def test_note_is_merged() -> None:
    """GATE-6: the note is added to the first system message, and every other byte stays."""
    at = BODY.index(b'Be kind."') + len(b"Be kind.")
    assert noted(BODY, Place.MERGE) == BODY[:at] + b'\\n\\nHeld by \\"mia\\"\\n' + BODY[at:]


def test_note_is_merged_into_parts() -> None:
    """GATE-6: a system message of parts gets one more part; an empty one gets the note alone."""
    body = b'{"messages":[{"role":"system","content":[ {"type":"text","text":"a"} ]}]}'
    part = b'{"type":"text","text":"Held by \\"mia\\"\\n"}'
    assert noted(body, Place.MERGE) == body.replace(b'"a"}', b'"a"},' + part)
    body = b'{"messages":[{"role":"system","content":[ ]}]}'
    assert noted(body, Place.MERGE) == body.replace(b"[ ]", b"[" + part + b" ]")
    body = b'{"messages":[{"role":"system","content":""}]}'
    assert json.loads(noted(body, Place.MERGE))["messages"][0]["content"] == 'Held by "mia"\n'


@pytest.mark.parametrize("first", [b"", b'{"role":"system"},', b'{"role":"system","content":null},', b"4,"])
def test_note_without_a_system_message(first: bytes) -> None:
    """GATE-6: where no system message can take the note, it stands first as one of its own."""
    body = b'{"messages":[ %b{"role":"user","content":"hi"} ]}' % first
    assert noted(body, Place.MERGE) == noted(body, Place.FIRST)
    message = b'{"role":"system","content":"Held by \\"mia\\"\\n"},'
    assert noted(body, Place.FIRST) == body.replace(b"[ ", b"[ " + message)


def test_note_last() -> None:
    """GATE-6: an engine whose template wants it gets the note as the last message."""
    assert noted(BODY, Place.LAST) == BODY.replace(
        b'"hi"}', b'"hi"},{"role":"system","content":"Held by \\"mia\\"\\n"}'
    )


@pytest.mark.parametrize("place", Place)
def test_note_in_an_empty_list(place: Place) -> None:
    """GATE-6: a list without messages gets the note without a stray comma."""
    body = b'{"messages":[ ]}'
    assert json.loads(noted(body, place))["messages"] == [{"role": "system", "content": 'Held by "mia"\n'}]


@pytest.mark.parametrize("body", [b'{"prompt":"x"}', b'{"messages":"x"}'])
def test_note_without_messages(body: bytes) -> None:
    """GATE-6: a body without messages takes no note."""
    assert note_edit(body, locate(body), "x") is None


def test_all_edits_at_once() -> None:
    """GW-11: model, token, note and patch made together leave all other bytes, and read as each of them."""
    body = BODY.replace(b'"hi"', b'"!escalate hi"')
    found = locate(body)
    edits = [model_edit(route(body).span, "real-id"), *patch_edits(body, found, {"temperature": 0, "k": 1})]
    edits += [edit for edit in (token_edit(body, found, "!escalate"), note_edit(body, found, "N")) if edit]
    assert apply(body, edits) == (
        b'{ "model" : "real-id",\n "messages":[{"role":"system","content":"Be kind.\\n\\nN"},'
        b' {"role":"user","content":"hi"}], "temperature":0, "seed": 12345678901234567890123,"k":1 }'
    )


def test_overlapping_edits() -> None:
    """GW-11: two changes of the same bytes are a bug, not a silent choice."""
    with pytest.raises(ValueError, match="overlap"):
        apply(b"abc", [Edit(0, 2, b"x"), Edit(1, 3, b"y")])


def test_outline() -> None:
    """GW-4: the last messages are read with role, text and tool activity, whatever their content's shape."""
    messages: list[object] = [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}], "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": "b"}]},
        17,
    ]
    body = json.dumps({"messages": messages}).encode()
    assert outline(body, locate(body), 5) == [
        Message(role="assistant", text="", tools=True),
        Message(role="tool", text="42", tools=True),
        Message(role="assistant", text="", tools=True),
        Message(role="user", text="a\nb", tools=False),
        Message(role="", text="", tools=False),
    ]
    assert len(outline(body, locate(body), 99)) == 6
    assert outline(body, locate(body), 0) == []
    assert outline(b"{}", locate(b"{}"), 5) == []
