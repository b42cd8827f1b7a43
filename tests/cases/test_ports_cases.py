import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.scan.offline import OfflinePorts
from hostler.domain.port_verdicts import Kind, Verdict
from hostler.domain.ports import Certainty, Finding, Role
from hostler.services.ports import PortReport
from tests.fakes.config_files import write_config
from tests.fakes.listeners import FakeListeners

pytestmark = pytest.mark.cases

Found = tuple[str, str, int | str | None, str]
TAILNET = {"CROW_TAILSCALE_IP": "100.64.0.10", "GRACKLE_TAILSCALE_IP": "100.64.0.20"}
MODELS = (
    "llamacpp-qwen72b",
    "llamacpp-rocm-qwen35-122b-mtp",
    "llamacpp-vulkan-glm-45-air",
    "llamacpp-vulkan-qwen3-coder",
    "llamacpp-vulkan-qwen36-35b-a3b",
    "vllm-rocm-kimi",
)


def checked(
    home: Path, dirs: Sequence[Path], env: Mapping[str, str] | None = None, host: str = "local"
) -> PortReport:
    """What `hostler ports check` finds there."""
    config = OfflineConfig(
        env={"HOME": str(home), "GRACKLE_KEY": "k" * 20}, here=home, system=home / "etc", machine="local"
    )
    parts = OfflinePorts(config=config, listeners=FakeListeners())
    return parts.check([str(each) for each in dirs], host=host, env=env or {}, config=None)


def right(cases: Path, name: str) -> list[dict[str, Any]]:
    found = json.loads((cases / f"ports/{name}.expected.json").read_bytes())
    assert isinstance(found, list)
    return found


def wanted(entries: Iterable[Mapping[str, Any]]) -> set[Found]:
    return {(it["host"], it["ip"], it["port"], it["proto"]) for it in entries}


def listening(findings: Iterable[Finding]) -> list[Finding]:
    return [it for it in findings if it.role is Role.LISTENS]


def seen(findings: Iterable[Finding]) -> set[Found]:
    """What listens, as the lists write it."""
    found = set()
    for it in listening(findings):
        chosen = "one of {}-{}".format(*it.among) if it.among else it.port
        found.add((it.host, it.address, chosen, it.protocol))
    return found


def said(report: PortReport, kind: Kind) -> list[Verdict]:
    return [it for it in report.verdicts if it.kind is kind]


@pytest.mark.parametrize("name", ["PT-05", "PT-07"])
def test_published_ports(cases_dir: Path, tmp_path: Path, name: str) -> None:
    """PORT-2: the ports of the compose files of PT-05 and PT-07 are those of the right lists."""
    expected = right(cases_dir, name)
    report = checked(tmp_path, [cases_dir / "ports" / name])
    assert seen(report.findings) == wanted(expected)
    assert len(listening(report.findings)) == len(expected)
    certainty = {it.port: it.certainty for it in report.findings}
    default = {80} if name == "PT-05" else set()
    assert {port for port, sure in certainty.items() if sure is not Certainty.LITERAL} == default
    assert said(report, Kind.COLLISION) == []


def test_conflicts_of_many_bundles(cases_dir: Path, tmp_path: Path) -> None:
    """PORT-3: the conflicts of PT-10 are found, with the slot that is shared on purpose allowed as such."""
    write_config(
        tmp_path,
        f"""\
        version: 1
        schedule: {{owner: crow}}
        hosts:
          crow: {{url: "https://100.64.0.10:7070"}}
          grackle: {{url: "https://100.64.0.20:7070", key: "${{env:GRACKLE_KEY}}"}}
        ports:
          scan:
            allow:
              - {{host: crow, port: 8003, services: [{", ".join(MODELS)}], why: one model at a time}}
        """,
    )
    report = checked(tmp_path, [cases_dir / "ports/PT-10"], TAILNET, host="crow")
    met = {
        (it.port, "+".join(sorted(it.text.partition(":")[0].split("+"), reverse=True))): (
            it.kind,
            len(it.where),
            it.profiles,
        )
        for it in (*said(report, Kind.COLLISION), *said(report, Kind.SLOT))
    }
    verdicts = {Kind.SLOT: "shared slot", Kind.COLLISION: "conflict"}
    found = {
        (port, ip, verdicts[kind] + (f" only with profile {profiles[0]}" if profiles else ""), count)
        for (port, ip), (kind, count, profiles) in met.items()
    }
    expected = right(cases_dir, "PT-10")
    assert found == {
        (it["port"], it["ip"], it["verdict"], it["count"])
        for it in expected
        if it["verdict"] != "no conflict"
    }
    assert [it["port"] for it in expected if it["verdict"] == "no conflict"] == [8004]
    assert {it.host for it in report.findings if it.port == 9100} == {"grackle"}
    assert said(report, Kind.ALLOW_STALE) == []
    (turn,) = [it for it in report.findings if it.owner == "coturn"]
    assert (turn.port, turn.certainty) == (None, Certainty.VARIABLE)


