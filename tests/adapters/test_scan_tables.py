import pytest

from hostler.adapters.scan.tables import table_rows
from hostler.domain.ports import ANY, Row, Status, Trouble

HEAD = "| Port | Service | Status |\n|---|:---:|---|\n"


def rows(text: str, host: str | None = "crow") -> list[Row | Trouble]:
    return list(table_rows("ports.md", HEAD + text + "\n", host))


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("`8080`", ["crow 8080"]),
        ("8080", ["crow 8080"]),
        ("**8080**", ["crow 8080"]),
        ("raven:8030", ["raven 8030"]),
        ("`raven:8030`", ["raven 8030"]),
        ("8031-8033", ["crow 8031-8033"]),
        ("8031\N{EN DASH}8033", ["crow 8031-8033"]),
        ("8031 \N{EN DASH} 8033", ["crow 8031-8033"]),
        ("8080, 8081", ["crow 8080", "crow 8081"]),
        ("`8080`, `8081`", ["crow 8080", "crow 8081"]),
        ("8080/8081", ["crow 8080", "crow 8081"]),
        ("crow:50052", ["crow 50052"]),
        ("raven:8080, 8081", ["raven 8080", "raven 8081"]),
        ("raven:8031-8033", ["raven 8031-8033"]),
        ("8080/udp", ["crow 8080"]),
        ("Total", []),
        ("12:30", []),
        ("", []),
        ("8080 or so", []),
    ],
)
def test_first_cells(cell: str, found: list[str]) -> None:
    """PORT-1: the first cell is one port, several, or a range, on its own host or the table's."""
    told = [it for it in rows(f"| {cell} | web | production |") if isinstance(it, Row)]
    assert [f"{it.host} {it.ports}" for it in told] == found
    assert all((it.service, it.line, it.address) == ("web", 3, ANY) for it in told)


def test_a_bare_number_without_a_host() -> None:
    """PORT-1: a bare number of a table that names no host is a finding and no allocation."""
    (bare, named) = rows("| 8080-8081 | web |  |\n| raven:8030 | x | |", None)
    assert isinstance(bare, Trouble)
    assert bare.message == "8080-8081 has no host: a bare number, and the table names none"
    assert isinstance(named, Row)


@pytest.mark.parametrize("cell", ["70000", "0", "8083-8082"])
def test_numbers_that_are_no_ports(cell: str) -> None:
    """PORT-1: a number that is no port, and a range that is reversed, are findings."""
    (trouble,) = rows(f"| {cell} | web | |")
    assert isinstance(trouble, Trouble)


def test_protocol_and_status() -> None:
    """PORT-1: a cell may tell the protocol, and another the status."""
    (one, two, three) = rows(
        "| 8080 (UDP) | | reserved |\n| 8081 | `web` | Freed 2026-08 |\n| 8082 | a \\| b | x |"
    )
    assert isinstance(one, Row)
    assert isinstance(two, Row)
    assert isinstance(three, Row)
    assert (one.protocol, one.status, one.service) == ("udp", Status.RESERVED, "reserved")
    assert (two.protocol, two.status, two.service) == ("tcp", Status.FREED, "web")
    assert (three.status, three.service) == (Status.PRODUCTION, "a | b")


def test_what_is_no_table() -> None:
    """PORT-1: text outside tables, and tables in code blocks, have no allocations."""
    text = f"8080 | web\n\n```\n{HEAD}| 8080 | web | |\n```\n| 8081 | no head |\n"
    assert list(table_rows("ports.md", text, "crow")) == []
    two = f"{HEAD}| 8080 | a | |\n\ntext\n\nPort | Service\n--- | ---\n8081 | b\n"
    assert [it.port for it in table_rows("ports.md", two, "crow") if isinstance(it, Row)] == [8080, 8081]
