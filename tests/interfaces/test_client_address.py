"""Addresses and keys that are odd: one clear error each, with nothing secret in it."""

from pathlib import Path

import pytest

from hostler.client import Address, Client, find_head
from hostler.domain.errors import DaemonUnreachable, InvalidRequest
from hostler.domain.fleet import Secret


@pytest.mark.parametrize("var", ["HOSTLER_URL", "HOSTLER_HEAD_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "ftp://bob:PW-1@h",
        "bob:PW-1@h:80",
        "http://bob:PW-1/x@127.0.0.1:9",
        "http://bob:PW-1?x@127.0.0.1:9",
        "http://bob:PW-1#x@127.0.0.1:9",
        "http://bob:PW-1@[::1",
        "http://[::1",
        "http://",
        "http://127.0.0.1:9/?token=PW-1",
        "http://127.0.0.1:PW-1",
        "http://bob:PW-1@127.0.0.1:99999",
    ],
)
def test_an_odd_address_is_one_refusal_without_its_password(tmp_path: Path, var: str, url: str) -> None:
    """INTERFACE-3, SEC-1: it is told which variable cannot be understood, and nothing secret of it."""
    with pytest.raises(DaemonUnreachable) as refused:
        find_head({var: url}, tmp_path)
    assert var in refused.value.why
    assert "PW-1" not in f"{refused.value} {refused.value.facts()} {refused.value.advice()}"


@pytest.mark.parametrize(
    "url", ["http://bob:PW-1@[::1", "http://bob:PW-1/x@127.0.0.1:9", "http://bob:PW-1@127.0.0.1:9"]
)
def test_an_odd_address_of_a_program_is_one_refusal_too(url: str) -> None:
    """INTERFACE-3, SEC-1: what the HTTP library says of an address is not told: it may be the password."""
    with pytest.raises(DaemonUnreachable) as refused:
        Client(Address(url=url)).get("/x")
    assert "PW-1" not in f"{refused.value} {refused.value.facts()}"


@pytest.mark.parametrize("key", ["KEY-1\u00e9\u20ac", "KEY-1\n", "KEY\x01-1", " KEY-1"])
def test_a_key_that_no_header_holds_is_one_refusal(key: str) -> None:
    """INTERFACE-3, SEC-1: where it comes from is told, and never the key."""
    address = Address(url="http://127.0.0.1:9", key=Secret(key), key_by="HOSTLER_API_KEY")
    with pytest.raises(InvalidRequest, match="HOSTLER_API_KEY holds what no key has") as refused:
        Client(address).get("/x")
    assert "KEY-1" not in f"{refused.value} {refused.value.facts()}"
    with pytest.raises(InvalidRequest, match="x-hostler-lease"):
        Client(Address(url="http://127.0.0.1:9"), lease="l\u00e9ase").get("/x")
