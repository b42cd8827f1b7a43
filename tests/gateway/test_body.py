import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.gateway.body import (
    MAX_KEYS,
    BodyError,
    DuplicateKey,
    Malformed,
    ModelMissing,
    ModelNotText,
    NotAnObject,
    array_at,
    has_items,
    is_true,
    locate,
    object_at,
    route,
    routed,
    text_at,
)
from tests.fakes.json_text import BODIES, VALUES


def pairs_of(text: str) -> list[tuple[str, object]]:
    """What json.loads reads at the top level, repeated keys kept."""
    levels: list[list[tuple[str, object]]] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        levels.append(pairs)
        return dict(pairs)

    json.loads(text.removeprefix("\ufeff"), object_pairs_hook=keep)
    return levels[-1]


@given(BODIES)
def test_every_span_is_the_value(text: str) -> None:
    """GW-12: each top-level key's span holds exactly the bytes that json.loads reads as its value."""
    body = text.encode()
    found = locate(body)
    pairs = pairs_of(text)
    assert {key: json.loads(body[start:end]) for key, (start, end) in found.values.items()} == dict(pairs)
    names = [key for key, _ in pairs]
    assert found.twice == {name for name in names if names.count(name) > 1}
    assert body[found.close : found.close + 1] == b"}"
    assert body[found.close + 1 :].strip() == b""
    for start, end in found.values.values():
        assert body[start:end] == body[start:end].strip()


@given(BODIES)
def test_model_as_json_reads_it(text: str) -> None:
    """GW-12: the model found is the top-level one that json.loads reads, or the refusal says why not."""
    models = [value for key, value in pairs_of(text) if key == "model"]
    body = text.encode()
    if len(models) > 1:
        with pytest.raises(DuplicateKey):
            route(body)
    elif not models or models == [""]:
        with pytest.raises(ModelMissing):
            route(body)
    elif not isinstance(models[0], str):
        with pytest.raises(ModelNotText):
            route(body)
    else:
        where = route(body)
        assert where.model == models[0]
        assert json.loads(body[where.span[0] : where.span[1]]) == models[0]
        assert routed(body, locate(body)) == where


@given(BODIES, st.data())
def test_damaged_bodies(text: str, data: st.DataObject) -> None:
    """GW-14: a damaged body is refused by a typed error, or json.loads reads the same model from it."""
    body = bytearray(text.encode())
    at = data.draw(st.integers(0, len(body) - 1))
    match data.draw(st.sampled_from(["cut", "drop", "swap"])):
        case "cut":
            del body[at:]
        case "drop":
            del body[at]
        case _:
            body[at] = data.draw(st.sampled_from(list(b'{}[]",:\\ 0x\x00\xff')))
    try:
        where = route(bytes(body))
    except BodyError:
        return
    try:
        read = json.loads(bytes(body).decode("utf-8-sig", "replace"), strict=False)
    except json.JSONDecodeError:
        pytest.fail(f"routed what is no JSON: {bytes(body)!r}")
    assert read["model"] == where.model


@given(st.lists(VALUES, max_size=4))
def test_array_elements(values: list[str]) -> None:
    """GW-12: the spans of an array's elements hold exactly the elements."""
    body = ("[ " + " ,\n".join(values) + " ]").encode()
    spans = array_at(body, (0, len(body)))
    assert [body[start:end].decode() for start, end in spans] == values


