import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.ports import (
    ANY,
    NO_HOST,
    PROGRAM,
    UNSAID,
    Certainty,
    Places,
    Status,
    Trouble,
    free_ports,
    is_wildcard,
    least_sure,
    overlap,
    plain_name,
)
from tests.fakes.ports import finding, row

ADDRESSES = st.one_of(
    st.sampled_from([ANY, PROGRAM, UNSAID, "0.0.0.0", "::", "127.0.0.1", "::1"]),  # noqa: S104 - compared only
    st.ip_addresses().map(str),
)


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "10.99.0.1", False),
        ("127.0.0.1", "::1", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("0.0.0.0", "10.99.0.1", True),  # noqa: S104 - compared only
        ("0.0.0.0", "::1", False),  # noqa: S104 - compared only
        ("0.0.0.0", "::", True),  # noqa: S104 - compared only
        ("::", "127.0.0.1", True),
        (ANY, "::1", True),
        (ANY, "127.0.0.1", True),
        (PROGRAM, "127.0.0.1", True),
        (UNSAID, PROGRAM, True),
    ],
)
def test_overlap(one: str, other: str, meets: bool) -> None:
    """PORT-3: a wildcard meets its family, IPv6's also IPv4, two specific ones only if equal, unknown all."""
    assert overlap(one, other) is meets
    assert overlap(other, one) is meets


@given(ADDRESSES, ADDRESSES)
def test_overlap_has_no_order(one: str, other: str) -> None:
    """PORT-3: whether two addresses meet does not depend on their order, and each meets itself and any."""
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one)
    assert overlap(one, ANY)


@given(st.ip_addresses(), st.ip_addresses())
def test_specific_addresses_meet_only_themselves(one: object, other: object) -> None:
    """PORT-3: two specific addresses meet only where they are equal."""
    specific = not (is_wildcard(str(one)) or is_wildcard(str(other)))
    assert overlap(str(one), str(other)) == (one == other) or not specific


def test_wildcards() -> None:
    """PORT-3: the unspecified addresses and `any` are wildcards, an address that nobody knows is none."""
    assert all(is_wildcard(it) for it in (ANY, "0.0.0.0", "::"))  # noqa: S104 - compared only
    assert not any(is_wildcard(it) for it in ("::1", "127.0.0.1", PROGRAM, UNSAID))


def test_rows_cover_what_is_in_them() -> None:
    """PORT-1: a row covers ports of its range, host, protocol and address, and no other."""
    masters = row(8031, last=8033, address="127.0.0.1")
    assert masters.covers(finding(8032))
    assert masters.covers(finding(8033, address="127.0.0.1"))
    for other in (
        finding(8034),
        finding(8030),
        finding(None),
        finding(8032, host="raven"),
        finding(8032, protocol="udp"),
        finding(8032, address="10.99.0.1"),
    ):
        assert not masters.covers(other)
    assert (masters.ports, row(8030).ports, masters.place) == ("8031-8033", "8030", "ports.yaml:1")


def test_statuses() -> None:
    """PORT-1: what was freed is nobody's; every other status has its port."""
    assert [it for it in Status if not it.taken] == [Status.FREED]


def test_certainty() -> None:
    """PORT-2: a text is as unsure as its least sure part."""
    assert least_sure(Certainty.DEFAULT, Certainty.LITERAL) is Certainty.DEFAULT
    assert least_sure(Certainty.DEFAULT, Certainty.VARIABLE) is Certainty.VARIABLE
    assert least_sure() is Certainty.LITERAL


def test_names() -> None:
    """PORT-4: an owner is called by any of its names, whatever their case and hyphens; nobody by none."""
    assert plain_name("Flash_Next  one") == "flash-next-one"
    found = finding(8030, "flash-next", names=("crow-flash",))
    assert found.is_called("Flash Next")
    assert found.is_called("crow_flash")
    assert not found.is_called("other")
    assert not finding(8030, "").is_called("")
    assert found.who == "flash-next (flash-next.yaml:1)"
    assert finding(8030, "", file="a.sh").who == "a.sh:1"


PLACES = Places(
    hosts=frozenset({"crow", "raven"}),
    by_address={"10.99.0.2": "raven"},
    rules={"raven": ("scripts/raven-*",), "crow": ("bundles/*", "scripts/*", "/abs/own.sh")},
)


@pytest.mark.parametrize(
    ("file", "hosts"),
    [
        ("/srv/bundles/web/compose.yaml", ("crow",)),
        ("/srv/scripts/raven-up.sh", ("raven", "crow")),
        ("/abs/own.sh", ("crow",)),
        ("/srv/elsewhere.sh", (NO_HOST,)),
    ],
)
def test_hosts_by_path(file: str, hosts: tuple[str, ...]) -> None:
    """PORT-2: path rules tell a file's hosts, several for one file; else the default, else unknown."""
    placed = PLACES.place(finding(8030, host="", file=file))
    assert tuple(it.host for it in placed) == hosts
    other = Places(rules=PLACES.rules, default="dawn")
    assert other.of_file(file) == (("dawn",) if hosts == (NO_HOST,) else hosts)


def test_hosts_by_address_and_name() -> None:
    """PORT-2: an address of one host puts a finding there whatever its path; a longer name is that host."""
    by_address = PLACES.place(finding(8030, host="", address="10.99.0.2", file="/srv/bundles/a"))
    assert [it.host for it in by_address] == ["raven"]
    names = ("raven.example", "10.99.0.2", "crow", "far.example")
    assert [PLACES.place(finding(1, host=name))[0].host for name in names] == [
        "raven",
        "raven",
        "crow",
        "far.example",
    ]


def test_free_ports() -> None:
    """PORT-5: free are those of the range in none of the taken spans, which may lie across its ends."""
    assert free_ports(8000, 8005, [(7990, 8000), (8002, 8003), (8005, 9000), (9001, 9002)]) == (8001, 8004)
    assert free_ports(8000, 8001, [(1, 65_535)]) == ()


def test_a_trouble_counts() -> None:
    """PORT-4: what could not be understood is a finding unless it is only a remark."""
    assert Trouble(file="a", line=1, message="no YAML").counts
