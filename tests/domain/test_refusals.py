import json
import re
import string
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import cast

import pytest

from hostler.domain import errors
from hostler.domain.errors import (
    BoxReserved,
    EngineFailed,
    Internal,
    InvalidRequest,
    Kind,
    Loading,
    MemoryNever,
    MemoryNow,
    ModelNotFound,
    NotLaunchable,
    QueueFull,
    Refusal,
    ServingClassRefused,
    Suspended,
    UpstreamUnreachable,
    WaitTimedOut,
)
from hostler.wire.refusals import (
    BY_CODE,
    FACES,
    control_answer,
    error_object,
    error_of,
    face,
    headers,
    inference_answer,
    refusal_of,
    retry_after,
)
from hostler.wire.told import Told, refusal_from

# The table of the design, written out by hand: kind -> control, inference, exit code.
TABLE = {
    Kind.INVALID: (400, 400, 65),
    Kind.CONFIG: (422, 422, 78),
    Kind.UNAUTHORIZED: (401, 401, 77),
    Kind.FORBIDDEN: (403, 403, 77),
    Kind.NOT_FOUND: (404, 404, 66),
    Kind.GONE: (410, 410, 66),
    Kind.CONFLICT: (409, 409, 76),
    Kind.DISABLED: (409, 503, 77),
    Kind.BUSY: (409, 503, 75),
    Kind.CLASS: (409, 409, 77),
    Kind.FAILED: (409, 409, 74),
    Kind.EXHAUSTED: (409, 503, 71),
    Kind.STUCK: (409, 503, 73),
    Kind.UNAVAILABLE: (503, 503, 69),
    Kind.UNREACHABLE: (502, 502, 69),
    Kind.INTERNAL: (500, 500, 70),
}
OWN_STATUS = {
    "ttl_refused": 422,
    "too_large": 413,
    "header_too_large": 431,
    "method_not_allowed": 405,
    "queue_full": 429,
    "rate_limited": 429,
    "store_full": 507,
    "loop": 508,
}
EVERY = [
    it
    for it in vars(errors).values()
    if isinstance(it, type) and issubclass(it, Refusal) and it is not Refusal
]
SAMPLES = {"str": "x", "int": 7, "bool": True, "tuple[str, ...]": ("x", "y")}


def sample(kind: type[Refusal]) -> Refusal:
    """A refusal of that class with a value of the right type for each fact that it needs."""
    needed = [it for it in fields(kind) if it.default is MISSING and it.default_factory is MISSING]
    make = cast("Callable[..., Refusal]", kind)
    return make(**{it.name: SAMPLES[str(it.type)] for it in needed})


def coded(code: str, kind: Kind, after: int | None = None) -> Refusal:
    """A refusal of a code that is not built yet."""
    made: type[Refusal] = type("Coded", (Refusal,), {"code": code, "kind": kind})
    return made(retry_after=after)


HELD = BoxReserved(
    host="crow",
    engine="big",
    owner="dsv4-window",
    reason="bench",
    until="2026-09-04T21:15:11.000Z",
    expires_at="2026-09-04T21:15:11.000Z",
    retry_after=4200,
)


# ---------------------------------------------------------------- the table


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_has_its_row(kind: Kind) -> None:
    """API-1: each kind of refusal has the control status, inference status and exit code of the design."""
    row = FACES[kind]
    assert (row.control, row.inference, row.exit) == TABLE[kind]
    assert row.openai.endswith("_error")


@pytest.mark.parametrize("code", sorted({*OWN_STATUS, *BY_CODE}))
def test_a_code_with_a_status_of_its_own(code: str) -> None:
    """API-1: a code of its own status has it on every call, and its kind's exit code."""
    shown = face(coded(code, Kind.BUSY))
    assert (shown.control, shown.inference, shown.exit) == (OWN_STATUS[code], OWN_STATUS[code], 75)
    assert (shown.openai == "rate_limit_error") == (OWN_STATUS[code] == 429)


@pytest.mark.parametrize("kind", EVERY, ids=lambda it: it.__name__)
def test_every_refusal_can_be_told(kind: type[Refusal]) -> None:
    """API-1: every refusal has a face, and its message and hint are whole sentences made of its own facts."""
    refusal = sample(kind)
    control, _, exit_code = TABLE[refusal.kind]
    assert face(refusal).control == OWN_STATUS.get(refusal.code, control)
    assert face(refusal).exit == exit_code
    assert str(refusal)
    for text in (str(refusal), refusal.advice()):
        assert re.search(r"\{\w*\}", text) is None
        assert "  " not in text
    names = {name for text in (kind.message, kind.hint) for _, name, _, _ in string.Formatter().parse(text)}
    assert names - {None} <= refusal.facts().keys()


def test_codes_are_unique() -> None:
    """API-1: no two refusals share a code, so that a client can turn each back into its class."""
    codes = [it.code for it in EVERY]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("kind", EVERY, ids=lambda it: it.__name__)
def test_what_is_told_is_understood(kind: type[Refusal]) -> None:
    """API-1: a refusal read back from its answer is of the same class with the same facts."""
    refusal = sample(kind)
    status, _, body = control_answer(refusal)
    heard = refusal_from(json.loads(body)["error"], status)
    assert type(heard) is kind
    assert heard.facts() == refusal.facts()
    assert str(heard) == str(refusal)


# ---------------------------------------------------------------- the body


