import base64
import json
import random
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.wire.redaction import MARK, Redactor, forms

SECRETS = (
    "hk_9QpX-ZrT4vKq_8mWn2LsB7yDc5uFhJ0aGe1iOoPpXyZ",
    'p"ass\\w/ord+with=odd:chars',
    "schlüssel-für-ünïcode",
    "https://user:hunter2@example.net/hook",
    "k3y",
)

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64url": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
    "percent": lambda secret: quote(secret, safe=""),
    "json": lambda secret: json.dumps(secret)[1:-1],
    "HEX": lambda secret: secret.encode().hex().upper(),
    "json, not ascii": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "percent, lower": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
    "percent, path": quote,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_in_every_form(secret: str, encoding: str) -> None:
    """SEC-1: each secret is taken out in plain, base64, base64url, hex, percent and JSON forms."""
    redact = Redactor(SECRETS)
    form = ENCODINGS[encoding](secret)
    found = redact(f"before {form} after")
    assert form not in found
    assert MARK in found
    assert found.startswith("before ")
    assert found.rstrip("=").endswith(" after")
    left = found.removeprefix("before ").removesuffix(" after").replace(MARK, "").rstrip("=")
    assert len(left) <= 2  # base64: a character that is half the secret's last byte


@pytest.mark.parametrize("user", ["", "u", "us", "use", "someone"])
@pytest.mark.parametrize("secret", [secret for secret in SECRETS if len(secret) > 3])
def test_a_key_within_a_header_is_found(secret: str, user: str) -> None:
    """SEC-1: a key in base64 together with what stands around it is found at every alignment."""
    redact = Redactor(SECRETS)
    header = base64.b64encode(f"{user}{secret}:rest".encode()).decode()
    found = redact(header)
    assert MARK in found
    for piece in range(len(header) - 12):
        window = header[piece : piece + 12]
        inside = base64.b64encode(secret.encode()).decode()
        assert not (window in inside and window in found)


def test_the_longest_secret_wins() -> None:
    """SEC-1: where one secret begins like another, none leaves its end behind."""
    assert Redactor(["abcd", "abcdefgh"])("x abcdefgh y") == f"x {MARK} y"
    assert Redactor(["abcdefgh", "abcd"])("x abcdabcdefgh y") == f"x {MARK}{MARK} y"


@given(secret=st.text(min_size=1, max_size=80))
def test_no_form_is_shorter_than_the_secret(secret: str) -> None:
    """SEC-1: a text that is shorter than every secret needs no look: it can have none of them in any form."""
    assert min(map(len, forms(secret))) >= len(secret)
    assert Redactor([secret])(secret) == MARK


def test_without_secrets_nothing_changes() -> None:
    """SEC-1: no secret, or an empty one, takes nothing out."""
    for redact in (Redactor([]), Redactor([""])):
        assert redact("a b") == "a b"
        stream = redact.stream()
        assert stream.feed("a b") + stream.end() == "a b"


@given(st.data())
def test_a_secret_cut_by_borders_is_found(data: st.DataObject) -> None:
    """SEC-1: a text in pieces leaves the same whole text as in one, wherever its secrets were cut."""
    secrets = data.draw(st.lists(st.text("ab/", min_size=1, max_size=6), min_size=1, max_size=3))
    redact = Redactor(secrets)
    text = data.draw(st.lists(st.sampled_from([*secrets, "a", "b", "xyz", "/"]), max_size=20).map("".join))
    dice = random.Random(data.draw(st.integers()))  # noqa: S311 - a drawn seed, to be repeated
    stream, out, rest = redact.stream(), "", text
    while rest:
        cut = dice.randint(1, 4)
        out += stream.feed(rest[:cut])
        rest = rest[cut:]
    assert out + stream.end() == redact(text)


def test_a_stream_keeps_little_back() -> None:
    """SEC-1: a stream keeps back only what the longest secret could still need."""
    stream = Redactor(["secret"]).stream()
    told = stream.feed("x" * 1000)
    assert len(told) >= 1000 - Redactor(["secret"]).longest