def test_conflicts_when_an_address_is_unset(cases_dir: Path, tmp_path: Path) -> None:
    """PORT-3: without its address PT-10's 8004 is open on every interface, conflicts, and both are told."""
    report = checked(tmp_path, [cases_dir / "ports/PT-10"], host="crow")
    met = {it.port: len(it.where) for it in said(report, Kind.COLLISION)}
    assert met == {8003: 6, 8004: 2, 8080: 2, 8085: 2, 8088: 3, 9001: 2}
    blank = [it.text for it in said(report, Kind.TROUBLE) if "blank address from unset" in it.text]
    assert sum("CROW_TAILSCALE_IP" in it for it in blank) == 7


def test_awkward_shell(cases_dir: Path, tmp_path: Path) -> None:
    """PORT-2: every form of PT-15 is read as its right list has it, and nothing else is a port."""
    expected = right(cases_dir, "PT-15")
    declared = [it for it in expected if "declared" in it]
    report = checked(tmp_path, [cases_dir / "ports/PT-15"])
    assert seen(report.findings) == wanted(it for it in expected if it not in declared)
    assigned = [it for it in report.findings if it.role is Role.ASSIGNED]
    assert sorted(it.port or 0 for it in assigned) == sorted(declared[0]["declared"])
    branches = {it.port for it in report.findings if it.branch}
    assert branches == {it["port"] for it in expected if it.get("branch")}
    unsure = {it.port for it in report.findings if it.certainty is not Certainty.LITERAL}
    assert unsure == {8023, 8037}
    (remote,) = [it for it in report.findings if it.host == "raven.example" and it.role is Role.LISTENS]
    assert (remote.port, remote.note) == (8028, "ssh -R")
    assert "lower bound" in report.lower_bound


def compose_case(cases_dir: Path, folder: Path, *, override: bool) -> PortReport:
    """PT-16 in a folder of its own, with or without its override file."""
    folder.mkdir()
    for path in (cases_dir / "ports/PT-16").iterdir():
        if override or "override" not in path.name:
            shutil.copy(path, folder)
    return checked(folder, [folder])


@pytest.mark.parametrize("override", [False, True])
def test_awkward_compose(cases_dir: Path, tmp_path: Path, override: bool) -> None:
    """PORT-2: every form of PT-16 is read as its right list has it, with and without the override file."""
    expected = right(cases_dir, "PT-16")
    other = "gone_with_override" if override else "only_with_override"
    services = [it for it in expected if "port" in it and not it.get(other)]
    report = compose_case(cases_dir, tmp_path / "forms", override=override)
    owned = {(it.owner, *found) for it in listening(report.findings) for found in seen([it])}
    bad = next(it for it in expected if it.get("service") == "bad")
    legal = {("bad", "local", ip, port, protocol) for ip, port, protocol in bad["ok"]}
    assert owned == legal | {
        (it["service"], it["host"], it["ip"], it["port"], it["proto"]) for it in services
    }
    containers = {it.note.partition(" ")[2] for it in report.findings if it.port is None and not it.among}
    assert containers == {str(it["container"]) for it in services if "container" in it}
    unsure = {it.port: it.certainty for it in report.findings if it.certainty is not Certainty.LITERAL}
    assert unsure == {
        8071: Certainty.DEFAULT,
        8072: Certainty.VARIABLE,
        8073: Certainty.DEFAULT,
        None: Certainty.VARIABLE,
    }


def test_what_is_wrong_with_awkward_compose(cases_dir: Path, tmp_path: Path) -> None:
    """PORT-4: each bad entry of PT-16 is named, base 60 warned of, and a wildcard clashes with loopback."""
    expected = right(cases_dir, "PT-16")
    report = compose_case(cases_dir, tmp_path / "forms", override=False)
    wrong = [it.text for it in said(report, Kind.TROUBLE) if it.profiles == ("never",)]
    assert len(wrong) == 1 + len(next(it["errors"] for it in expected if "errors" in it))
    for part in ("MUST", "70000", "8083-8082", "8084-8085 and 90-92", "an empty port"):
        assert sum(part in text for text in wrong) == 1, part
    (blank,) = [it.text for it in said(report, Kind.TROUBLE) if not it.profiles]
    assert next(it["flag"] for it in expected if it.get("port") == 8072) in blank
    quoted = [it.text for it in said(report, Kind.REMARK)]
    assert [number for number in ("127342", "1342", "541379") if any(number in it for it in quoted)] == [
        "127342",
        "1342",
        "541379",
    ]
    assert all("quote this" in it for it in quoted)
    (clash,) = said(report, Kind.COLLISION)
    assert (clash.port, clash.protocol, len(clash.where)) == (8087, "tcp", 2)
