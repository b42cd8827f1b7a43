from collections.abc import Sequence
from dataclasses import replace

import pytest

from hostler.domain.port_memory import Claim, Room
from hostler.domain.port_verdicts import Heap, Kind, Verdict, components, judge, meet
from hostler.domain.ports import NO_HOST, Allowed, Finding, Role, Row, Status
from tests.fakes.ports import GIB, finding, row


def judged(
    findings: Sequence[Finding],
    rows: Sequence[Row] = (),
    allowed: Sequence[Allowed] = (),
    *,
    read: Sequence[str] = ("crow",),
    claims: Sequence[Claim] = (),
    total: int | None = 124 * GIB,
) -> list[Verdict]:
    heap = Heap(
        findings=findings,
        rows=rows,
        allowed=allowed,
        claims={"crow": claims, "dawn": claims},
        rooms={"crow": Room(total=total, reserve=8 * GIB)},
        read=frozenset(read),
    )
    return list(judge(heap))


def kinds(found: Sequence[Verdict]) -> list[Kind]:
    return [it.kind for it in found]


def allow(port: int, *services: str) -> Allowed:
    return Allowed(host="crow", port=port, services=frozenset(services), why="one slot")


def test_two_at_one_port() -> None:
    """PORT-3: two that listen at one port of one host are a collision, told with both places."""
    (found,) = judged([finding(8080, "a"), finding(8080, "b", address="127.0.0.1")])
    assert (found.kind, found.host, found.port, found.owners) == (Kind.COLLISION, "crow", 8080, ("a", "b"))
    assert found.text == "127.0.0.1+any:8080/tcp is wanted 2 times: a (a.yaml:1), b (b.yaml:1)"
    assert found.where == ("a.yaml:1", "b.yaml:1")


@pytest.mark.parametrize(
    "other",
    [
        finding(8081, "b"),
        finding(8080, "b", protocol="udp"),
        finding(8080, "b", role=Role.USED),
        finding(8080, "b", role=Role.ASSIGNED),
        finding(None, "b"),
        finding(8080, "a", file="other.yaml", address="127.0.0.1"),
        finding(8080, "b", thing="compose . a"),
    ],
    ids=["port", "protocol", "used", "assigned", "chance", "other file", "same thing"],
)
def test_what_is_no_collision(other: Finding) -> None:
    """PORT-3: another port or protocol, a client, an assignment and the same thing collide with nobody."""
    assert judged([finding(8080, "a"), other]) == []


def test_one_thing_at_two_addresses() -> None:
    """PORT-3: a service's wildcard clashes with its own loopback; its wildcards of both families are one."""
    here = finding(8087, "a", address="0.0.0.0")  # noqa: S104 - compared only
    assert kinds(judged([here, finding(8087, "a", address="127.0.0.1")])) == [Kind.COLLISION]
    assert judged([here, finding(8087, "a", address="::")]) == []
    script = finding(8087, "a", thing="script a.sh")
    assert judged([script, replace(script, address="127.0.0.1", line=2)]) == []
    nameless = finding(8087, "", thing="", file="a")
    assert meet(nameless, nameless)


def test_a_collision_of_three() -> None:
    """PORT-3: a wildcard joins two that would not meet into one collision of three."""
    members = [
        finding(8088, "a", address="127.0.0.1"),
        finding(8088, "b", address="10.99.0.1"),
        finding(8088, "c"),
    ]
    assert judged(members[:2]) == []
    (found,) = judged(members)
    assert len(found.where) == 3
    assert [len(heap) for heap in components(members, meet)] == [3]


def test_a_collision_that_needs_a_profile() -> None:
    """PORT-3: a collision only with a profile says so; one that is there anyway does not."""
    a, b = finding(9001, "a"), finding(9001, "b", profiles=("storage",))
    (found,) = judged([a, b])
    assert found.profiles == ("storage",)
    assert "only with profile storage" in found.text
    (always,) = judged([a, b, finding(9001, "c")])
    assert always.profiles == ()


def test_engines_that_exclude_each_other() -> None:
    """PORT-3: engines of one group may share a port, which is said and does not count."""
    a, b = finding(8003, "a", group="crow/main"), finding(8003, "b", group="crow/main")
    (found,) = judged([a, b], allowed=[allow(8003, "a", "b")])
    assert found.kind is Kind.EXCLUSIVE
    assert not found.kind.counts
    assert "exclude each other: fine" in found.text
    assert kinds(judged([a, b, finding(8003, "c")])) == [Kind.COLLISION]
    assert kinds(judged([a, replace(b, group="crow/other")])) == [Kind.COLLISION]


def test_a_slot_that_is_allowed() -> None:
    """PORT-3: a port that exactly the allowed services share is one slot, and does not count."""
    (found,) = judged([finding(8003, "a"), finding(8003, "b")], allowed=[allow(8003, "a", "b")])
    assert found.kind is Kind.SLOT
    assert "has 2 claimants and needs one at a time: one slot" in found.text


@pytest.mark.parametrize("services", [("a",), ("a", "b", "c"), ("a", "x")])
def test_an_allowance_must_match(services: tuple[str, ...]) -> None:
    """PORT-3: an entry of the allowlist that is not exactly what was found allows nothing and counts."""
    found = judged([finding(8003, "a"), finding(8003, "b")], allowed=[allow(8003, *services)])
    assert sorted(kinds(found)) == [Kind.ALLOW_STALE, Kind.COLLISION]
    (stale,) = [it for it in found if it.kind is Kind.ALLOW_STALE]
    assert "there are a, b" in stale.text