def test_the_shape_of_an_error() -> None:
    """API-1: an error has these keys and no others; HOLD-13: of a hold, owner and expires_at too."""
    assert error_object(HELD) == {
        "error": {
            "message": "crow is held by dsv4-window until 2026-09-04T21:15:11.000Z: big is not started.",
            "type": "server_error",
            "param": None,
            "code": "box_reserved",
            "hint": "Wait, use a model that runs, or ask its owner; `hostler box status` shows the hold.",
            "facts": {
                "host": "crow",
                "engine": "big",
                "owner": "dsv4-window",
                "reason": "bench",
                "until": "2026-09-04T21:15:11.000Z",
                "expires_at": "2026-09-04T21:15:11.000Z",
            },
            "retry_after": 4200,
            "owner": "dsv4-window",
            "expires_at": "2026-09-04T21:15:11.000Z",
        }
    }


def test_an_unknown_model_names_its_parameter() -> None:
    """GATE-5: OpenAI's clients are told which parameter an unknown model stood in."""
    error = error_of(ModelNotFound(model="gpt-5"))
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        "model",
        "model_not_found",
    )
    assert "owner" not in error


def test_a_hold_told_by_another_version_is_told_on() -> None:
    """HOLD-13: a hold's refusal that came without an owner is passed on with none."""
    error = {"code": "box_reserved", "message": "Held.", "facts": {}}
    heard = refusal_from(error, 503)
    assert isinstance(heard, Told)
    assert error_of(heard)["owner"] is None


def test_foreign_text_never_keeps_a_refusal_from_being_told() -> None:
    """API-1: half a surrogate pair, controls and nested facts in a refusal make no answer fail."""
    odd = Told(text="half \ud800", others={"list": ["\udfff", 1], "by": {"k\ud800": None}, "on": ("a",)})
    _, _, body = control_answer(odd)
    facts = json.loads(body)["error"]["facts"]
    assert facts["text"] == "half ?"
    assert (facts["list"], facts["by"], facts["on"]) == (["?", 1], {"k?": None}, ["a"])
    _, _, body = control_answer(InvalidRequest(what="\x1b[2J\x00"))
    assert json.loads(body)["error"]["message"] == "\x1b[2J\x00"


def test_a_bug_says_nothing_but_its_id() -> None:
    """API-1: an exception that is no refusal becomes `internal` with an id, and no text of its cause."""
    refusal = refusal_of(RuntimeError("the key is hunter2"), "err_01")
    assert isinstance(refusal, Internal)
    status, _, body = inference_answer(refusal)
    assert status == 500
    assert json.loads(body)["error"]["message"] == "Internal error err_01."
    assert b"hunter2" not in body
    assert refusal_of(HELD, "err_02") is HELD


def test_control_and_inference_differ_in_status_only() -> None:
    """GATE-5: a hold is 409 on control and 503 on inference calls, with the same body and headers."""
    control, inference = control_answer(HELD), inference_answer(HELD)
    assert (control[0], inference[0]) == (409, 503)
    assert control[1:] == inference[1:]
    assert (b"content-type", b"application/json") in control[1]


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("refusal", "after", "again"),
    [
        (HELD, 4200, False),
        (BoxReserved(host="crow", engine="big", owner="unknown"), 60, False),
        (Loading(engine="big", elapsed_s=41, budget_s=240, retry_after=199), 199, True),
        (Loading(engine="big", elapsed_s=41, budget_s=240), 60, True),
        (QueueFull(what="big", waiting=9, retry_after=5), 5, True),
        (coded("rate_limited", Kind.BUSY, 5), 5, True),
        (coded("draining", Kind.BUSY, 1), 1, False),
        (Suspended(engine="big", by="anna", retry_after=60), None, False),
        (NotLaunchable(engine="big", why="x"), None, False),
        (ServingClassRefused(engine="big", serving_class="windowed", why="x"), None, False),
        (MemoryNow(engine="big", host="crow", arithmetic="x", retry_after=60), 60, False),
        (MemoryNever(engine="big", host="crow", arithmetic="x", retry_after=60), None, False),
        (coded("stuck", Kind.STUCK), None, False),
        (EngineFailed(engine="big", why="x", retry_after=30), 30, True),
        (ModelNotFound(model="x"), None, True),
        (coded("internal", Kind.INTERNAL), None, True),
    ],
    ids=lambda it: it.code if isinstance(it, Refusal) else str(it),
)
def test_when_to_retry(refusal: Refusal, after: int | None, *, again: bool) -> None:
    """HOLD-13: Retry-After is error.retry_after, and SDKs are told not to sleep where it is no use."""
    found = headers(refusal)
    assert retry_after(refusal) == error_of(refusal)["retry_after"] == after
    assert ((b"retry-after", b"%d" % (after or 0)) in found) == (after is not None)
    assert ((b"x-should-retry", b"false") in found) == (not again)
    assert len(found) == (after is not None) + (not again)


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("Nobody said anything.", "f cannot be reached: Nobody said anything."),
        ("it ended", "f cannot be reached: it ended."),
        ("no file ../x", "f cannot be reached: no file ../x."),
        ("and so on..", "f cannot be reached: and so on..."),
    ],
)
def test_a_fact_that_is_a_sentence_ends_it(why: str, told: str) -> None:
    """INTERFACE-2: a message has one full stop where a fact of others brings its own."""
    assert str(UpstreamUnreachable(target="f", why=why)) == told


def test_how_long_was_waited_is_told_in_words() -> None:
    """INTERFACE-2: `2 h`, not 7200 s."""
    late = WaitTimedOut(resource="box", waited_s=7200, why="ann has it")
    assert str(late) == "box was not to be had within 2 h: ann has it."
