from pathlib import Path

import pytest

from tests.fakes.config_files import read_config, told, warned

HEAD = """\
version: 1
hosts:
  raven:
    memory: {total: 124 GiB, reserve: 8 GiB}
"""


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (
            "port: 8036, service: b, status: transient, needs: 92.6 GiB",
            "each wants 92.6 GiB of raven's 124 (92.6 + 92.6 + 8 reserve = 193.2)",
        ),
        (
            "port: 8031-8033, service: b, status: reserved, needs: 80 GiB",
            "they want 92.6 and 80 GiB of raven's 124 (92.6 + 80 + 8 reserve = 180.6)",
        ),
        ("port: 8036, service: b, status: freed, needs: 92.6 GiB", None),
        ("port: 8036, service: b, needs: 20 GiB", None),
        ("port: 8036, service: b", None),
    ],
)
def test_rows_that_one_memory_cannot_carry(tmp_path: Path, second: str, sentence: str | None) -> None:
    """MEM-6: rows whose ports are free and whose memory is not there are a warning at the later row."""
    rows = (
        "ports:\n  rows:\n"
        "    - {host: raven, port: 8030, service: a, needs: 92.6 GiB}\n"
        f"    - {{host: raven, {second}}}\n"
    )
    reading = read_config(tmp_path, HEAD + rows)
    assert told(reading) == []
    ports = second.partition(",")[0].removeprefix("port: ")
    begun = f"8:7: ports.rows[1]: 8030 and {ports} are both free, and"
    assert warned(reading) == ([] if sentence is None else [f"{begun} {sentence}"])


def test_without_a_total_nothing_is_judged(tmp_path: Path) -> None:
    """MEM-6: where the config does not say how much a host has, no row is said to be too much."""
    rows = "ports:\n  rows:\n" + "".join(
        f"    - {{host: raven, port: {port}, service: s, needs: 900 GiB}}\n" for port in (1, 2)
    )
    assert warned(read_config(tmp_path, "version: 1\nhosts:\n  raven: {}\n" + rows)) == []


def test_members_of_a_resident_are_counted(tmp_path: Path) -> None:
    """MEM-6: a resident engine on several hosts wants its members' memory on each of them."""
    text = """\
        version: 1
        schedule: {owner: crow}
        hosts:
          crow:
            url: https://crow.lan:7070
            memory: {total: 124 GiB, reserve: 8 GiB}
          raven:
            url: https://raven.lan:7070
            key: "${env:K}"
            memory: {total: 124 GiB, reserve: 8 GiB}
        engines:
          w: {host: crow, argv: [s, "{port}"], port: 1, memory: 80 GiB}
          m: {host: raven, argv: [s, "{port}"], port: 1, memory: 70 GiB}
          both: {driver: distributed, members: [w, m], resident: true}
          own: {host: crow, argv: [s, "{port}"], port: 2, memory: 40 GiB, resident: true}
        """
    reading = read_config(tmp_path, text, machine="crow", env={"K": "k" * 20})
    assert any(
        "the residents do not fit: w 80.0 + own 40.0 + reserve 8.0 = 128.0 GiB of crow's 124.0" in it
        for it in told(reading)
    ), told(reading)
