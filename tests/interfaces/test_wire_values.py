import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hostler.domain import errors
from hostler.domain.errors import BoxReserved, InvalidRequest, Kind, Refusal
from hostler.domain.events import TYPES, Event, Recorded
from hostler.domain.fleet import Secret, frozen
from hostler.domain.values import Cause, Priority
from hostler.interfaces.cli.failure import fail
from hostler.wire.refusals import control_answer, error_object
from hostler.wire.told import KNOWN, Told, refusal_from
from hostler.wire.values import (
    dump,
    event_from_text,
    event_to_text,
    is_deeper,
    plain_text,
    recorded_to_json,
    request_from,
    to_json,
)

AT = datetime(2026, 9, 4, 22, 5, 11, 482_917, tzinfo=timezone(timedelta(hours=2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    engine: str
    wait_s: float | None = None
    tags: tuple[str, ...] = ()
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = field(default_factory=lambda: frozen({}))


def test_values_have_one_form() -> None:
    """TIME-1: times go out in UTC with milliseconds and Z, enums by value, sets sorted, secrets as stars."""
    value = {
        "at": AT,
        "cause": Cause.IDLE_REVERT,
        "priority": Priority.HIGH,
        "set": frozenset({"b", "a"}),
        "key": Secret("hk_secret"),
        "inner": Inner(name="x", size=3),
        "more": (1, 2.5, None, True, frozen({"a": [AT]})),
    }
    assert to_json(value) == {
        "at": "2026-09-04T20:05:11.482Z",
        "cause": "idle-revert",
        "priority": 4,
        "set": ["a", "b"],
        "key": "****",
        "inner": {"name": "x", "size": 3},
        "more": [1, 2.5, None, True, {"a": ["2026-09-04T20:05:11.482Z"]}],
    }
    assert json.loads(dump(value)) == to_json(value)
    assert b"\n" not in dump({"text": "two\nlines"})


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), ValueError),
        ({"deep": [float("inf")]}, ValueError),
        (object(), TypeError),
        (b"bytes", TypeError),
        ({1: "one"}, TypeError),
        (Inner, TypeError),
    ],
)
def test_what_has_no_form_is_told(value: object, error: type[Exception]) -> None:
    """API-1: a value without a JSON form is an error where it is written, never a null or its repr."""
    with pytest.raises(error):
        dump(value)


@pytest.mark.parametrize("type_", TYPES)
def test_events_come_back(type_: str) -> None:
    """FEED-2: an event of every type reads back as it was written, but for what is below a millisecond."""
    event = Event(
        type=type_,
        at=AT.replace(microsecond=482_000).astimezone(UTC),
        actor="key:bots",
        subject=frozen({"engine": "fast-4b"}),
        before="ready",
        after="failed",
        message="exit 1\u2028",
        facts=frozen({"bytes": 1 << 40, "list": [1]}),
        priority=Priority.URGENT,
        once="x",
    )
    assert event_from_text(event_to_text(event)) == event
    told = recorded_to_json(Recorded(seq=7, epoch="ep_a", event=event))
    assert (told["cursor"], told["seq"], told["from"], told["to"]) == ("ep_a:7", 7, "ready", "failed")


def test_an_event_of_a_later_version_is_read() -> None:
    """API-1: keys that a later version adds to an event do no harm; a missing one is an error."""
    found = json.loads(event_to_text(Event(type="evicted", at=AT)))
    assert event_from_text(json.dumps(found | {"mood": "good"})).type == "evicted"
    del found["subject"]
    with pytest.raises(ValueError, match="no event"):
        event_from_text(json.dumps(found))


# ---------------------------------------------------------------- requests


def test_a_request_becomes_its_type() -> None:
    """API-1: a body becomes the dataclass that its endpoint declares, nested ones too."""
    body = {
        "engine": "a",
        "wait_s": 5,
        "tags": ["x"],
        "inner": {"name": "n"},
        "many": [{"name": "m", "size": 1}],
    }
    assert request_from(Asked, dump(body)) == Asked(
        engine="a", wait_s=5.0, tags=("x",), inner=Inner(name="n"), many=(Inner(name="m", size=1),)
    )
    assert request_from(Inner, b'{"name": "x"}') == Inner(name="x")