@pytest.mark.parametrize("size", [0, 300_000, 3_000_000])
def test_after_megabytes(size: int) -> None:
    """GW-12: the model is found after megabytes of base64 that holds quotes of other models."""
    image = base64.b64encode(bytes(size)).decode()
    message = {"role": "user", "content": [{"text": 'say "model": "evil"'}, {"url": image}], "model": "evil"}
    body = json.dumps({"messages": [message], "tools": [{"model": "evil"}], "model": "good"}).encode()
    where = route(body)
    assert where.model == "good"
    assert body[where.span[0] :] == b'"good"}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b'{"\\u006dodel":"a","\\u006Dodel":"b"}',
        b'{"model":"a","x":{"model":"y"},"model":{"model":1}}',
    ],
)
def test_two_models(body: bytes) -> None:
    """GW-12: a body that names `model` twice is refused, however the key is spelled."""
    with pytest.raises(DuplicateKey):
        route(body)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"mod\\u0065l":"a"}', "a"),
        (b'{"model":"\\ud83d\\ude00\\u002fb"}', "😀/b"),
        (b'{"x":{"model":"n"},"model":"a"}', "a"),
        (b'{"x":"\\"model\\":\\"n\\"","model":"a"}', "a"),
        (b'{"x":"\\\\","model":"a"}', "a"),
        (b'\xef\xbb\xbf {"model":"a"}', "a"),
        (b' \n{ "model"\t:\r\n"a" } ', "a"),
        (b'{"messages":"cut \\ud83d","model":"a"}', "a"),
        (b'{"x":1,"x":[2],"model":"a"}', "a"),
        (b'{"x":[' + b"9" * 5000 + b'],"x":0,"model":"a"}', "a"),
        (b'{"x":{"a":1,"model":"evil","x":123456},"model":"good","x":123456}', "good"),
        ('{"model":"qwen/QwQ:32b été"}'.encode(), "qwen/QwQ:32b été"),
        (b'{"x":"' + b"a" * 5000 + b'","model":"a"}', "a"),
    ],
)
def test_spellings(body: bytes, model: str) -> None:
    """GW-12: escapes, white space, a byte order mark, half a pair, repeats of other keys change nothing."""
    where = route(body)
    assert where.model == model
    assert text_at(body, where.span) == model


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", Malformed),
        (b"{", Malformed),
        (b'{"model":"a"', Malformed),
        (b'{"model":"a"} x', Malformed),
        (b'{"model":"a",}', Malformed),
        (b'{"model":"a" "b":1}', Malformed),
        (b"{'model':'a'}", Malformed),
        (b'{"model":"a","x":NaN}', Malformed),
        (b'{"\xff":1,"model":"a"}', Malformed),
        ('{"model":"a"}'.encode("utf-16"), Malformed),
        (b'{"model":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Malformed),
        (b'{"model":"a","x":[' + b"[" * 600 + b"]" * 600 + b'],"x":1}', None),
        (b'{"model":"a",' + b",".join(b'"%d":1' % i for i in range(MAX_KEYS - 1)) + b"}", None),
        (b"[]", NotAnObject),
        (b'"model"', NotAnObject),
        (b"null", NotAnObject),
        (b"{}", ModelMissing),
        (b'{"Model":"a"}', ModelMissing),
        (b'{"model":""}', ModelMissing),
        (b'{"model":null}', ModelNotText),
        (b'{"model":["a"]}', ModelNotText),
        (b'{"model":"\\ud800"}', ModelNotText),
        (b'{"model":"' + b"a" * 1100 + b'"}', ModelNotText),
    ],
)
def test_refusals(body: bytes, error: type[BodyError] | None) -> None:
    """GW-14: each body that cannot be routed is refused by an error of its own kind, never by another."""
    if error is None:
        assert route(body).model == "a"
        return
    with pytest.raises(error):
        route(body)


def test_position_is_told() -> None:
    """GW-14: where JSON is malformed is told by the byte, counted from the body's start, mark included."""
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(Malformed) as caught:
            route(mark + b'{"model":"a","x":tru}')
        assert caught.value.position == len(mark) + 18
        assert "at byte" in str(caught.value)


def test_too_many_keys() -> None:
    """SEC-3: an object of more keys than are walked is refused, not walked."""
    body = b'{"mod\\u0065l":"a",' + b",".join(b'"%d":1' % i for i in range(MAX_KEYS)) + b"}"
    with pytest.raises(Malformed, match="1024 keys"):
        route(body)


def test_flags() -> None:
    """GW-4: whether an answer is streamed and whether tools are offered is read from the spans."""
    body = b'{"stream": true, "tools": [ ], "functions": [ 1], "x": "true", "y": {}}'
    found = locate(body)
    assert is_true(body, found, "stream")
    assert not is_true(body, found, "x")
    assert not is_true(body, found, "absent")
    assert not has_items(body, found, "tools")
    assert has_items(body, found, "functions")
    assert not has_items(body, found, "y")


def test_inner_object() -> None:
    """GW-11: an inner object's spans are counted from the body's start."""
    body = b'{"a": {"b": [1], "c": 2}}'
    outer = locate(body)
    inner = object_at(body, *outer.values["a"])
    assert [body[start:end] for start, end in inner.values.values()] == [b"[1]", b"2"]
    assert body[inner.start : inner.close + 1] == b'{"b": [1], "c": 2}'