def test_an_allowance_of_nothing() -> None:
    """PORT-3, PORT-4: an entry for a port where none was found is stale, and says only that."""
    (found,) = judged([], allowed=[allow(8003, "a", "b")])
    assert found.kind is Kind.ALLOW_STALE
    assert found.text.endswith("a, b at 8003, none was found there")


def test_undocumented() -> None:
    """PORT-3: a port in no row is undocumented, told once per thing; one in a row is not."""
    a, b = finding(8080, "a"), finding(8081, "b")
    rows = [row(8081, "b")]
    (found,) = judged([a, replace(a, line=2), b], rows)
    assert (found.kind, found.port) == (Kind.UNDOCUMENTED, 8080)
    assert found.text == "any:8080/tcp of a (a.yaml:1): no row has it"
    assert judged([a]) == []


@pytest.mark.parametrize("status", [Status.FREED, Status.AVOID])
def test_a_row_that_says_nobody(status: Status) -> None:
    """PORT-3: a port whose only row is freed or to be avoided counts as undocumented, naming the row."""
    ours = finding(8080, "a", thing="hostler engine a")
    (found,) = judged([ours], [row(8080, "old", status=status)])
    assert found.kind is Kind.UNDOCUMENTED
    assert f"ports.yaml:1 says {status} (old)" in found.text
    assert judged([ours], [row(8080, "old", status=status), row(8080, "a")]) == []


def test_our_config_documents_itself() -> None:
    """PORT-3: what hostler's own config has needs no row; what only connects needs none either."""
    rows = [row(9, "x", status=Status.EXTERNAL)]
    assert judged([finding(8080, "a", thing="hostler engine a")], rows) == []
    assert judged([finding(8080, "a", role=Role.USED)], rows) == []
    assert kinds(judged([finding(8080, "a", role=Role.ASSIGNED)], rows)) == [Kind.UNDOCUMENTED]


def test_reserved_ranges() -> None:
    """PORT-3, PORT-4: another's hit in a reserved range counts; one's own is a hit, not a confirmation."""
    masters = row(8031, "two-box masters", status=Status.RESERVED, last=8033)
    (other,) = judged([finding(8032, "web")], [masters])
    assert other.kind is Kind.ENTERED
    assert other.text == (
        "8031-8033 is reserved for two-box masters (ports.yaml:1); web (web.yaml:1) is another's"
    )
    (own,) = judged([finding(8032, "Two-Box Masters")], [masters])
    assert own.kind is Kind.OWN
    assert "is a hit, not a confirmation" in own.text
    engine = finding(8032, "glm", thing="hostler engine glm")
    assert kinds(judged([engine], [masters])) == [Kind.ENTERED]
    assert kinds(judged([engine], [replace(masters, by="hostler")])) == [Kind.OWN]


def test_stale_rows() -> None:
    """PORT-3: a row that no file shows is `stale?`, if files of its host were read."""
    (found,) = judged([finding(8080, "a", role=Role.USED)], [row(8080, "a")])
    assert found.kind is Kind.STALE
    assert found.text.endswith("was found in no file that was read")
    assert judged([], [row(8080, "a")], read=()) == []
    assert kinds(judged([], [row(8080, "a", by="hostler")], read=())) == [Kind.STALE]
    for quiet in (
        row(8080, "a", by="system"),
        row(8080, "a", status=Status.RESERVED),
        row(8080, "a", status=Status.EXTERNAL),
    ):
        assert judged([], [quiet]) == []


def test_a_finding_without_a_host() -> None:
    """PORT-2: a port that nothing puts on a host is a finding, and is compared with nobody."""
    lost = finding(8080, "a", host=NO_HOST)
    found = judged(
        [lost, finding(8080, "b", host=NO_HOST), replace(lost, role=Role.USED)], [row(8080)], read=()
    )
    assert kinds(found) == [Kind.NO_HOST, Kind.NO_HOST]
    assert found[0].text == "8080 of a (a.yaml:1): nothing says which host it is on"
    assert judged([replace(lost, port=None)]) == []


def test_one_number_on_two_hosts() -> None:
    """PORT-3: one number on two hosts is information: a port without a host is no allocation."""
    (found,) = judged([finding(8080, "a"), finding(8080, "b", host="raven")])
    assert found.kind is Kind.TWO_HOSTS
    assert not found.kind.counts
    assert found.text == "8080/tcp is on crow (a), raven (b): two ports, one number"


def test_one_memory() -> None:
    """PORT-3, MEM-6: free ports that want one machine's memory count, unless that is an allowed slot."""
    claims = [
        Claim(service=name, port=port, ports=str(port), needs=92 * GIB)
        for name, port in (("a", 8030), ("b", 8036))
    ]
    (found,) = judged([], claims=claims)
    assert (found.kind, found.host, found.owners) == (Kind.MEMORY, "crow", ("a", "b"))
    for port in (8030, 8036):
        (slot,) = judged([], claims=claims, allowed=[allow(port, "a", "b")])
        assert (slot.kind, slot.port) == (Kind.SLOT, port)
        assert slot.text.endswith(": one slot")
    assert judged([], claims=claims, total=None) == []


def test_what_counts_comes_first() -> None:
    """PORT-3: findings stand before information, each by host and port."""
    found = judged(
        [
            finding(9000, "a", group="g"),
            finding(9000, "b", group="g"),
            finding(8081, "c"),
            finding(8081, "d"),
            finding(8080, "e"),
            finding(8080, "f"),
        ]
    )
    assert [(it.kind, it.port) for it in found] == [
        (Kind.COLLISION, 8080),
        (Kind.COLLISION, 8081),
        (Kind.EXCLUSIVE, 9000),
    ]