@pytest.mark.parametrize(
    ("body", "where", "expected"),
    [
        ({"engine": "a", "wait": 5}, "wait", "Did you mean 'wait_s'?"),
        ({"engine": "a", "zzz": 5}, "zzz", "Known are: engine, wait_s, tags, inner, many, by_name."),
        ({"engine": "a", "inner": {"name": "n", "sise": 1}}, "inner.sise", "Did you mean 'size'?"),
        (
            {"engine": "a", "many": [{"name": "n"}, {"name": "m", "x": 1}]},
            "many[1].x",
            "Known are: name, size.",
        ),
        ({"engine": "a", "by_name": {"k": {"name": "n", "y": 1}}}, "by_name[k].y", "Known are: name, size."),
    ],
)
def test_an_unknown_key_is_refused(body: object, where: str, expected: str) -> None:
    """API-1: a key that a request does not know is refused with its place and those that are known."""
    with pytest.raises(InvalidRequest) as refused:
        request_from(Asked, dump(body))
    assert (refused.value.where, refused.value.expected) == (where, expected)
    assert repr(where) in str(refused.value)


@pytest.mark.parametrize(
    ("body", "what", "where"),
    [
        (b"", "missing required field `engine`", ""),
        (b'{"engine": 5}', "Expected `str`, got `int`", "$.engine"),
        (b'{"engine": "a", "wait_s": true}', "Expected `float | null`, got `bool`", "$.wait_s"),
        (b'{"engine": "a", "tags": [1]}', "Expected `str`, got `int`", "$.tags[0]"),
        (b"[1]", "The body is no JSON object.", ""),
        (b"{", "The body is no JSON", ""),
        (b'{"engine": "a", "wait_s": NaN}', "The body is no JSON", ""),
        (b'{"engine": "a"} x', "The body is no JSON", ""),
        (b'{"engine": "\xff"}', "The body is no JSON", ""),
        (b"[" * 100_000, "The body is no JSON", ""),
    ],
)
def test_a_bad_body_is_one_clear_error(body: bytes, what: str, where: str) -> None:
    """API-1: a body that does not fit is refused with what is wrong and where, whatever is in it."""
    with pytest.raises(InvalidRequest) as refused:
        request_from(Asked, body)
    assert what in refused.value.what
    assert refused.value.where == where


# ---------------------------------------------------------------- refusals come back


def example(kind: type[Refusal]) -> Refusal:
    """A refusal of that class with its needed facts filled in."""
    facts: dict[str, object] = {}
    for each in fields(kind):
        if each.default is MISSING and each.default_factory is MISSING:
            facts[each.name] = {"int": 7, "tuple[str, ...]": ("a", "b")}.get(
                str(each.type), f"some {each.name}"
            )
    made: Refusal = kind(**facts)  # type: ignore[arg-type] # facts are the fields by name
    return made


@pytest.mark.parametrize("kind", KNOWN.values(), ids=lambda kind: kind.code)
def test_a_refusal_comes_back_as_its_own_class(kind: type[Refusal]) -> None:
    """INTERFACE-3: what the daemon refuses comes back as the same class with the same text and facts."""
    refusal = example(kind)
    status, _, body = control_answer(refusal)
    back = refusal_from(json.loads(body)["error"], status)
    assert type(back) is kind
    assert (back.kind, back.code, str(back), back.advice()) == (
        refusal.kind,
        refusal.code,
        str(refusal),
        refusal.advice(),
    )
    assert back.facts() == refusal.facts()


def test_every_refusal_of_the_domain_is_known() -> None:
    """INTERFACE-3: no two refusals share a code, and none is left out of those that come back."""
    named = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, Refusal)]
    assert len(KNOWN) == len(named) - 1
    assert KNOWN["box_reserved"] is BoxReserved


def test_a_refusal_of_a_newer_daemon_keeps_its_text() -> None:
    """INTERFACE-3: a code that this client does not know keeps its text, hint, facts and time to retry."""
    error = {
        "code": "moon_phase",
        "message": "The moon {is} full.",
        "hint": "Wait {for it}.",
        "facts": {"phase": "full"},
        "retry_after": 9,
    }
    back = refusal_from(error, 409)
    assert isinstance(back, Told)
    assert (back.code, str(back), back.advice()) == ("moon_phase", "The moon {is} full.", "Wait {for it}.")
    assert back.facts()["phase"] == "full"
    assert (back.kind, back.retry_after) == (Kind.CONFLICT, 9)
    assert error_object(back)["error"] is not None


