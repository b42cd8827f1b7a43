import pytest

from hostler.domain.fleet import Secret, Upstream
from hostler.gateway.places import Places, keys
from hostler.gateway.upstream import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8101", Address(host="127.0.0.1", port=8101)),
        ("http://crow.lan", Address(host="crow.lan", port=80)),
        ("http://[::1]:9000/v1", Address(host="::1", port=9000)),
        ("unix:/run/engine.sock", Address(unix="/run/engine.sock")),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    """GW-16: a base URL is an address to dial: a host with its port, or a Unix socket's path."""
    assert Places().at(url) == address


def test_tls() -> None:
    """GW-16: https is dialled with TLS that checks the certificate and the name, on port 443 unless said."""
    address = Places().at("https://example.net/v1")
    assert (address.host, address.port) == ("example.net", 443)
    assert address.tls is not None
    assert address.tls.check_hostname


def test_an_address_is_made_once() -> None:
    """GW-16: one address serves a URL for good, so that its kept connections are found again."""
    places = Places()
    assert places.at("https://example.net") is places.at("https://example.net")


@pytest.mark.parametrize(
    ("url", "asked", "path"),
    [
        ("https://example.net/v1", "/v1/chat/completions", b"/v1/chat/completions"),
        ("https://example.net/api/v1/", "/v1/embeddings?x=1", b"/api/v1/embeddings?x=1"),
        ("https://example.net", "/v1/chat/completions", b"/v1/chat/completions"),
        ("https://example.net/openai", "/v1/models", b"/openai/v1/models"),
    ],
)
def test_paths(url: str, asked: str, path: bytes) -> None:
    """GW-11: an upstream is asked below its base, and a base that ends in /v1 takes the place of /v1."""
    assert Places().path(Upstream(name="cloud", url=url), asked) == path


def test_keys() -> None:
    """GW-11: a target's key goes into its Authorization, and a target without one gets none."""
    assert keys(Secret("sk-1")) == [(b"authorization", b"Bearer sk-1")]
    assert keys(None) == []
