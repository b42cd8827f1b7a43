import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.addresses import (
    is_link_local,
    is_metadata,
    is_this_machine,
    meanings,
    place_of,
    shown_url,
)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "app.localhost",
        "ip6-localhost",
        "127.0.0.1",
        "127.255.1.2",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",  # noqa: S104 - looked at, never bound
        "::1",
        "[::1]",
        "::1%lo",
        "::",
        "[::]",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::127.0.0.1",
        "::ffff:0.0.0.0",
        "\uff11\uff12\uff17.0.0.1",
        "%31%32%37.0.0.1",
        "127%2e0%2E0.1",
        "127\u30020\uff0e0\uff611",
        "%EF%BC%91%EF%BC%92%EF%BC%97.1",
        "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
        "local\u00adhost",
        "127.0.0.1%lo",
    ],
)
def test_this_machine_in_every_spelling(host: str) -> None:
    """SYNC-2: loopback and wildcards are known in whatever way they are written."""
    assert is_this_machine(host)


@pytest.mark.parametrize(
    "host",
    [
        "crow.lan",
        "localhost.example.net",
        "10.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "128.0.0.1",
        "1.2.3.4.5",
        "127.0.0.256",
        "127.0.65536",
        "127.256.1",
        "4294967296",
        "08.1",
        "0xg",
        "",
        "1..2",
        "١٢٧.1",
        "fe80::1",
        "2001:db8::1",
    ],
)
def test_other_machines(host: str) -> None:
    """SYNC-2: private and overlay addresses, names, and what is no address are not this machine."""
    assert not is_this_machine(host)


@pytest.mark.parametrize(
    ("host", "metadata", "link"),
    [
        ("169.254.169.254", True, True),
        ("[::ffff:169.254.169.254]", True, True),
        ("0xa9fea9fe", True, True),
        ("metadata.google.internal.", True, False),
        ("100.100.100.200", True, False),
        ("fd00:ec2::254", True, False),
        ("169.254.1.1", False, True),
        ("fe80::1%eth0", False, True),
        ("10.0.0.1", False, False),
        ("crow.lan", False, False),
    ],
)
def test_what_is_no_target(host: str, metadata: bool, link: bool) -> None:
    """SYNC-2, GW-16: metadata services and addresses of one link are known, wrapped ones too."""
    assert (is_metadata(host), is_link_local(host)) == (metadata, link)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{0}", "{0:#x}", "0{0:o}"]))
def test_numbers_mean_what_the_resolver_takes_them_for(value: int, form: str) -> None:
    """SYNC-2: a number is the very address that connecting to it would reach."""
    text = form.format(value)
    (found,) = meanings(text)
    assert found.packed == socket.inet_aton(text)


@given(st.text(alphabet="0123456789abcdefx.:[]%", max_size=24))
def test_any_text_means_something_or_nothing(text: str) -> None:
    """SYNC-2: no text raises; one that the resolver takes for an IPv4 address is taken for the same."""
    found = meanings(text)
    try:
        packed = socket.inet_aton(text)
    except OSError:
        return
    if text == text.strip("[]").partition("%")[0].rstrip("."):
        assert found[0].packed == packed


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://crow.lan:7070/x?y#z", ("http", "crow.lan", None)),
        ("HTTPS://CROW", ("https", "crow", None)),
        ("http://[::1]:8000", ("http", "::1", None)),
        ("http://ann:pw@crow/a@b", ("http", "crow", "ann:pw")),
        ("http://a@b@crow", ("http", "crow", "a@b")),
        ("http://@crow", ("http", "crow", "")),
    ],
)
def test_where_a_url_leads(url: str, place: tuple[str, str, str | None]) -> None:
    """SYNC-2: a URL leads to the host behind its last @, in brackets or not."""
    found = place_of(url)
    assert found is not None
    assert (found.scheme, found.host, found.user) == place


@pytest.mark.parametrize(
    "url",
    [
        "",
        "crow:8000",
        "http:crow",
        "http://",
        "http:///x",
        "http://crow:99999",
        "http://crow:x",
        "http://[::1",
        "http://::1",
        "http://crow\\@evil",
        "http://crow /",
        "http://crow\n",
        "http://crow\t.lan",
        "//crow",
        "http://b\u00fccher.lan",
        "http://\uff11\uff12\uff17.1",
        "http://127\u30021",
        "http://%31%32%37.1",
        "http://cro%77.lan",
        "http://[::1%25\u00e9]",
        "http://[fe80::1%eth0%25x]",
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_nothing(url: str) -> None:
    """SYNC-2: a URL with odd characters, or without a clear host, leads nowhere."""
    assert place_of(url) is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://crow:7070", "http://crow:7070"),
        ("https://crow/base/", "https://crow/base"),
        ("http://[::1]:9", "http://[::1]:9"),
        ("http://[::1", "http://[::1"),
        ("http://", "http://"),
        ("", ""),
        ("ftp://bob:PW@h", "ftp://h"),
        ("bob:PW@h:80", "h:80"),
        ("bob:PW://x@h", "h"),
        (" http://bob:PW@h", "http://h"),
        ("http:/bob:PW@h", "h"),
        ("http://bob:PW@[::1", "http://[::1"),
        ("http://bob:P/W@h:9", "http://h:9"),
        ("http://bob:P?W@h:9", "http://h:9"),
        ("http://bob:P#W@h:9", "http://h:9"),
        ("http://bob:P@W@h:9", "http://h:9"),
        ("http://bob:PW%40h", "http://bob:…"),
        ("bob:PW", "bob:…"),
        ("http://h:9/?token=PW", "http://h:9"),
        ("http://h:9#PW", "http://h:9"),
        ("http://bob:PW@h\x1b[31m", "http://h\\x1b[31m"),
    ],
)
def test_a_url_is_shown_without_what_is_secret_in_it(url: str, shown: str) -> None:
    """SEC-1: whatever is odd in a URL, no user, password, query or fragment of it is shown."""
    assert shown_url(url) == shown


@given(st.text(), st.sampled_from(["http://", "ftp://", "", "//", "x"]))
def test_no_password_before_an_at_is_shown(odd: str, scheme: str) -> None:
    """SEC-1: whatever stands around it."""
    assert "HIDDEN" not in shown_url(f"{scheme}{odd}HIDDEN{odd}@h")