def test_a_known_code_with_other_facts_is_still_told() -> None:
    """INTERFACE-3: facts of a newer daemon are ignored, and where one is missing the text is kept."""
    error = {
        "code": "box_reserved",
        "message": "Held.",
        "facts": {"host": "crow", "engine": "e", "owner": "me", "x": 1},
    }
    assert type(refusal_from(error, 503)) is BoxReserved
    del error["facts"]["owner"]  # type: ignore[attr-defined] # it is a dict
    back = refusal_from(error, 503)
    assert (back.code, str(back), back.kind) == ("box_reserved", "Held.", Kind.UNAVAILABLE)


@pytest.mark.parametrize(
    "error", [None, "plain text", 5, [], {}, {"code": 5, "facts": "x", "retry_after": "soon"}]
)
def test_anything_becomes_a_refusal(error: object) -> None:
    """INTERFACE-3: an error object of any form is a refusal with some text, never an error of the client."""
    back = refusal_from(error, 502)
    assert str(back)
    assert back.kind is Kind.UNREACHABLE
    assert back.retry_after is None


def deep(levels: int) -> object:
    """A list in a list, so many deep."""
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


ODD_FACTS: tuple[object, ...] = (
    None, "soon", 5, -1, 10**5000, 1e308, math.inf, math.nan, True, [], ["a", 1], {}, {"a": {}}, "{x}",
    "a..b", [math.inf], deep(5000), {"a": deep(900)},
)  # fmt: skip


@pytest.mark.parametrize("fact", ODD_FACTS, ids=range(len(ODD_FACTS)))
@pytest.mark.parametrize("kind", KNOWN.values(), ids=lambda kind: kind.code)
def test_a_refusal_with_any_facts_has_a_text(kind: type[Refusal], fact: object) -> None:
    """INTERFACE-3: whatever another daemon tells as a fact, the refusal is told."""
    facts = {each.name: fact for each in fields(kind)}
    back = refusal_from({"code": kind.code, "message": "Held.", "facts": facts, "retry_after": fact}, 409)
    assert str(back)
    assert isinstance(back.advice(), str)
    assert json.dumps(error_object(back), allow_nan=False)
    assert fail(back, as_json=False) > 0
    assert str(refusal_from([fact], 409))


@pytest.mark.parametrize("fact", ODD_FACTS, ids=range(len(ODD_FACTS)))
def test_a_refusal_made_here_with_any_facts_has_a_text(fact: object) -> None:
    """INTERFACE-2: no wrong type of a fact keeps a refusal from being told."""
    assert str(errors.WaitTimedOut(resource="r", waited_s=fact, why="w"))  # type: ignore[arg-type] # the point
    assert str(errors.EngineNotFound(engine=fact))  # type: ignore[arg-type] # as above


def test_half_a_character_is_shown() -> None:
    """FEED-3: half of a character, as a broken name gives one, is shown and breaks no answer."""
    assert dump({"owner": "a\udcff", "k\ud800": ["\udfff", {"x": 1}]}) == (
        rb'{"owner":"a\\udcff","k\\ud800":["\\udfff",{"x":1}]}'
    )


@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, 10**400, 'a"b\ud800', [], {}, [[], {}], {"a": [1, {"b": None}], "c\n": {}}, [math.inf]],
)
def test_a_plain_text_is_that_of_json(value: object) -> None:
    """REL-1: what is kept as a text says what was found, as JSON has it."""
    assert plain_text(value) == json.dumps(value)


def test_a_plain_text_has_no_depth() -> None:
    """REL-1: what is nested deeper than can be walked through is written, and known to be deep."""
    value: object = {"a": 1}
    for _ in range(5000):
        value = [value]
    assert plain_text(value) == "[" * 5000 + '{"a": 1}' + "]" * 5000
    assert is_deeper(value, 5000)
    assert not is_deeper(value, 5001)
    assert (is_deeper([1], 0), is_deeper(1, 0), is_deeper({"a": []}, 1)) == (True, False, True)


def test_an_event_that_is_nested_too_deep_is_none() -> None:
    """REL-1: a line of the log that cannot be followed is told as no event."""
    with pytest.raises(ValueError, match="this is no event"):
        event_from_text("[" * 100_000)
